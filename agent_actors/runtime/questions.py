"""`runtime.questions`: list the open questions for people, answer them, and watch for new ones."""

from collections.abc import Callable
from functools import partial

from agent_actors.actors.question_board import Answer, QuestionBoard, QuestionWatcher
from agent_actors.domain.run import Question
from agent_actors.runtime.open_state import OpenState


class QuestionAPI:
    """The questions that the runs of a runtime are waiting on.

    `runtime.questions(session_id)` is the same as `runtime.questions.pending(session_id)`.

    Args:
        board: The open questions.
        state: Tracks whether the runtime is open.
    """

    def __init__(self, board: QuestionBoard, state: OpenState) -> None:
        self._board = board
        self._state = state

    def __call__(self, session_id: str | None = None) -> tuple[Question, ...]:
        """Return the open questions, oldest first; the same as `pending`."""
        return self.pending(session_id)

    def pending(self, session_id: str | None = None) -> tuple[Question, ...]:
        """Return the open questions, oldest first; may be called from any thread.

        Args:
            session_id: Return the questions of this session only; None: of all sessions.

        Raises:
            RuntimeFailure: The runtime was not opened, or was opened in another trio run.
            RuntimeClosed: The method was called from another thread after the runtime's trio run
                had ended.
        """
        return self._state.call(partial(self._board.pending, session_id))

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question, from any task or thread; the first answer wins.

        A call from another thread blocks until the runtime's thread has taken the answer. If that
        thread runs its own trio event loop, use `await trio.to_thread.run_sync(runtime.answer,
        ...)`.

        Args:
            question_id: The `id` of the question.
            answer: One of the question's choices (for a tool call, `y`, `yes`, `session` and
                `always` allow the call and any other text denies it), free text if the question has
                no choices, or a `PermissionDecision`, which may change the arguments of the call.

        Raises:
            QuestionClosed: The question was answered, timed out, was closed with its run, or never
                existed.
            ConfigError: The answer is neither text nor a decision, or its `remember` rule does not
                match the call. The question stays open.
            RuntimeFailure: The runtime was not opened, or was opened in another trio run.
            RuntimeClosed: The method was called from another thread after the runtime's trio run
                had ended.
        """
        self._state.call(partial(self._board.answer, question_id, answer))

    def watch(self, watcher: QuestionWatcher) -> Callable[[], None]:
        """Register callbacks that are called as questions open and close; for `ApprovalQueue`.

        Returns:
            A function that unregisters the callbacks.

        Raises:
            RuntimeClosed: The runtime is closed.
        """
        self._state.check_open()
        self._board.watch(watcher)
        return partial(self._board.unwatch, watcher)
