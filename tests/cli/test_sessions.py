"""`agent-actors sessions` in this process, with the stores on disk."""

import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from agent_actors import AgentOptions, Messages, Runtime, open_runtime
from agent_actors.cli import main
from agent_actors.codec.events import loads_event
from agent_actors.domain.json import JsonObject
from agent_actors.testing import ScriptedModel, call
from tests.cli.helpers import Ended
from tests.runs.hooks.helpers import USE
from tests.runtime.sessions.helpers import DISK, talk

GONE = "no session has this id"


@attrs.frozen
class Kept:
    """A store at a path, and methods that run the program on it."""

    path: Path
    kind: str
    _capfd: pytest.CaptureFixture[str]
    _monkeypatch: pytest.MonkeyPatch

    def ask(self, *arguments: str, stdin: Path | None = None) -> Ended:
        """Run a `sessions` command on the store."""
        return self.program("sessions", *arguments, "--store", str(self.path), stdin=stdin)

    def program(self, *arguments: str, stdin: Path | None = None) -> Ended:
        """Run the program."""
        if stdin is None:
            status = main(arguments)
        else:
            with stdin.open() as stream:
                self._monkeypatch.setattr("sys.stdin", stream)
                status = main(arguments)
        out, err = self._capfd.readouterr()
        return Ended(status, out, err)

    def json(self, *arguments: str) -> object:
        """Run a command with `--json` and return its output, which must be only JSON."""
        ended = self.ask(*arguments, "--json")
        assert (ended.status, ended.err) == (0, "")
        return json.loads(ended.out)

    def work(self, work: Callable[[Runtime], Awaitable[object]]) -> None:
        """Run a function with a runtime on the store."""

        async def body() -> None:
            async with open_runtime(store=DISK[self.kind](self.path)) as runtime:
                await work(runtime)

        trio.run(body)


