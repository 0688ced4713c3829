"""Choose a provider by name, and define your own profile."""

import os

import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.model import ChatDialect, ProviderProfile

base_url = os.environ.get("BASE_URL", "http://localhost:8000/v1")
model = os.environ.get("MODEL", "qwen3-32b")

gateway = ProviderProfile(
    name="gateway",
    base_url=base_url,
    api_key_env="GATEWAY_KEY",
    dialect=ChatDialect(max_tokens_field="max_completion_tokens", refuses={"temperature"}),
)
# A built-in profile, selected by name; `base_url` replaces its URL, for example with a gateway's.
local = AgentOptions(model=model, provider="vllm", base_url=base_url)


async def main() -> None:
    async with open_runtime() as runtime:
        for options in (local, AgentOptions(model=model, provider=gateway)):
            result = await runtime.run("Say something.", options)
            print(result.text)
        result = await runtime.run("And now?", local, model=model)
        print(result.usage)


trio.run(main)
