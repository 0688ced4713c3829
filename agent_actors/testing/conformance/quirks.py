"""Quirks of endpoints as values: what each is, how a clean answer is rendered with it.

Owns what both protocols have in common: the `Quirk`, the book that holds a protocol's quirks
together with the pairs that do not go together, and the way from a logical turn to the bytes of an
odd endpoint. It knows no protocol: the books stand in `quirks_chat` and `quirks_messages`, which
bring the clean events and the changes of them.

A turn is rendered in these steps: each quirk bends the turn to the nearest that it can say
(`shape`); the clean events of that turn are made; each quirk changes the events (`change`), then
what is written of them (`write`), always in the order of the book, whatever order they are named
in. So a mix of quirks is one thing only.

Whoever reads the body must find the blocks of the turn, but for what a quirk hides on purpose
(`hides`), and must find an error or a call that cannot run where a quirk makes one (`outcome`).
`agent_actors.testing.conformance.checks` checks it.
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

# What an answer with a quirk comes to: the blocks of the turn; an error that the endpoint tells of;
# or the blocks, of which the last call cannot be carried out.
Outcome: TypeAlias = Literal["same", "error", "fault"]

# What nobody can find in an answer with a quirk: the ids of calls, what was used, why it ended, or
# the text of arguments (what they say is always compared).
Hidden: TypeAlias = Literal["ids", "usage", "reason", "raw"]

ERROR_MESSAGE: Final = "the model gave up"
"""What an endpoint says whose quirk is to fail."""

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
    """One thing that endpoints do in their own way.

    Attributes:
        name: Unique in its book.
        about: What the endpoint does, in a sentence.
        number: Its number in the catalogue of quirks seen; 0: it is one small step from one seen.
        change: What it does to the events of a stream.
        write: What it does to their text, one event a frame.
        shape: Bends a turn to the nearest that the endpoint can say.
        turns: Which turns those are, in words; empty: all.
        hides: What cannot be found in the answer.
        outcome: What the answer comes to.
        extra: What each call's block keeps to be sent back.
        dialect: What the reader must be told of the endpoint; None: nothing.
        whole: True if there is no stream but one document.
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
    """What a mix of quirks comes to for whoever reads the answer.

    Attributes:
        hides: What cannot be found in it.
        outcome: What it comes to.
        extra: What each call's block keeps to be sent back.
        dialect: What the reader must be told of the endpoint; None: nothing.
    """

    hides: frozenset[Hidden] = frozenset()
    outcome: Outcome = "same"
    extra: Mapping[str, JsonValue] = _NO_EXTRA
    dialect: ChatDialect | None = None


@attrs.frozen
class DistortedTurn:
    """A turn as an odd endpoint sends it.

    Attributes:
        turn: What is said: the turn that was asked for, bent to what the quirks can say.
        quirks: How the endpoint is odd.
        body: The body of its answer.
        protocol: Which protocol it speaks.
        traits: What the quirks come to.
    """

    turn: Steps
    quirks: frozenset[str]
    body: bytes
    protocol: Protocol
    traits: Traits


@attrs.frozen
class Exclusion:
    """Quirks that do not go together, since they lose what the turn was or say two things of one.

    Attributes:
        reason: Why.
        groups: Any two names out of different groups.
    """

    reason: str
    groups: tuple[tuple[str, ...], ...]

    def pairs(self) -> Iterator[frozenset[str]]:
        """Each of the pairs."""
        for left, right in combinations(self.groups, 2):
            for one, other in product(left, right):
                if one != other:
                    yield frozenset((one, other))


def one_of(reason: str, names: Iterable[str]) -> Exclusion:
    """Of these at most one."""
    return Exclusion(reason, tuple((name,) for name in names))


def apart(reason: str, these: Iterable[str], those: Iterable[str]) -> Exclusion:
    """None of these with any of those."""
    return Exclusion(reason, (tuple(these), tuple(those)))


