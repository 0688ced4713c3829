"""Ids of tool calls that cannot be mistaken for one another, whoever made the answer.

A result finds its call by id alone, for as long as the session lives; endpoints and custom
providers send none, or the same in every turn, or the same twice in one. `CallIds` owns the ids of
one turn: an id that is free is kept, any other call gets `call_<turn>_<slot>`, made from what is
known of it, so that the same stream always gives the same ids.
"""

from collections.abc import Set as AbstractSet

import attrs

from agent_actors.domain.blocks import AssistantBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import ModelCompleted


class CallIds:
    """The ids given to the calls of one turn.

    Args:
        turn: The number of the turn in its session.
        known: The ids of the session's earlier calls.
    """

    __slots__ = ("_given", "_known", "_turn")

    def __init__(self, *, turn: int, known: AbstractSet[str]) -> None:
        self._turn = turn
        self._known = known
        self._given: set[str] = set()

    def give(self, slot: int, wanted: str = "") -> str:
        """The id of the call in `slot`: the wanted one if it is free, else one made up."""
        made = f"call_{self._turn}_{slot}"
        call_id = wanted or made
        copy = 1
        while call_id in self._given or call_id in self._known:
            call_id = made if copy == 1 else f"{made}_{copy}"
            copy += 1
        self._given.add(call_id)
        return call_id


def with_unique_ids(
    answer: ModelCompleted, *, turn: int, known: AbstractSet[str] = frozenset()
) -> ModelCompleted:
    """The answer with every call named, and no call's id used twice in the session.

    Args:
        answer: What the provider returned.
        turn: The number of the model call in its session's life; new ids carry it.
        known: The ids of the session's earlier calls.
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
            "the call names no tool",
            block.raw_arguments or None,
            call_id,
            extra=block.extra,
            origin=block.origin,
        )
    return block if block.id == call_id else attrs.evolve(block, id=call_id)
