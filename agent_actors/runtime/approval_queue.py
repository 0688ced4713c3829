"""An approval queue: what all sessions ask, in one line for one or many people.

A thin user of the one road: it is told of questions as they open and close, and answers them by
`runtime.answer`. It owns which of them were given out, and a whitelist of tools that it approves
by itself for a while. It judges nothing: what a policy denies is never asked, so that no entry here
can let it run; and an entry answers questions alone, so that hooks, schemas and whoever is asked
before a person have their say with every call. Nothing here waits but `get`.
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

# Seconds: as long as a person remembers what they said yes to.
WHITELIST_TTL: Final = 600.0
# Entries; beyond it the oldest goes, and what it approved is asked again.
MAX_WHITELISTED: Final = 10_000

_Place: TypeAlias = tuple[str, str | None]


class _Road(Protocol):
    """What the queue needs of a `Runtime`."""

    def answer(self, question_id: str, answer: Answer, /) -> None: ...

    def watch_questions(self, watcher: QuestionWatcher) -> Callable[[], None]: ...


@attrs.frozen
class Whitelisted:
    """An entry of the whitelist.

    Attributes:
        tool_name: The tool, by its exact name.
        session_id: The session; None: every one.
        seconds_left: How long it holds yet; `math.inf`: until it is revoked.
    """

    tool_name: str
    session_id: str | None
    seconds_left: float


class ApprovalQueue:
    """The open questions of a runtime, for people to work off.

    Questions come in the order in which they were asked, each once, whoever takes it; it stays
    `pending` until it closes. One that closes before (it was answered elsewhere, its deadline
    passed, its run ended) leaves the queue. Several queues of one runtime each have all questions;
    the first answer wins. Use it in the runtime's own thread.

    Questions of a run with `on_ask="suspend"` are not here: nobody waits for them.

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
        runtime: Whose questions.
        whitelist_ttl: Seconds that an entry of the whitelist holds; `math.inf`: until it is
            revoked, the queue is left, or its session leaves the runtime.

    Raises:
        ConfigError: `whitelist_ttl` is not above 0.
    """

    def __init__(self, runtime: _Road, *, whitelist_ttl: float = WHITELIST_TTL) -> None:
        if not whitelist_ttl > 0:
            raise ConfigError(
                "whitelist_ttl must be above 0 seconds, or math.inf for no end; got "
                f"{whitelist_ttl!r:.80}"
            )
        self._runtime = runtime
        self._ttl = whitelist_ttl
        self._pending: dict[str, Question] = {}
        # Those of them that nobody has taken.
        self._new: dict[str, Question] = {}
        # Until when each entry holds, the oldest first.
        self._listed: dict[_Place, float] = {}
        self._waiting = trio.lowlevel.ParkingLot()
        self._unwatch: Callable[[], None] | None = None
        self._ended = False

    def __enter__(self) -> Self:
        """Begin with the questions that are open now.

        Raises:
            RuntimeClosed: The runtime is closed.
            RuntimeFailure: It is not open yet, or the queue was entered before.
        """
        if self._unwatch is not None or self._ended:
            raise RuntimeFailure("an approval queue is entered once; make another")
        watcher = QuestionWatcher(self._opened, self._closed, self._session_left, self._end)
        self._unwatch = self._runtime.watch_questions(watcher)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave it: its whitelist is gone, and whoever waits with `get` is told."""
        if self._unwatch is not None:
            self._unwatch()
        self._end()

    def __len__(self) -> int:
        """How many questions are pending."""
        return len(self._pending)

    # Working it off.

    async def get(self) -> Question:
        """Take the next question that nobody has taken; wait for one.

        Raises:
            RuntimeClosed: The runtime has closed, or the queue was left.
            RuntimeFailure: It was never entered.

        Cancellation: safe; no question is lost.
        """
        await trio.lowlevel.checkpoint()
        while not self._new:
            self._check_open()
            await self._waiting.park()
        # From here on nothing waits: what is taken is given.
        return self._new.pop(next(iter(self._new)))

    def __aiter__(self) -> Self:
        """The questions as they come, until the runtime closes or the queue is left."""
        return self

    async def __anext__(self) -> Question:
        """The next one, as `get`.

        Cancellation: safe; no question is lost.
        """
        try:
            return await self.get()
        except RuntimeClosed:
            raise StopAsyncIteration from None

    def pending(self, session_id: str | None = None) -> tuple[Question, ...]:
        """The questions that are open, taken or not, the oldest first.

        Args:
            session_id: Only those of this session; None: of all.
        """
        found = self._pending.values()
        return tuple(q for q in found if session_id is None or q.session_id == session_id)

    def approve(
        self,
        question_id: str,
        *,
        whitelist: WhitelistScope | None = None,
        remember: Remember | Scope | None = None,
        input: JsonObject | None = None,  # noqa: A002 - as the decision has it
    ) -> None:
        """Let a call run.

        Args:
            question_id: The question.
            whitelist: Approve by itself, for `whitelist_ttl` seconds, every question about this
                tool, whatever its arguments: in this session, or `always` in any. What is pending
                already is approved at once. None: this call alone.
            remember: Have the permissions remember it, as `PermissionDecision.remember` says: for
                the same arguments, or the calls that a rule such as `shell(git *)` matches.
            input: Arguments to run with in place of the model's; judged again.

        Raises:
            QuestionClosed: It was answered, it timed out, its run ended, or there never was one.
            ConfigError: The question is not about leave to run a call, such as one of
                `AskUserQuestion`, which takes an `answer`; or `whitelist` is joined with another
                input or memory; or the rule to remember does not fit the call. It stays open.
            RuntimeFailure: The queue is not open, here and below.
        """
        question = self._question(question_id)
        if not question.permission:
            raise ConfigError(
                f"question {question_id!r} asks for no permission; pass the answer to answer()"
            )
        if whitelist is not None and whitelist not in get_args(WhitelistScope):
            raise ConfigError(
                f"whitelist must be 'session' or 'always', or None; got {whitelist!r:.80}"
            )
        if whitelist is not None and not (remember is None and input is None):
            raise ConfigError(
                "an entry of the whitelist approves calls as they are; leave out input and "
                "remember, or the whitelist"
            )
        self._runtime.answer(
            question_id,
            PermissionDecision(
                "allow", input=input, reason="a person approved it", remember=remember
            ),
        )
        if whitelist is not None:
            self._list(question.tool_name, question.session_id if whitelist == "session" else None)

    def deny(
        self, question_id: str, reason: str = "", *, remember: Remember | Scope | None = None
    ) -> None:
        """Refuse a call.

        Args:
            question_id: The question.
            reason: Why; the model is told. Empty: that a person said no.
            remember: Have the permissions remember it.

        Raises:
            QuestionClosed: It takes no answer any more, or there never was one.
            ConfigError: The rule to remember does not fit the call; it stays open.
        """
        self._question(question_id)
        reason = reason or "a person said no"
        self._runtime.answer(
            question_id, PermissionDecision("deny", reason=reason, remember=remember)
        )

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question in words, as `Runtime.answer`.

        Raises:
            QuestionClosed: It takes no answer any more, or there never was one.
            ConfigError: It is none to this question, which stays open.
        """
        self._question(question_id)
        self._runtime.answer(question_id, answer)

    # The whitelist.

    def whitelist(self) -> tuple[Whitelisted, ...]:
        """What is approved without asking now, the oldest entry first."""
        now = trio.current_time()
        self._forget_ended(now)
        return tuple(
            Whitelisted(tool_name, session_id, until - now)
            for (tool_name, session_id), until in self._listed.items()
        )

    def revoke(self, tool_name: str, session_id: str | None = None) -> bool:
        """Ask about a tool again. Calls that were approved before run on.

        Args:
            tool_name: The tool.
            session_id: The session of the entry; None: the entry for every session.

        Returns:
            Whether there was such an entry.
        """
        self._forget_ended(trio.current_time())
        return self._listed.pop((tool_name, session_id), None) is not None

    def revoke_all(self) -> None:
        """Ask about every tool again."""
        self._listed.clear()

    def _list(self, tool_name: str, session_id: str | None) -> None:
        now = trio.current_time()
        self._forget_ended(now)
        # A new one, and the youngest: what an entry approves is never pending.
        self._listed[tool_name, session_id] = now + self._ttl
        if len(self._listed) > MAX_WHITELISTED:
            del self._listed[next(iter(self._listed))]
        for question in self.pending():
            self._approve_if_listed(question)

    def _approve_if_listed(self, question: Question) -> bool:
        if not question.permission:
            return False
        now = trio.current_time()
        for session_id in (question.session_id, None):
            if now < self._listed.get((question.tool_name, session_id), -math.inf):
                where = "every session" if session_id is None else "this session"
                reason = f"a person approved this tool for {where}"
                self._runtime.answer(question.id, PermissionDecision("allow", reason=reason))
                return True
        return False

    def _forget_ended(self, now: float) -> None:
        # All hold for as long, so that the oldest is the first to end.
        while self._listed and next(iter(self._listed.values())) <= now:
            del self._listed[next(iter(self._listed))]

    # Keeping it.

    def _question(self, question_id: str) -> Question:
        self._check_open()
        question = self._pending.get(question_id)
        if question is None:
            raise QuestionClosed(question_id)
        return question

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeClosed("the approval queue, or its runtime,")
        if self._unwatch is None:
            raise RuntimeFailure("enter the queue first: `with ApprovalQueue(runtime) as queue:`")

    def _opened(self, question: Question) -> None:
        if not self._approve_if_listed(question):
            self._pending[question.id] = self._new[question.id] = question
            self._waiting.unpark()

    def _closed(self, question_id: str) -> None:
        self._pending.pop(question_id, None)
        self._new.pop(question_id, None)

    def _session_left(self, session_id: str) -> None:
        # Under its id another one may begin.
        self._listed = {
            place: until for place, until in self._listed.items() if place[1] != session_id
        }

    def _end(self) -> None:
        self._ended = True
        for kept in (self._pending, self._new, self._listed):
            kept.clear()
        self._waiting.unpark_all()
