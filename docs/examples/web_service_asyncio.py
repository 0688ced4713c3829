"""A web service that runs asyncio, as uvicorn does, and streams runs through to its readers.

uvicorn --timeout-graceful-shutdown 10 web_service_asyncio:app

`from_asyncio.py` stands beside it. FastAPI is starlette: its functions may return this response.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from from_asyncio import Agents
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from agent_actors import AgentError, AgentOptions
from agent_actors.errors import ConfigError, SessionBusy
from agent_actors.events import Event, dumps_event

agent = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


class ReaderGone(Exception):
    """The browser has closed its connection."""


class EventStream(Response):
    """A run's events as server-sent events; when the browser goes, the run ends.

    A `StreamingResponse` says 200 before anything has begun, and with a server of ASGI 2.4 it
    notices only at the next event that its reader has gone.
    """

    def __init__(self, run: AbstractAsyncContextManager[AsyncIterator[Event]]) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(until_the_reader_goes(receive))
                error = await self._tell(send)
                if error is not None:
                    await JSONResponse({"error": str(error)}, status_of(error))(
                        scope, receive, send
                    )
                watching.cancel()
        except* ReaderGone:
            pass

    async def _tell(self, send: Send) -> AgentError | None:
        """Send the events; give back what the run failed with before it had any."""
        started = False
        try:
            async with self._run as events:
                async for event in events:
                    if not started:
                        await send(self._head())
                        started = True
                    await send(body(f"event: {event.type}\ndata: {dumps_event(event)}\n\n"))
        except AgentError as error:
            if not started:
                return error
            # Else the reader was told, by the event `error`.
        await send(body("", more=False))
        return None

    def _head(self) -> Message:
        return {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }


def body(text: str, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": text.encode(), "more_body": more}


async def until_the_reader_goes(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ReaderGone


def status_of(error: AgentError) -> int:
    match error:
        case ConfigError():
            return 400
        case SessionBusy():
            return 409
        case _:
            return 503


def make_app(options: AgentOptions) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[dict[str, Agents]]:
        async with Agents() as agents:
            yield {"agents": agents}

    async def say(request: Request) -> Response:
        """What the user says to a session; the answer streams."""
        agents: Agents = request.state.agents
        prompt = (await request.body()).decode(errors="replace")
        session = request.path_params["session"]
        return EventStream(agents.stream(prompt, options, session_id=session))

    # Who may speak to which session is for your own middleware to say.
    return Starlette(
        lifespan=lifespan, routes=[Route("/sessions/{session}", say, methods=["POST"])]
    )


app = make_app(agent)
