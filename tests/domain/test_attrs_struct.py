"""Events and deltas are Structs that behave as the attrs classes that they declare."""

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, cast

import attrs
import msgspec
import pytest
from hypothesis import given

from agent_actors.domain.events import (
    EVENT_TYPES,
    AssistantDelta,
    Event,
    EventScope,
    Notification,
    bare_event,
)
from tests.codec.events import events

SCOPE = EventScope("s1", "r1", "q1")


def plain_class(cls: type[Event]) -> type[Any]:
    """Return an ordinary attrs class with the name and the fields of an event class."""
    fields = {one.name: attrs.field(default=None, kw_only=one.kw_only) for one in attrs.fields(cls)}
    return attrs.make_class(cls.__name__, fields, frozen=True)


PLAIN = {cls: plain_class(cls) for cls in EVENT_TYPES.values()}


def values_of(event: Event) -> dict[str, Any]:
    return {one.name: getattr(event, one.name) for one in attrs.fields(type(event))}


def hash_of(value: object) -> int | str:
    try:
        return hash(value)
    except TypeError as error:
        return str(error)


@given(events, events)
def test_event_behaves_as_attrs_instance(event: Event, other: Event) -> None:
    values = values_of(event)
    plain = PLAIN[type(event)](**values)
    again = type(event)(**values)
    assert repr(event) == repr(plain)
    assert event == again
    assert hash_of(event) == hash_of(again)
    assert isinstance(hash_of(event), int) is isinstance(hash_of(plain), int)
    assert (event == other) is (plain == PLAIN[type(other)](**values_of(other)))
    assert attrs.asdict(event, recurse=False) == attrs.asdict(plain, recurse=False)


@given(events)
def test_event_is_copied_and_pickled(event: Event) -> None:
    for made in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
        assert made == event
        assert type(made) is type(event)
    numbered = attrs.evolve(event, seq=17)
    assert numbered.seq == 17
    assert attrs.evolve(numbered, seq=event.seq) == event
    assert numbered.scope is event.scope


@pytest.mark.parametrize("cls", EVENT_TYPES.values())
def test_event_class_is_struct(cls: type[Event]) -> None:
    assert issubclass(cls, msgspec.Struct)
    assert [one.name for one in attrs.fields(cls)][:4] == ["scope", "id", "ts", "seq"]
    assert cls.__match_args__[:3] == ("scope", "id", "ts")
    assert "seq" not in cls.__match_args__


def test_delta_is_immutable_and_not_tracked() -> None:
    delta = AssistantDelta(SCOPE, "e1", 1.0, "hi")
    assert not gc.is_tracked(delta)
    with pytest.raises(AttributeError):
        delta.text = "ho"  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]
    match delta:
        case Event(id="e1", ts=1.0):
            pass
        case _:
            pytest.fail("the pattern must match")


@attrs.frozen
class Deployed(Event):
    """An event class of a user, with each kind of default."""

    type: ClassVar[str] = "app.deployed"
    release: str = attrs.field(repr=False)
    count: int = 1
    hosts: list[str] = attrs.field(factory=list[str])
    forced: "bool" = attrs.field(default=False, kw_only=True)
    level: "ClassVar[int]" = 3


def test_user_declares_events_with_attrs() -> None:
    first, second = Deployed(SCOPE, "e1", 1.0, "v1"), Deployed(SCOPE, "e1", 1.0, "v1", forced=True)
    assert (first.count, first.hosts, first.forced, first.level) == (1, [], False, 3)
    assert first.hosts is not second.hosts
    assert second == attrs.evolve(first, forced=True)
    assert second != first
    assert repr(first).endswith(", seq=None, count=1, hosts=[], forced=False)")
    assert pickle.loads(pickle.dumps(second)) == second
    assert bare_event(Deployed, release="v1").id == ""
    with pytest.raises(TypeError, match=r"Deployed\(\) needs a value for 'release'"):
        bare_event(Deployed)


def test_subclass_without_decorator_keeps_fields() -> None:
    class Quiet(Notification):
        pass

    assert Quiet(SCOPE, "e1", 1.0, "hi").text == "hi"
    assert repr(bare_event(Quiet, text="hi")).startswith("Quiet(scope=")


@pytest.mark.parametrize(
    "field",
    [
        lambda: attrs.field(validator=attrs.validators.max_len(3)),
        lambda: attrs.field(eq=False, default=""),
        lambda: cast(Any, attrs.field)(converter=str),
        lambda: attrs.field(init=False, default=""),
        lambda: attrs.field(alias="other"),
    ],
)
def test_field_with_more_than_default_is_refused(field: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="'release' of Deployed may only have"):
        cast(Any, type(Event))(
            "Deployed", (Event,), {"__annotations__": {"release": str}, "release": field()}
        )


def test_event_class_without_slots_is_refused() -> None:
    body = {"__annotations__": {"release": str}, "__module__": __name__}
    made = cast(Any, type(Event))("Released", (Event,), body)
    with pytest.raises(TypeError, match="Released is built as a Struct"):
        attrs.frozen(slots=False)(made)
