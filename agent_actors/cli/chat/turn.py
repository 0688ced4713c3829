"""One turn of a chat: a run, its display, its questions, and Ctrl-C.

Errors of the endpoint, of tools and of hooks are displayed, and the chat continues. The first
Ctrl-C interrupts the run, which ends cleanly. If that takes long, another Ctrl-C ends the program.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeAlias

import attrs
import trio

from agent_actors import AgentOptions, RunStream, Runtime
from agent_actors.actors.question_board import Answer
from agent_actors.cli.chat.commands import read_choice
from agent_actors.cli.chat.formatting import diff_messages, on_one_line
from agent_actors.cli.chat.input_result import Interrupted, Typed
from agent_actors.cli.chat.messages import ChatMessage, ChatUI
from agent_actors.cli.edits.diffs import Diff
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.safe_text import clean
from agent_actors.domain.events import UserQuestion
from agent_actors.domain.run import Question
from agent_actors.errors import AgentError, QuestionClosed
from agent_actors.permissions import PermissionDecision
from agent_actors.tools.ask import ASK_USER_QUESTION

# Seconds between checks for questions from nested runs that tools have started; no event announces
# these questions.
_LOOK_EVERY: Final = 0.2
_STILL_ENDING: Final = "the turn is still ending; press Ctrl-C again to end the program at once"
_NO: Final = "no"
_NO_PERSON: Final = "no person can be asked"
# Seconds within which an interrupted turn usually ends.
_SOON: Final = 0.5
# Maximum number of displayed characters of a question, and of each of its choices.
_QUESTION_SIZE: Final = 4000
_CHOICE_SIZE: Final = 200
Pressed: TypeAlias = Literal["interrupts", "waits", "gives_up"]


@attrs.frozen
class TurnOutcome:
    """The outcome of a turn.

    Attributes:
        session_id: The session; None if the turn never began.
        failed: Whether it ended with an error.
        interrupted: Whether Ctrl-C ended it.
    """

    session_id: str | None
    failed: bool
    interrupted: bool


class ChatTurn:
    """One turn; call `run` once.

    Args:
        runtime: The runtime.
        ui: Displays the turn, and reads answers.
        previews: The diffs of calls that write files.
    """

    def __init__(self, runtime: Runtime, ui: ChatUI, previews: EditPreviews) -> None:
        self._previews = previews
        self._runtime = runtime
        self._ui = ui
        self._session_id: str | None = None
        self._presses = 0
        self._pressed = trio.Event()
        self._pressed_again = trio.Event()
        self._warned = False
        self._asked = trio.Event()
        self._seen: set[str] = set()
        self._failure: Exception | None = None

    async def run(
        self,
        prompt: str,
        options: AgentOptions,
        *,
        session_id: str | None,
        model: str | None,
        thinking: bool,
    ) -> TurnOutcome:
        """Send a prompt, and display the run.

        Args:
            prompt: The prompt.
            options: The agent.
            session_id: The session; None: a new one.
            model: The model to use; None: the model from the options.
            thinking: Whether to display thinking.

        Raises:
            OSError: The output was closed.

        Cancellation: safe; the run ends cleanly.
        """
        self._session_id = session_id
        try:
            stream = self._runtime.stream(prompt, options, session_id=session_id, model=model)
            async with stream as events:
                await self._show(events, thinking=thinking)
        except AgentError as error:
            self._failure = self._failure or error
        if isinstance(self._failure, OSError):
            raise self._failure
        if self._failure is not None:
            await self._ui.write(ChatMessage(str(self._failure), "error"))
        return TurnOutcome(self._session_id, self._failure is not None, self._presses > 0)

    def press(self) -> Pressed:
        """Handle Ctrl-C: the first press interrupts; a press after the warning gives up."""
        self._presses += 1
        self._pressed.set()
        if self._presses == 1:
            return "interrupts"
        self._pressed_again.set()
        return "gives_up" if self._warned else "waits"

    async def _show(self, events: RunStream, *, thinking: bool) -> None:
        self._ui.begin_turn(thinking=thinking)
        async with trio.open_nursery() as painting:
            painting.start_soon(self._guarded, self._ui.draw, painting.cancel_scope)
            try:
                async with trio.open_nursery() as helpers:
                    helpers.start_soon(self._interrupt, events)
                    for watch in (self._ask_all, self._warn_if_slow):
                        helpers.start_soon(self._guarded, watch, painting.cancel_scope)
                    await self._read(events)
                    helpers.cancel_scope.cancel("the turn has ended")
            finally:
                self._ui.end_turn()

    async def _read(self, events: RunStream) -> None:
        # An exception raised here would be wrapped in exception groups.
        try:
            async for event in events:
                self._session_id = event.session_id
                await self._ui.show(event)
                if isinstance(event, UserQuestion) and not event.by_function:
                    self._asked.set()
        except (AgentError, OSError) as error:
            self._failure = self._failure or error

    async def _guarded(self, work: Callable[[], Awaitable[None]], turn: trio.CancelScope) -> None:
        # An exception raised here would be wrapped in exception groups, too.
        try:
            await work()
        except OSError as error:
            self._failure = error
            turn.cancel("the output was closed")

    async def _warn_if_slow(self) -> None:
        await self._pressed.wait()
        with trio.move_on_after(_SOON):
            await self._pressed_again.wait()
        self._warned = True
        await self._ui.write(ChatMessage(_STILL_ENDING, "dim"))

    async def _interrupt(self, events: RunStream) -> None:
        await self._pressed.wait()
        await events.interrupt()

    # Questions.

    async def _ask_all(self) -> None:
        while True:
            with trio.move_on_after(_LOOK_EVERY):
                await self._asked.wait()
            self._asked = trio.Event()
            await self._ask_open()

    async def _ask_open(self) -> None:
        # The oldest question is asked first. More questions may have arrived in the meantime.
        while True:
            questions = self._runtime.questions.pending()
            question = next((one for one in questions if one.id not in self._seen), None)
            if question is None or self._presses:
                return
            self._seen.add(question.id)
            await self._ui.pause_drawing()
            try:
                await self._ask(question)
            finally:
                self._ui.resume_drawing()

    async def _ask(self, question: Question) -> None:
        if not self._ui.can_ask:
            about = on_one_line(question.prompt, _CHOICE_SIZE)
            await self._ui.write(ChatMessage(f"note: no person can be asked: {about}", "dim"))
            self._answer(question, PermissionDecision("deny", reason=_NO_PERSON))
            return
        diff = self._previews.ask(question) if _is_permission(question) else None
        await self._ui.write(*_question_messages(question, diff))
        answer: str | None = None
        broken: OSError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, question, nursery.cancel_scope)
            try:
                answer = await self._choice(question)
            except OSError as error:  # inside a group, callers could not catch it
                broken = error
            nursery.cancel_scope.cancel("answered")
        if broken is not None:
            raise broken
        if answer is None:
            if not self._presses:
                await self._ui.write(ChatMessage("note: the question was closed", "dim"))
            return
        self._answer(question, answer)

    async def _choice(self, question: Question) -> str | None:
        """Read the choice; None after Ctrl-C."""
        choices = question.choices
        short = "/".join(choices) if _is_permission(question) else ""
        while True:
            reading = await self._ui.answer(short)
            match reading:
                case Interrupted():
                    self.press()
                    return None
                case Typed(text):
                    found = read_choice(text, choices)
                    if found is not None:
                        return found
                    await self._ui.write(ChatMessage(_answer_hint(question), "dim"))
                case _:
                    return _NO

    def _answer(self, question: Question, answer: Answer) -> None:
        try:
            self._runtime.questions.answer(question.id, answer)
        except QuestionClosed:
            # The run ended while the user was typing. The chat displays the end of the run.
            return

    async def _watch(self, question: Question, asking: trio.CancelScope) -> None:
        # Polling suffices, because it does not matter if a closed question is noticed a little
        # later.
        while any(one.id == question.id for one in self._runtime.questions.pending()):  # noqa: ASYNC110
            await trio.sleep(_LOOK_EVERY)
        asking.cancel("closed")


def _is_permission(question: Question) -> bool:
    # Check the tool's name, because a model can ask a question with any choices.
    return question.tool_name != ASK_USER_QUESTION


def _question_messages(question: Question, diff: Diff | None) -> Sequence[ChatMessage]:
    # Text from a model is truncated and marked, so that it cannot imitate the chat itself.
    if _is_permission(question):
        why = on_one_line(question.reason, _CHOICE_SIZE)
        if diff is not None:
            asks = f"Allow {question.tool_name}: {diff.summary}?"
            heading = ChatMessage(on_one_line(asks, _QUESTION_SIZE), "heading")
            return [ChatMessage(""), heading, *diff_messages(diff), ChatMessage(f"  {why}", "dim")]
        heading = ChatMessage(on_one_line(question.prompt, _QUESTION_SIZE), "heading")
        return [ChatMessage(""), heading, *([ChatMessage(f"  {why}", "dim")] if why else [])]
    shown = [
        ChatMessage(f"  {number}. {on_one_line(choice, _CHOICE_SIZE)}")
        for number, choice in enumerate(question.choices, start=1)
    ]
    asks = clean(question.prompt[:_QUESTION_SIZE])
    return [ChatMessage(""), ChatMessage(f"The model asks: {asks}", "heading"), *shown]


def _answer_hint(question: Question) -> str:
    if not question.choices:
        return "answer with text, or press Ctrl-C to interrupt"
    if _is_permission(question):
        return (
            "answer yes (this call), session (such calls in this session), always (such calls in "
            "every session until you leave) or no; the first letter is enough"
        )
    return "answer with a number, or with the beginning of a choice"
