"""Questions to people: what is open, and the one road on which answers come.

Owns the questions that runs of one runtime are waiting with. Answering is synchronous, so that two
answers cannot both be first. Whoever keeps a list of its own watches: it is told at once, in the
task of whoever asks or answers. It knows nothing of tools or policies.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

import attrs
import trio

from agent_actors.domain.run import Question
from agent_actors.errors import ConfigError, QuestionClosed
from agent_actors.permissions import PermissionDecision

# A choice, or text, as a person gives it; or a whole decision, which may rewrite the arguments.
Answer: TypeAlias = str | PermissionDecision
# Refuses, by a `ConfigError`, an answer that means nothing for a question.
AnswerCheck: TypeAlias = Callable[[Answer], None]


def check_answer(answer: object) -> None:
    """Refuse what is no answer at all.

    Raises:
        ConfigError: It is neither text nor a `PermissionDecision`.
    """
    if not isinstance(answer, str | PermissionDecision):
        raise ConfigError(
            f"an answer is text, such as 'yes' or 'no', or a PermissionDecision; got {answer!r:.80}"
        )


@attrs.frozen(eq=False)
class QuestionWatcher:
    """How somebody is told of questions. Nothing here may wait or raise.

    Attributes:
        opened: A run waits with this question; it may be answered right here.
        closed: The question of this id takes no answer any more.
        session_left: The session has left the runtime.
        ended: The runtime has closed: nothing is asked any more.
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
        answer: The answer; None before it came.
    """

    question: Question
    check: AnswerCheck | None
    answer: Answer | None = attrs.field(default=None, init=False)
    _answered: trio.Event = attrs.field(factory=trio.Event, init=False)

    def settle(self, answer: Answer) -> None:
        """Set the answer, and wake the run that waits for it."""
        self.answer = answer
        self._answered.set()

    async def wait(self, seconds: float) -> Answer | None:
        """Wait for the answer; None if there was none in time.

        Cancellation: safe.
        """
        with trio.move_on_after(seconds):
            await self._answered.wait()
        return self.answer


class Questions:
    """The open questions of one runtime."""

    def __init__(self) -> None:
        self._open: dict[str, OpenQuestion] = {}
        self._watchers: list[QuestionWatcher] = []

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
            ConfigError: It is no answer, or none to this question, which stays open.
        """
        item = self._open.get(question_id)
        if item is None:
            raise QuestionClosed(question_id)
        check_answer(answer)
        if item.check is not None:
            item.check(answer)
        self._close(question_id)
        item.settle(answer)

    async def ask(
        self, question: Question, seconds: float, check: AnswerCheck | None = None
    ) -> Answer | None:
        """Wait for the answer; None if there was none in time.

        Args:
            question: The question.
            seconds: How long it stays open.
            check: Refuses answers that mean nothing for it; None: any answer will do.

        Cancellation: closes the question.
        """
        with self.opened(question, check) as opened:
            return await opened.wait(seconds)

    @contextmanager
    def opened(
        self, question: Question, check: AnswerCheck | None = None
    ) -> Generator[OpenQuestion]:
        """Open a question for the length of a block; watchers may answer it on entering."""
        item = self._open[question.id] = OpenQuestion(question, check)
        try:
            for watcher in tuple(self._watchers):
                if question.id in self._open:
                    watcher.opened(question)
            yield item
        finally:
            self._close(question.id)

    # Watching.

    def watch(self, watcher: QuestionWatcher) -> None:
        """Tell somebody of what is open now, and of all that comes."""
        self._watchers.append(watcher)
        for question in self.open():
            watcher.opened(question)

    def unwatch(self, watcher: QuestionWatcher) -> None:
        """Tell them no more; they may have been told all already."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def session_left(self, session_id: str) -> None:
        """The session has left the runtime."""
        for watcher in self._watchers:
            watcher.session_left(session_id)

    def end(self) -> None:
        """The runtime has closed."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.ended()

    def _close(self, question_id: str) -> OpenQuestion | None:
        item = self._open.pop(question_id, None)
        if item is not None:
            for watcher in tuple(self._watchers):
                watcher.closed(question_id)
        return item
