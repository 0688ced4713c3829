"""Typed output: the response is validated against a class and becomes an instance."""

import os
from typing import Literal

import attrs
import trio

from agent_actors import AgentOptions, OutputError, OutputSpec, open_runtime


@attrs.frozen
class City:
    """A city that a traveller asked about.

    Attributes:
        name: The name in the local language.
        people: The number of inhabitants.
    """

    name: str
    people: int
    sights: tuple[str, ...]


agent = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    output_type=City,
)

Verdict = Literal["worth a visit", "not worth it"]
judge = AgentOptions(
    model=agent.model,
    base_url=agent.base_url,
    output_type=OutputSpec[Verdict](Verdict, name="verdict"),
    output_retries=1,
)


async def main() -> None:
    async with open_runtime() as runtime:
        try:
            city = (await runtime.run("Tell me about Paris.", agent, session_id="s")).output
            print(f"{city.name} has {city.people:,} people")
            verdict = (await runtime.run("Is it worth a visit?", judge, session_id="s")).output
            print(verdict)
        except OutputError as error:
            print(f"{error}; the response was {error.text!r}")


trio.run(main)
