"""Retry, switch to another model, and tell readers which text to discard."""

import os

import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.events import AssistantDelta, AttemptRestarted, ResultEvent

base_url = os.environ.get("BASE_URL", "http://localhost:1234/v1")
model = os.environ.get("MODEL", "qwen3-32b")

options = AgentOptions(
    model=model,
    base_url=base_url,
    max_retries=3,
    first_token_timeout=30,
    fallbacks=["qwen3-8b", AgentOptions(model="backup", base_url="http://localhost:8080/v1")],
)


async def main() -> None:
    async with (
        open_runtime() as runtime,
        runtime.stream("Say something.", options, session_id="s") as events,
    ):
        async for event in events:
            match event:
                case AssistantDelta(text=text):
                    print(text, end="", flush=True)
                case AttemptRestarted(attempt=attempt, reason=reason):
                    print(f"\n[{reason}; discard the text above, attempt {attempt} begins]")
                case ResultEvent(stop_reason=reason):
                    print(f"\n{reason}")
                case _:
                    pass
    for endpoint in runtime.statistics().endpoints:
        print(endpoint.endpoint, endpoint.attempts, "attempts,", endpoint.retries, "retries")


trio.run(main)
