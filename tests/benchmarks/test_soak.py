import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import attrs
import pytest

from benchmarks.harness import ROOT
from benchmarks.record import load
from benchmarks.soak import LEAK_ALLOWED, SAMPLES, SLACK, Sample, faults_of

FLAT = [Sample(runs * 5000, 70_000_000, 30, 17) for runs in range(1, SAMPLES + 1)]
HALF = SAMPLES // 2


def test_flat_samples_have_no_fault() -> None:
    assert faults_of(FLAT) == []


def test_first_sample_may_differ() -> None:
    first = attrs.evolve(FLAT[0], memory=10, descriptors=1, tasks=1)
    assert faults_of([first, *FLAT[1:]]) == []
    # A peak in the first sample does not hide growth: it is not compared with the second half.
    peak, last = attrs.evolve(FLAT[0], tasks=99), attrs.evolve(FLAT[-1], tasks=18)
    assert faults_of([peak, *FLAT[1:-1], last]) == ["tasks grew from 17 to 18"]


@pytest.mark.parametrize("name", ["descriptors", "tasks"])
def test_extra_descriptor_or_task_fails(name: str) -> None:
    last = attrs.evolve(FLAT[-1], **{name: getattr(FLAT[-1], name) + 1})
    [fault] = faults_of([*FLAT[:-1], last])
    assert fault.startswith(f"{name} grew")


def test_steady_memory_growth_fails() -> None:
    leaking = [attrs.evolve(one, memory=one.memory + 100 * one.runs) for one in FLAT]
    [fault] = faults_of(leaking)
    assert fault.startswith("memory grew")


def test_allocator_overhead_is_no_leak() -> None:
    allowed = SLACK + LEAK_ALLOWED * (FLAT[-1].runs - FLAT[HALF - 1].runs)
    for extra, faults in ((allowed, 0), (allowed + 1, 1)):
        last = attrs.evolve(FLAT[-1], memory=FLAT[-1].memory + extra)
        assert len(faults_of([*FLAT[:-1], last])) == faults


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_short_soak_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", "--runs", "200"],
        cwd=ROOT,
        env={**os.environ, "RESULTS": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    found = load("soak", tmp_path)
    assert found is not None, done.stdout
    assert len(found.rows) == SAMPLES
    faults = cast("list[str]", found.more["faults"])
    # In so few runs, modules are still loaded and caches filled, so memory may still grow.
    assert [fault for fault in faults if "memory" not in fault] == []
    assert done.returncode == bool(faults)
