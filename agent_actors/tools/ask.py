"""The tool with which a model asks the user a question."""

from typing import Final

from agent_actors.domain.json import JsonObject
from agent_actors.tools.tool import Tool

ASK_USER_QUESTION: Final = "AskUserQuestion"


def _no_answer(arguments: JsonObject) -> str:
    del arguments
    raise LookupError("only a runtime can ask the user; see `runtime.questions`")


ask_user_question: Final[Tool] = Tool(
    ASK_USER_QUESTION,
    "Ask the user a question and wait for the answer. Use it when you cannot continue without a "
    "decision or a fact that only the user has.",
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "minLength": 1, "description": "The question."},
            "choices": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The answers to choose from; omit this to allow any answer.",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    _no_answer,
    read_only=True,
    open_world=False,
)


def asks_the_user(tool: Tool) -> bool:
    """Return whether this is the tool above, not a caller's tool with the same name."""
    return tool.handler is ask_user_question.handler
