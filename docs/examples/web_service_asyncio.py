"""A web service on asyncio, for example with uvicorn, that streams runs to browsers.

uvicorn --timeout-graceful-shutdown 10 web_service_asyncio:app

It imports `from_asyncio.py`. FastAPI is based on Starlette and accepts the same response.
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
    """The events of a run as server-sent events; when the browser disconnects, the run ends.

    A `StreamingResponse` sends status 200 before the run begins. With an ASGI 2.4 server, it
    notices a disconnected browser only at the next event.
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
        """Send the events; return the error if the run fails before its first event."""
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
            # Otherwise, an `error` event has reported it.
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
        """Run the user's prompt, and stream the response."""
        agents: Agents = request.state.agents
        prompt = (await request.body()).decode(errors="replace")
        session = request.path_params["session"]
        return EventStream(agents.stream(prompt, options, session_id=session))

    # Your own middleware must check who may use which session.
    return Starlette(
        lifespan=lifespan, routes=[Route("/sessions/{session}", say, methods=["POST"])]
    )


app = make_app(agent)
