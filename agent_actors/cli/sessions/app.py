"""The `sessions` commands and their options.

This module defines names, help texts and defaults. The commands are implemented in `commands.py`.
"""

from typing import Annotated, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from agent_actors.cli.parameters import Flag, NotNegative, Store, Text
from agent_actors.cli.sessions import commands as work
from agent_actors.domain.session import SessionOrder

app: Final = App(
    name="sessions",
    help="List, show, copy, rewind, check and repair the sessions of a store.",
)


@app.command(name="list")
async def list_sessions(
    *,
    store: Store = "",
    where: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    order: SessionOrder = "created",
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 50,
    after: str | None = None,
    json: Flag = False,
) -> int:
    """List sessions, newest first.

    Args:
        store: Path of the store: a file, or a directory of plain files.
        where: List only sessions with this metadata, as key=value; may be repeated.
        order: Sort by the time of the first or the last record.
        limit: Maximum number of sessions.
        after: Continue after the previous page; pass the value from its last line.
        json: Print one JSON object and nothing else.
    """
    return await work.run_job(store, work.list_job(where, order, limit, after), as_json=json)


@app.command
async def show(session: str, /, *, store: Store = "", json: Flag = False) -> int:
    """Show a session: its properties and its conversation.

    Args:
        session: Id of the session.
        store: Path of the store: a file, or a directory of plain files.
        json: Print one JSON object and nothing else.
    """
    return await work.run_job(store, work.show_job(session), as_json=json)


@app.command
async def tail(
    session: str,
    /,
    *,
    store: Store = "",
    lines: Annotated[NotNegative, Parameter(alias="-n")] = 10,
    follow: Annotated[Flag, Parameter(alias="-f")] = False,
    json: Flag = False,
) -> int:
    """Show the last records of a session, one per line.

    Args:
        session: Id of the session.
        store: Path of the store: a file, or a directory of plain files.
        lines: Number of records.
        follow: Continue with new records until Ctrl-C; another process may write them.
        json: Print each record as JSON.
    """
    return await work.run_job(store, work.tail_job(session, lines, follow=follow), as_json=json)


@app.command
async def export(
    session: str,
    /,
    *,
    store: Store = "",
    messages: Flag = False,
    json: Annotated[Flag, Parameter(show=False)] = False,
) -> int:
    """Write the stored records of a session to stdout, one line of JSON each.

    Args:
        session: Id of the session.
        store: Path of the store: a file, or a directory of plain files.
        messages: Write the conversation instead, in the format of OpenAI's chat completions.
        json: Has no effect; the output is always JSON.
    """
    return await work.run_job(store, work.export_job(session, messages=messages), as_json=json)


@app.command(name="import")
async def import_session(
    file: str,
    /,
    *,
    store: Store = "",
    session: str | None = None,
    json: Flag = False,
) -> int:
    """Create a session from an exported file of records or messages.

    Args:
        file: Path of the file; - reads stdin.
        store: Path of the store: a file, or a directory of plain files; created if missing.
        session: Id of the new session. By default the id in the records, or a generated id.
        json: Print one JSON object and nothing else.
    """
    return await work.run_job(store, work.import_job(file, session), as_json=json, make=True)


@app.command
async def fork(
    session: str,
    /,
    *,
    store: Store = "",
    at: Annotated[int | None, Parameter(show_default=False)] = None,
    new: str | None = None,
    json: Flag = False,
) -> int:
    """Create a session with the records of an existing one.

    Args:
        session: Id of the existing session.
        store: Path of the store: a file, or a directory of plain files.
        at: Number of the last record to copy. By default all records are copied.
        new: Id of the new session. By default an id is generated.
        json: Print one JSON object and nothing else.
    """
    return await work.run_job(store, work.fork_job(session, at, new), as_json=json)


@app.command
async def rewind(
    session: str,
    to: NotNegative,
    /,
    *,
    store: Store = "",
    files: Flag = False,
    dry_run: Flag = False,
    workspace: Text = "",
    checkpoints: Text = "",
    json: Flag = False,
) -> int:
    """Rewind a session to its state right after a record; all records are kept.

    With --files, the files that the agent changed since then are restored too. Files that others
    changed as well are kept.

    Args:
        session: Id of the session.
        to: Number of the record; 0 is the beginning.
        store: Path of the store: a file, or a directory of plain files.
        files: Restore the files of the workspace too; requires --workspace.
        dry_run: Change nothing, and print the files that would be restored. Implies --files.
        workspace: Directory in which the agent worked.
        checkpoints: Directory of the checkpoints. By default a directory below ~/.local/state.
        json: Print one JSON object and nothing else.
    """
    if files or dry_run:
        job = work.rewind_files_job(session, to, workspace, checkpoints, dry_run=dry_run)
    else:
        job = work.rewind_job(session, to)
    return await work.run_job(store, job, as_json=json)


@app.command
async def delete(*sessions: str, store: Store = "", json: Flag = False) -> int:
    """Delete sessions permanently.

    Args:
        sessions: Ids of the sessions.
        store: Path of the store: a file, or a directory of plain files.
        json: Print a line of JSON for each session and nothing else.
    """
    return await work.run_job(store, work.delete_job(sessions), as_json=json)


@app.command
async def check(*sessions: str, store: Store = "", json: Flag = False) -> int:
    """Check that sessions are valid. The exit status is 1 if a session is not valid.

    Each line describes a problem: the session, the number of the record, its position in the file,
    and the reason. Nothing is changed.

    Args:
        sessions: Ids of the sessions. By default all sessions of the store are checked.
        store: Path of the store: a file, or a directory of plain files.
        json: Print one JSON object and nothing else.
    """
    return await work.run_job(store, work.check_job(sessions), as_json=json)


@app.command
async def repair(session: str, /, *sessions: str, store: Store = "", json: Flag = False) -> int:
    """Repair the stored records of sessions that `check` reports as damaged, lost or repeated.

    Every readable record keeps its position. A record that cannot be read is replaced by one that
    contains its bytes. The original log is kept in a file, whose name is printed.

    Args:
        session: Id of the session.
        sessions: Ids of further sessions.
        store: Path of the store: a file, or a directory of plain files.
        json: Print a line of JSON for each session and nothing else.
    """
    return await work.run_job(store, work.repair_job((session, *sessions)), as_json=json)
