"""The work of each `sessions` command: open the store, call `runtime.sessions`, write the result.

A command that changes a session fails if another program is using the session.
"""

import json
import math
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

import attrs
import trio

from agent_actors import open_runtime
from agent_actors.cli.outcome import complete
from agent_actors.cli.parameters import FROM_STDIN
from agent_actors.cli.rewind_report import rewind_as_json, rewind_lines
from agent_actors.cli.sessions.render import (
    damage_as_json,
    faults_as_text,
    page_as_json,
    page_as_text,
    record_as_text,
    repair_as_json,
    repair_as_text,
    snapshot_as_json,
    snapshot_as_text,
)
from agent_actors.cli.streams import Output, read_all
from agent_actors.codec.events import dumps_event
from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, nests_deeper
from agent_actors.domain.session import JsonScalar, SessionOrder
from agent_actors.errors import ConfigError, InvalidEventError, SessionStoreError, SessionUnknown
from agent_actors.runtime.sessions.api import SessionAPI
from agent_actors.stores.opening import open_store

# Sessions per page when all sessions are listed.
_PAGE: Final = 1000
# Seconds between checks for new records that another process may have written.
FOLLOW_EVERY: Final = 0.5

Job: TypeAlias = Callable[["JobContext"], Awaitable[int]]


@attrs.frozen
class JobContext:
    """The objects that a command works with.

    Attributes:
        sessions: The sessions of the store.
        out: The output.
        as_json: True to write JSON.
    """

    sessions: SessionAPI
    out: Output
    as_json: bool

    async def write(self, text: str, data: Mapping[str, object]) -> int:
        """Write a result, as text or as JSON."""
        if self.as_json:
            await self.out.write_json(json.dumps(data))
        else:
            await self.out.write(text if text.endswith("\n") else text + "\n")
        return 0


async def run_job(store: str, job: Job, *, as_json: bool, make: bool = False) -> int:
    """Open a command's store, and do the command's work.

    Args:
        store: The path.
        job: The work.
        as_json: True to write JSON.
        make: True to create the store if it does not exist.

    Returns:
        The exit status.
    """

    async def work() -> int:
        path = await _path_of(store, make=make)
        # Reading must not delete any session, however old it is.
        opened = open_store(path, cleanup_period_days=math.inf)
        async with open_runtime(store=opened) as runtime:
            return await job(JobContext(runtime.sessions, Output(sys.stdout), as_json))

    return await complete(work)


async def _path_of(store: str, *, make: bool) -> str:
    if not store:
        raise ConfigError("no store was given; pass --store PATH, or set AGENT_ACTORS_STORE")
    if not make and not await trio.Path(store).exists():
        raise ConfigError(f"there is no store at {store}")
    return store


def list_job(where: Sequence[str], order: SessionOrder, limit: int, after: str | None) -> Job:
    """List a page of sessions."""

    async def job(context: JobContext) -> int:
        metadata = dict(map(_condition, where))
        page = await context.sessions.list(where=metadata, order=order, limit=limit, after=after)
        return await context.write(page_as_text(page), page_as_json(page))

    return job


def _condition(text: str) -> tuple[str, JsonScalar]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--where requires key=value; got {text!r}")
    if nests_deeper(value, 0):
        # Lists and objects stay text, because listings compare only single values.
        return key, value
    try:
        read = json.loads(value)
    except ValueError:
        return key, value
    return key, cast("JsonScalar", read)


def show_job(session_id: str) -> Job:
    """Show the properties and the conversation of a session."""

    async def job(context: JobContext) -> int:
        info = await context.sessions.info(session_id)
        snapshot = await context.sessions.snapshot(session_id)
        if info is None or snapshot is None:
            raise SessionUnknown(session_id)
        return await context.write(
            snapshot_as_text(info, snapshot), snapshot_as_json(info, snapshot)
        )

    return job


def tail_job(session_id: str, count: int, *, follow: bool) -> Job:
    """Write the last records of a session and, with `follow`, new ones."""

    async def job(context: JobContext) -> int:
        info = await context.sessions.info(session_id)
        if info is None:
            raise SessionUnknown(session_id)
        seen = max(info.last_seq - count, 0)
        while True:
            for record in await context.sessions.records(session_id, after_seq=seen):
                if context.as_json:
                    await context.out.write_json(dumps_event(record))
                else:
                    await context.out.write(record_as_text(record) + "\n")
                seen += 1
            if not follow:
                return 0
            await trio.sleep(FOLLOW_EVERY)

    return job


def export_job(session_id: str, *, messages: bool) -> Job:
    """Write a session as JSON lines of records, or as a list of messages in OpenAI's format."""

    async def job(context: JobContext) -> int:
        if messages:
            text = json.dumps(await context.sessions.export_messages(session_id))
        else:
            text = "\n".join(await context.sessions.export(session_id))
        await context.out.write_json(text)
        return 0

    return job


