"""ApprovalQueue: one queue with the open questions of all sessions, for one or more people.

The queue is notified as questions open and close, and answers them through the runtime. It also
holds an allowlist of tools (`whitelist` in the public API) whose questions it approves
automatically for a limited time. An allowlist entry can only answer questions. It cannot allow a
call that a policy denies, since such a call raises no question, and schemas, hooks and
`can_use_tool` are still applied to every call first. Only `get` waits.
"""

import math
from collections.abc import Callable
from types import TracebackType
from typing import Final, Literal, Protocol, Self, TypeAlias, get_args

import attrs
import trio

from agent_actors.actors.question_board import Answer, QuestionWatcher
from agent_actors.domain.json import JsonObject
from agent_actors.domain.run import Question
from agent_actors.errors import ConfigError, QuestionClosed, RuntimeClosed, RuntimeFailure
from agent_actors.permissions import PermissionDecision, Remember
from agent_actors.permissions.grants import Scope

WhitelistScope: TypeAlias = Literal["session", "always"]

# Seconds; roughly as long as people remember what they have approved.
WHITELIST_TTL: Final = 600.0
# The maximum number of entries. When it is exceeded, the oldest entry is removed, so its tool needs
# approval again.
MAX_WHITELISTED: Final = 10_000

# A tool name and a session id; None as the session id means every session.
_EntryKey: TypeAlias = tuple[str, str | None]


class _QuestionSource(Protocol):
    """The methods of `Runtime` that the queue uses."""

    def answer(self, question_id: str, answer: Answer, /) -> None: ...

    def watch_questions(self, watcher: QuestionWatcher) -> Callable[[], None]: ...


@attrs.frozen
class Whitelisted:
    """An allowlist entry.

    Attributes:
        tool_name: The exact name of the tool.
        session_id: The session; None: every session.
        seconds_left: Seconds until the entry expires; `math.inf`: never.
    """

    tool_name: str
    session_id: str | None
    seconds_left: float


