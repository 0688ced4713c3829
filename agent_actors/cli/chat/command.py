"""`agent-actors chat`: prepare the chat, run it, and handle signals.

Ctrl-C goes to the chat, which interrupts the current turn. SIGTERM and SIGHUP end the chat cleanly:
the turn is committed, and the terminal's modes are restored.
"""

import math
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.cli.chat.loop import Chat, ChatPlan
from agent_actors.cli.chat.messages import ChatUI
from agent_actors.cli.chat.plain_view import PlainUI
from agent_actors.cli.chat.terminal.modes import modes_kept, restorer, silent_typing
from agent_actors.cli.chat.tools import demo_tools
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.outcome import interrupted, reject, status_of
from agent_actors.cli.streams import Output
from agent_actors.cli.workspace_choice import choose_tools
from agent_actors.errors import ConfigError
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.permissions import (
    PermissionDecision,
    PermissionMode,
    PermissionPolicy,
    PermissionRequest,
)
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.opening import open_store

# As in shells, the exit status after a signal is 128 plus the signal's number.
_SIGNALLED: Final = 128
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
# Values of TERM for terminals that cannot move the cursor.
_DUMB: Final = frozenset({"", "dumb", "unknown"})


@attrs.frozen(kw_only=True)
class ChatArguments:
    """The arguments of the command; see its help."""

    provider: str | None
    base_url: str
    model: str
    system: str
    api_key: str
    api_key_header: str | None
    max_tokens: int | None
    temperature: float | None
    tools: tuple[str, ...]
    workspace: str = ""
    unconfined: bool = False
    checkpoints: str = ""
    demo_tools: bool
    permissions: PermissionMode
    session: str | None
    store: str
    show_thinking: bool


def make_plan(arguments: ChatArguments) -> ChatPlan:
    """Return the plan for a chat.

    Raises:
        ConfigError: An argument is not valid.
    """
    chosen = choose_tools(arguments.tools, arguments.workspace, unconfined=arguments.unconfined)
    if chosen.note:
        sys.stderr.write(f"note: {chosen.note}\n")
    previews = EditPreviews(chosen.root)
    tools = [*chosen.tools, *(demo_tools() if arguments.demo_tools else ())]
    options = AgentOptions(
        model=arguments.model,
        base_url=arguments.base_url,
        provider=arguments.provider,
        system_prompt=arguments.system,
        api_key=arguments.api_key,
        api_key_header=arguments.api_key_header,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        tools=tuple(tools),
        builtin_tools=chosen.builtin_tools,
        workspace=chosen.workspace,
        hooks=previews.hooks,
        checkpoints=_checkpoints(arguments),
        permissions=PermissionPolicy(mode=arguments.permissions),
        can_use_tool=_ask_the_person,
        # Questions have no time limit, because the user is present and can press Ctrl-C.
        question_timeout=math.inf,
    )
    path = arguments.store or _default_store(arguments.session)
    return ChatPlan(
        options=options,
        store=open_store(path) if path else MemoryStore(),
        stored=bool(path),
        store_path=arguments.store,
        session_id=arguments.session,
        thinking=arguments.show_thinking,
        previews=previews,
    )


def _checkpoints(arguments: ChatArguments) -> Checkpoints | None:
    """Return the checkpoints of the workspace; None without a workspace.

    A script must ask for checkpoints.
    """
    if arguments.checkpoints and not arguments.workspace:
        raise ConfigError("--checkpoints requires --workspace DIRECTORY")
    if not arguments.workspace or not (arguments.checkpoints or sys.stdin.isatty()):
        return None
    return Checkpoints(directory=Path(arguments.checkpoints) if arguments.checkpoints else None)


