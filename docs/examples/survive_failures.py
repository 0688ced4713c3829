"""Retry, switch to another model, and report void text to a reader."""

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
                    print(f"\n[{reason}; the text above is void, attempt {attempt} begins]")
                case ResultEvent(stop_reason=reason):
                    print(f"\n{reason}")
                case _:
                    pass
    for endpoint in runtime.statistics().endpoints:
        print(endpoint.endpoint, endpoint.attempts, "tries,", endpoint.retries, "of them again")


trio.run(main)
