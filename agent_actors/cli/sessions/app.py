"""The commands about sessions, and their options.

Owns names, help and defaults; what a command does stands in `work.py`.
"""

from typing import Annotated, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from agent_actors.cli.sessions import commands as work
from agent_actors.domain.session import SessionOrder

_Store = Annotated[str, Parameter(show_default=False, env_var="AGENT_ACTORS_STORE")]
_Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
_AtLeastOne = Annotated[int, Parameter(validator=Number(gte=1))]
_NotNegative = Annotated[int, Parameter(validator=Number(gte=0))]

app: Final = App(
    name="sessions",
    help="Look at the sessions of a store, copy them, take them back, check and repair them.",
)


@app.command(name="list")
async def list_sessions(
    *,
    store: _Store = "",
    where: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    order: SessionOrder = "created",
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 50,
    after: str | None = None,
    json: _Flag = False,
) -> int:
    """List sessions, the newest first.

    Args:
        store: The store: a file, or a directory of plain files.
        where: Only those with this metadata, as key=value; may be repeated.
        order: By the time of their first or their last record.
        limit: The most to list.
        after: Go on behind a page; its last line tells with what.
        json: Print one JSON object, and nothing else.
    """
    return await work.run_job(store, work.list_job(where, order, limit, after), as_json=json)


@app.command
async def show(session: str, /, *, store: _Store = "", json: _Flag = False) -> int:
    """Show a session: what is known of it, and its conversation.

    Args:
        session: Its id.
        store: The store: a file, or a directory of plain files.
        json: Print one JSON object, and nothing else.
    """
    return await work.run_job(store, work.show_job(session), as_json=json)


@app.command
async def tail(
    session: str,
    /,
    *,
    store: _Store = "",
    lines: Annotated[_NotNegative, Parameter(alias="-n")] = 10,
    follow: Annotated[_Flag, Parameter(alias="-f")] = False,
    json: _Flag = False,
) -> int:
    """Show the last records of a session, a line each.

    Args:
        session: Its id.
        store: The store: a file, or a directory of plain files.
        lines: How many.
        follow: Go on with those that come, until Ctrl-C; another process may write them.
        json: Print each as the JSON that it is.
    """
    return await work.run_job(store, work.tail_job(session, lines, follow=follow), as_json=json)


@app.command
async def export(
    session: str,
    /,
    *,
    store: _Store = "",
    messages: _Flag = False,
    json: Annotated[_Flag, Parameter(show=False)] = False,
) -> int:
    """Write a session to stdout: its records, a line of JSON each, as they are kept.

    Args:
        session: Its id.
        store: The store: a file, or a directory of plain files.
        messages: Write its conversation instead, as OpenAI's chat completions have it.
        json: It is JSON anyway.
    """
    return await work.run_job(store, work.export_job(session, messages=messages), as_json=json)


@app.command(name="import")
async def import_session(
    file: str,
    /,
    *,
    store: _Store = "",
    session: str | None = None,
    json: _Flag = False,
) -> int:
    """Make a session of a file that was exported: of records, or of messages.

    Args:
        file: The file; - reads stdin.
        store: The store: a file, or a directory of plain files; made if it is not there.
        session: The id to give it; by default that of the records, or a new one.
        json: Print one JSON object, and nothing else.
    """
    return await work.run_job(store, work.import_job(file, session), as_json=json, make=True)


@app.command
async def fork(
    session: str,
    /,
    *,
    store: _Store = "",
    at: Annotated[int | None, Parameter(show_default=False)] = None,
    new: str | None = None,
    json: _Flag = False,
) -> int:
    """Begin another session with the records of this one.

    Args:
        session: Its id.
        store: The store: a file, or a directory of plain files.
        at: The number of the last record to take; by default all.
        new: The id of the new session; by default one is made.
        json: Print one JSON object, and nothing else.
    """
    return await work.run_job(store, work.fork_job(session, at, new), as_json=json)


@app.command
async def rewind(
    session: str, to: _NotNegative, /, *, store: _Store = "", json: _Flag = False
) -> int:
    """Take a session back to what it was right after a record; nothing is lost by it.

    Args:
        session: Its id.
        to: The record's number; 0: the beginning.
        store: The store: a file, or a directory of plain files.
        json: Print one JSON object, and nothing else.
    """
    return await work.run_job(store, work.rewind_job(session, to), as_json=json)


@app.command
async def delete(*sessions: str, store: _Store = "", json: _Flag = False) -> int:
    """Delete sessions for good.

    Args:
        sessions: Their ids.
        store: The store: a file, or a directory of plain files.
        json: Print a line of JSON for each, and nothing else.
    """
    return await work.run_job(store, work.delete_job(sessions), as_json=json)


@app.command
async def check(*sessions: str, store: _Store = "", json: _Flag = False) -> int:
    """Check that sessions are valid. The exit status is 1 if one is not.

    Each problem is a line: the session, the number of the record, its place in the file, and what
    is wrong. Nothing is changed.

    Args:
        sessions: Their ids; none: all of the store.
        store: The store: a file, or a directory of plain files.
        json: Print one JSON object, and nothing else.
    """
    return await work.run_job(store, work.check_job(sessions), as_json=json)


@app.command
async def repair(session: str, /, *sessions: str, store: _Store = "", json: _Flag = False) -> int:
    """Repair the stored records of sessions that `check` reports as damaged, lost or repeated.

    Every readable record stays in its place. A record that cannot be read is replaced by one that
    keeps its bytes. The log as it was is kept in a file, whose name is printed.

    Args:
        session: Its id.
        sessions: The ids of others.
        store: The store: a file, or a directory of plain files.
        json: Print a line of JSON for each, and nothing else.
    """
    return await work.run_job(store, work.repair_job((session, *sessions)), as_json=json)