def _default_store(session: str | None) -> str:
    """Return the path of the user's default store; empty if the chat is not stored.

    Users should not lose a conversation, however the chat ends. A script must ask for a store.
    """
    if session is None and not sys.stdin.isatty():
        return ""
    # Imported here because the module loads the editor's library, which scripts do not need.
    from agent_actors.cli.chat.user_files import STORE, user_file  # noqa: PLC0415

    path = user_file(STORE)
    if path is None and session is not None:
        raise ConfigError(
            "--session requires a store, and the default store cannot be written; pass --store PATH"
        )
    return str(path or "")


async def _ask_the_person(request: PermissionRequest) -> PermissionDecision:  # noqa: ASYNC124
    # A policy that asks for approval requires a handler, which shows that a person can answer. This
    # handler passes every question on to the chat.
    del request
    return PermissionDecision("ask")


async def run_chat(arguments: ChatArguments, *, plain: bool) -> int:
    """Run a chat on the standard streams.

    Args:
        arguments: The arguments of the command.
        plain: Use no colours and no cursor movement, even at a terminal.

    Returns:
        The exit status: 0; 1 if the work failed; 2 after incorrect usage; 130 if Ctrl-C ended the
        chat; 128 plus the number of another signal that ended it.

    Cancellation: safe; the current turn ends cleanly.
    """
    try:
        plan = make_plan(arguments)
    except ConfigError as error:
        return reject(error)
    running = _RunningChat(plan)
    # Shells make background programs ignore Ctrl-C; such signals stay ignored.
    watched = [one for one in (signal.SIGINT, *_ENDING) if signal.getsignal(one) != signal.SIG_IGN]
    status: int | None = None
    plain = plain or not _is_capable_terminal()
    modes = modes_kept() if plain else silent_typing()
    with modes as typed, trio.open_signal_receiver(*watched) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.watch_signals, signals, nursery.cancel_scope)
            ui = PlainUI(plan.previews) if plain else _rich_ui(typed or "", plan.previews)
            status = await status_of(lambda: running.run(ui))
            nursery.cancel_scope.cancel("the chat has ended")
    if running.ended_by == signal.SIGINT:
        return interrupted()
    if running.ended_by is not None:
        return _SIGNALLED + running.ended_by
    assert status is not None
    return status


class _RunningChat:
    """A chat and its signal handling."""

    def __init__(self, plan: ChatPlan) -> None:
        self._plan = plan
        self._chat: Chat | None = None
        self._restore = restorer()
        self.ended_by: int | None = None

    async def run(self, ui: ChatUI) -> int:
        # A session in memory must not be evicted while the user thinks.
        async with (
            self._plan.previews,
            open_runtime(store=self._plan.store, session_ttl=math.inf) as runtime,
        ):
            self._chat = Chat(self._plan, runtime, ui, self._end_at_once)
            return await self._chat.run()

    async def watch_signals(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for number in signals:
            ctrl_c = number == signal.SIGINT
            if ctrl_c and self._chat is not None and self._chat.interrupt():
                continue
            self.ended_by = number
            scope.cancel("Ctrl-C" if ctrl_c else "ended by a signal")

    def _end_at_once(self) -> None:
        # The turn has not ended, so kill the process.
        self._restore()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _is_capable_terminal() -> bool:
    terminals = sys.stdin.isatty() and sys.stdout.isatty()
    return terminals and os.environ.get("TERM", "") not in _DUMB


def _rich_ui(typed: str, previews: EditPreviews) -> ChatUI:
    # Importing the editor is slow, and a chat through pipes does not need it.
    from agent_actors.cli.chat.terminal.editor import Editor  # noqa: PLC0415 - see above
    from agent_actors.cli.chat.terminal.rich_view import RichUI, make_console  # noqa: PLC0415
    from agent_actors.cli.chat.terminal.screen import Screen, terminal_size  # noqa: PLC0415
    from agent_actors.cli.chat.user_files import HISTORY, InputHistory, user_file  # noqa: PLC0415

    size = partial(terminal_size, sys.stdout.fileno())
    screen = Screen(make_console(), Output(sys.stdout), size)
    return RichUI(screen, Editor(InputHistory(user_file(HISTORY)), typed), previews)
