"""Random sequences of runs, changes by others, and rewinds, compared with the directory itself."""

import shutil
import tempfile
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_actors.domain.events import EventScope, WorkspaceCheckpoint
from agent_actors.domain.workspace.trees import Checkpoint, CheckpointPhase, RestoreReport
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.sessions.checkpoints import restore_plan
from agent_actors.toolbox.checkpoints.checkpointer import DirectoryCheckpointer
from agent_actors.toolbox.workspace.local.workspace import LocalWorkspace
from tests.toolbox.checkpoints.helpers import content

PATHS: Final = ("a", "b", "d", "d/a", "d/e/a")

Kind: TypeAlias = Literal["write", "delete", "chmod", "link"]


@attrs.frozen
class Edit:
    """A change of one file."""

    kind: Kind
    path: str
    value: int

    def apply(self, root: Path, *, replaces_kinds: bool) -> None:
        """Make the change; a person does not replace directories by files, and vice versa."""
        path = root / self.path
        if not replaces_kinds and (not path.parent.is_dir() or path.is_dir()):
            return
        if self.kind in ("write", "link"):
            for parent in reversed(path.relative_to(root).parents[:-1]):
                if not (root / parent).is_dir() or (root / parent).is_symlink():
                    (root / parent).unlink(missing_ok=True)
                    (root / parent).mkdir()
            self._remove(path)
            if self.kind == "write":
                path.write_text(str(self.value))
            else:
                path.symlink_to(f"target-{self.value}")
        elif self.kind == "delete":
            self._remove(path)
        elif path.is_file() and not path.is_symlink():
            path.chmod((0o600, 0o644, 0o755)[self.value % 3])

    def _remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.is_symlink() or path.is_file():
            path.unlink()


@attrs.frozen
class Step:
    """A run, changes by others, or a rewind to the state before a run."""

    kind: Literal["run", "crash", "others", "rewind"]
    edits: tuple[Edit, ...]
    to: int


def _edits(*kinds: Kind) -> st.SearchStrategy[tuple[Edit, ...]]:
    one = st.builds(Edit, st.sampled_from(kinds), st.sampled_from(PATHS), st.integers(0, 3))
    return st.lists(one, max_size=4).map(tuple)


agent_edits: Final = _edits("write", "delete", "chmod", "link")
steps: Final = st.one_of(
    st.builds(Step, st.sampled_from(["run", "run", "crash"]), agent_edits, st.just(0)),
    st.builds(Step, st.just("others"), _edits("write", "delete"), st.just(0)),
    st.builds(Step, st.just("rewind"), st.just(()), st.integers(0, 5)),
)


