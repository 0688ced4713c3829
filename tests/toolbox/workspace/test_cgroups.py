"""The search for cgroups that limit the commands of a sandbox."""

from pathlib import Path

import attrs

from agent_actors.domain.workspace.processes import ProcessLimits
from agent_actors.toolbox.workspace.processes.cgroups import CgroupParents, usable_cgroups

LIMITS = ProcessLimits(memory_bytes=1_000, processes=10)
ROOT = "30 1 0:1 / / rw - ext4 /dev/x rw"
MEMORY = "31 30 0:2 / /cg/memory rw,nosuid shared:1 - cgroup cgroup rw,memory"
PIDS = "32 30 0:3 /boxes /cg/pids rw - cgroup cgroup rw,pids"


@attrs.frozen
class Machine:
    """A machine with some cgroups, and the limits that can be set in each."""

    directory: Path
    usable: dict[str, set[str]]

    def find(self, cgroups: list[str], mounts: list[str]) -> CgroupParents:
        (self.directory / "cgroup").write_text("\n".join(cgroups))
        (self.directory / "mountinfo").write_text("\n".join([ROOT, *mounts]))
        return usable_cgroups(
            self.directory, lambda parent, limit: limit in self.usable.get(str(parent), set())
        )


def test_version_one_has_separate_hierarchies(tmp_path: Path) -> None:
    memory, pids = "/cg/memory/own", "/cg/pids/mine"
    machine = Machine(tmp_path, {memory: {"memory.limit_in_bytes"}, pids: {"pids.max"}})
    found = machine.find(["4:memory:/own", "3:cpu,pids:/boxes/mine", "0::/"], [MEMORY, PIDS])
    assert found == CgroupParents(memory, pids)
    assert found.values_of(LIMITS, 2) == {
        memory: {"memory.limit_in_bytes": "1000", "memory.memsw.limit_in_bytes": "1000"},
        pids: {"pids.max": "12"},
    }
    assert found.values_of(ProcessLimits(memory_bytes=None, processes=None), 2) == {}


def test_version_two_uses_sibling_cgroups(tmp_path: Path) -> None:
    hierarchy = tmp_path / "unified"
    (hierarchy / "slice/service").mkdir(parents=True)
    (hierarchy / "slice/service/cgroup.subtree_control").write_text("\n")
    (hierarchy / "slice/cgroup.subtree_control").write_text("cpu memory pids\n")
    parent = str(hierarchy / "slice")
    machine = Machine(tmp_path, {parent: {"memory.max", "pids.max"}})
    mount = f"40 30 0:9 / {hierarchy} rw - cgroup2 cgroup2 rw,nsdelegate"
    found = machine.find(["0::/slice/service"], [mount])
    assert found == CgroupParents(parent, parent, unified=True)
    assert found.values_of(LIMITS, 2) == {
        parent: {
            "memory.max": "1000",
            "memory.swap.max": "0",
            "memory.oom.group": "1",
            "pids.max": "12",
        }
    }


def test_unusable_cgroups_are_not_used(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {})
    assert not machine.find(["4:memory:/own"], [MEMORY]).memory, "it cannot be written"
    outside = Machine(tmp_path, {"/cg/pids/../x": {"pids.max"}})
    assert not outside.find(["3:pids:/x"], [PIDS]).pids, "it is outside the mounted part"
    assert usable_cgroups(tmp_path / "missing", lambda parent, limit: True) == CgroupParents()
