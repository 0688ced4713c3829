"""Load options from a file, pass tools as arguments, and derive a variant."""

import os
import tempfile
from pathlib import Path

from agent_actors import AgentOptions, tool
from agent_actors.errors import ConfigError

WRITTEN = """\
model: qwen3-32b
base_url: http://${MODEL_HOST}/v1
api_key: ${MODEL_KEY}
temperature: 0.2
max_retries: 4
stop: ["END"]
limits: {requests: 20, tool_calls: 50}
permissions: {mode: accept_edits, deny: ["Bash(rm *)"]}
fallbacks: [qwen3-8b]
"""


@tool
async def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"Sunny in {city}."


os.environ.setdefault("MODEL_HOST", "localhost:1234")
os.environ.setdefault("MODEL_KEY", "secret")
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "agent.yaml")
    path.write_text(WRITTEN, encoding="utf-8")

    options = AgentOptions.from_file(path, tools=[get_weather])
    careful = options.evolve(temperature=0, permissions="plan")
    print(careful.model, careful.temperature, careful.limits)

    path.write_text("modle: qwen3-32b\n", encoding="utf-8")
    try:
        AgentOptions.from_file(path)
    except ConfigError as error:
        print(str(error).removeprefix(str(path)).partition("Known")[0])
