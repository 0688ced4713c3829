"""The results of the doctor as values: checks, figures, quirks, and recommended settings. Pure.

An endpoint is usable if every check that an agent needs works.
"""

import json
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.cli.doctor.findings import ObservedQuirk
from agent_actors.cli.doctor.recommendations import Recommendation
from agent_actors.domain.json import JsonObject, JsonValue

# `note`: a feature works differently or is missing, but an agent does not need it.
Status: TypeAlias = Literal["works", "note", "fails", "untried"]

NEEDED: Final = ("reachable", "answer", "tool call", "tool result")
"""The checks that an agent needs."""

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
"""All checks, in order."""


@attrs.frozen
class Check:
    """The result of one check.

    Attributes:
        name: The name of the check.
        status: The status.
        detail: The details.
    """

    name: str
    status: Status
    detail: str

    @property
    def needed(self) -> bool:
        """True if an agent needs this check to work."""
        return self.name in NEEDED


@attrs.frozen
class Figures:
    """The speed of the plain response; a figure is None if it could not be measured.

    Attributes:
        first_token_ms: Milliseconds from the request to the first delta.
        deltas: Number of deltas.
        reads: Number of reads from the socket.
        deltas_per_s: Deltas per second, from the first to the last.
        tokens_per_s: Tokens per second, as the endpoint counts them.
    """

    first_token_ms: float | None = None
    deltas: int = 0
    reads: int = 0
    deltas_per_s: float | None = None
    tokens_per_s: float | None = None


@attrs.frozen(kw_only=True)
class Report:
    """The complete result of an examination.

    Attributes:
        endpoint: The URL, without secrets.
        provider: The name of the profile that was used.
        protocol: The protocol of the endpoint.
        model: The model.
        checks: The checks, in order.
        figures: The speed.
        observed_quirks: The observed quirks, by number.
        expected: The quirks that the profile lists.
        recommendations: The recommended settings.
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
        """True if every check that an agent needs works."""
        works = {check.name for check in self.checks if check.status == "works"}
        return works.issuperset(NEEDED)

    def as_json(self) -> JsonObject:
        """Return the report as JSON, for programs."""
        return {
            "endpoint": self.endpoint,
            "provider": self.provider,
            "protocol": self.protocol,
            "model": self.model,
            "usable": self.usable,
            "checks": [
                {"name": c.name, "status": c.status, "needed": c.needed, "detail": c.detail}
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
    """Return the TOML table for a profile file; empty if the profile needs no settings."""
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
    """Format a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, str):
        # A TOML string has the same escapes as a JSON string.
        return json.dumps(value, ensure_ascii=False)
    return f"[{', '.join(map(toml, value))}]"


def _plain(value: str | bool | float | tuple[str, ...]) -> JsonValue:
    return [*value] if isinstance(value, tuple) else value
