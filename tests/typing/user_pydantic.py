"""A user's code with pydantic, for the type checkers only: no cast and no ignore."""

from typing import Annotated, Literal, assert_type

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from agent_actors import AgentOptions, OutputSpec, Runtime, tool


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(default=9, ge=1)


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclass
class Order:
    amount: int


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


@tool
def adopt(pet: Pet, count: Annotated[int, Field(ge=1)] = 1, order: Order | None = None) -> Cat:
    """Adopt."""
    return pet if isinstance(pet, Cat) else Cat(kind="cat", lives=count)


cat = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=Cat, tools=[adopt])
order = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=Order)
cats = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=list[Cat])
pet = AgentOptions(
    model="m",
    base_url="http://localhost:1234/v1",
    output_type=OutputSpec[Cat | Dog](TypeAdapter[Cat | Dog](Pet)),
)


async def use(runtime: Runtime) -> None:
    assert_type((await runtime.run("Which?", cat)).output, Cat)
    assert_type((await runtime.run("Which?", order)).output, Order)
    assert_type((await runtime.run("Which?", cats)).output, list[Cat])
    assert_type((await runtime.run("Which?", pet)).output, Cat | Dog)