@attrs.frozen
class QuirkBook:
    """The quirks of one protocol, and which of them exclude each other.

    Attributes:
        protocol: The protocol.
        quirks: The quirks by their names, in the order in which they are applied.
        exclusions: Which of them do not go together.
        events: The clean events of a turn.
        frames: The events as they are written, and what ends the stream.
        document: The turn as one document.
    """

    protocol: Protocol
    quirks: Mapping[str, Quirk]
    exclusions: tuple[Exclusion, ...]
    events: Callable[[Steps], Events]
    frames: Callable[[Events], Frames]
    document: Callable[[Steps], bytes]

    @cached_property
    def excluded(self) -> Mapping[frozenset[str], str]:
        """Each pair that does not go together, and why."""
        return {pair: one.reason for one in self.exclusions for pair in one.pairs()}

    def compatible(self, names: Iterable[str]) -> frozenset[str]:
        """As many of these quirks as go together, the first ones first."""
        kept: list[str] = []
        for name in names:
            if all(frozenset((name, other)) not in self.excluded for other in kept):
                kept.append(name)
        return frozenset(kept)

    def pairs(self) -> list[tuple[str, str]]:
        """Every pair of quirks that go together."""
        return [
            pair for pair in combinations(self.quirks, 2) if frozenset(pair) not in self.excluded
        ]

    def distorted(self, turn: Turn, names: Iterable[str] = ()) -> DistortedTurn:
        """The turn as an endpoint with these quirks sends it.

        Calls without an id get `call_0_<slot>`. Pauses and the like are left out.

        Args:
            turn: What is said.
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
        """What these quirks come to.

        Raises:
            ValueError: A quirk is unknown, or a pair of them is excluded.
        """
        return _traits_of(self._chosen(frozenset(names)))

    def _chosen(self, names: frozenset[str]) -> list[Quirk]:
        if unknown := names - self.quirks.keys():
            raise ValueError(
                f"unknown quirks {sorted(unknown)}; expected some of {sorted(self.quirks)}"
            )
        for pair, reason in self.excluded.items():
            if pair <= names:
                raise ValueError(f"{' and '.join(sorted(pair))} do not go together: {reason}")
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
    """Quirks by name, in their order.

    Raises:
        ValueError: Two have one name.
    """
    named: dict[str, Quirk] = {}
    for quirk in quirks:
        if quirk.name in named:
            raise ValueError(f"two quirks are called {quirk.name!r}")
        named[quirk.name] = quirk
    return MappingProxyType(named)


# ---- turns that an endpoint can say ----


def in_order(steps: Steps) -> Steps:
    """The steps without calls whose fragments come in turns."""
    found: list[Step] = []
    for step in steps:
        found += step.calls if isinstance(step, Interleave) else (step,)
    return tuple(found)


def map_calls(steps: Steps, change: Callable[[int, Call], Call]) -> Steps:
    """The steps with each call changed; `change` gets its place among the calls, too."""
    place = 0
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Call):
            found.append(change(place, step))
            place += 1
        elif isinstance(step, Interleave):
            calls = tuple(change(place + at, one) for at, one in enumerate(step.calls))
            place += len(calls)
            found.append(Interleave(calls))
        else:
            found.append(step)
    return tuple(found)


def without_calls(steps: Steps) -> Steps:
    """The steps without calls, and thoughts without their signatures.

    Neither survives a stream in which something may be lost.
    """
    kept = (step for step in steps if not isinstance(step, Call | Interleave))
    return tuple(
        attrs.evolve(step, signature="") if isinstance(step, Think) else step for step in kept
    )


def _with_ids(steps: Steps) -> Steps:
    return map_calls(
        steps,
        lambda place, call: attrs.evolve(call, id=f"call_0_{place}") if call.id is None else call,
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
    """What all these quirks want the reader to be told, in one."""
    dialect: ChatDialect | None = None
    plain = ChatDialect()
    for quirk in chosen:
        if quirk.dialect is None:
            continue
        fields = [field.name for field in attrs.fields(ChatDialect)]
        told = {
            name: getattr(quirk.dialect, name)
            for name in fields
            if getattr(quirk.dialect, name) != getattr(plain, name)
        }
        dialect = attrs.evolve(dialect or plain, **told)
    return dialect
