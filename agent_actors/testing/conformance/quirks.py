"""Quirks of endpoints as values, and the rendering of a response with quirks.

`Quirk` and `QuirkBook` are independent of the protocol. The books of the two protocols are in
`quirks_chat` and `quirks_messages`, with the clean events and the functions that change them.

A turn is rendered in these steps. First, each quirk changes the turn to the nearest one that an
endpoint with the quirk can send (`shape`). Then the clean events of that turn are created. Each
quirk changes the events (`change`), and then their text (`write`). Quirks are applied in the order
of the book, so the result for a set of quirks does not depend on the order of their names.

A parser must find the blocks of the turn, except what a quirk hides on purpose (`hides`), or it
must report the error or the invalid call that a quirk causes (`outcome`). `conformance/checks.py`
checks this.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, product
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.testing.replies import Protocol
from agent_actors.testing.script import Call, Interleave, Step, Think, Turn, steps_of

Events: TypeAlias = list[JsonObject]
Frames: TypeAlias = list[bytes]
Steps: TypeAlias = tuple[Step, ...]

# The result of parsing a response with a quirk: the blocks of the turn (`same`), an error that the
# endpoint reports (`error`), or the blocks with an invalid last call (`fault`).
Outcome: TypeAlias = Literal["same", "error", "fault"]

# Parts of a turn that a response with a quirk does not contain: the ids of calls, the usage, the
# finish reason, or the original text of arguments (the parsed arguments are always compared).
Hidden: TypeAlias = Literal["ids", "usage", "reason", "raw"]

ERROR_MESSAGE: Final = "the model gave up"
"""The message of errors that quirks cause."""

_OUTCOMES: Final[tuple[Outcome, ...]] = ("same", "fault", "error")
_NO_EXTRA: Final[Mapping[str, JsonValue]] = MappingProxyType({})


def _same_events(events: Events) -> Events:
    return events


def _same_frames(frames: Frames) -> Frames:
    return frames


def _same_steps(steps: Steps) -> Steps:
    return steps


@attrs.frozen(kw_only=True)
class Quirk:
    """A deviation of an endpoint from the protocol.

    Attributes:
        name: The name, unique in its book.
        about: A sentence that describes the endpoint's behaviour.
        number: Its number in the catalogue of observed quirks; 0: a variation of an observed one.
        change: Changes the events of a stream.
        write: Changes the text of the events, one event per frame.
        shape: Changes a turn to the nearest one that the endpoint can send.
        turns: A description of the turns that the endpoint can send; empty: all turns.
        hides: Parts of the turn that the response does not contain.
        outcome: The result of parsing the response.
        extra: Additional fields that the block of each call keeps, to be sent back.
        dialect: The dialect that the parser needs; None: the default.
        whole: True if the response is one document instead of a stream.
    """

    name: str
    about: str
    number: int = 0
    change: Callable[[Events], Events] = _same_events
    write: Callable[[Frames], Frames] = _same_frames
    shape: Callable[[Steps], Steps] = _same_steps
    turns: str = ""
    hides: frozenset[Hidden] = frozenset()
    outcome: Outcome = "same"
    extra: Mapping[str, JsonValue] = _NO_EXTRA
    dialect: ChatDialect | None = None
    whole: bool = False


@attrs.frozen
class Traits:
    """The results that are expected when a response with a set of quirks is parsed.

    Attributes:
        hides: Parts of the turn that the response does not contain.
        outcome: The result of parsing the response.
        extra: Additional fields that the block of each call keeps, to be sent back.
        dialect: The dialect that the parser needs; None: the default.
    """

    hides: frozenset[Hidden] = frozenset()
    outcome: Outcome = "same"
    extra: Mapping[str, JsonValue] = _NO_EXTRA
    dialect: ChatDialect | None = None


@attrs.frozen
class DistortedTurn:
    """A turn as an endpoint with quirks sends it.

    Attributes:
        turn: The turn, changed to what the endpoint can send.
        quirks: The names of the quirks.
        body: The body of the response.
        protocol: The protocol of the response.
        traits: The expected results of parsing the response.
    """

    turn: Steps
    quirks: frozenset[str]
    body: bytes
    protocol: Protocol
    traits: Traits


@attrs.frozen
class Exclusion:
    """Quirks that cannot be combined, because the turn would be lost or contradictory.

    Attributes:
        reason: The reason.
        groups: Groups of names; names of different groups cannot be combined.
    """

    reason: str
    groups: tuple[tuple[str, ...], ...]

    def pairs(self) -> Iterator[frozenset[str]]:
        """Yield every pair of names that cannot be combined."""
        for left, right in combinations(self.groups, 2):
            for first, second in product(left, right):
                if first != second:
                    yield frozenset((first, second))


def one_of(reason: str, names: Iterable[str]) -> Exclusion:
    """Exclude any two of these quirks."""
    return Exclusion(reason, tuple((name,) for name in names))


def apart(reason: str, these: Iterable[str], those: Iterable[str]) -> Exclusion:
    """Exclude every combination of a quirk from one group with a quirk from the other."""
    return Exclusion(reason, (tuple(these), tuple(those)))


@attrs.frozen
class QuirkBook:
    """The quirks of one protocol, and the combinations that are excluded.

    Attributes:
        protocol: The protocol.
        quirks: The quirks by their names, in the order in which they are applied.
        exclusions: The quirks that cannot be combined.
        events: Returns the clean events of a turn.
        frames: Returns the text of the events, and the end of the stream.
        document: Returns the turn as one document.
    """

    protocol: Protocol
    quirks: Mapping[str, Quirk]
    exclusions: tuple[Exclusion, ...]
    events: Callable[[Steps], Events]
    frames: Callable[[Events], Frames]
    document: Callable[[Steps], bytes]

    @cached_property
    def excluded(self) -> Mapping[frozenset[str], str]:
        """The pairs that cannot be combined, with the reason."""
        return {
            pair: exclusion.reason for exclusion in self.exclusions for pair in exclusion.pairs()
        }

    def compatible(self, names: Iterable[str]) -> frozenset[str]:
        """Return as many of these quirks as can be combined, preferring the first ones."""
        compatible: list[str] = []
        for name in names:
            if all(frozenset((name, other)) not in self.excluded for other in compatible):
                compatible.append(name)
        return frozenset(compatible)

    def pairs(self) -> list[tuple[str, str]]:
        """Return every pair of quirks that can be combined."""
        return [
            pair for pair in combinations(self.quirks, 2) if frozenset(pair) not in self.excluded
        ]

    def distorted(self, turn: Turn, names: Iterable[str] = ()) -> DistortedTurn:
        """Return the turn as an endpoint with these quirks sends it.

        Calls without an id get `call_0_<slot>`. Pauses and similar steps are skipped.

        Args:
            turn: The turn.
            names: Names of quirks; their order does not matter.

        Raises:
            ValueError: A quirk is unknown, or a pair of them is excluded.
        """
        chosen = self._chosen(frozenset(names))
        steps = steps_of(turn)
        for quirk in chosen:
            steps = quirk.shape(steps)
        steps = _with_ids(steps)
        names = frozenset(quirk.name for quirk in chosen)
        body = self._body(steps, chosen)
        return DistortedTurn(steps, names, body, self.protocol, _traits_of(chosen))

    def traits(self, names: Iterable[str]) -> Traits:
        """Return the expected results of parsing a response with these quirks.

        Raises:
            ValueError: A quirk is unknown, or a pair of them is excluded.
        """
        return _traits_of(self._chosen(frozenset(names)))

    def _chosen(self, names: frozenset[str]) -> list[Quirk]:
        if unknown := names - self.quirks.keys():
            raise ValueError(
                f"unknown quirks {sorted(unknown)}; known quirks: {sorted(self.quirks)}"
            )
        for pair, reason in self.excluded.items():
            if pair <= names:
                raise ValueError(f"{' and '.join(sorted(pair))} cannot be combined: {reason}")
        return [quirk for name, quirk in self.quirks.items() if name in names]

    def _body(self, steps: Steps, chosen: Sequence[Quirk]) -> bytes:
        if any(quirk.whole for quirk in chosen):
            frames = [self.document(steps)]
        else:
            events = self.events(steps)
            for quirk in chosen:
                events = quirk.change(events)
            frames = self.frames(events)
        for quirk in chosen:
            frames = quirk.write(frames)
        return b"".join(frames)


def book_of(quirks: Iterable[Quirk]) -> Mapping[str, Quirk]:
    """Return quirks by name, in their order.

    Raises:
        ValueError: Two quirks have the same name.
    """
    named: dict[str, Quirk] = {}
    for quirk in quirks:
        if quirk.name in named:
            raise ValueError(f"two quirks have the name {quirk.name!r}; names must be unique")
        named[quirk.name] = quirk
    return MappingProxyType(named)


# ---- turns that an endpoint can send ----


def in_order(steps: Steps) -> Steps:
    """Return the steps with interleaved calls one after the other."""
    ordered: list[Step] = []
    for step in steps:
        ordered += step.calls if isinstance(step, Interleave) else (step,)
    return tuple(ordered)


def map_calls(steps: Steps, change: Callable[[int, Call], Call]) -> Steps:
    """Return the steps with each call changed; `change` also gets the index of the call."""
    index = 0
    changed: list[Step] = []
    for step in steps:
        if isinstance(step, Call):
            changed.append(change(index, step))
            index += 1
        elif isinstance(step, Interleave):
            calls = tuple(change(index + slot, call) for slot, call in enumerate(step.calls))
            index += len(calls)
            changed.append(Interleave(calls))
        else:
            changed.append(step)
    return tuple(changed)


def without_calls(steps: Steps) -> Steps:
    """Return the steps without calls, and thinking without signatures.

    A stream that loses data may lose calls and signatures, so they could not be compared.
    """
    kept = (step for step in steps if not isinstance(step, Call | Interleave))
    return tuple(
        attrs.evolve(step, signature="") if isinstance(step, Think) else step for step in kept
    )


def _with_ids(steps: Steps) -> Steps:
    return map_calls(
        steps,
        lambda index, call: attrs.evolve(call, id=f"call_0_{index}") if call.id is None else call,
    )


def _traits_of(chosen: Sequence[Quirk]) -> Traits:
    outcomes: list[Outcome] = ["same", *(quirk.outcome for quirk in chosen)]
    return Traits(
        frozenset[Hidden]().union(*(quirk.hides for quirk in chosen)),
        max(outcomes, key=_OUTCOMES.index),
        {key: value for quirk in chosen for key, value in quirk.extra.items()},
        _dialect_of(chosen),
    )


def _dialect_of(chosen: Iterable[Quirk]) -> ChatDialect | None:
    """Merge the dialects that these quirks need."""
    dialect: ChatDialect | None = None
    default = ChatDialect()
    for quirk in chosen:
        if quirk.dialect is None:
            continue
        fields = [field.name for field in attrs.fields(ChatDialect)]
        changes = {
            name: getattr(quirk.dialect, name)
            for name in fields
            if getattr(quirk.dialect, name) != getattr(default, name)
        }
        dialect = attrs.evolve(dialect or default, **changes)
    return dialect
