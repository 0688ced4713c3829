"""Asks for permission in one run: first the agent's `can_use_tool` callback, then a person.

While a question is open, the deadlines of the run, its call and its ancestor runs are paused,
because the time that a person takes does not count against the agent. With `on_ask="suspend"`, the
run does not wait: it ends, and is later resumed with the answers.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, cast

import attrs
import trio

from agent_actors.actors.question_board import Answer, AnswerCheck
from agent_actors.actors.run_tree import current_call
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, Notification, UserQuestion
from agent_actors.domain.json import copy_object
from agent_actors.domain.run import Question
from agent_actors.errors import ConfigError, HookError
from agent_actors.kernel.exceptions import find_exit_request, is_cancellation
from agent_actors.kernel.interrupts import await_unprotected
from agent_actors.kernel.user_code import await_user_code, find_user_loop
from agent_actors.permissions import (
    Ask,
    CanUseTool,
    PermissionDecision,
    PermissionRequest,
    as_decision,
    read_answer,
)
from agent_actors.runs.context import RunContext
from agent_actors.runs.tools.deferred_calls import DeferredCalls
from agent_actors.tools import Tool
from agent_actors.tools.ask import asks_the_user

# People are slow, so callbacks that wait for people in threads must not use up the threads that
# other code needs.
# A run that is suspended inside a tool could not continue there. `current_call` is only set while a
# tool is running, so it is None for the model's own calls.
_CANNOT_SUSPEND: Final = (
    "the call needs approval, and a call that a tool makes cannot wait for it with on_ask='suspend'"
)
_UNBOUNDED: Final = trio.CapacityLimiter(math.inf)


class PermissionPrompter:
    """Asks the questions that arise in one run.

    Args:
        context: The context of the run.
        deferred: The deferred calls of the run.
        answers: Answers that are already known, by call id.
    """

    def __init__(
        self, context: RunContext, deferred: DeferredCalls, answers: Mapping[str, Answer]
    ) -> None:
        self._context = context
        self._options = context.options
        self._deferred = deferred
        self._answers = dict(answers)

    def was_answered(self, call: ToolUseBlock, tool: Tool) -> bool:
        """Return whether a person has already decided about this call."""
        return call.id in self._answers and not asks_the_user(tool)

    async def permission(
        self,
        call: ToolUseBlock,
        tool: Tool,
        ask: Ask,
        check: Callable[[PermissionDecision], None],
    ) -> PermissionDecision:
        """Get a decision about a call, by asking if necessary.

        A known answer is used first. Otherwise, `can_use_tool` is asked, and then, if it does not
        decide, a person.

        Args:
            call: The call.
            tool: The tool of the call.
            ask: The question.
            check: Raises `ConfigError` if a person's decision is not valid for the call. The person
                gets the error, and the question stays open.

        Raises:
            HookError: `can_use_tool` failed.

        Cancellation: safe; the question is closed.
        """
        if call.id in self._answers:
            decision = _decision(self._answers.pop(call.id), ask)
            try:
                check(decision)
            except ConfigError as error:  # hooks rewrote the call after the question had been asked
                text = (
                    f"the answer for call {call.id!r} is not valid, so a person is asked again: "
                    f"{error}"
                )
                self._context.note(partial(Notification, text=text, data={"tool_use_id": call.id}))
            else:
                return decision
        if self._options.can_use_tool is not None:
            question = self._question(call, ask.prompt, ask.choices, ask.reason, permission=True)
            await self._context.journal.append(_asked(question, by_function=True))
            decision = await self._can_use(self._options.can_use_tool, call, tool, ask)
            if decision.behavior != "ask":
                return decision
        if self._options.on_ask == "suspend" and current_call.get() is not None:
            return PermissionDecision("deny", reason=_CANNOT_SUSPEND)
        answer = await self.question(
            call,
            ask.prompt,
            ask.choices,
            ask.reason,
            check=lambda answer: check(_decision(answer, ask)),
        )
        if answer is None:
            seconds = self._options.question_timeout
            return PermissionDecision("deny", reason=f"no person answered within {seconds:g} s")
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
        """Ask a person, and return the answer; None if none arrived in time.

        Args:
            call: The call that waits for the answer.
            prompt: The question.
            choices: The possible answers; empty if any text is allowed.
            reason: The reason for the question.
            check: Raises an error for answers that are not valid for the call; only set if the
                question asks for permission to execute the call.

        Cancellation: safe; the question is closed. With `on_ask="suspend"` the method does not
        return: the run ends and leaves the question open.
        """
        if call.id in self._answers:
            return self._answers.pop(call.id)
        question = self._question(call, prompt, choices, reason, permission=check is not None)
        make_question = _asked(question)
        context = self._context
        if self._options.on_ask == "suspend":
            if current_call.get() is not None:
                return None
            context.note(make_question)  # the driver is woken and commits the question
            await self._deferred.defer_question(question)
        # Open the question before the event is shown, since its reader may answer immediately.
        board = context.services.questions
        with context.pause_deadlines(), board.opened(question, check) as opened:
            await context.journal.append(make_question)
            return await opened.wait(self._options.question_timeout)

    def _question(
        self,
        call: ToolUseBlock,
        prompt: str,
        choices: tuple[str, ...],
        reason: str,
        *,
        permission: bool,
    ) -> Question:
        services, node = self._context.services, self._context.node
        return Question(
            services.ids.new(),
            node.session_id,
            node.run_id,
            prompt,
            choices,
            call.id,
            call.name,
            copy_object(call.input),
            reason,
            services.wall_clock(),
            permission,
        )

    async def _can_use(
        self, can_use_tool: CanUseTool, call: ToolUseBlock, tool: Tool, ask: Ask
    ) -> PermissionDecision:
        node = self._context.node
        shown = attrs.evolve(call, input=copy_object(call.input))
        request = PermissionRequest(shown, tool, ask, node.session_id, node.run_id)
        answer: object = None
        try:
            with (
                self._context.pause_deadlines(),
                trio.move_on_after(self._options.question_timeout) as scope,
            ):
                answer = await _called(can_use_tool, request)
            if scope.cancelled_caught:
                late = f"can_use_tool did not decide within {self._options.question_timeout:g} s"
                return PermissionDecision("deny", reason=late)
            return as_decision(answer)
        except BaseException as error:
            if is_cancellation(error):
                raise
            rest = self._context.services.take_interrupt(error)
            stop = None if rest is None else find_exit_request(rest)
            if stop is not None:
                raise stop from None  # noqa: ASYNC104
            why = (
                "the callback was interrupted by Ctrl-C"
                if rest is None
                else f"the callback raised {type(rest).__name__}: {rest}"
            )
            raise HookError(why, hook="can_use_tool", phase="permission") from error  # noqa: ASYNC104


def _asked(question: Question, *, by_function: bool = False) -> EventBuilder:
    return partial(
        UserQuestion,
        question_id=question.id,
        prompt=question.prompt,
        choices=question.choices,
        tool_name=question.tool_name,
        tool_input=question.tool_input,
        tool_use_id=question.tool_use_id,
        reason=question.reason,
        permission=question.permission,
        by_function=by_function,
    )


async def _called(can_use_tool: CanUseTool, request: PermissionRequest) -> object:
    if _is_async(can_use_tool):
        decide = cast("Callable[[PermissionRequest], Awaitable[object]]", can_use_tool)
        return await await_user_code(decide, request)
    # A sync callback may wait for a person, for example with `input()`.
    found: object = await trio.to_thread.run_sync(
        can_use_tool, request, abandon_on_cancel=True, limiter=_UNBOUNDED
    )
    if not inspect.isawaitable(found):
        return found
    loop = find_user_loop(can_use_tool)
    if loop is not None:
        return await loop.call(_given, found)
    return await await_unprotected(_given, found)


def _given(found: Awaitable[object]) -> Awaitable[object]:
    return found


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async `__call__`
    )


def _decision(answer: Answer, ask: Ask) -> PermissionDecision:
    if isinstance(answer, PermissionDecision):
        return answer
    return read_answer(answer, ask.choices, rule=ask.rule)
