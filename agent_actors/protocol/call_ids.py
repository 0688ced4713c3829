"""Ids of tool calls that cannot be mistaken for one another.

A result finds its call by id alone, for as long as the session lives; endpoints send none, or the
same in every turn, or the same twice in one. `CallIds` owns the ids of one turn: an id that is
free is kept, any other call gets `call_<turn>_<slot>`, made from what is known of it, so that the
same stream always gives the same ids.
"""

from collections.abc import Set as AbstractSet

import attrs

from agent_actors.domain.blocks import AssistantBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import ModelFinished, ModelRequest


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
        call_id = wanted or self._made(slot)
        if self._taken(call_id):
            call_id = self._made(slot)
        copy = 2
        while self._taken(call_id):
            call_id = f"{self._made(slot)}_{copy}"
            copy += 1
        self._given.add(call_id)
        return call_id

    def _made(self, slot: int) -> str:
        return f"call_{self._turn}_{slot}"

    def _taken(self, call_id: str) -> bool:
        return call_id in self._given or call_id in self._known


def with_unique_ids(answer: ModelFinished, request: ModelRequest) -> ModelFinished:
    """The answer with the ids of its calls made unique in the session that asked."""
    ids = CallIds(turn=request.turn, known=request.known_call_ids)
    blocks: list[AssistantBlock] = []
    slot = 0
    for block in answer.blocks:
        if isinstance(block, ToolUseBlock | ToolUseError):
            call_id = ids.give(slot, block.id)
            slot += 1
            blocks.append(block if call_id == block.id else attrs.evolve(block, id=call_id))
        else:
            blocks.append(block)
    return attrs.evolve(answer, blocks=tuple(blocks))
