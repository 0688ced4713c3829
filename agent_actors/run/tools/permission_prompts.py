"""How one run asks: whoever may decide for a person, then a person.

Owns the run's open questions. While one is open, the run's own deadline stands still, and so do
those of the call and of the runs around it: a person's time is not the agent's. With
`on_ask="suspend"` nobody is waited for: the run ends, and is resumed with the answers.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import attrs
import trio

from agent_actors.actors.question_board import Answer, AnswerCheck
from agent_actors.actors.run_tree import RunNode
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, Notification, UserQuestion
from agent_actors.domain.json import copy_object
from agent_actors.domain.run import Question, RunInfo
from agent_actors.errors import ConfigError, HookError
from agent_actors.kernel.exceptions import stop_in
from agent_actors.kernel.interrupts import await_unprotected, call_unprotected
from agent_actors.options.agent_options import AgentOptions
from agent_actors.permissions import (
    Ask,
    CanUseTool,
    PermissionDecision,
    PermissionRequest,
    as_decision,
    read_answer,
)
from agent_actors.runtime.lifecycle import Actors
from agent_actors.tools import Tool
from agent_actors.tools.ask import asks_the_user

# People are slow: those who are asked in threads may not use up the threads of everybody else.
_UNBOUNDED: Final = trio.CapacityLimiter(math.inf)


class RunClock:
    """The deadlines of a run and of all around it, which stand still while a person is asked.

    Args:
        node: The run.
    """

    def __init__(self, node: RunNode) -> None:
        self._node = node

    def __enter__(self) -> None:
        self._node.stand_still()

    def __exit__(self, *_: object) -> None:
        self._node.go_on()


class RunAsking:
    """The questions of one run.

    Args:
        actors: Where people answer.
        options: The agent.
        info: Gives a snapshot of the run.
        wake: Called when there is something to record, or the run has nothing left but questions.
        clock: Stands still while a person is asked.
        answers: Answers that are there already, by the ids of the calls.

    Attributes:
        suspended: The questions that the run ends with.
    """

    def __init__(
        self,
        actors: Actors,
        options: AgentOptions,
        info: Callable[[], RunInfo],
        *,
        wake: Callable[[], None],
        clock: RunClock,
        answers: Mapping[str, Answer],
    ) -> None:
        self._actors = actors
        self._options = options
        self._info = info
        self._wake = wake
        self._clock = clock
        self._answers = dict(answers)
        self._drafts: list[EventBuilder] = []
        self.suspended: list[Question] = []

    def drafts(self) -> list[EventBuilder]:
        """What was asked since the last look, as records."""
        drafts, self._drafts = self._drafts, []
        return drafts

    def was_answered(self, call: ToolUseBlock, tool: Tool) -> bool:
        """Whether a person's word about this call is there already."""
        return call.id in self._answers and not asks_the_user(tool)

    async def permission(
        self,
        call: ToolUseBlock,
        tool: Tool,
        ask: Ask,
        check: Callable[[PermissionDecision], None],
    ) -> PermissionDecision:
        """Have somebody decide about a call.

        Args:
            call: The call.
            tool: Its tool.
            ask: The question.
            check: Refuses, by a `ConfigError`, a person's decision that does not fit the call: they
                are told, and the question stays open.

        Raises:
            HookError: `can_use_tool` failed.

        Cancellation: safe; the question is closed.
        """
        if call.id in self._answers:
            decision = _decision(self._answers.pop(call.id), ask)
            try:
                check(decision)
            except ConfigError as error:  # hooks have made another call of it than was asked about
                text = f"call {call.id!r} is asked about again, as its answer does not fit: {error}"
                self._drafts.append(partial(Notification, text=text, data={"tool_use_id": call.id}))
            else:
                return decision
        if self._options.can_use_tool is not None:
            decision = await self._can_use(self._options.can_use_tool, call, tool, ask)
            if decision.behavior != "ask":
                return decision
        answer = await self.question(
            call,
            ask.prompt,
            ask.choices,
            ask.reason,
            check=lambda answer: check(_decision(answer, ask)),
        )
        if answer is None:
            seconds = self._options.question_timeout
            return PermissionDecision("deny", reason=f"nobody answered within {seconds:g} s")
        return _decision(answer, ask)

    async def question(
        self,
        call: ToolUseBlock,
        prompt: str,
        choices: tuple[str, ...],
        reason: str = "",
        *,
        check: AnswerCheck | None = None,
    ) -> Answer | None:
        """Ask a person; None if nobody answered in time.

        Args:
            call: The call that waits.
            prompt: The question.
            choices: What may be answered.
            reason: Why it is asked.
            check: Given if it is about leave to run the call: refuses answers that do not fit it.

        Cancellation: safe; the question is closed. A run that suspends waits for nothing else.
        """
        if call.id in self._answers:
            return self._answers.pop(call.id)
        run = self._info()
        question = Question(
            self._actors.ids.new(),
            run.session_id,
            run.run_id,
            prompt,
            choices,
            call.id,
            call.name,
            copy_object(call.input),
            reason,
            self._actors.wall_clock(),
            check is not None,
        )
        self._drafts.append(
            partial(
                UserQuestion,
                question_id=question.id,
                prompt=prompt,
                choices=choices,
                tool_name=call.name,
                tool_input=question.tool_input,
                tool_use_id=call.id,
            )
        )
        if self._options.on_ask == "suspend":
            self.suspended.append(question)
            self._wake()
            await trio.sleep_forever()
        self._wake()
        with self._clock:
            return await self._actors.questions.ask(question, self._options.question_timeout, check)

    async def _can_use(
        self, can_use_tool: CanUseTool, call: ToolUseBlock, tool: Tool, ask: Ask
    ) -> PermissionDecision:
        run = self._info()
        shown = attrs.evolve(call, input=copy_object(call.input))
        request = PermissionRequest(shown, tool, ask, run.session_id, run.run_id)
        said: object = None
        try:
            with self._clock, trio.move_on_after(self._options.question_timeout) as scope:
                if _is_async(can_use_tool):
                    found = call_unprotected(can_use_tool, request)
                else:  # it may wait for a person, as `input` does
                    found = await trio.to_thread.run_sync(
                        can_use_tool, request, abandon_on_cancel=True, limiter=_UNBOUNDED
                    )
                if inspect.isawaitable(found):
                    said = await await_unprotected(_given, found)
                else:
                    said = found
            if scope.cancelled_caught:
                late = f"nobody answered within {self._options.question_timeout:g} s"
                return PermissionDecision("deny", reason=late)
            return as_decision(said)
        except trio.Cancelled:
            raise
        except BaseException as error:
            rest = self._actors.take_interrupt(error)
            stop = None if rest is None else stop_in(rest)
            if stop is not None:
                raise stop from None
            why = (
                "was interrupted by Ctrl-C"
                if rest is None
                else f"raised {type(rest).__name__}: {rest}"
            )
            raise HookError(why, hook="can_use_tool", phase="permission") from error


def _given(found: Awaitable[object]) -> Awaitable[object]:
    return found


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
    )


def _decision(answer: Answer, ask: Ask) -> PermissionDecision:
    if isinstance(answer, PermissionDecision):
        return answer
    return read_answer(answer, ask.choices, rule=ask.rule)