def import_job(path: str, session_id: str | None) -> Job:
    """Create a session from an exported file in either format."""

    async def job(context: JobContext) -> int:
        if path == FROM_STDIN:
            text = await read_all(sys.stdin)
        else:
            text = await trio.Path(path).read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            made = await context.sessions.import_messages(_messages(text), session_id=session_id)
        else:
            made = await context.sessions.import_records(text.split("\n"), session_id=session_id)
        return await context.write(f"imported {made}", {"session_id": made})

    return job


def _messages(text: str) -> list[Mapping[str, object]]:
    if nests_deeper(text, MAX_DOCUMENT_DEPTH):
        raise InvalidEventError(f"expected at most {MAX_DOCUMENT_DEPTH} nested levels of JSON")
    try:
        read = json.loads(text)
    except ValueError as error:
        raise InvalidEventError(f"expected a list of messages as JSON: {error}") from None
    if not all(isinstance(one, dict) for one in read):
        raise InvalidEventError("expected a list of messages, but an item is not an object")
    return cast("list[Mapping[str, object]]", read)


def fork_job(session_id: str, at_seq: int | None, new_id: str | None) -> Job:
    """Create a session with the records of an existing one."""

    async def job(context: JobContext) -> int:
        made = await context.sessions.fork(session_id, at_seq, new_id=new_id)
        return await context.write(f"forked {session_id} as {made}", {"session_id": made})

    return job


def rewind_job(session_id: str, to_seq: int) -> Job:
    """Rewind a session to its state after a record."""

    async def job(context: JobContext) -> int:
        messages = await context.sessions.rewind(session_id, to_seq)
        summary = f"rewound {session_id} to record {to_seq}: {len(messages)} messages"
        return await context.write(
            summary, {"session_id": session_id, "to_seq": to_seq, "messages": len(messages)}
        )

    return job


def rewind_files_job(
    session_id: str, to_seq: int, workspace: str, checkpoints: str, *, dry_run: bool
) -> Job:
    """Rewind a session and the files of its workspace, or show what would change."""

    async def job(context: JobContext) -> int:
        if not workspace:
            raise ConfigError("--files requires --workspace DIRECTORY")
        rewound = await context.sessions.rewind(
            session_id,
            to_seq,
            files=True,
            dry_run=dry_run,
            workspace={"type": "local", "root": Path(workspace)},
            checkpoints=checkpoints or None,
        )
        count = len(rewound.messages)
        verb = "would rewind" if dry_run else "rewound"
        known = f": {count} messages" if not dry_run else ""
        lines = [f"{verb} {session_id} to record {to_seq}{known}", *rewind_lines(rewound)]
        data = {"session_id": session_id, "to_seq": to_seq, "messages": count}
        return await context.write("\n".join(lines), {**data, **rewind_as_json(rewound)})

    return job


def delete_job(session_ids: Sequence[str]) -> Job:
    """Delete sessions permanently."""

    async def job(context: JobContext) -> int:
        for session_id in session_ids:
            if not await context.sessions.delete(session_id):
                raise SessionUnknown(session_id)
            await context.write(
                f"deleted {session_id}", {"session_id": session_id, "deleted": True}
            )
        return 0

    return job


def check_job(session_ids: Sequence[str]) -> Job:
    """Check whether sessions are valid; without ids, all sessions of the store."""

    async def job(context: JobContext) -> int:
        names = session_ids or await _all(context.sessions)
        faults: dict[str, Sequence[str]] = {}
        damage: dict[str, object] = {}
        for name in names:
            try:
                faults[name] = await context.sessions.check(name)
                found = await context.sessions.damage(name)
            except SessionStoreError as error:  # continue with the other sessions
                faults[name], found = (str(error),), ()
            if found:
                damage[name] = [damage_as_json(one) for one in found]
        await context.write(faults_as_text(faults), {"faults": faults, "damage": damage})
        return 1 if any(faults.values()) else 0

    return job


def repair_job(session_ids: Sequence[str]) -> Job:
    """Repair the damaged logs of sessions."""

    async def job(context: JobContext) -> int:
        for session_id in session_ids:
            found = await context.sessions.repair(session_id)
            await context.write(repair_as_text(found), repair_as_json(found))
        return 0

    return job


async def _all(sessions: SessionAPI) -> Sequence[str]:
    names: list[str] = []
    after: str | None = None
    while True:
        page = await sessions.list(limit=_PAGE, after=after)
        names += [info.session_id for info in page.sessions]
        after = page.next
        if after is None:
            return names
