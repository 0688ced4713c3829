"""Rules for the subjects of commits: imperative, short, no period at the end."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

import attrs

from tests.conventions.tree import ROOT

_RULES: Final = Path(__file__).with_name("commits.toml")
# A past tense or a participle, but not an imperative such as "feed" or "bring".
_TENSE: Final = re.compile(
    r"(?!(?:bring|embed|exceed|feed|need|ping|proceed|seed|speed)$).*(?:ed|ing)"
)


@attrs.frozen
class CommitRules:
    """The limits on a commit subject, and the commit after which they apply."""

    base: str
    longest_subject: int
    not_imperative: frozenset[str]


@cache
def rules() -> CommitRules:
    """Return the rules in `commits.toml`."""
    data = tomllib.loads(_RULES.read_text())
    return CommitRules(data["base"], data["longest_subject"], frozenset(data["not_imperative"]))


def subjects() -> list[str] | None:
    """Return the subjects after the base commit, or None if the history is not available.

    Source archives have no history. A shallow clone may lack the base commit.
    """
    revisions = f"{rules().base}..HEAD"
    command = ["git", "log", "--no-merges", "--format=%s", revisions]
    try:
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.splitlines()


def problems(subject: str) -> list[str]:
    """Return the rules that a subject breaks."""
    found: list[str] = []
    first = subject.partition(" ")[0]
    if len(subject) > rules().longest_subject:
        found.append(f"{subject!r}: {len(subject)} characters, of {rules().longest_subject}")
    if not first[:1].isupper():
        found.append(f"{subject!r}: does not begin with a capital letter")
    if subject.endswith("."):
        found.append(f"{subject!r}: ends with a period")
    if first.lower() in rules().not_imperative or _TENSE.fullmatch(first.lower()):
        found.append(f"{subject!r}: {first!r} is not an imperative")
    return found
