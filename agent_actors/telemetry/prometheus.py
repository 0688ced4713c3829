"""Statistics of a runtime in the text format of Prometheus.

The format is version 0.0.4 of the exposition format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final, cast

import attrs

_PREFIX: Final = "agent_actors"
# Fields that only grow; all other numbers are gauges.
_COUNTERS: Final = frozenset(
    {
        "attempts",
        "begun",
        "calls",
        "commits",
        "dropped",
        "evicted",
        "failures",
        "fallbacks",
        "published",
        "records",
        "refusals",
        "rejected",
        "retries",
        "runs_started",
        "stopped",
    }
)


@attrs.frozen
class _Sample:
    name: str
    counter: bool
    labels: Mapping[str, str]
    value: float


def prometheus_text(statistics: attrs.AttrsInstance) -> str:
    """Return statistics as text that Prometheus can scrape.

    A nested snapshot adds its field's name to the name of the metric, for example
    `agent_actors_tools_threads_used`. Metrics of an endpoint have the label `endpoint`.

    Args:
        statistics: The statistics of a runtime (`runtime.statistics()`), or a part of them.

    Returns:
        The text; send it with the content type `text/plain; version=0.0.4`.
    """
    families: dict[str, list[_Sample]] = {}
    for sample in _samples(statistics, _PREFIX, {}):
        families.setdefault(sample.name, []).append(sample)
    lines: list[str] = []
    for name, samples in families.items():
        lines.append(f"# TYPE {name} {'counter' if samples[0].counter else 'gauge'}")
        lines += [f"{name}{_labels(one.labels)} {_number(one.value)}" for one in samples]
    return "\n".join(lines) + "\n"


def _samples(
    snapshot: attrs.AttrsInstance, prefix: str, labels: Mapping[str, str]
) -> Iterator[_Sample]:
    endpoint = getattr(snapshot, "endpoint", None)
    if isinstance(endpoint, str):
        labels = {**labels, "endpoint": endpoint}
    for field in attrs.fields(type(snapshot)):
        value: object = getattr(snapshot, field.name)
        name = f"{prefix}_{field.name}"
        if isinstance(value, int | float):
            counter = field.name in _COUNTERS
            yield _Sample(f"{name}_total" if counter else name, counter, labels, float(value))
        elif isinstance(value, tuple):
            seen: list[str] = []
            for item in cast("tuple[object, ...]", value):
                if attrs.has(type(item)):
                    seen.append(str(getattr(item, "endpoint", "")))
                    # Agents with different keys have separate endpoints with the same name.
                    same = {"number": str(count)} if (count := seen.count(seen[-1])) > 1 else {}
                    yield from _samples(cast(attrs.AttrsInstance, item), name, {**labels, **same})
        elif attrs.has(type(value)):
            yield from _samples(cast(attrs.AttrsInstance, value), name, labels)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