@attrs.define
class Session:
    """A session whose records are checkpoints only, and the states of the directory."""

    root: Path
    workspace: LocalWorkspace
    checkpointer: DirectoryCheckpointer
    records: list[WorkspaceCheckpoint] = attrs.field(factory=list[WorkspaceCheckpoint])
    states: list[dict[str, object]] = attrs.field(factory=list[dict[str, object]])

    async def run(self, edits: tuple[Edit, ...], *, crashes: bool) -> None:
        self._record("before", await self.checkpointer.take(self.workspace), content(self.root))
        for edit in edits:
            edit.apply(self.root, replaces_kinds=True)
        if not crashes:
            self._record("after", await self.checkpointer.take(self.workspace), content(self.root))

    async def rewind(self, to: int) -> None:
        """Rewind to a record, and compare the directory with the states before and after."""
        target = to % len(self.records)
        following = self.records[target + 1 : target + 2]
        if self.records[target].phase == "after" and following and following[0].phase == "before":
            target += 1  # the agent changes nothing in between
        plan = restore_plan(self.records, self.records[target].seq or 0, str(self.root))
        assert plan is not None
        assert plan.target == self.records[target].checkpoint_id
        now = content(self.root)
        report = await self.checkpointer.restore(self.workspace, plan, dry_run=False)
        found = content(self.root)
        self._check(target, now, found, report)
        self._record("before", report.before, now)
        self._record("after", report.after, found)

    def _check(
        self,
        target: int,
        now: dict[str, object],
        found: dict[str, object],
        report: RestoreReport,
    ) -> None:
        wanted = self.states[target]
        by_agent, by_others = self._touched(target, now)
        if not by_others:
            assert found == wanted
            assert (report.conflicts, report.not_covered) == ((), ())
            return
        for path in {*now, *found, *wanted}:
            if now.get(path, ...) is None or wanted.get(path, ...) is None:
                continue  # directories follow their files
            if path not in by_agent:
                assert found.get(path) == now.get(path), path
            elif path not in by_others:
                related = any(
                    one.startswith(f"{path}/") or path.startswith(f"{one}/") for one in by_others
                )
                assert found.get(path) == wanted.get(path) or related, path
            elif path in now:
                assert found.get(path) in (now[path], wanted.get(path, ...)), path
                assert found.get(path) == wanted.get(path) or path in report.conflicts, path

    def _touched(self, target: int, now: dict[str, object]) -> tuple[set[str], set[str]]:
        """Return the paths that the agent changed, and those that others changed."""
        by_agent: set[str] = set()
        by_others: set[str] = set()
        states = [*self.states[target:], now]
        phases: list[str] = [*(one.phase for one in self.records[target:]), "before"]
        for place in range(1, len(states)):
            before, after = states[place - 1], states[place]
            changed = {
                path for path in {*before, *after} if before.get(path, ...) != after.get(path, ...)
            }
            idle = phases[place - 1] == "after" and phases[place] == "before"
            (by_others if idle else by_agent).update(changed)
        return by_agent, by_others

    def _record(self, phase: CheckpointPhase, taken: Checkpoint, state: dict[str, object]) -> None:
        seq = len(self.records) + 1
        scope = EventScope("s", "r", "q")
        record = WorkspaceCheckpoint(
            scope, "id", 0.0, phase, taken.id, str(self.root), taken.files, seq=seq
        )
        self.records.append(record)
        self.states.append(state)


@settings(max_examples=40)
@given(st.lists(steps, min_size=2, max_size=8))
def test_rewinds_restore_what_the_agent_changed(sequence: list[Step]) -> None:
    async def main(base: Path) -> None:
        root = base / "root"
        root.mkdir()
        workspace = LocalWorkspace(root)
        options = Checkpoints(directory=base / "copies")
        session = Session(root, workspace, DirectoryCheckpointer(options))
        for step in sequence:
            if step.kind == "others":
                for edit in step.edits:
                    edit.apply(root, replaces_kinds=False)
            elif step.kind == "rewind":
                if session.records:
                    await session.rewind(step.to)
            else:
                await session.run(step.edits, crashes=step.kind == "crash")
        await workspace.aclose()

    with tempfile.TemporaryDirectory() as base:
        trio.run(main, Path(base))


@pytest.mark.parametrize(  # the expected plan: the target and the intervals of both kinds
    ("phases", "to_seq", "target", "intervals", "others_since"),
    [
        ("ba", 0, 1, "12|", True),
        ("ba", 1, 1, "12|", True),
        ("ba", 2, 2, "|", True),
        ("baba", 2, 3, "34|", True),
        ("baba", 0, 1, "12 34|23", True),
        ("bba", 0, 1, "12 23|", True),
        ("bba", 1, 1, "12 23|", True),
        ("bab", 0, 1, "12|23", False),
        ("a", 0, None, "|", True),
        ("", 0, None, "|", True),
    ],
)
def test_plan_follows_from_the_records(
    phases: str,
    to_seq: int,
    target: int | None,
    intervals: str,
    others_since: bool,
) -> None:
    scope = EventScope("s", "r", "q")
    records = [
        WorkspaceCheckpoint(
            scope, "id", 0.0, "before" if phase == "b" else "after", str(seq), "/root", seq=seq
        )
        for seq, phase in enumerate(phases, 1)
    ]
    elsewhere = attrs.evolve(records[0], root="/other") if records else None
    failed = attrs.evolve(records[0], checkpoint_id="") if records else None
    ignored = [one for one in (elsewhere, failed) if one is not None]
    plan = restore_plan([*ignored, *records], to_seq, "/root")
    if target is None:
        assert plan is None
        return
    assert plan is not None
    assert plan.target == str(target)
    parts = [" ".join(map("".join, part)) for part in (plan.by_agent, plan.by_others)]
    assert "|".join(parts) == intervals
    assert (plan.last, plan.others_since) == (str(len(phases)), others_since)
