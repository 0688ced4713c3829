"""Draws each result as a PNG beside it: `python -m benchmarks.plots`."""

# matplotlib types its keyword arguments by half.
# pyright: reportUnknownMemberType=false
import json
from pathlib import Path

from benchmarks.harness import RESULTS


def main() -> None:
    """Draw them all."""
    for path in sorted(RESULTS.glob("*.json")):
        draw(path)


def draw(path: Path) -> None:
    """One result: a bar for each row, the shorter the better, with its value and its ratio."""
    import matplotlib as mpl  # noqa: PLC0415 - only whoever draws needs it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of what draws

    result = json.loads(path.read_text(encoding="utf-8"))
    names = list(result["rows"])[::-1]
    values = [float(result["rows"][name]["value"]) for name in names]
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.4 * len(names)))
    colours = ["#2b6cb0" if "agent_actors" in name else "#a0aec0" for name in names]
    bars = axes.barh(names, values, color=colours)
    axes.bar_label(bars, [_label(result["rows"][name]) for name in names], padding=4, fontsize=8)
    axes.set_title(f"{result['title']} ({result['unit']})", fontsize=10)
    axes.margins(x=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path.with_suffix(".png"), dpi=120)
    plt.close(figure)


def _label(row: dict[str, float]) -> str:
    ratio = f"  ({row['ratio']:.2f})" if "ratio" in row else ""
    return f"{row['value']:.3g}{ratio}"


if __name__ == "__main__":
    main()
