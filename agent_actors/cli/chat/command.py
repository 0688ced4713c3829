"""`agent-actors chat`: what is made before the loop begins, and that all of it is put away again.

Owns the signals. Ctrl-C belongs to the chat, which interrupts what is under way. What ends a
program from outside (a closed terminal, `kill`) ends the chat in order: the turn is committed, the
terminal has its modes of before.
"""

import math
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import attrs
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.cli.chat.loop import Chat, ChatPlan
from agent_actors.cli.chat.messages import Face
from agent_actors.cli.chat.plain_view import PlainFace
from agent_actors.cli.chat.terminal.modes import modes_kept, restorer, silent_typing
from agent_actors.cli.chat.tools import demo_tools, load_tools
from agent_actors.cli.outcome import MISUSED, fail, interrupted, status_of
from agent_actors.cli.streams import Output
from agent_actors.errors import ConfigError
from agent_actors.permissions import (
    PermissionDecision,
    PermissionMode,
    PermissionPolicy,
    PermissionRequest,
)
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.opening import open_store

# As shells name what a signal ended: 128 and its number.
_SIGNALLED: Final = 128
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
# Terminals that cannot move their cursor.
_DUMB: Final = frozenset({"", "dumb", "unknown"})


@attrs.frozen(kw_only=True)
class Wanted:
    """What the command was given; see its help."""

    provider: str | None
    base_url: str
    model: str
    system: str
    api_key: str
    api_key_header: str | None
    max_tokens: int | None
    temperature: float | None
    tools: tuple[str, ...]
    demo_tools: bool
    permissions: PermissionMode
    session: str | None
    store: str
    show_thinking: bool


def planned(wanted: Wanted) -> ChatPlan:
    """What a chat is begun with.

    Raises:
        ConfigError: Naming what cannot work.
    """
    tools = [*load_tools(wanted.tools), *(demo_tools() if wanted.demo_tools else ())]
    options = AgentOptions(
        model=wanted.model,
        base_url=wanted.base_url,
        provider=wanted.provider,
        system_prompt=wanted.system,
        api_key=wanted.api_key,
        api_key_header=wanted.api_key_header,
        max_tokens=wanted.max_tokens,
        temperature=wanted.temperature,
        tools=tuple(tools),
        permissions=PermissionPolicy(mode=wanted.permissions),
        can_use_tool=_ask_the_person,
        # Somebody sits there; Ctrl-C is the way out.
        question_timeout=math.inf,
    )
    return ChatPlan(
        options=options,
        store=open_store(wanted.store) if wanted.store else MemoryStore(),
        store_path=wanted.store,
        session_id=wanted.session,
        thinking=wanted.show_thinking,
    )


async def _ask_the_person(request: PermissionRequest) -> PermissionDecision:  # noqa: ASYNC124
    # A policy that asks about everything wants to know that there is somebody.
    del request
    return PermissionDecision("ask")


async def chat_as(wanted: Wanted, *, plain: bool) -> int:
    """Hold a chat on the standard streams.

    Args:
        wanted: What the command was given.
        plain: Without colours and cursor movement, whatever the streams are.

    Returns:
        The exit status: 0; 1 if the work failed; 2 if it was called wrongly; 130 after a Ctrl-C
        that ended it; 128 and the number of another signal that did.

    Cancellation: safe; a turn is ended in order.
    """
    try:
        plan = planned(wanted)
    except ConfigError as error:
        return fail(str(error).removeprefix("AgentOptions: "), MISUSED)
    held = _Held(plan)
    # A shell that starts a program in the background has it ignore Ctrl-C.
    heeded = [one for one in (signal.SIGINT, *_ENDING) if signal.getsignal(one) != signal.SIG_IGN]
    status: int | None = None
    plain = plain or not _has_powers()
    modes = modes_kept() if plain else silent_typing()
    with modes, trio.open_signal_receiver(*heeded) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(held.heed, signals, nursery.cancel_scope)
            face = PlainFace() if plain else _rich_face()
            status = await status_of(lambda: held.hold(face))
            nursery.cancel_scope.cancel("the chat has ended")
    if held.ended_by == signal.SIGINT:
        return interrupted()
    if held.ended_by is not None:
        return _SIGNALLED + held.ended_by
    assert status is not None
    return status


class _Held:
    """A chat, and what signals do to it."""

    def __init__(self, plan: ChatPlan) -> None:
        self._plan = plan
        self._chat: Chat | None = None
        self._restore = restorer()
        self.ended_by: int | None = None

    async def hold(self, face: Face) -> int:
        # A session that nobody wrote down must not go from memory while somebody thinks.
        async with open_runtime(store=self._plan.store, session_ttl=math.inf) as runtime:
            self._chat = Chat(self._plan, runtime, face, self._end_at_once)
            return await self._chat.hold()

    async def heed(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for number in signals:
            ctrl_c = number == signal.SIGINT
            if ctrl_c and self._chat is not None and self._chat.interrupt():
                continue
            self.ended_by = number
            scope.cancel("Ctrl-C" if ctrl_c else "ended by a signal")

    def _end_at_once(self) -> None:
        # Something does not end: the way out that needs nobody's help.
        self._restore()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _has_powers() -> bool:
    terminals = sys.stdin.isatty() and sys.stdout.isatty()
    return terminals and os.environ.get("TERM", "") not in _DUMB


def _rich_face() -> Face:
    # The editor loads slowly, and pipes need none.
    from agent_actors.cli.chat.input_history import InputHistory, history_path  # noqa: PLC0415
    from agent_actors.cli.chat.terminal.editor import Editor  # noqa: PLC0415 - see above
    from agent_actors.cli.chat.terminal.rich_view import RichFace, make_console  # noqa: PLC0415
    from agent_actors.cli.chat.terminal.screen import Screen, terminal_size  # noqa: PLC0415

    size = partial(terminal_size, sys.stdout.fileno())
    screen = Screen(make_console(), Output(sys.stdout), size)
    return RichFace(screen, Editor(InputHistory(history_path())))
