"""Questions to people: what is open, and the one road on which answers come.

Owns the questions that runs of one runtime are waiting with. Answering is synchronous, so that two
answers cannot both be first. It knows nothing of tools or policies.
"""

from typing import TypeAlias

import attrs
import trio

from agent_actors.domain.questions import Question
from agent_actors.errors import QuestionClosed
from agent_actors.permissions import PermissionDecision

# A choice, or text, as a person gives it; or a whole decision, which may rewrite the arguments.
Answer: TypeAlias = str | PermissionDecision


@attrs.define(eq=False)
class _Open:
    question: Question
    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: Answer | None = None


class Questions:
    """The open questions of one runtime."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def open(self, session_id: str | None = None) -> tuple[Question, ...]:
        """The open questions, the oldest first.

        Args:
            session_id: Only those of this session; None: of all.
        """
        found = (item.question for item in self._open.values())
        return tuple(q for q in found if session_id is None or q.session_id == session_id)

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question; the first answer wins.

        Raises:
            QuestionClosed: It was answered, it timed out, its run ended, or there never was one.
        """
        item = self._open.pop(question_id, None)
        if item is None:
            raise QuestionClosed(question_id)
        item.answer = answer
        item.answered.set()

    async def ask(self, question: Question, seconds: float) -> Answer | None:
        """Wait for the answer; None if there was none in time.

        Cancellation: closes the question.
        """
        item = self._open[question.id] = _Open(question)
        try:
            with trio.move_on_after(seconds):
                await item.answered.wait()
        finally:
            self._open.pop(question.id, None)
        return item.answer