@pytest.fixture(params=DISK)
def talked(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Kept:
    path = tmp_path / "store"
    if request.param == "JsonlStore":
        path.mkdir()
    kept = Kept(path, request.param, capfd, monkeypatch)
    kept.work(lambda runtime: talk(runtime, *USE))
    return kept


# Listing and showing.


def test_sessions_are_listed_a_line_each(talked: Kept) -> None:
    async def begin(runtime: Runtime) -> None:
        await runtime.sessions.append("it's odd", Messages().user("Hi."))
        await runtime.sessions.annotate("it's odd", {"user": 7, "model": "x\x1b[2J"})

    talked.work(begin)
    ended = talked.ask("list")
    first, second = ended.out.splitlines()
    assert first.startswith("it's odd  2")
    assert first.endswith("records  x\ufffd[2J")
    assert second.split()[0] == "s"
    assert second.endswith("records  m")
    found = cast("dict[str, list[JsonObject]]", talked.json("list", "--where", "user=7"))
    assert [info["session_id"] for info in found["sessions"]] == ["it's odd"]
    page = talked.ask("list", "--limit", "1")
    *_, more = page.out.splitlines()
    after = shlex.split(more.removeprefix("more: "))
    rest = talked.ask("list", *after)
    assert rest.out.split()[0] == "s"
    none = talked.ask("list", "--where", "model=other")
    assert none.out == "no sessions\n"
    wrong = talked.ask("list", "--where", "model")
    assert (wrong.status, wrong.err) == (2, "error: --where requires key=value; got 'model'\n")


def test_session_is_shown_completely(talked: Kept) -> None:
    ended = talked.ask("show", "s")
    assert (ended.status, ended.err) == (0, "")
    assert "model            m" in ended.out
    assert "[Human] Go.\n[AI]\n  -> echo" in ended.out
    assert ended.out.endswith("[AI] Done.\n")
    shown = cast(JsonObject, talked.json("show", "s"))
    messages = cast("list[JsonObject]", shown["messages"])
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert cast(JsonObject, shown["usage"])["requests"] == 2
    gone = talked.ask("show", "nobody")
    assert (gone.status, gone.err) == (1, f"error: session 'nobody': {GONE}\n")


def test_last_records_are_printed_per_line(talked: Kept) -> None:
    ended = talked.ask("tail", "s", "-n", "3")
    lines = ended.out.splitlines()
    assert [line.split()[3] for line in lines] == ["assistant.message", "usage", "result"]
    as_json = talked.ask("tail", "s", "--json")
    events = [loads_event(line, strict=True) for line in as_json.out.splitlines()]
    assert events[-1].type == "result"
    assert (talked.ask("tail", "nobody")).status == 1


# Export, import, delete and check.


def test_a_session_is_exported_and_imported(talked: Kept, tmp_path: Path) -> None:
    exported = talked.ask("export", "s")
    file = tmp_path / "s.jsonl"
    file.write_text(exported.out, encoding="utf-8")
    again = talked.ask("import", str(file))
    assert (again.status, again.out) == (1, "")
    assert "already" in again.err
    assert talked.json("import", str(file), "--session", "copy") == {"session_id": "copy"}
    messages = talked.ask("export", "copy", "--messages")
    said = tmp_path / "messages.json"
    said.write_text(messages.out, encoding="utf-8")
    piped = talked.ask("import", "-", "--session", "third", stdin=said)
    assert (piped.status, piped.out) == (0, "imported third\n")
    assert (talked.ask("export", "third", "--messages")).out == messages.out
    other = tmp_path / "other"
    made = talked.program("sessions", "import", str(file), "--store", str(other))
    assert (made.status, made.out) == (0, "imported s\n")
    for bad in ("[1", "[1]", "{}", ""):
        file.write_text(bad)
        refused = talked.ask("import", str(file))
        assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    missing = talked.ask("import", str(tmp_path / "nowhere"))
    assert (missing.status, missing.err) == (1, "error: No such file or directory\n")


def test_a_session_is_forked_rewound_and_deleted(talked: Kept) -> None:
    forked = talked.ask("fork", "s", "--at", "2", "--new", "f")
    assert (forked.status, forked.out) == (0, "forked s as f\n")
    rewound = talked.ask("rewind", "s", "2")
    assert (rewound.status, rewound.out) == (0, "rewound s to record 2: 1 messages\n")
    wrong = talked.ask("rewind", "s", "999")
    assert wrong.status == 2
    assert "to_seq must be from 0 to" in wrong.err
    deleted = talked.ask("delete", "s", "f", "s")
    assert deleted.out == "deleted s\ndeleted f\n"
    assert (deleted.status, deleted.err) == (1, f"error: session 's': {GONE}\n")


def test_files_are_rewound(talked: Kept, tmp_path: Path) -> None:
    root, copies = tmp_path / "root", tmp_path / "copies"
    root.mkdir()
    (root / "a").write_text("1")
    options = AgentOptions(
        model="m",
        provider=ScriptedModel([call("Write", {"file_path": "a", "content": "2"}), "Done."]),
        builtin_tools=["Write"],
        workspace={"type": "local", "root": root},
        checkpoints=copies,
        permissions="bypass",
    )
    talked.work(lambda runtime: runtime.run("Go.", options, session_id="f"))
    missing = talked.ask("rewind", "f", "0", "--files")
    assert (missing.status, missing.err) == (2, "error: --files requires --workspace DIRECTORY\n")
    where = ("--workspace", str(root), "--checkpoints", str(copies))
    shown = talked.ask("rewind", "f", "0", "--dry-run", *where)
    assert shown.out == "would rewind f to record 0\n1 file would be restored\n  write  a\n"
    assert talked.json("rewind", "f", "0", "--files", *where) == {
        "session_id": "f",
        "to_seq": 0,
        "messages": 0,
        "dry_run": False,
        "changes": [{"path": "a", "kind": "written"}],
        "conflicts": [],
        "not_covered": [],
    }
    assert (root / "a").read_text() == "1"


def test_sessions_are_checked(talked: Kept) -> None:
    ended = talked.ask("check")
    assert (ended.status, ended.out) == (0, "1 of 1 sessions are valid\n")
    assert talked.json("check", "s") == {"faults": {"s": []}, "damage": {}}


@pytest.mark.parametrize("talked", ["JsonlStore"], indirect=True)
def test_modified_record_is_detected(talked: Kept) -> None:
    log = talked.path / "sessions" / "s" / "events.jsonl"
    text = log.read_text(encoding="utf-8")
    log.write_text(text.replace('"seq":3', '"seq":4', 1), encoding="utf-8")
    broken = talked.ask("check")
    assert broken.status == 1
    assert "s: record 3 (at byte" in broken.out
    assert "has the number 4" in broken.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["list"], "no store was given; pass --store PATH, or set AGENT_ACTORS_STORE"),
        (["list", "--store", "nowhere/at/all"], "there is no store at nowhere/at/all"),
    ],
)
def test_missing_store_is_not_created(
    arguments: list[str], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["sessions", *arguments]) == 2
    assert capfd.readouterr() == ("", f"error: {expected}\n")


def test_foreign_file_is_reported_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text"
    file.write_text("no database " * 1000)
    assert main(["sessions", "list", "--store", str(file)]) == 1
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert file.read_text() == "no database " * 1000


def test_the_environment_names_the_store(talked: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ACTORS_STORE", str(talked.path))
    assert talked.program("sessions", "check").status == 0
