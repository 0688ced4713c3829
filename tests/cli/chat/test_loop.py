"""The chat loop, with a fake user interface."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

from agent_actors import AgentOptions, Tool, ToolResultBlock, open_runtime, tool
from agent_actors.cli.chat.input_result import End, InputResult, Interrupted, Typed
from agent_actors.cli.chat.loop import Chat, ChatPlan
from agent_actors.cli.chat.messages import ChatMessage
from agent_actors.cli.chat.tools import demo_tools
from agent_actors.domain.events import AnyEvent
from agent_actors.errors import SessionStoreError
from agent_actors.permissions import PermissionPolicy
from agent_actors.runtime.runtime import find_open_runtime
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, hang, say
from agent_actors.tools.ask import ask_user_question


@attrs.define(eq=False)
class FakeUI:
    """A user interface that reads scripted lines and records the messages it shows.

    An answer of None never arrives, and a number means a yes after so many seconds.
    """

    lines: Sequence[str | InputResult]
    answers: Sequence[str | float | InputResult | Exception | None] = ()
    can_ask: bool = True
    messages: list[ChatMessage] = attrs.field(factory=list[ChatMessage])
    defaults: list[str] = attrs.field(factory=list[str])
    events: list[AnyEvent] = attrs.field(factory=list[AnyEvent])
    asking: int = 0
    held: bool = False
    broken: bool = False
    _ended: trio.Event = attrs.field(factory=trio.Event)

    @property
    def texts(self) -> list[str]:
        return [said.text for said in self.messages]

    async def read(self, default: str = "") -> InputResult:
        self.defaults.append(default)
        await trio.lowlevel.checkpoint()
        if not self.lines:
            return End()
        line, *self.lines = self.lines
        return Typed(line) if isinstance(line, str) else line

    async def answer(self, prompt: str) -> InputResult:
        del prompt
        assert self.held
        self.asking += 1
        answer, *self.answers = self.answers
        if answer is None:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int | float):
            await trio.sleep(answer)
            return Typed("yes")
        assert answer is not None
        return Typed(answer) if isinstance(answer, str) else answer

    def interrupt(self) -> bool:
        return False

    async def write(self, *messages: ChatMessage) -> None:
        await trio.lowlevel.checkpoint()
        if self.broken and self.held:
            raise BrokenPipeError
        self.messages += messages

    def begin_turn(self, *, thinking: bool) -> None:
        self._ended = trio.Event()
        self.messages.append(ChatMessage(f"turn, thinking={thinking}"))

    async def show(self, event: AnyEvent) -> None:
        await trio.lowlevel.checkpoint()
        self.events.append(event)

    async def draw(self) -> None:
        if self.broken and not self.answers:
            raise BrokenPipeError
        await self._ended.wait()

    async def pause_drawing(self) -> None:
        await trio.lowlevel.checkpoint()
        self.held = True

    def resume_drawing(self) -> None:
        self.held = False

    def end_turn(self) -> None:
        self._ended.set()


@attrs.define(eq=False)
class Held:
    """A finished chat."""

    status: int
    model: ScriptedModel


async def hold(
    ui: FakeUI,
    turns: Sequence[Turn] = (),
    *,
    tools: Sequence[Tool] = (),
    question_timeout: float = math.inf,
    store: MemoryStore | None = None,
    stored: bool = True,
    store_path: str = "",
    session_id: str | None = None,
) -> Held:
    model = ScriptedModel(turns)
    options = AgentOptions(
        model="scripted",
        provider=model,
        tools=tuple(tools),
        permissions=PermissionPolicy(),
        question_timeout=question_timeout,
    )
    plan = ChatPlan(
        options=options,
        store=store or MemoryStore(),
        stored=stored,
        store_path=store_path,
        session_id=session_id,
    )
    async with open_runtime(store=plan.store) as runtime:
        return Held(await Chat(plan, runtime, ui, lambda: None).run(), model)


async def test_commands_show_information() -> None:
    lines = ["/help", "/tools", "/history", "one", "/history 1", "/tokens", "/history x", "/quit"]
    ui = FakeUI(lines)
    assert (await hold(ui, ["First."], tools=demo_tools())).status == 0

    texts = ui.texts
    assert any(text.startswith("/rewind [N]") for text in texts)
    assert any(text.startswith("Enter sends;") for text in texts)
    assert "take_note: Keep a note for later in this chat. (adds here, asks first)" in texts
    assert "the conversation is empty" in texts
    assert texts[-6:-3] == ["... (1 messages before)", "model:", "First."]
    assert texts[-3].startswith("this session: ")
    assert ui.messages[-2] == ChatMessage(
        "/history: expected a number of at least 1; got 'x'", "error"
    )


async def test_changed_setting_applies_to_next_turn() -> None:
    lines = ["/model", "/model other", "/thinking maybe", "/thinking", "one", "", "/tolls"]
    ui = FakeUI(lines)
    held = await hold(ui, ["First."])

    assert ui.texts[1:6] == [
        "model: scripted",
        "model: other",
        "/thinking: expected on or off; got 'maybe'",
        "thinking is shown",
        "turn, thinking=True",
    ]
    assert ui.texts[6].startswith("the command /tolls is unknown; did you mean /tools?")
    assert held.model.requests[0].settings.model == "other"


async def test_prompts_are_taken_back_one_by_one() -> None:
    lines = ["/rewind", "one", "two", "/rewind 2", "/rewind x", "three"]
    ui = FakeUI(lines)
    held = await hold(ui, ["First.", "Second.", "Third."])

    assert ui.defaults == ["", "", "", "", "one", "", ""]
    assert ChatMessage("/rewind: cannot remove 1 prompts; the conversation is empty", "error") in (
        ui.messages
    )
    assert [m.content for m in held.model.requests[2].messages] == ["three"]


async def test_rewind_restores_files_of_the_workspace(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").write_text("1")
    options = AgentOptions(
        model="scripted",
        provider=ScriptedModel([call("Write", {"file_path": "a", "content": "2"}), "Done."]),
        builtin_tools=["Write"],
        workspace={"type": "local", "root": root},
        checkpoints=tmp_path / "copies",
        permissions="bypass",
    )
    lines = ["one", "/rewind --dry-run", "/rewind --files", "/rewind --files"]
    ui = FakeUI(lines)
    plan = ChatPlan(options=options, store=MemoryStore())
    async with open_runtime(store=plan.store) as runtime:
        await Chat(plan, runtime, ui, lambda: None).run()
    shown = ui.texts[ui.texts.index("1 file would be restored") :]
    assert shown[1:4] == ["  write  a", "1 file restored", "  write  a"]
    assert (root / "a").read_text() == "1"
    assert ui.defaults[3:] == ["one", ""]

    ui = FakeUI(["one", "/rewind --files"])
    await hold(ui, ["First."])
    assert "/rewind: files can be restored in a chat with --workspace only" in ui.texts


async def test_conversation_is_saved_to_new_file_only(tmp_path: Path) -> None:
    target = tmp_path / "talk"
    lines = [
        f"/save {target}.md",
        "one",
        f"/save {target}.md",
        f"/save {target}.json",
        f"/save {target}.md",
        f"/save {target}.txt",
        f"/save {tmp_path}/none/talk.md",
    ]
    ui = FakeUI(lines)
    await hold(ui, ["First \u202e."])

    assert ui.texts[1] == "/save: the conversation is empty"
    assert ui.texts[3:-1] == [
        f"2 messages written to {target}.md",
        f"2 messages written to {target}.json",
        f"/save: {target}.md: File exists",
        "/save: the file name must end with .md or .json",
        f"/save: {tmp_path}/none/talk.md: No such file or directory",
    ]
    assert (tmp_path / "talk.md").read_text() == "## You\n\none\n\n## Model\n\nFirst \ufffd.\n"
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert [message["role"] for message in saved] == ["user", "assistant"]


class FailingStore(MemoryStore):
    """A store that fails from its second read on."""

    looked: bool = False

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        if self.looked:
            raise SessionStoreError("the disk is full", session_id=session_id)
        self.looked = True
        return await super().export(session_id, after_seq=after_seq)


async def test_store_failure_is_shown_and_chat_continues() -> None:
    ui = FakeUI(["/tokens", "/model"], can_ask=False)
    assert (await hold(ui, store=FailingStore(), session_id="s")).status == 1
    failed, model = ui.messages
    assert failed.kind == "error"
    assert "the disk is full" in failed.text
    assert model.text == "model: scripted"


async def test_second_ctrl_c_leaves() -> None:
    ui = FakeUI([Interrupted(dropped=True), Interrupted(), "/model", Interrupted()])
    ui.lines = [*ui.lines, Interrupted(dropped=True), Interrupted(), Interrupted(), "never"]
    await hold(ui)
    assert ui.lines == ["never"]
    assert ui.texts.count("press Ctrl-C again to leave") == 3


async def test_start_and_end_show_resume_command() -> None:
    ui = FakeUI(["one"])
    await hold(ui, ["First."], store_path="x.db", session_id="tea")
    assert ui.texts[1] == "new session tea"
    assert ui.texts[-1] == "to continue: agent-actors chat --session tea --store x.db"
    for stored, expected in (
        (True, "to continue: agent-actors chat --session "),
        (False, "the conv"),
    ):
        ui = FakeUI(["one"])
        await hold(ui, ["First."], stored=stored)
        assert ui.texts[-1].startswith(expected)
        assert "--store" not in ui.texts[-1]


# Questions and permission prompts.


def asks(question: str, *choices: str) -> Turn:
    if choices:
        return [call("AskUserQuestion", {"question": question, "choices": [*choices]})]
    return [call("AskUserQuestion", {"question": question})]


def results(held: Held) -> list[object]:
    messages = held.model.requests[-1].messages
    blocks = [block for message in messages for block in message.blocks]
    return [block.content for block in blocks if isinstance(block, ToolResultBlock)]


async def test_model_questions_are_marked_as_such() -> None:
    turns = [asks("Allow rm?\x1b[2J", "yes", "session", "always", "no"), asks("Name?"), "So."]
    ui = FakeUI(["go"], ["maybe", "2", "", " Ada "])
    held = await hold(ui, turns, tools=[ask_user_question])

    assert "The model asks: Allow rm?\N{REPLACEMENT CHARACTER}[2J" in ui.texts
    assert "  2. session" in ui.texts
    assert "answer with a number, or with the beginning of a choice" in ui.texts
    assert "answer with text, or press Ctrl-C to interrupt" in ui.texts
    assert results(held) == ["session", "Ada"]


async def test_end_of_input_denies() -> None:
    calls = [call("take_note", {"text": "x"})]
    ui = FakeUI(["go"], [End()])
    held = await hold(ui, [calls, "So."], tools=demo_tools())
    assert results(held) == ["the call was not permitted: a person said no"]


@tool(read_only=True, open_world=False)
async def last() -> str:
    """Take longer than the question."""
    await trio.sleep(20)
    return "lasted"


@pytest.mark.parametrize("goes_on", [True, False])
async def test_closed_question_is_removed(
    goes_on: bool, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock

    calls = [call("take_note", {"text": "x"}), *([call("last", {})] if goes_on else [])]
    ui = FakeUI(["go", "/model"], [None])
    held = await hold(ui, [calls, "So."], tools=[*demo_tools(), last], question_timeout=5)
    assert ("note: the question was closed" in ui.texts) == goes_on
    assert ui.texts[-2] == "model: scripted"
    assert results(held)[0] == "the call was not permitted: no person answered within 5 s"


async def test_late_answer_has_no_effect(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    calls = [call("take_note", {"text": "x"}), call("last", {})]
    # The answer arrives after the question's deadline and before the chat next checks the question.
    ui = FakeUI(["go"], [5.15])
    tools = [*demo_tools(), last]
    held = await hold(ui, [calls, "So."], tools=tools, question_timeout=5.1)
    assert "note: the question was closed" not in ui.texts
    assert results(held)[:1] == ["the call was not permitted: no person answered within 5.1 s"]


async def test_nested_runs_ask_questions_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    inner = ScriptedModel([[call("take_note", {"text": "x"})], "Inner."])

    @tool(read_only=True, open_world=False)
    async def delegate() -> str:
        """Have another agent do it."""
        options = AgentOptions(
            model="inner", provider=inner, tools=demo_tools(), permissions="default"
        )
        runtime = find_open_runtime()
        assert runtime is not None
        return (await runtime.run("do it", options)).text

    ui = FakeUI(["go"], ["y"])
    held = await hold(ui, [[call("delegate", {})], "So."], tools=[delegate])
    assert ui.asking == 1
    assert results(held) == ["Inner."]


# Ctrl-C, and output streams that are closed.


async def test_second_ctrl_c_warns_third_gives_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    despaired: list[bool] = []
    begun, stubborn = trio.Event(), trio.Event()

    @tool(read_only=True, open_world=False)
    async def hold_on() -> None:
        """Wait, and end late."""
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await stubborn.wait()

    ui = FakeUI(["go", "/model"])
    model = ScriptedModel([[call("hold_on", {})]])
    options = AgentOptions(model="scripted", provider=model, tools=[hold_on])
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        plan = ChatPlan(options=options, store=store)
        chat = Chat(plan, runtime, ui, lambda: despaired.append(True))
        assert not chat.interrupt()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chat.run)
            await begun.wait()
            assert chat.interrupt()
            assert chat.interrupt()
            await trio.testing.wait_all_tasks_blocked()
            assert (
                "the turn is still ending; press Ctrl-C again to end the program at once"
                in ui.texts
            )
            assert despaired == []
            assert chat.interrupt()
            assert len(despaired) == 1
            stubborn.set()

    assert ui.texts[-2] == "model: scripted"


@pytest.mark.parametrize("answers", [(), ("y",), (BrokenPipeError(),)])
async def test_unread_stream_ends_chat_with_error(
    answers: tuple[str | Exception, ...], autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    turn: Turn = [call("take_note", {"text": "x"})] if answers else [say("One "), hang()]
    ui = FakeUI(["go", "never"], answers, broken=answers in ((), ("y",)))
    with pytest.raises(BrokenPipeError):
        await hold(ui, [turn], tools=demo_tools())
    assert ui.lines == ["never"]


async def test_compact_replaces_older_messages() -> None:
    lines = ["/context", "/compact", "one " * 200, "two", "/compact keep names", "/context"]
    ui = FakeUI([*lines, "/history"])
    held = await hold(ui, ["First. " * 50, "Second.", "In short."])

    assert ui.texts[1:3] == ["the conversation is empty"] * 2
    assert held.model.requests[2].system_prompt.endswith("keep names")
    assert any(text.startswith("a summary replaces 2 messages: about ") for text in ui.texts)
    assert any(text.startswith("summary: about ") for text in ui.texts)
    assert any(text.startswith("total: ") and "of 128,000 tokens" in text for text in ui.texts)
    assert "two" in ui.texts
    assert not any(text.startswith("one one") for text in ui.texts[4:])
