"""Five tools: with types of pydantic, attrs and dataclasses, with an enum, sync, and failing."""

import dataclasses
from enum import StrEnum

import attrs
import trio
from pydantic import BaseModel, Field, field_validator

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.testing import ScriptedModel, call, say


class Booking(BaseModel):
    """A booking of a table."""

    guests: int = Field(ge=1, le=12, description="The number of guests.")
    phone: str = Field(alias="phoneNumber")

    @field_validator("phone")
    @classmethod
    def is_international(cls, phone: str) -> str:
        if not phone.startswith("+"):
            raise ValueError("the phone number must begin with + and the country code")
        return phone


@attrs.frozen
class Dish:
    """A dish on the menu."""

    name: str
    price: float = attrs.field(validator=attrs.validators.gt(0))


@dataclasses.dataclass
class Period:
    """Opening hours."""

    opens: int
    closes: int


class Day(StrEnum):
    SATURDAY = "saturday"
    SUNDAY = "sunday"


@tool
async def book(booking: Booking) -> Booking:
    """Book a table."""
    return booking


@tool
async def add_dishes(dishes: list[Dish]) -> str:
    """Add dishes to the menu."""
    return f"{len(dishes)} dishes added"


@tool
async def opening_hours(day: Day) -> Period:
    """Return the opening hours of a day."""
    return Period(11, 23) if day is Day.SATURDAY else Period(12, 20)


@tool
def count_tables(free_only: bool = False) -> int:
    """Count the tables."""
    return 4 if free_only else 10


@tool
async def print_menu() -> str:
    """Print the menu."""
    raise RuntimeError("the printer has no paper")


calls = [
    call("book", {"booking": {"guests": 4, "phoneNumber": "555"}}),
    call("add_dishes", {"dishes": [{"name": "soup", "price": 6}, {"name": "tea", "price": 0}]}),
    call("opening_hours", {"day": "saturday"}),
    call("count_tables", {"free_only": True}),
    call("print_menu"),
]
corrected = [call("book", {"booking": {"guests": 4, "phoneNumber": "+44 555"}})]
agent = AgentOptions(
    model="scripted",
    provider=ScriptedModel([calls, corrected, [say("Your table is booked.")]]),
    tools=[book, add_dishes, opening_hours, count_tables, print_menu],
)


async def main() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Book a table for four.", agent)
    for one in result.tool_calls:
        print(f"{one.name}: {'error: ' if one.is_error else ''}{one.content}")
    print(result.text)


trio.run(main)
