"""Open questions for people, and their answers.

Answering is synchronous, so that one of two concurrent answers is always the first. Watchers are
also called synchronously, in the task that asks or answers. This module knows nothing about tools
or policies.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

import attrs
import trio

from agent_actors.domain.run import Question
from agent_actors.errors import ConfigError, QuestionClosed
from agent_actors.permissions import PermissionDecision

# A person's choice or free text, or a decision, which may change the arguments of the call.
Answer: TypeAlias = str | PermissionDecision
# Raises `ConfigError` if an answer is not valid for a question.
AnswerCheck: TypeAlias = Callable[[Answer], None]


def check_answer(answer: object) -> None:
    """Check that a value has the type of an answer.

    Raises:
        ConfigError: The value is neither text nor a `PermissionDecision`.
    """
    if not isinstance(answer, str | PermissionDecision):
        raise ConfigError(
            "an answer must be a str (for example 'yes') or a PermissionDecision; "
            f"got {answer!r:.80}"
        )


@attrs.frozen(eq=False)
class QuestionWatcher:
    """Callbacks that are called as questions open and close. They must not block or raise.

    Attributes:
        opened: A run is waiting for an answer to this question; the callback may answer it.
        closed: The question with this id accepts no more answers.
        session_left: The session was evicted from memory, or deleted.
        ended: The runtime has closed; there are no more questions.
    """

    opened: Callable[[Question], None]
    closed: Callable[[str], None]
    session_left: Callable[[str], None]
    ended: Callable[[], None]


@attrs.define(eq=False)
class OpenQuestion:
    """A question that may be answered.

    Attributes:
        question: The question.
        check: Raises `ConfigError` for answers that are not valid; None: accept any answer.
        answer: The answer; None while the question is open.
    """

    question: Question
    check: AnswerCheck | None
    answer: Answer | None = attrs.field(default=None, init=False)
    _answered: trio.Event = attrs.field(factory=trio.Event, init=False)

    def settle(self, answer: Answer) -> None:
        """Set the answer, and wake the run that is waiting for it."""
        self.answer = answer
        self._answered.set()

    async def wait(self, seconds: float) -> Answer | None:
        """Wait for the answer, and return it; None if none arrived in time.

        Cancellation: safe.
        """
        with trio.move_on_after(seconds):
            await self._answered.wait()
        return self.answer


class QuestionBoard:
    """The open questions of one runtime."""

    def __init__(self) -> None:
        self._open: dict[str, OpenQuestion] = {}
        self._watchers: list[QuestionWatcher] = []

    def pending(self, session_id: str | None = None) -> tuple[Question, ...]:
        """Return the open questions, oldest first.

        Args:
            session_id: Return only the questions of this session; None for all sessions.
        """
        questions = (entry.question for entry in self._open.values())
        return tuple(q for q in questions if session_id is None or q.session_id == session_id)

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question; the first answer wins.

        Raises:
            QuestionClosed: The question was answered, timed out, was closed with its run, or never
                existed.
            ConfigError: The answer is not valid for this question, which stays open.
        """
        entry = self._open.get(question_id)
        if entry is None:
            raise QuestionClosed(question_id)
        check_answer(answer)
        if entry.check is not None:
            entry.check(answer)
        self._close(question_id)
        entry.settle(answer)

    async def ask(
        self, question: Question, seconds: float, check: AnswerCheck | None = None
    ) -> Answer | None:
        """Wait for the answer to a question.

        Args:
            question: The question.
            seconds: Seconds that the question stays open.
            check: Raises `ConfigError` for answers that are not valid; None: accept any answer.

        Returns:
            The answer; None if none arrived in time.

        Cancellation: closes the question.
        """
        with self.opened(question, check) as opened:
            return await opened.wait(seconds)

    @contextmanager
    def opened(
        self, question: Question, check: AnswerCheck | None = None
    ) -> Generator[OpenQuestion]:
        """Open a question for the duration of a block; watchers may answer it at once."""
        entry = self._open[question.id] = OpenQuestion(question, check)
        try:
            for watcher in tuple(self._watchers):
                # A watcher may already have answered the question.
                if question.id in self._open:
                    watcher.opened(question)
            yield entry
        finally:
            self._close(question.id)

    # Watchers.

    def watch(self, watcher: QuestionWatcher) -> None:
        """Register callbacks; `opened` is called at once for every open question."""
        self._watchers.append(watcher)
        for question in self.pending():
            watcher.opened(question)

    def unwatch(self, watcher: QuestionWatcher) -> None:
        """Unregister callbacks; does nothing if they are no longer registered."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def session_left(self, session_id: str) -> None:
        """Notify every watcher that a session was evicted from memory, or deleted."""
        for watcher in self._watchers:
            watcher.session_left(session_id)

    def end(self) -> None:
        """Notify every watcher that the runtime has closed, and unregister all of them."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.ended()

    def _close(self, question_id: str) -> None:
        if self._open.pop(question_id, None) is not None:
            for watcher in tuple(self._watchers):
                watcher.closed(question_id)
