from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors.abc import ModelProvider
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    FinishDelta,
    ModelDelta,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderConnectError
from agent_actors.testing.cancel import cancel_at_every_step
from agent_actors.testing.model import ScriptedModel, ScriptExhausted
from agent_actors.testing.script import (
    Turn,
    call,
    do,
    fail,
    finished,
    hang,
    pause,
    say,
    usage,
    wait,
)


def ask(
    text: str = "Hello?", *, turn: int = 1, known_call_ids: frozenset[str] = frozenset()
) -> ModelRequest:
    messages = Messages().user(text) if text else Messages()
    return ModelRequest(messages, ModelSettings("m"), turn=turn, known_call_ids=known_call_ids)


@attrs.define(eq=False)
class Sink:
    """A sink that records its deltas and their times, and can be full until `room` is set."""

    reads: list[tuple[float, tuple[ModelDelta, ...]]] = attrs.Factory(
        list[tuple[float, tuple[ModelDelta, ...]]]
    )
    room: trio.Event | None = None

    @property
    def full(self) -> bool:
        return self.room is not None and not self.room.is_set()

    def feed(self, deltas: Sequence[ModelDelta]) -> None:
        self.reads.append((trio.current_time(), tuple(deltas)))

    async def wait_room(self) -> None:
        assert self.room is not None
        await self.room.wait()

    def texts(self) -> list[str]:
        deltas = [delta for _, read in self.reads for delta in read]
        return [delta.text for delta in deltas if isinstance(delta, TextDelta)]


async def test_turns_are_taken_and_requests_recorded() -> None:
    model = ScriptedModel(["one", [say("two")]])

    assert [(await model.complete(ask(text))).text for text in ("a", "b")] == ["one", "two"]
    assert [request.messages.last_content() for request in model.requests] == ["a", "b"]


async def test_scripted_model_is_a_model_provider() -> None:
    model = ScriptedModel([], name="mine")

    assert isinstance(model, ModelProvider)
    assert model.name == "mine"


async def test_exhausted_script_reports_counts() -> None:
    model = ScriptedModel(["only"])
    await model.complete(ask())

    with pytest.raises(ScriptExhausted, match=r"has only 1 turns, but this is request 2.*again"):
        await model.complete(ask("again"))
    with pytest.raises(AssertionError, match=r"\(none\)"):
        await model.complete(ask(""))
    assert model.live == 0


async def test_function_answers_by_request() -> None:
    def script(request: ModelRequest) -> Turn:
        return f"you said {request.messages.last_content()}"

    model = ScriptedModel(script)
    for text in ("a", "b", "a"):
        assert (await model.complete(ask(text))).text == f"you said {text}"


async def test_complete_response_equals_the_turn() -> None:
    turn: Turn = [say("Let me look."), call("t", {"a": 1}, chunks=3), usage(5, 6)]
    model = ScriptedModel([turn])

    answer = await model.complete(ask(turn=4))

    assert answer == finished(
        turn, call_id=lambda slot: f"call_4_{slot}", model="m", response_id="scripted-1"
    )
    assert answer.usage == Usage(5, 6)


async def test_generated_ids_avoid_known_ones() -> None:
    model = ScriptedModel([[call("t"), call("u")]])
    sink = Sink()

    answer = await model.stream(ask(known_call_ids=frozenset({"call_1_0", "call_1_0_"})), sink)

    found = [block.id for block in answer.blocks if block.type == "tool_use"]
    assert found == ["call_1_0__", "call_1_1"]
    deltas = [delta for _, read in sink.reads for delta in read]
    assert [delta.id for delta in deltas if isinstance(delta, ToolCallDelta)] == found


async def test_pauses_pass_on_the_virtual_clock(autojump_clock: MockClock) -> None:
    sink = Sink()
    await ScriptedModel([[say("a"), pause(3600), say("b", "c", every=60)]]).stream(ask(), sink)

    start = sink.reads[0][0]
    assert [round(time - start) for time, _ in sink.reads[:3]] == [0, 3660, 3720]
    assert sink.texts() == ["a", "b", "c"]


async def test_each_delta_is_one_read() -> None:
    turn: Turn = [say("a", "b", "c"), pause(0), say("d")]
    alone, batched = Sink(), Sink()

    await ScriptedModel([turn]).stream(ask(), alone)
    await ScriptedModel([turn], batch=2).stream(ask(), batched)

    assert [len(read) for _, read in alone.reads] == [1] * 6
    assert [len(read) for _, read in batched.reads] == [2, 1, 2, 1]
    last = [read for _, read in batched.reads][-2:]
    assert last[0] == (TextDelta("d"), FinishDelta("stop"))
    assert isinstance(last[1][0], UsageDelta)


async def test_a_batch_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="batch"):
        ScriptedModel([], batch=0)


async def test_full_sink_stops_feeding(autojump_clock: MockClock) -> None:
    sink = Sink(room=trio.Event())
    model = ScriptedModel(["hello"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(model.stream, ask(), sink)
        await trio.testing.wait_all_tasks_blocked()
        assert sink.reads == []
        assert model.live == 1
        assert sink.room is not None
        sink.room.set()

    assert sink.texts() == ["hello"]


async def test_failure_follows_earlier_text() -> None:
    sink = Sink()
    error = ProviderConnectError("it broke", endpoint="scripted")

    with pytest.raises(ProviderConnectError) as caught:
        await ScriptedModel([[say("a"), fail(error)]], batch=9).stream(ask(), sink)

    assert caught.value is error
    assert sink.texts() == ["a"]


async def test_a_hang_ends_by_cancelling_only(autojump_clock: MockClock) -> None:
    model = ScriptedModel([hang()])

    with trio.move_on_after(1000) as scope:
        await model.complete(ask())

    assert scope.cancelled_caught
    assert model.live == 0


async def test_test_can_pause_the_response(
    autojump_clock: MockClock,
) -> None:
    reached, go_on = trio.Event(), trio.Event()
    sink = Sink()
    model = ScriptedModel([[say("a"), do(reached.set), wait(go_on), say("b")]])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(model.stream, ask(), sink)
        await reached.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert sink.texts() == ["a"]
        go_on.set()

    assert sink.texts() == ["a", "b"]


async def test_live_streams_are_counted(autojump_clock: MockClock) -> None:
    model = ScriptedModel(lambda _: [pause(1), say("a")])

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(model.complete, ask())
        await trio.testing.wait_all_tasks_blocked()
        assert model.live == 5
    await model.complete(ask())

    assert (model.live, model.peak_live) == (0, 5)


async def test_a_closed_model_takes_no_requests() -> None:
    model = ScriptedModel(["a"])
    await model.aclose()
    await model.aclose()

    assert model.closed
    with pytest.raises(RuntimeError, match="closed"):
        await model.complete(ask())


def test_cancellation_anywhere_leaks_nothing() -> None:
    models: list[ScriptedModel] = []

    async def stream() -> None:
        models.append(ScriptedModel([[say("a", "b", every=1), call("t")]]))
        await models[-1].stream(ask(), Sink())

    def check(_step: int, _outcome: object) -> None:
        assert models[-1].live == 0

    assert cancel_at_every_step(stream, check=check) > 6
