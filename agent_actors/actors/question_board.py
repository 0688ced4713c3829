"""Questions to people: the open questions, and the only way to answer them.

This module owns the open questions of the runs of one runtime. Answering is synchronous, so that
only one of two answers is the first. Watchers that keep their own list are notified immediately, in
the task that asks or answers. The module does not know tools or policies.
"""

from collections.abc import Callable
from typing import TypeAlias

import attrs
import trio

from agent_actors.domain.run import Question
from agent_actors.errors import ConfigError, QuestionClosed
from agent_actors.permissions import PermissionDecision

# A person's answer: a choice or text, or a complete decision, which may rewrite the arguments.
Answer: TypeAlias = str | PermissionDecision
# Raises a `ConfigError` for an answer that is meaningless for its question.
AnswerCheck: TypeAlias = Callable[[Answer], None]


def check_answer(answer: object) -> None:
    """Refuse a value that cannot be an answer.

    Raises:
        ConfigError: The value is neither text nor a `PermissionDecision`.
    """
    if not isinstance(answer, str | PermissionDecision):
        raise ConfigError(
            f"an answer must be a str (for example 'yes') or PermissionDecision; got {answer!r:.80}"
        )


@attrs.frozen(eq=False)
class QuestionWatcher:
    """Callbacks that notify a watcher of questions. They must not wait or raise.

    Attributes:
        opened: Called with a question that a run waits for. The callback may answer it.
        closed: Called with the id of a question that can no longer be answered.
        session_left: Called with the id of a session that has left the runtime.
        ended: Called when the runtime has closed; no more questions are asked.
    """

    opened: Callable[[Question], None]
    closed: Callable[[str], None]
    session_left: Callable[[str], None]
    ended: Callable[[], None]


@attrs.define(eq=False)
class _Open:
    question: Question
    check: AnswerCheck | None
    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: Answer | None = None


class Questions:
    """The open questions of one runtime."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._watchers: list[QuestionWatcher] = []

    def open(self, session_id: str | None = None) -> tuple[Question, ...]:
        """Return the open questions, oldest first.

        Args:
            session_id: Only questions of this session; None for all sessions.
        """
        found = (item.question for item in self._open.values())
        return tuple(q for q in found if session_id is None or q.session_id == session_id)

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question; the first answer wins.

        Raises:
            QuestionClosed: The question was answered, it timed out, its run ended, or it never
                existed.
            ConfigError: The value is not an answer, or not to this question, which stays open.
        """
        item = self._open.get(question_id)
        if item is None:
            raise QuestionClosed(question_id)
        check_answer(answer)
        if item.check is not None:
            item.check(answer)
        self._close(question_id)
        item.answer = answer
        item.answered.set()

    async def ask(
        self, question: Question, seconds: float, check: AnswerCheck | None = None
    ) -> Answer | None:
        """Wait for the answer to a question; return None if there was none in time.

        Args:
            question: The question.
            seconds: How long the question stays open.
            check: Raises for answers that are meaningless for the question; None to accept any
                answer.

        Cancellation: closes the question.
        """
        item = self._open[question.id] = _Open(question, check)
        try:
            for watcher in tuple(self._watchers):
                if question.id in self._open:
                    watcher.opened(question)
            with trio.move_on_after(seconds):
                await item.answered.wait()
        finally:
            self._close(question.id)
        return item.answer

    # Watchers.

    def watch(self, watcher: QuestionWatcher) -> None:
        """Notify a watcher of the questions that are open now, and of all later changes."""
        self._watchers.append(watcher)
        for question in self.open():
            watcher.opened(question)

    def unwatch(self, watcher: QuestionWatcher) -> None:
        """Remove a watcher. Does nothing if it was removed by the end of the runtime."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def session_left(self, session_id: str) -> None:
        """Notify the watchers that a session has left the runtime."""
        for watcher in self._watchers:
            watcher.session_left(session_id)

    def end(self) -> None:
        """Notify the watchers that the runtime has closed, and remove them."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.ended()

    def _close(self, question_id: str) -> _Open | None:
        item = self._open.pop(question_id, None)
        if item is not None:
            for watcher in tuple(self._watchers):
                watcher.closed(question_id)
        return item
