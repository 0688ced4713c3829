"""The tools of one run: which are on offer, what stands around their calls, and who is asked."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs

from agent_actors.actors.question_board import Answer
from agent_actors.actors.tool_executor import ToolGuard
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, Notification
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ToolSpec
from agent_actors.domain.run import Question, RunInfo
from agent_actors.hooks.phases import Phase
from agent_actors.permissions import (
    DecisionContext,
    PermissionDecision,
    PermissionMode,
    PermissionPolicy,
)
from agent_actors.run.hooks.run_hooks import Blocked, HookedRun
from agent_actors.run.spec import RunSpec
from agent_actors.run.tools.ancestor_hooks import HooksAbove, hooks_above, stand_above
from agent_actors.run.tools.external_tools import ExternalGuard
from agent_actors.run.tools.permission_prompts import RunAsking, RunClock
from agent_actors.run.tools.tool_guard import RunGuard, check_memory
from agent_actors.runtime.lifecycle import Actors
from agent_actors.tools import Tool
from agent_actors.tools.ask import asks_the_user


@attrs.define(eq=False)
class Toolset:
    """What one run may call.

    Args:
        actors: Where people answer, and what was decided is kept.
        spec: The run.
        hooked: The run's hooks; None: none.
        policy: What calls may do; None: anything.

    Attributes:
        answers: Answers that are there before they are asked for, by the ids of the calls.
        external: Calls that the run leaves to its caller, as they were admitted, by id.
    """

    _actors: Actors
    _spec: RunSpec
    _hooked: HookedRun | None
    _policy: PermissionPolicy | None
    answers: Mapping[str, Answer] = attrs.field(factory=dict[str, Answer], init=False)
    external: dict[str, ToolUseBlock] = attrs.field(factory=dict[str, ToolUseBlock], init=False)
    # Made with the first call: most runs ask nobody.
    _asking: RunAsking | None = attrs.field(default=None, init=False)
    _above: HooksAbove | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._above = hooks_above(self._spec.node)
        stand_above(self._spec.node, self._hooked)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools on offer, by name."""
        tools = self._spec.options.tools_by_name if self._hooked is None else self._hooked.tools
        if self._policy is None:
            return tools
        return {tool.name: tool for tool in self._policy.offered(tools.values())}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of them."""
        if self._hooked is None and self._policy is None:
            return self._spec.options.tool_specs
        return tuple(tool.spec for tool in self.tools.values())

    def check_answers(self, calls: Sequence[ToolUseBlock]) -> None:
        """Refuse answers that do not fit the calls that they are about.

        Where hooks may rewrite a call it is seen only later which one that is: a person is then
        asked again.

        Raises:
            ConfigError: A decision cannot be remembered as it says.
        """
        if self._hooked is not None and self._hooked.ring.takes_part(Phase.BEFORE_TOOL):
            return
        node, tools = self._spec.node, self._spec.options.tools_by_name
        situation = DecisionContext(self._spec.options.cwd, node.session_id)
        for call in calls:
            answer, tool = self.answers.get(call.id), tools.get(call.name)
            if isinstance(answer, PermissionDecision) and tool is not None:
                check_memory(answer, call, tool, situation)

    @property
    def blocked(self) -> Blocked | None:
        """What a hook of a tool call, its own or of a run around it, ended the run with."""
        blocked = None if self._hooked is None else self._hooked.blocked
        return blocked if blocked is not None or self._above is None else self._above.blocked

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions for whose answers the run does not wait."""
        return () if self._asking is None else tuple(self._asking.suspended)

    def drafts(self) -> list[EventBuilder]:
        """What was asked, or is worth a line, since the last look, as records."""
        drafts = [] if self._above is None else self._above.drafts()
        return drafts if self._asking is None else [*drafts, *self._asking.drafts()]

    def notices(self) -> list[EventBuilder]:
        """What is worth a line of how the run began; hooks have registered their tools by then."""
        if self._policy is None or self._spec.tool_whitelist is None:
            return []
        tools = self._spec.options.tools_by_name if self._hooked is None else self._hooked.tools
        return [
            partial(
                Notification,
                text=f"no tool of this agent is named {name!r}; the whitelist adds none",
                data={"tool": name},
            )
            for name in self._policy.unknown(tools.values(), self._spec.tool_whitelist)
        ]

    def guard(
        self,
        info: Callable[[], RunInfo],
        messages: Callable[[], Messages],
        *,
        wake: Callable[[], None],
        clock: RunClock,
    ) -> ToolGuard | None:
        """What stands around the calls; None if nothing does.

        Args:
            info: Gives a snapshot of the run.
            messages: Gives the conversation so far.
            wake: Called when a question was asked, or a call was put down for the caller.
            clock: Stands still while a person is asked.
        """
        guard = self._inner_guard(info, messages, wake=wake, clock=clock)
        face = self._spec.face
        if face is not None and face.hands_out:
            return guard  # all calls are the caller's there
        if any(tool.external for tool in self.tools.values()):
            return ExternalGuard(guard, self.external, wake)
        return guard

    def _inner_guard(
        self,
        info: Callable[[], RunInfo],
        messages: Callable[[], Messages],
        *,
        wake: Callable[[], None],
        clock: RunClock,
    ) -> RunGuard | None:
        policy = self._policy
        if policy is None and self.answers:  # an agent without a policy is told no all the same
            policy = PermissionPolicy(mode=PermissionMode.BYPASS)
        asks = any(map(asks_the_user, self.tools.values()))
        if self._hooked is None and self._above is None and policy is None and not asks:
            return None
        self._asking = RunAsking(
            self._actors, self._spec.options, info, wake=wake, clock=clock, answers=self.answers
        )
        return RunGuard(
            self._hooked,
            self._above,
            policy,
            self._asking,
            self._actors.memory,
            self._spec.node.session_id,
            self._spec.options.cwd,
            messages,
        )
