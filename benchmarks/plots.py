# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# matplotlib comes with the extra `bench`, which `make check` does not install.
"""Draw each result as a PNG next to it: `python -m benchmarks.plots`."""

from pathlib import Path

from benchmarks.record import RESULTS, Result, Row, load


def main() -> None:
    """Draw all results."""
    for path in sorted(RESULTS.glob("*.json")):
        found = load(path.stem)
        if found is not None and len(found.rows) > 0:
            draw(found, path.with_suffix(".png"))


def draw(result: Result, path: Path) -> None:
    """Draw one result: a bar per row with its value, its ratio and the spread of the rounds."""
    import matplotlib as mpl  # noqa: PLC0415 - needed for drawing only

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of the backend

    names = list(result.rows)[::-1]
    values = [result.value(name) or 0.0 for name in names]
    spreads = [_spread(result.rows[name]) for name in names]
    errors = [
        [max(0.0, value - low) for value, (low, _) in zip(values, spreads, strict=True)],
        [max(0.0, high - value) for value, (_, high) in zip(values, spreads, strict=True)],
    ]
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.4 * len(names)))
    colours = ["#2b6cb0" if "agent_actors" in name else "#a0aec0" for name in names]
    bars = axes.barh(names, values, color=colours, xerr=errors, error_kw={"ecolor": "#4a5568"})
    axes.bar_label(bars, [_label(result, name) for name in names], padding=4, fontsize=8)
    axes.set_title(f"{result.title} ({result.unit})", fontsize=10)
    axes.margins(x=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _spread(row: Row) -> tuple[float, float]:
    match row.get("spread"):
        case [float(low) | int(low), float(high) | int(high)]:
            return low, high
        case _:
            return 0.0, 0.0


def _label(result: Result, name: str) -> str:
    value, ratio = result.value(name), result.value(name, "ratio")
    if value is None:
        return "failed"
    return f"{value:.3g}" + ("" if ratio is None else f"  ({ratio:.2f})")


if __name__ == "__main__":
    main()
