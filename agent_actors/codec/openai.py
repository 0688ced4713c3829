"""The dicts of OpenAI's chat-completions wire."""

from typing import Literal, TypedDict

from agent_actors.domain.json import JsonObject, copy_object
from agent_actors.domain.tool_spec import ToolSpec


class FunctionDict(TypedDict):
    """What a tool is, on the wire."""

    name: str
    description: str
    parameters: JsonObject


class ToolDict(TypedDict):
    """A tool on offer, on the wire."""

    type: Literal["function"]
    function: FunctionDict


def tool_to_openai(spec: ToolSpec) -> ToolDict:
    """A tool as the wire has it; one without a schema takes any object."""
    schema = spec.input_schema
    parameters: JsonObject = {"type": "object"} if schema is None else copy_object(schema)
    return {
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": parameters,
        },
    }
