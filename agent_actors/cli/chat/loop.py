"""The loop of a chat: read input, execute it, and show the result, until the user leaves.

`Chat` owns the session and the settings that can change: the model, and whether thinking is shown.
`commands.py` parses the input, and `turn.py` runs a turn. An error while executing an input does
not end the chat, unless the output was closed.
"""

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final, assert_never

import attrs

from agent_actors import AgentOptions, Runtime, Tool, __version__
from agent_actors.abc import SessionStore
from agent_actors.cli.chat.commands import (
    Command,
    Mistake,
    Name,
    Nothing,
    Say,
    count_of,
    help_lines,
    parse,
    rewind_of,
    switch_of,
)
from agent_actors.cli.chat.formatting import context_lines, on_one_line, usage_text
from agent_actors.cli.chat.input_result import Interrupted, Typed
from agent_actors.cli.chat.messages import ChatMessage, ChatUI
from agent_actors.cli.chat.transcript import (
    SessionTranscript,
    as_markdown,
    read_transcript,
    transcript_messages,
)
from agent_actors.cli.chat.turn import ChatTurn
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.outcome import FAILED
from agent_actors.cli.rewind_report import rewind_lines
from agent_actors.cli.safe_text import safe_json
from agent_actors.codec.openai_messages import messages_to_openai
from agent_actors.domain.messages import Messages
from agent_actors.errors import AgentError, ConfigError
from agent_actors.options.workspace_config import WorkspaceConfig
from agent_actors.permissions.modes import MODES, effect_of

_LEAVES: Final = "press Ctrl-C again to leave"
_NOTHING_YET: Final = "the conversation is empty"
# Maximum number of characters of an abbreviated prompt or tool description.
_GLANCE: Final = 60


@attrs.frozen(kw_only=True)
class ChatPlan:
    """The settings of a chat.

    Attributes:
        options: The agent.
        store: The store of its session.
        stored: Whether the session outlives the chat.
        store_path: The path of the store, as given; empty: the default store, or none.
        session_id: The session to continue or to create; None: a new one.
        thinking: Whether to display thinking.
        previews: The diffs of calls that write files; its hook is among the options.
    """

    options: AgentOptions
    store: SessionStore
    stored: bool = False
    store_path: str = ""
    session_id: str | None = None
    thinking: bool = False
    previews: EditPreviews = attrs.field(factory=lambda: EditPreviews(None))


