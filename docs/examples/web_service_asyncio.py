"""A FastAPI service that streams runs to browsers as server-sent events.

uvicorn --timeout-graceful-shutdown 10 web_service_asyncio:app
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from agent_actors import AgentError, AgentOptions
from agent_actors.asyncio import RunStream, Runtime, open_runtime
from agent_actors.errors import ConfigError, SessionBusy
from agent_actors.events import dumps_event

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

    def __init__(self, run: RunStream[object]) -> None:
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
                async for batch in events.batches():
                    if not started:
                        await send(self._head())
                        started = True
                    frames = (f"event: {e.type}\ndata: {dumps_event(e)}\n\n" for e in batch)
                    await send(body("".join(frames)))
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


def make_app(options: AgentOptions) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, Runtime]]:
        async with open_runtime() as runtime:
            yield {"runtime": runtime}

    app = FastAPI(lifespan=lifespan)

    # Your own middleware must check who may use which session.
    @app.post("/sessions/{session}")
    async def say(session: str, request: Request) -> Response:
        """Run the user's prompt, and stream the response."""
        runtime: Runtime = request.state.runtime
        prompt = (await request.body()).decode(errors="replace")
        return EventStream(runtime.stream(prompt, options, session_id=session))

    return app


app = make_app(agent)
