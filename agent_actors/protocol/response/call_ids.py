"""Unique ids for tool calls within a session.

A result is matched to its call by id alone, throughout the session. However, endpoints and custom
providers may send no ids, the same ids in every turn, or one id twice in a turn. `CallIds` owns the
ids of one turn. An id that is not in use yet is kept. Any other call gets the id
`call_<turn>_<slot>`, which depends only on the stream, so that the same stream always produces the
same ids.
"""

from collections.abc import Set as AbstractSet

import attrs

from agent_actors.domain.blocks import AssistantBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import ModelCompleted


class CallIds:
    """The ids assigned to the calls of one turn.

    Args:
        turn: The number of the turn in its session.
        known: The ids of earlier calls in the session.
    """

    __slots__ = ("_given", "_known", "_turn")

    def __init__(self, *, turn: int, known: AbstractSet[str]) -> None:
        self._turn = turn
        self._known = known
        self._given: dict[str, None] = {}  # an empty set takes 150 bytes more

    def give(self, slot: int, preferred: str = "") -> str:
        """Return the id for the call in `slot`: `wanted` if it is unused, else a generated id."""
        made = f"call_{self._turn}_{slot}"
        call_id = preferred or made
        copy = 1
        while call_id in self._given or call_id in self._known:
            call_id = made if copy == 1 else f"{made}_{copy}"
            copy += 1
        self._given[call_id] = None
        return call_id


def with_unique_ids(
    answer: ModelCompleted, *, turn: int, known: AbstractSet[str] = frozenset()
) -> ModelCompleted:
    """Return the response with call ids that are unique in the session.

    Args:
        answer: The response of the provider.
        turn: The number of the model call in its session; generated ids contain it.
        known: The ids of earlier calls in the session.
    """
    ids = CallIds(turn=turn, known=known)
    blocks: list[AssistantBlock] = []
    slot = 0
    for block in answer.blocks:
        if isinstance(block, ToolUseBlock | ToolUseError):
            blocks.append(_renamed(block, ids.give(slot, block.id)))
            slot += 1
        else:
            blocks.append(block)
    if all(old is new for old, new in zip(answer.blocks, blocks, strict=True)):
        return answer
    return attrs.evolve(answer, blocks=tuple(blocks))


def _renamed(block: ToolUseBlock | ToolUseError, call_id: str) -> ToolUseBlock | ToolUseError:
    if isinstance(block, ToolUseBlock) and not block.name:
        return ToolUseError(
            "the call does not name a tool",
            block.raw_arguments or None,
            call_id,
            extra=block.extra,
            origin=block.origin,
        )
    return block if block.id == call_id else attrs.evolve(block, id=call_id)
