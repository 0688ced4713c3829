import trio
from agent_actors import AgentOptions, open_runtime, tool

@tool
async def get_weather(city: str, units: str = "celsius") -> str:
    """Current weather of a city."""
    return f"18 degrees {units} and sunny in {city}"

options = AgentOptions(model="qwen3-32b", base_url="http://localhost:1234/v1", tools=[get_weather])

async def main() -> None:
    async with open_runtime() as runtime:
        print((await runtime.run("What is the weather in Paris?", options)).text)

trio.run(main)
