"""A web service with many sessions: browsers stream their runs and answer questions.

hypercorn --worker-class trio --bind 127.0.0.1:8000 web_service:app
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from agent_actors import AgentError, AgentOptions, RunStream, Runtime, open_runtime, tool
from agent_actors.errors import ConfigError, SessionBusy
from agent_actors.events import dumps_event


@tool
async def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


agent = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[send_mail],
    permissions="default",  # mail leaves this machine, so the user must approve it
    question_timeout=300,
)


class EventStream(Response):
    """The events of a run as server-sent events; when the browser disconnects, the run ends."""

    def __init__(self, run: RunStream) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_the_browser_goes, receive, nursery.cancel_scope)
            started = False
            try:
                async with self._run as events:
                    await send(
                        {
                            "type": "http.response.start",
                            "status": self.status_code,
                            "headers": self.raw_headers,
                        }
                    )
                    started = True
                    async for event in events:
                        text = f"event: {event.type}\ndata: {dumps_event(event)}\n\n"
                        await send(body(text, more=True))
            except AgentError as error:
                if not started:
                    status = 409 if isinstance(error, SessionBusy) else 503
                    await JSONResponse({"error": str(error)}, status)(scope, receive, send)
                # Otherwise, an `error` event has reported it.
            if started:
                await send(body(""))
            nursery.cancel_scope.cancel()

    async def _until_the_browser_goes(self, receive: Receive, scope: trio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()


def body(text: str, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": text.encode(), "more_body": more}


def make_app(options: AgentOptions) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[dict[str, Runtime]]:
        async with open_runtime() as runtime:
            yield {"runtime": runtime}

    async def say(request: Request) -> Response:
        """Run the user's prompt, and stream the response."""
        runtime: Runtime = request.state.runtime
        prompt = (await request.body()).decode(errors="replace")
        session = request.path_params["session"]
        try:
            return EventStream(runtime.stream(prompt, options, session_id=session))
        except ConfigError as error:
            return JSONResponse({"error": str(error)}, 400)

    async def answer(request: Request) -> Response:
        """Pass on the user's answer to a question of this session."""
        runtime: Runtime = request.state.runtime
        question = request.path_params["question"]
        choice = (await request.body()).decode(errors="replace")
        if question not in {one.id for one in runtime.questions(request.path_params["session"])}:
            return JSONResponse({"error": "this question is not open"}, 404)
        runtime.answer(question, choice)
        return Response(status_code=204)

    async def page(request: Request) -> Response:
        return HTMLResponse(PAGE)

    # Your own middleware must check who may use which session.
    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", page),
            Route("/sessions/{session}", say, methods=["POST"]),
            Route("/sessions/{session}/questions/{question}", answer, methods=["POST"]),
        ],
    )


PAGE = """<!doctype html>
<title>agent_actors</title>
<form><input name="prompt" size="60" autofocus> <button>Say</button></form>
<pre></pre>
<script>
const session = "/sessions/" + crypto.randomUUID(), out = document.querySelector("pre");
document.querySelector("form").onsubmit = async (sent) => {
  sent.preventDefault();
  const prompt = new FormData(sent.target).get("prompt");
  const answer = await fetch(session, { method: "POST", body: prompt });
  let rest = "";
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + piece).split("\\n\\n");
    rest = events.pop();
    for (const event of events) show(JSON.parse(event.split("data: ")[1]));
  }
};
function show(event) {
  if (event.type === "assistant.delta") out.append(event.text);
  if (event.type === "result" || event.type === "error") out.append("\\n");
  if (event.type === "user.question")
    fetch(session + "/questions/" + event.question_id,
          { method: "POST", body: confirm(event.prompt) ? "yes" : "no" });
}
</script>
"""

app = make_app(agent)
