"""Results of benchmarks: one JSON file per claim, and how its figures are computed and read.

Each row keeps the figure of every round, so that any ratio can be computed later. A ratio is always
the median of the ratios within the rounds, never the ratio of two medians, because the speed of a
machine drifts. A failed round is null and is excluded from every computation.

The folder `results` holds the committed results of one machine. A quick run (`QUICK=1`) writes to
its subfolder `quick`. The environment variable RESULTS selects another folder.
"""

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, cast

import attrs

QUICK: Final = bool(os.environ.get("QUICK"))
ROUNDS: Final = 1 if QUICK else int(os.environ.get("ROUNDS", "5"))

_HERE: Final = Path(__file__).parent / "results"
RESULTS: Final = Path(os.environ.get("RESULTS") or (_HERE / "quick" if QUICK else _HERE))

_LIBRARIES: Final = ("trio", "httpx", "httptools", "msgspec", "attrs", "aiohttp", "uvloop")
_DIGITS: Final = 5
"""The number of significant digits to write: more than any machine can reproduce."""

Rounds = Sequence[float | None]
Row = Mapping[str, object]


def median_ratio(ones: Rounds, others: Rounds) -> float | None:
    """Return the median of the per-round ratios of two contenders; None if there are no ratios."""
    ratios = ratios_of(ones, others)
    return statistics.median(ratios) if ratios else None


def ratios_of(ones: Rounds, others: Rounds) -> list[float]:
    """Return the ratios of the rounds in which neither contender failed."""
    pairs = zip(ones, others, strict=True)
    return [one / other for one, other in pairs if one is not None and other]


def row(rounds: Rounds, bases: Rounds | None = None, **more: object) -> Row:
    """Return the row of one contender.

    Args:
        rounds: Its figure in each round; None for a round in which it failed.
        bases: The figures of the contender to compare with.
        more: Additional values to write.

    Returns:
        The figures; `value`, their median; `spread`, the minimum and the maximum. With `bases`
        additionally `ratio`, the median of the `ratios` in each round.
    """
    known = [figure for figure in rounds if figure is not None]
    made: dict[str, object] = {
        "value": _short(statistics.median(known)) if known else None,
        "spread": [_short(min(known)), _short(max(known))] if known else None,
        "rounds": [None if figure is None else _short(figure) for figure in rounds],
    }
    if bases is not None:
        ratio = median_ratio(rounds, bases)
        made["ratio"] = None if ratio is None else _short(ratio)
        made["ratios"] = [_short(one) for one in ratios_of(rounds, bases)]
    return {**made, **more}


def take_turns(
    contenders: Mapping[str, Callable[[], float | None]], *, rounds: int = ROUNDS, scale: float = 1
) -> dict[str, Row]:
    """Measure the contenders alternately, and compare all of them with the first."""
    found: dict[str, list[float | None]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            figure = measure()
            found[name].append(None if figure is None else figure * scale)
    base = next(iter(found.values()))
    return {name: row(figures, base) for name, figures in found.items()}


def report(
    claim: str,
    title: str,
    unit: str,
    rows: Mapping[str, Row],
    *,
    folder: Path = RESULTS,
    **more: object,
) -> None:
    """Print the rows of a claim, and write them together with the machine and the versions."""
    sys.stdout.write(f"\n{title} ({unit})\n")
    for name, figures in rows.items():
        sys.stdout.write(f"  {name:48} {_worded(figures)}\n")
    result = {
        "claim": claim,
        "title": title,
        "unit": unit,
        "quick": QUICK,
        "machine": _machine(),
        "versions": {name: found for name in _LIBRARIES if (found := _version(name))},
        **more,
        "rows": rows,
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / f"{claim}.json").write_text(text + "\n", encoding="utf-8")


@attrs.frozen
class Result:
    """The stored result of one claim.

    Attributes:
        claim: The name of the claim and of the file.
        title: A description of the measurement.
        unit: The unit of every row's figures.
        rows: The rows by contender, in the order of the table.
        more: The complete content of the file.
    """

    claim: str
    title: str
    unit: str
    rows: Mapping[str, Row]
    more: Mapping[str, object]

    def value(self, name: str, figure: str = "value") -> float | None:
        """Return a figure of a row; None if the row is missing or failed in every round."""
        return cast("float | None", self.rows.get(name, {}).get(figure))

    def ratio(self, name: str, base: str, figure: str = "rounds") -> float | None:
        """Return the median of one row's ratios to another; None if one of them is missing."""
        ones, others = (self.rows.get(one, {}).get(figure) for one in (name, base))
        if ones is None or others is None:
            return None
        return median_ratio(cast("Rounds", ones), cast("Rounds", others))


def load(claim: str, folder: Path = RESULTS) -> Result | None:
    """Return a claim's result; None if it was not measured."""
    path = folder / f"{claim}.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    return Result(claim, found["title"], found["unit"], found["rows"], found)


def _machine() -> dict[str, object]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        # A load above the benchmark's own shows that other programs were running.
        "load_average": [round(one, 2) for one in os.getloadavg()],
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2] for line in text.splitlines() if line.startswith("model name"))
    return next(named, platform.machine()).strip()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _short(figure: float) -> float:
    return float(f"{figure:.{_DIGITS}g}")


def _worded(figures: Row) -> str:
    value = figures["value"]
    words = ["      failed" if value is None else f"{value:12.3f}"]
    if isinstance(figures.get("ratio"), float):
        words.append(f"ratio {figures['ratio']:.3f}")
    shown = ("turns_per_second", "load", "failed", "hung")
    words += [f"{name.replace('_', ' ')} {figures[name]}" for name in shown if figures.get(name)]
    return "   ".join(words)
