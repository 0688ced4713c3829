"""Validates a model response that a hook returns, before the run uses it.

Hooks are user code, which may not have been type-checked. An invalid response is rejected when the
hook returns it, so that the error names the hook and not some later user of the response.
"""

from collections.abc import Iterator, Sequence
from typing import Final, cast, get_args

import attrs

from agent_actors.codec.blocks import dump_block, load_block
from agent_actors.codec.json_values import to_json
from agent_actors.domain.blocks import AssistantBlock
from agent_actors.domain.model import FinishReason, ModelCompleted, StopDetails
from agent_actors.domain.usage import Usage
from agent_actors.errors import MessageError

_BLOCKS: Final[tuple[object, ...]] = get_args(AssistantBlock)


def validate_response(answer: ModelCompleted) -> ModelCompleted:
    """Return the response if it can be recorded, counted and shown.

    Raises:
        TypeError: The response is not valid. The message contains the reason.
    """
    found = cast("dict[str, object]", attrs.asdict(answer, recurse=False))
    blocks = found["blocks"]
    if not isinstance(blocks, tuple | list):
        raise TypeError(f"blocks must be a tuple of blocks; got {type(blocks).__name__}")
    parts = tuple(cast("Sequence[object]", blocks))
    _check(parts)
    usage = found["usage"]
    if not isinstance(usage, Usage):
        raise TypeError(f"usage must be a Usage; got {type(usage).__name__}")
    for name, count in _counts(usage):
        if type(count) is not int or count < 0:
            raise TypeError(f"usage.{name} must be an int of at least 0; got {count!r:.80}")
    if found["finish_reason"] not in get_args(FinishReason):
        raise TypeError(
            f"finish_reason must be one of {', '.join(get_args(FinishReason))}; got "
            f"{found['finish_reason']!r:.80}"
        )
    for name, kinds in (
        ("model", str),
        ("response_id", str),
        ("output", str | None),
        ("done", bool),
        ("stop_details", StopDetails | None),
        ("damaged_lines", int),
    ):
        if not isinstance(found[name], kinds):
            raise TypeError(f"{name} has the wrong type {type(found[name]).__name__}")
    to_json(answer)
    if isinstance(blocks, tuple):
        return answer
    return attrs.evolve(answer, blocks=cast("tuple[AssistantBlock, ...]", parts))


def _check(blocks: tuple[object, ...]) -> None:
    for index, block in enumerate(blocks):
        if type(block) not in _BLOCKS:
            raise TypeError(
                f"blocks[{index}] must be a block of a response; got {type(block).__name__}"
            )
        # Check this first: `to_json` names the position of a value that is not JSON.
        to_json(block)
        try:
            load_block(dump_block(cast("AssistantBlock", block)))
        except MessageError as error:
            raise TypeError(f"blocks[{index}]: {error}") from error


def _counts(usage: Usage) -> Iterator[tuple[str, object]]:
    for field in attrs.fields(Usage):
        if field.name != "estimated":
            yield field.name, getattr(usage, field.name)
