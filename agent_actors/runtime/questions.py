"""The questions of a runtime, as a caller sees them. It owns nothing."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from agent_actors.actors.question_board import Answer, QuestionWatcher
from agent_actors.domain.run import Question
from agent_actors.runtime.lifecycle import Actors


class Asked(ABC):
    """What a runtime offers to whoever answers for people."""

    _actors: Actors

    @abstractmethod
    def _check_open(self) -> None: ...

    def questions(self, session_id: str | None = None) -> tuple[Question, ...]:
        """The questions that runs are waiting with, the oldest first.

        Args:
            session_id: Only those of this session; None: of all.
        """
        return self._actors.questions.open(session_id)

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question, from any task; the first answer wins.

        Args:
            question_id: The question.
            answer: One of its choices, of which `y`, `yes`, `session` and `always` allow and all
                else denies; a free answer, where it asks for none of these; or a
                `PermissionDecision`, which may rewrite the arguments.

        Raises:
            QuestionClosed: It was answered, it timed out, its run ended, or there never was one.
            ConfigError: It is neither text nor a decision; or a decision to remember that cannot be
                remembered so, as its rule does not fit the call. The question stays open.
        """
        self._actors.questions.answer(question_id, answer)

    def watch_questions(self, watcher: QuestionWatcher) -> Callable[[], None]:
        """Tell somebody of every question; for `ApprovalQueue`. Returns what ends that.

        Raises:
            RuntimeClosed: The runtime is closed.
        """
        self._check_open()
        self._actors.questions.watch(watcher)
        return partial(self._actors.questions.unwatch, watcher)
