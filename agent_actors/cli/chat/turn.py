"""One turn of a chat: a run, what of it is shown, the questions it asks, and Ctrl-C.

A turn always comes to an end of its own: an error of the endpoint, of a tool or of a hook is told
and the chat goes on. The first Ctrl-C interrupts the run, which ends in order; if that takes long,
another one ends the program.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeAlias

import attrs
import trio

from agent_actors import AgentOptions, RunStream, Runtime
from agent_actors.actors.question_board import Answer
from agent_actors.cli.chat.commands import read_choice
from agent_actors.cli.chat.formatting import clean, on_one_line
from agent_actors.cli.chat.input_result import Interrupted, Typed
from agent_actors.cli.chat.messages import Face, Said
from agent_actors.domain.events import UserQuestion
from agent_actors.domain.run import Question
from agent_actors.errors import AgentError, QuestionClosed
from agent_actors.permissions import PermissionDecision
from agent_actors.tools.ask import ASK_USER_QUESTION

# Seconds between two looks for questions of runs that tools have started, of which no event tells.
_LOOK_EVERY: Final = 0.2
_STILL_ENDING: Final = "still ending; Ctrl-C once more ends the program at once"
_NO: Final = "no"
_NOBODY: Final = "nobody is there to be asked"
# Seconds in which a turn that is interrupted has usually ended.
_SOON: Final = 0.5
# Characters of a question, and of one of its choices, that are shown.
_QUESTION_SIZE: Final = 4000
_CHOICE_SIZE: Final = 200
Pressed: TypeAlias = Literal["interrupts", "waits", "desperate"]


@attrs.frozen
class Spoken:
    """How a turn ended.

    Attributes:
        session_id: The session; None if the turn never began.
        failed: Whether it ended with an error.
        interrupted: Whether Ctrl-C ended it.
    """

    session_id: str | None
    failed: bool
    interrupted: bool


class Turn:
    """One turn; for one `speak`.

    Args:
        runtime: Where it runs.
        face: Where it is shown.
    """

    def __init__(self, runtime: Runtime, face: Face) -> None:
        self._runtime = runtime
        self._face = face
        self._session_id: str | None = None
        self._presses = 0
        self._pressed = trio.Event()
        self._pressed_again = trio.Event()
        self._warned = False
        self._asked = trio.Event()
        self._seen: set[str] = set()
        self._failure: Exception | None = None

    async def speak(
        self,
        prompt: str,
        options: AgentOptions,
        *,
        session_id: str | None,
        model: str | None,
        thinking: bool,
    ) -> Spoken:
        """Say something, and show what comes of it.

        Args:
            prompt: What is said.
            options: The agent.
            session_id: The session; None: a new one.
            model: The model to ask; None: that of the options.
            thinking: Whether its thoughts are shown.

        Raises:
            OSError: Nobody reads any more.

        Cancellation: safe; the run is ended in order.
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
            await self._face.tell(Said(str(self._failure), "error"))
        return Spoken(self._session_id, self._failure is not None, self._presses > 0)

    def press(self) -> Pressed:
        """Ctrl-C; the first interrupts, and one after the warning is somebody's who gave up."""
        self._presses += 1
        self._pressed.set()
        if self._presses == 1:
            return "interrupts"
        self._pressed_again.set()
        return "desperate" if self._warned else "waits"

    async def _show(self, events: RunStream, *, thinking: bool) -> None:
        self._face.begin_turn(thinking=thinking)
        async with trio.open_nursery() as painting:
            painting.start_soon(self._guarded, self._face.paint, painting.cancel_scope)
            try:
                async with trio.open_nursery() as beside:
                    beside.start_soon(self._interrupt, events)
                    for watch in (self._ask_all, self._tell_that_it_ends):
                        beside.start_soon(self._guarded, watch, painting.cancel_scope)
                    await self._read(events)
                    beside.cancel_scope.cancel("the turn has ended")
            finally:
                self._face.end_turn()

    async def _read(self, events: RunStream) -> None:
        # What is raised here would be wrapped in groups on its way.
        try:
            async for event in events:
                self._session_id = event.session_id
                await self._face.show(event)
                if isinstance(event, UserQuestion):
                    self._asked.set()
        except (AgentError, OSError) as error:
            self._failure = self._failure or error

    async def _guarded(self, work: Callable[[], Awaitable[None]], turn: trio.CancelScope) -> None:
        # What is raised here would be wrapped in groups on its way, too.
        try:
            await work()
        except OSError as error:
            self._failure = error
            turn.cancel("nobody reads")

    async def _tell_that_it_ends(self) -> None:
        await self._pressed.wait()
        with trio.move_on_after(_SOON):
            await self._pressed_again.wait()
        self._warned = True
        await self._face.tell(Said(_STILL_ENDING, "dim"))

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
        # The oldest first; others may have come meanwhile.
        while True:
            questions = self._runtime.questions()
            question = next((one for one in questions if one.id not in self._seen), None)
            if question is None or self._presses:
                return
            self._seen.add(question.id)
            await self._face.hold()
            try:
                await self._ask(question)
            finally:
                self._face.go_on()

    async def _ask(self, question: Question) -> None:
        if not self._face.can_ask:
            about = on_one_line(question.prompt, _CHOICE_SIZE)
            await self._face.tell(Said(f"note: nobody is there to be asked: {about}", "dim"))
            self._answer(question, PermissionDecision("deny", reason=_NOBODY))
            return
        await self._face.tell(*_put(question))
        said: str | None = None
        broken: OSError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, question, nursery.cancel_scope)
            try:
                said = await self._choice(question)
            except OSError as error:  # in a group it would not be found again
                broken = error
            nursery.cancel_scope.cancel("answered")
        if broken is not None:
            raise broken
        if said is None:
            if not self._presses:
                await self._face.tell(Said("note: the question is closed", "dim"))
            return
        self._answer(question, said)

    async def _choice(self, question: Question) -> str | None:
        """What was chosen; None after Ctrl-C."""
        choices = question.choices
        short = "/".join(choices) if _is_permission(question) else ""
        while True:
            reading = await self._face.answer(short)
            match reading:
                case Interrupted():
                    self.press()
                    return None
                case Typed(text):
                    found = read_choice(text, choices)
                    if found is not None:
                        return found
                    await self._face.tell(Said(_what_to_answer(question), "dim"))
                case _:
                    return _NO

    def _answer(self, question: Question, said: Answer) -> None:
        try:
            self._runtime.answer(question.id, said)
        except QuestionClosed:
            # Its run ended while the answer was typed; the end is shown.
            return

    async def _watch(self, question: Question, asking: trio.CancelScope) -> None:
        # Nobody tells of the end of a question, which is soon enough seen.
        while any(one.id == question.id for one in self._runtime.questions()):  # noqa: ASYNC110
            await trio.sleep(_LOOK_EVERY)
        asking.cancel("closed")


def _is_permission(question: Question) -> bool:
    # By the tool, since a model that asks may name any choices.
    return question.tool_name != ASK_USER_QUESTION


def _put(question: Question) -> Sequence[Said]:
    # What a model wrote is bounded, and cannot pass for what the program says.
    if _is_permission(question):
        why = on_one_line(question.reason, _CHOICE_SIZE)
        asked = Said(on_one_line(question.prompt, _QUESTION_SIZE), "heading")
        return [Said(""), asked, *([Said(f"  {why}", "dim")] if why else [])]
    shown = [
        Said(f"  {number}. {on_one_line(choice, _CHOICE_SIZE)}")
        for number, choice in enumerate(question.choices, start=1)
    ]
    asks = clean(question.prompt[:_QUESTION_SIZE])
    return [Said(""), Said(f"The model asks: {asks}", "heading"), *shown]


def _what_to_answer(question: Question) -> str:
    if not question.choices:
        return "answer with a text, or Ctrl-C to interrupt"
    if _is_permission(question):
        return (
            "answer yes (this call), session (such calls in this session), always (in every "
            "session until you leave) or no; the first letter will do"
        )
    return "answer with a number, or with the beginning of a choice"