class Chat:
    """One chat.

    Args:
        plan: The settings.
        runtime: A runtime that uses the plan's store.
        ui: The user interface.
        on_give_up: Called if the user has pressed Ctrl-C repeatedly and the turn still has not
            ended.
    """

    def __init__(
        self, plan: ChatPlan, runtime: Runtime, ui: ChatUI, on_give_up: Callable[[], None]
    ) -> None:
        self._plan = plan
        self._runtime = runtime
        self._ui = ui
        self._on_give_up = on_give_up
        self._session_id = plan.session_id
        self._model = plan.options.model
        self._thinking = plan.thinking
        self._turn: ChatTurn | None = None
        # True after Ctrl-C, so that the next Ctrl-C leaves the chat.
        self._leaving = False
        self._default = ""
        self._failed = False

    async def run(self) -> int:
        """Run the chat until the user leaves.

        Returns:
            The exit status: 1 if an error occurred and no person was present to see it.

        Raises:
            SessionError: The session cannot be opened.
            OSError: The output was closed.

        Cancellation: safe; the current turn ends cleanly.
        """
        await self._greet()
        while True:
            default, self._default = self._default, ""
            reading = await self._ui.read(default)
            match reading:
                case Typed(text):
                    self._leaving = False
                    if not await self._do(text):
                        break
                case Interrupted(dropped=dropped):
                    if self._leaving and not dropped:
                        break
                    self._leaving = not dropped
                    if self._leaving:
                        await self._note(_LEAVES)
                case _:
                    break
        await self._part()
        return FAILED if self._failed and not self._ui.can_ask else 0

    def interrupt(self) -> bool:
        """Handle Ctrl-C from a signal.

        Returns:
            False if Ctrl-C should end the program.
        """
        if not self._ui.can_ask:
            return False  # no person can continue the chat
        if self._turn is None:
            return self._ui.interrupt()
        if self._ui.interrupt():
            return True  # a question is open, and its reader interrupts the turn
        if self._turn.press() == "gives_up":
            self._on_give_up()
        return True

    # Input.

    async def _do(self, text: str) -> bool:
        """Execute a line of input; return False if the user leaves."""
        line = parse(text)
        match line:
            case Say(said):
                await self._run_turn(said)
            case Command():
                try:
                    await self._carry_out(line)
                except AgentError as error:
                    await self._mistake(str(error))
                return line.name is not Name.QUIT
            case Mistake(message):
                await self._mistake(message)
            case Nothing():
                pass
            case _:
                assert_never(line)
        return True

    async def _run_turn(self, text: str) -> None:
        turn = self._turn = ChatTurn(self._runtime, self._ui, self._plan.previews)
        try:
            outcome = await turn.run(
                text,
                self._plan.options,
                session_id=self._session_id,
                model=self._model,
                thinking=self._thinking,
            )
        finally:
            self._turn = None
        self._session_id = outcome.session_id
        self._leaving = outcome.interrupted
        self._failed = self._failed or outcome.failed

    async def _carry_out(self, command: Command) -> None:
        argument = command.argument
        match command.name:
            case Name.HELP:
                await self._help()
            case Name.MODEL:
                await self._show_model(argument)
            case Name.TOOLS:
                await self._show_tools()
            case Name.HISTORY:
                await self._show_history(argument)
            case Name.TOKENS:
                await self._show_tokens()
            case Name.CONTEXT:
                await self._show_context()
            case Name.COMPACT:
                await self._compact(argument)
            case Name.THINKING:
                await self._switch_thinking(argument)
            case Name.REWIND:
                await self._rewind(argument)
            case Name.SAVE:
                await self._save(argument)
            case Name.QUIT:
                pass
            case _:
                assert_never(command.name)

    # The commands.

    async def _help(self) -> None:
        rows = help_lines()
        wide = max(len(usage) for usage, _ in rows)
        await self._ui.write(*(ChatMessage(f"{usage:{wide}}  {about}") for usage, about in rows))
        if self._ui.can_ask:
            await self._note(
                "Enter sends; Ctrl-J, Alt-Enter or a backslash before Enter starts a new line; "
                "Ctrl-C interrupts a response"
            )

    async def _show_model(self, argument: str) -> None:
        if argument:
            self._model = argument
        await self._ui.write(ChatMessage(f"model: {self._model}"))

    async def _show_tools(self) -> None:
        options = self._plan.options
        tools = (*options.tools, *_builtin_tools(options))
        if not tools:
            await self._note("the model has no tools; add some with --tools or --demo-tools")
            return
        for tool in tools:
            does = effect_of(tool)
            rule = "" if options.permissions is None else MODES[options.permissions.mode][does]
            note = {"ask": ", asks first", "deny": ", refused"}.get(rule, "")
            about = on_one_line(tool.description, _GLANCE)
            await self._ui.write(ChatMessage(f"{tool.name}: {about} ({does}{note})"))

    async def _show_history(self, argument: str) -> None:
        most = count_of(argument, 0)
        if isinstance(most, Mistake):
            await self._mistake(f"/history: {most.message}")
            return
        seen = await self._read_transcript()
        lines = list(transcript_messages(seen.state.history(), most or None))
        await self._ui.write(*(lines or [ChatMessage(_NOTHING_YET, "dim")]))

    async def _show_tokens(self) -> None:
        state = (await self._read_transcript()).state
        calls = f"{state.requests:,} requests, {state.tool_calls:,} tool calls"
        await self._ui.write(ChatMessage(f"this session: {usage_text(state.usage)}; {calls}"))

    async def _show_context(self) -> None:
        if self._session_id is None:
            await self._note(_NOTHING_YET)
            return
        size = await self._runtime.sessions.context(self._session_id, self._options)
        await self._ui.write(*(ChatMessage(line) for line in context_lines(size)))

    async def _compact(self, argument: str) -> None:
        if self._session_id is None:
            await self._note(_NOTHING_YET)
            return
        report = await self._runtime.sessions.compact(
            self._session_id, self._options, instructions=argument
        )
        if report is None:
            await self._note("the conversation is too short to replace messages by a summary")
            return
        await self._note(
            f"a summary replaces {report.replaced_messages:,} messages: about "
            f"{report.tokens_before:,} tokens before, {report.tokens_after:,} after"
        )

    async def _switch_thinking(self, argument: str) -> None:
        switched = switch_of(argument, now=self._thinking)
        if isinstance(switched, Mistake):
            await self._mistake(f"/thinking: {switched.message}")
            return
        self._thinking = switched
        await self._ui.write(ChatMessage(f"thinking is {'shown' if switched else 'hidden'}"))

    async def _rewind(self, argument: str) -> None:
        wanted = rewind_of(argument)
        if isinstance(wanted, Mistake):
            await self._mistake(f"/rewind: {wanted.message}")
            return
        count = wanted.count
        prompts = (await self._read_transcript()).prompts
        if count > len(prompts):
            have = f"there are only {len(prompts)}" if prompts else _NOTHING_YET
            await self._mistake(f"/rewind: cannot remove {count} prompts; {have}")
            return
        back = prompts[-count]
        assert back.seq is not None
        assert self._session_id is not None
        to_seq = back.seq - 1
        if wanted.files:
            await self._rewind_files(self._session_id, to_seq, dry_run=wanted.dry_run)
        else:
            await self._runtime.sessions.rewind(self._session_id, to_seq)
        if wanted.dry_run:
            return
        self._default = back.text
        await self._note(f"rewound to before: {on_one_line(back.text, _GLANCE)}")

    async def _rewind_files(self, session_id: str, to_seq: int, *, dry_run: bool) -> None:
        options = self._plan.options
        source = options.workspace
        if options.checkpoints is None or not isinstance(source, WorkspaceConfig):
            raise ConfigError("/rewind: files can be restored in a chat with --workspace only")
        rewound = await self._runtime.sessions.rewind(
            session_id,
            to_seq,
            files=True,
            dry_run=dry_run,
            workspace={"type": source.type, **source.settings},
            checkpoints=options.checkpoints,
        )
        await self._ui.write(*(ChatMessage(line) for line in rewind_lines(rewound)))

    async def _save(self, argument: str) -> None:
        messages = (await self._read_transcript()).state.history()
        if not messages:
            await self._mistake(f"/save: {_NOTHING_YET}")
            return
        try:
            written = _save(messages, argument)
        except ConfigError as error:
            await self._mistake(f"/save: {error}")
            return
        except OSError as error:
            await self._mistake(f"/save: {argument}: {error.strerror or error}")
            return
        await self._note(f"{len(messages):,} messages written to {written}")

    # The session.

    @property
    def _options(self) -> AgentOptions:
        return self._plan.options.evolve(model=self._model)

    async def _read_transcript(self) -> SessionTranscript:
        if self._session_id is None:
            return read_transcript(())
        return read_transcript(await self._plan.store.export(self._session_id))

    async def _greet(self) -> None:
        seen = await self._read_transcript()
        if not self._ui.can_ask:
            return
        await self._note(f"agent-actors {__version__}, {self._model}; /help shows the commands")
        if self._plan.session_id is None:
            return
        messages = seen.state.history()
        if not messages:
            await self._note(f"new session {self._plan.session_id}")
            return
        await self._note(f"continuing session {self._plan.session_id}, {len(messages):,} messages")
        if seen.prompts:
            await self._note(f"last prompt: {on_one_line(seen.prompts[-1].text, _GLANCE)}")

    async def _part(self) -> None:
        plan = self._plan
        if self._session_id is None or not self._ui.can_ask:
            return
        if not plan.stored:
            await self._note("the conversation was not stored: the default store cannot be written")
            return
        again = shlex.join(["--session", self._session_id])
        if plan.store_path:
            again += f" --store {shlex.quote(plan.store_path)}"
        await self._note(f"to continue: agent-actors chat {again}")

    async def _note(self, text: str) -> None:
        await self._ui.write(ChatMessage(text, "dim"))

    async def _mistake(self, message: str) -> None:
        self._failed = True
        await self._ui.write(ChatMessage(message, "error"))


def _builtin_tools(options: AgentOptions) -> tuple[Tool, ...]:
    if not options.builtin_tools:
        return ()
    # Imported here, because most chats do not need these tools.
    from agent_actors.toolbox.presets import select  # noqa: PLC0415

    return select(options.builtin_tools)


def _save(messages: Messages, name: str) -> Path:
    """Write a conversation to a new file.

    Raises:
        ConfigError: The file name has no supported extension.
        OSError: The file exists or cannot be written.
    """
    path = Path(os.path.expanduser(name))  # noqa: PTH111 - an unknown home directory stays unchanged
    if path.suffix == ".json":
        written = json.dumps(messages_to_openai(messages), ensure_ascii=False, indent=2)
        text = safe_json(written) + "\n"
    elif path.suffix == ".md":
        text = as_markdown(messages)
    else:
        raise ConfigError("the file name must end with .md or .json")
    # Replace lone surrogates, which a model may have sent.
    with path.open("x", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return path
