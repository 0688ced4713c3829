"""A session between its runs, as the small faces use it.

Here runs go on in it, and calls that a run left open get their results. The session is held only
for the length of one commit (`runtime/sessions/transaction.py`). No task is started here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import attrs

from agent_actors.client.tool_results import FaceRun
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, EventScope, ToolResult
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import RunInfo
from agent_actors.errors import PromptBlocked
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import UserInput
from agent_actors.run.hooks.run_hooks import HookedRun
from agent_actors.runtime.sessions.handle import SessionHandle
from agent_actors.runtime.stream import RunStream
from agent_actors.sessions import SessionState
from agent_actors.sessions.records import closing, replacing, seen_after
from agent_actors.tools.output import ToolOutput

StartFace: TypeAlias = Callable[[UserInput, AgentOptions, str, FaceRun], RunStream]


@attrs.frozen
class SessionView:
    """A session as it stands.

    Attributes:
        messages: The conversation, always valid.
        open_calls: Calls without a result, in the model's order.
        is_new: Whether nothing is on record.
    """

    messages: Messages
    open_calls: tuple[ToolUseBlock, ...]
    is_new: bool


def view_of(state: SessionState) -> SessionView:
    """A session as it stands."""
    # As hooks and people left them, where a run says so.
    calls = tuple(state.external.get(call.id, call) for call in state.open_calls)
    return SessionView(state.history(), calls, state.last_seq == 0)


@attrs.frozen(eq=False)
class FaceSession:
    """One session.

    Args:
        handle: Its state, and commits between its runs.
        start: Makes the stream of a run.
    """

    _handle: SessionHandle
    _start: StartFace

    @property
    def session_id(self) -> str:
        """The session."""
        return self._handle.session_id

    def stream(self, said: UserInput, options: AgentOptions, face: FaceRun) -> RunStream:
        """A run that goes on here; it begins where it is entered."""
        return self._start(said, options, self.session_id, face)

    def view(self) -> SessionView | None:
        """The session as it stands; None if it is not in memory."""
        state = self._handle.peek()
        return None if state is None else view_of(state)

    async def look(self) -> SessionView:
        """The session as it stands, read from the store if need be.

        Raises:
            SessionBusy: A run holds it, and the runtime's policy is `reject`.
            SessionStoreError: Its records cannot be read.

        Cancellation: safe.
        """
        return await self._commit(EventScope(self.session_id, "", ""), lambda _: [])

    async def answer(
        self,
        call: ToolUseBlock,
        output: ToolOutput,
        options: AgentOptions,
        face: FaceRun | None,
        replaces: Messages | None,
    ) -> SessionView:
        """Put a call's result on record, once the `after_tool` hooks have seen it.

        Args:
            call: The call, with the arguments that it was handed out with.
            output: What it came to.
            options: The agent.
            face: The run that left it open; None: one before this session was opened here.
            replaces: A conversation that is to take the session's place before; None: none.

        Raises:
            HookError: A hook failed; nothing is on record.
            PromptBlocked: A hook stopped the run; the result is on record.
            SessionBusy, SessionStoreError: As `look`; nothing is known to be on record.

        Cancellation: nothing is on record then.
        """
        run_id = face.run_id if face else self._handle.ids.new()
        request_id = face.request_id if face else run_id
        hooked = face.hooked if face else None
        chain = options.hook_chain
        if hooked is None and chain:
            info = RunInfo(self.session_id, run_id, request_id, 0, self._handle.wall_clock())
            hooked = HookedRun(chain, options, lambda: info)
        beside: list[EventBuilder] = []
        if hooked is not None:
            seen = self.view()
            messages = Messages() if seen is None else seen.messages
            output = await hooked.ring.after_tool(call, output, messages)
            beside = hooked.drafts()
        now = self._handle.wall_clock()
        result: EventBuilder = partial(
            ToolResult,
            tool_use_id=call.id,
            name=call.name,
            content=output.content,
            is_error=output.is_error,
            data=output.data,
            completed_at=now,
        )

        def drafts(state: SessionState) -> list[EventBuilder]:
            first = [] if replaces is None else replacing(state, replaces)
            return [*first, *beside, result]

        scope = EventScope(self.session_id, run_id, request_id, agent_name=options.agent_name)
        view = await self._commit(scope, drafts)
        if hooked is not None and hooked.blocked is not None:
            raise PromptBlocked(hooked.blocked.reason or hooked.blocked.why)
        return view

    async def close_calls(self, why: str, replaces: Messages | None) -> SessionView:
        """Answer every open call in the caller's place.

        Raises:
            SessionBusy, SessionStoreError: As `look`.

        Cancellation: safe.
        """

        def drafts(state: SessionState) -> list[EventBuilder]:
            first: list[EventBuilder] = []
            if replaces is not None:
                first, state = replacing(state, replaces), seen_after(replaces)
            return [*first, *(closing(call, why) for call in state.open_calls)]

        run_id = self._handle.ids.new()
        return await self._commit(EventScope(self.session_id, run_id, run_id), drafts)

    async def _commit(
        self, scope: EventScope, make: Callable[[SessionState], Sequence[EventBuilder]]
    ) -> SessionView:
        return view_of(await self._handle.commit(scope, make))
