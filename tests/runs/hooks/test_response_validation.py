"""A response that a hook builds is validated before the run uses it."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from agent_actors import open_runtime
from agent_actors.domain.blocks import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.usage import Usage
from agent_actors.errors import HookError
from agent_actors.hooks import ModelCall
from agent_actors.runs.hooks.response_validation import validate_response
from tests.runs.helpers import check_quiet
from tests.runs.hooks.helpers import agent, run

if TYPE_CHECKING:
    from collections.abc import Callable

# Untyped on purpose, because a hook may pass any values.
make = cast("Callable[..., ModelCompleted]", ModelCompleted)
text = cast("Callable[..., TextBlock]", TextBlock)
OK = TextBlock("ok")


class Foreign:
    """A block of another library."""

    type = "text"
    text = "hi"


class Derived(TextBlock):
    """A block class of the hook's own."""


UNSOUND: list[tuple[ModelCompleted, str]] = [
    (make((5,)), r"blocks\[0\] must be a block of a response; got int"),
    (make((OK, Foreign())), r"blocks\[1\] must be a block of a response; got Foreign"),
    (make((Derived("x"),)), r"blocks\[0\] must be a block of a response; got Derived"),
    (make((ToolResultBlock("c", "x"),)), "got ToolResultBlock"),
    (make("text"), "blocks must be a tuple of blocks; got str"),
    (make(None), "blocks must be a tuple of blocks; got NoneType"),
    (make((text(5),)), r"blocks\[0\]: the value is not a content block: Expected `str`, got `int`"),
    (make((text(OK),)), r"blocks\[0\]: the value is not a content block"),
    (make((OK,), usage=None), "usage must be a Usage; got NoneType"),
    (make((OK,), usage={"input_tokens": 1}), "usage must be a Usage; got dict"),
    (make((OK,), usage=Usage(-1)), r"usage.input_tokens must be an int of at least 0; got -1"),
    (make((OK,), usage=Usage(0, cast("int", 1.5))), "usage.output_tokens must be"),
    (make((OK,), finish_reason="because"), "finish_reason must be one of stop, tool_calls"),
    (make((OK,), finish_reason=[]), "finish_reason must be one of"),
    (make((OK,), model=5), "model has the wrong type int"),
    (make((OK,), response_id=None), "response_id has the wrong type NoneType"),
    (make((OK,), output=5), "output has the wrong type int"),
    (make((OK,), done="no"), "done has the wrong type str"),
]


@pytest.mark.parametrize(("answer", "says"), UNSOUND)
async def test_foreign_objects_are_hook_error(answer: ModelCompleted, says: str) -> None:
    async def foreign(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        return answer

    options = agent("Never asked.", hooks={"wrap_model_call": foreign})
    async with open_runtime() as runtime:
        with pytest.raises(HookError, match=says) as caught:
            await runtime.run("Go.", options, session_id="s")
        assert "hook foreign in wrap_model_call: the hook returned an invalid response" in str(
            caught.value
        )
        assert (await runtime.run("Again.", agent("Fine."), session_id="s")).text == "Fine."
        check_quiet(runtime)


@pytest.mark.parametrize(
    "answer",
    [
        ModelCompleted(()),
        ModelCompleted((ThinkingBlock("hm"), OK, ToolUseBlock("c", "echo", {"text": "a"}))),
        ModelCompleted((ToolUseError("cut", None, "c"), ImageBlock("data:image/png;base64,AA=="))),
        ModelCompleted((OK,), "length", Usage(1, 2), "m", "r", True, "{}"),
    ],
)
def test_valid_response_is_accepted(answer: ModelCompleted) -> None:
    assert validate_response(answer) is answer


async def test_block_list_is_copied() -> None:
    kept: list[Any] = [OK]

    async def cached(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        return make(kept)

    result = await run(agent("Never asked.", hooks={"wrap_model_call": cached}))
    assert result.text == "ok"
    assert validate_response(make(kept)).blocks == (OK,)