class ApprovalQueue:
    """The open questions of a runtime, in the order in which they were asked.

    Each question is returned by `get` once, to one task, and stays `pending` until it closes. A
    question that closes first (it was answered elsewhere, timed out, or its run ended) leaves the
    queue. Several queues of one runtime each contain all questions; the first answer wins. Use the
    queue only in the runtime's thread.

    Runs with `on_ask="suspend"` do not wait for answers, so their questions are not in the queue.

    Example:
        ```python
        with ApprovalQueue(runtime, whitelist_ttl=600) as queue:
            async for question in queue:
                if looks_harmless(question):
                    queue.approve(question.id, whitelist="session")
                else:
                    queue.deny(question.id, "not on a Friday")
        ```

    Args:
        runtime: The runtime.
        whitelist_ttl: Seconds until an allowlist entry expires; `math.inf`: an entry lasts until it
            is revoked, the queue is left, or its session is evicted from memory.

    Raises:
        ConfigError: `whitelist_ttl` is not above 0.
    """

    def __init__(self, runtime: _QuestionSource, *, whitelist_ttl: float = WHITELIST_TTL) -> None:
        if not whitelist_ttl > 0:
            raise ConfigError(
                "whitelist_ttl must be above 0 seconds, or math.inf for no expiry; got "
                f"{whitelist_ttl!r:.80}"
            )
        self._runtime = runtime
        self._ttl = whitelist_ttl
        self._pending: dict[str, Question] = {}
        # The pending questions that `get` has not returned yet.
        self._new: dict[str, Question] = {}
        # The expiry time of each entry, oldest entry first.
        self._allowed: dict[_EntryKey, float] = {}
        self._waiting = trio.lowlevel.ParkingLot()
        self._unwatch: Callable[[], None] | None = None
        self._ended = False

    def __enter__(self) -> Self:
        """Start watching questions, including those that are already open.

        Raises:
            RuntimeClosed: The runtime is closed.
            RuntimeFailure: The runtime is not open, or the queue has already been entered.
        """
        if self._unwatch is not None or self._ended:
            raise RuntimeFailure("an approval queue can be entered only once; create a new one")
        watcher = QuestionWatcher(self._opened, self._closed, self._session_left, self._end)
        self._unwatch = self._runtime.watch_questions(watcher)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the queue and clear its allowlist; `get` then raises `RuntimeClosed`."""
        if self._unwatch is not None:
            self._unwatch()
        self._end()

    def __len__(self) -> int:
        """Return the number of pending questions."""
        return len(self._pending)

    # Questions.

    async def get(self) -> Question:
        """Take the oldest question that no other task has taken, waiting for one if necessary.

        Raises:
            RuntimeClosed: The runtime has closed, or the queue was left.
            RuntimeFailure: The queue has not been entered.

        Cancellation: safe; no question is lost.
        """
        await trio.lowlevel.checkpoint()
        while not self._new:
            self._check_open()
            await self._waiting.park()
        # There is no checkpoint after this line, so a question that was taken is always returned.
        return self._new.pop(next(iter(self._new)))

    def __aiter__(self) -> Self:
        """Iterate over new questions until the runtime closes or the queue is left."""
        return self

    async def __anext__(self) -> Question:
        """Take the next question, as `get` does.

        Cancellation: safe; no question is lost.
        """
        try:
            return await self.get()
        except RuntimeClosed:
            raise StopAsyncIteration from None

    def pending(self, session_id: str | None = None) -> tuple[Question, ...]:
        """Return the open questions, oldest first, including those that `get` has returned.

        Args:
            session_id: Return the questions of this session only; None: of all sessions.
        """
        questions = self._pending.values()
        return tuple(q for q in questions if session_id is None or q.session_id == session_id)

    def approve(
        self,
        question_id: str,
        *,
        whitelist: WhitelistScope | None = None,
        remember: Remember | Scope | None = None,
        input: JsonObject | None = None,  # noqa: A002 - same name as in PermissionDecision
    ) -> None:
        """Approve a tool call.

        Args:
            question_id: The `id` of the question.
            whitelist: Also approve every other question about this tool, with any arguments, for
                `whitelist_ttl` seconds: `session` for this session, `always` for every session.
                Matching questions that are already pending are approved at once. None: approve this
                call only.
            remember: Store the approval as a permission, as `PermissionDecision.remember` does: for
                the same arguments, or for all calls that match a rule such as `shell(git *)`.
            input: New arguments for the call; permissions are checked again.

        Raises:
            QuestionClosed: The question was answered, timed out, was closed with its run, or never
                existed.
            ConfigError: The question does not ask for permission (use `answer` for questions from
                `AskUserQuestion`), `whitelist` is combined with `input` or `remember`, or the rule
                to remember does not match the call. The question stays open.
            RuntimeFailure: The queue has not been entered.
        """
        question = self._question(question_id)
        if not question.permission:
            raise ConfigError(
                f"question {question_id!r} does not ask for permission; answer it with answer()"
            )
        if whitelist is not None and whitelist not in get_args(WhitelistScope):
            raise ConfigError(
                f"whitelist must be 'session' or 'always', or None; got {whitelist!r:.80}"
            )
        if whitelist is not None and not (remember is None and input is None):
            raise ConfigError(
                "`whitelist` cannot be combined with `input` or `remember`; pass one or the other"
            )
        self._runtime.answer(
            question_id,
            PermissionDecision(
                "allow", input=input, reason="a person approved it", remember=remember
            ),
        )
        if whitelist is not None:
            self._allow(question.tool_name, question.session_id if whitelist == "session" else None)

    def deny(
        self, question_id: str, reason: str = "", *, remember: Remember | Scope | None = None
    ) -> None:
        """Deny a tool call.

        Args:
            question_id: The `id` of the question.
            reason: The reason to send to the model; empty: "a person said no".
            remember: Store the denial as a permission, as `PermissionDecision.remember` does.

        Raises:
            QuestionClosed: The question is not open.
            ConfigError: The rule to remember does not match the call; the question stays open.
        """
        self._question(question_id)
        reason = reason or "a person said no"
        self._runtime.answer(
            question_id, PermissionDecision("deny", reason=reason, remember=remember)
        )

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question, as `runtime.questions.answer` does.

        Raises:
            QuestionClosed: The question is not open.
            ConfigError: The answer is not valid for this question, which stays open.
        """
        self._question(question_id)
        self._runtime.answer(question_id, answer)

    # The allowlist.

    def whitelist(self) -> tuple[Whitelisted, ...]:
        """Return the allowlist entries, oldest first."""
        now = trio.current_time()
        self._drop_expired(now)
        return tuple(
            Whitelisted(tool_name, session_id, expiry - now)
            for (tool_name, session_id), expiry in self._allowed.items()
        )

    def revoke(self, tool_name: str, session_id: str | None = None) -> bool:
        """Remove an allowlist entry; calls that were already approved continue.

        Args:
            tool_name: The tool.
            session_id: The session of the entry; None: the entry for every session.

        Returns:
            True if there was such an entry.
        """
        self._drop_expired(trio.current_time())
        return self._allowed.pop((tool_name, session_id), None) is not None

    def revoke_all(self) -> None:
        """Remove all allowlist entries."""
        self._allowed.clear()

    def _allow(self, tool_name: str, session_id: str | None) -> None:
        now = trio.current_time()
        self._drop_expired(now)
        # The key is always new, since a question that an existing entry matches is not pending. The
        # new entry therefore comes last.
        self._allowed[tool_name, session_id] = now + self._ttl
        if len(self._allowed) > MAX_WHITELISTED:
            del self._allowed[next(iter(self._allowed))]
        for question in self.pending():
            self._approve_if_allowed(question)

    def _approve_if_allowed(self, question: Question) -> bool:
        if not question.permission:
            return False
        now = trio.current_time()
        for session_id in (question.session_id, None):
            if now < self._allowed.get((question.tool_name, session_id), -math.inf):
                where = "every session" if session_id is None else "this session"
                reason = f"a person approved this tool for {where}"
                self._runtime.answer(question.id, PermissionDecision("allow", reason=reason))
                return True
        return False

    def _drop_expired(self, now: float) -> None:
        # All entries have the same lifetime, so the oldest expires first.
        while self._allowed and next(iter(self._allowed.values())) <= now:
            del self._allowed[next(iter(self._allowed))]

    # Callbacks for the question watcher, and checks.

    def _question(self, question_id: str) -> Question:
        self._check_open()
        question = self._pending.get(question_id)
        if question is None:
            raise QuestionClosed(question_id)
        return question

    def _check_open(self) -> None:
        if not trio.lowlevel.in_trio_run():
            raise RuntimeFailure(
                "an approval queue belongs to the runtime's thread; from another thread, call "
                "`trio.from_thread.run_sync(queue.approve, question_id, trio_token=token)`, or "
                "`runtime.answer(question_id, 'yes')`, which works in any thread"
            )
        if self._ended:
            raise RuntimeClosed("the approval queue, or its runtime,")
        if self._unwatch is None:
            raise RuntimeFailure(
                "the queue is not entered; use `with ApprovalQueue(runtime) as queue:`"
            )

    def _opened(self, question: Question) -> None:
        if not self._approve_if_allowed(question):
            self._pending[question.id] = self._new[question.id] = question
            self._waiting.unpark()

    def _closed(self, question_id: str) -> None:
        self._pending.pop(question_id, None)
        self._new.pop(question_id, None)

    def _session_left(self, session_id: str) -> None:
        # A new session may later get the same id.
        self._allowed = {
            key: expiry for key, expiry in self._allowed.items() if key[1] != session_id
        }

    def _end(self) -> None:
        self._ended = True
        for entries in (self._pending, self._new, self._allowed):
            entries.clear()
        self._waiting.unpark_all()
