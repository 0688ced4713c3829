"""What the doctor found, as values: checks, figures, quirks, and what to set.

Pure. An endpoint is usable if every check that an agent needs works.
"""

import json
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.cli.doctor.findings import ObservedQuirk
from agent_actors.cli.doctor.recommendations import Recommendation
from agent_actors.domain.json import JsonObject, JsonValue

# `note`: it works or is not there, and either way somebody should know.
Status: TypeAlias = Literal["works", "note", "fails", "untried"]

NEEDED: Final = ("reachable", "answer", "tool call", "tool result")
"""What an agent cannot do without."""

CHECKS: Final = (
    "reachable",
    "models",
    "answer",
    "streaming",
    "usage",
    "reasoning",
    "tool call",
    "tool result",
    "parallel calls",
    "wrong model",
    "wrong key",
)
"""All that is tried, in order."""


@attrs.frozen
class Check:
    """One thing that was tried.

    Attributes:
        name: What.
        status: How it went.
        told: What there is to say of it.
    """

    name: str
    status: Status
    detail: str

    @property
    def needed(self) -> bool:
        """True if an agent cannot do without."""
        return self.name in NEEDED


@attrs.frozen
class Figures:
    """How fast the plain answer was; None where there was nothing to measure.

    Attributes:
        first_token_ms: Milliseconds from the request to the first piece.
        deltas: Pieces of it.
        reads: Reads from the socket that it came in.
        deltas_per_s: Pieces per second, from the first to the last.
        tokens_per_s: Tokens per second, as the endpoint counts them.
    """

    first_token_ms: float | None = None
    deltas: int = 0
    reads: int = 0
    deltas_per_s: float | None = None
    tokens_per_s: float | None = None


@attrs.frozen(kw_only=True)
class Report:
    """All that was found.

    Attributes:
        endpoint: Where it is, without secrets.
        provider: The name of the profile that was used.
        protocol: Which protocol it speaks.
        model: The model that was asked.
        checks: What was tried, in order.
        figures: How fast it was.
        observed_quirks: The quirks that were seen, by number.
        expected: The quirks that its profile knows of.
        recommendations: What to set.
    """

    endpoint: str
    provider: str
    protocol: str
    model: str
    checks: tuple[Check, ...]
    figures: Figures
    observed_quirks: tuple[ObservedQuirk, ...]
    expected: tuple[int, ...]
    recommendations: tuple[Recommendation, ...]

    @property
    def usable(self) -> bool:
        """True if all that an agent needs works."""
        works = {check.name for check in self.checks if check.status == "works"}
        return works.issuperset(NEEDED)

    def as_json(self) -> JsonObject:
        """The report for programs."""
        return {
            "endpoint": self.endpoint,
            "provider": self.provider,
            "protocol": self.protocol,
            "model": self.model,
            "usable": self.usable,
            "checks": [
                {"name": c.name, "status": c.status, "needed": c.needed, "told": c.detail}
                for c in self.checks
            ],
            "figures": attrs.asdict(self.figures),
            "quirks": [
                {"number": s.number, "name": s.name, "seen": s.seen} for s in self.observed_quirks
            ],
            "set": [
                {"place": r.place, "name": r.name, "value": _plain(r.value), "why": r.why}
                for r in self.recommendations
            ],
        }


def profile_text(report: Report) -> str:
    """The table to put into a file of profiles; empty if nothing is to be set there."""
    fields = [
        recommendation
        for recommendation in report.recommendations
        if recommendation.place == "profile"
    ]
    if not fields:
        return ""
    known = report.provider != "openai-compatible"
    first = f'extends = "{report.provider}"' if known else f'base_url = "{report.endpoint}"'
    return "\n".join(["[mine]", first, *(f"{one.name} = {toml(one.value)}" for one in fields)])


def toml(value: str | bool | float | Iterable[str]) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # TOML escapes in a text what JSON does
    return f"[{', '.join(map(toml, value))}]"


def _plain(value: str | bool | float | tuple[str, ...]) -> JsonValue:
    return [*value] if isinstance(value, tuple) else value
