"""What the model is told of a tool."""

from collections.abc import Mapping

import attrs

from agent_actors.domain.json import JsonValue


@attrs.frozen
class ToolSpec:
    """A tool as it is offered to a model.

    Attributes:
        name: Letters, digits, `_` and `-`, 64 at most.
        description: What it does and when to use it.
        input_schema: A JSON Schema of type `object`; None: any object is taken.
    """

    name: str
    description: str
    input_schema: Mapping[str, JsonValue] | None = None
