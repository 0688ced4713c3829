"""`runtime.sessions` and `runtime.questions` for asyncio tasks."""

from agent_actors.asyncio.trio_objects import TrioObject, crossing, crossing_sync
from agent_actors.runtime.questions import QuestionAPI
from agent_actors.runtime.sessions.api import SessionAPI


class AsyncioSessions(TrioObject[SessionAPI]):
    """The sessions of a runtime. The methods have the parameters of those of `SessionAPI`."""

    @crossing(SessionAPI.info)
    def info(self) -> None:
        """Return information about a session without reading its records."""

    @crossing(SessionAPI.history)
    def history(self) -> None:
        """Return the conversation of a session, whether or not it is in memory; always valid."""

    @crossing(SessionAPI.snapshot)
    def snapshot(self) -> None:
        """Return the complete state of a session: messages, todos, files, metadata, usage."""

    @crossing(SessionAPI.records)
    def records(self) -> None:
        """Return the records of a session, in order."""

    @crossing(SessionAPI.export)
    def export(self) -> None:
        """Return the stored records of a session as lines of JSON, for `import_records`."""

    @crossing(SessionAPI.export_messages)
    def export_messages(self) -> None:
        """Return the conversation in the OpenAI chat completions format."""

    @crossing(SessionAPI.check)
    def check(self) -> None:
        """Check the records of a session, and describe every problem that was found."""

    @crossing(SessionAPI.damage)
    def damage(self) -> None:
        """Return the damaged, lost and repeated records in the stored log of a session."""

    @crossing(SessionAPI.append)
    def append(self) -> None:
        """Append messages to the conversation of a session; create the session if necessary."""

    @crossing(SessionAPI.replace)
    def replace(self) -> None:
        """Replace the conversation of a session; `rewind` can restore the previous one."""

    @crossing(SessionAPI.reset)
    def reset(self) -> None:
        """Rewind a session to its beginning; the tokens already used still count."""

    @crossing(SessionAPI.rewind)
    def rewind(self) -> None:
        """Restore the conversation as it was right after a record."""

    @crossing(SessionAPI.record)
    def record(self) -> None:
        """Record todos, files, skills or notifications; create the session if necessary."""

    @crossing(SessionAPI.annotate)
    def annotate(self) -> None:
        """Set metadata keys of a session, even while a run holds the session."""

    @crossing(SessionAPI.fork)
    def fork(self) -> None:
        """Create a session from the records of another one, up to a record."""

    @crossing(SessionAPI.delete)
    def delete(self) -> None:
        """Delete a session from memory and from the store, permanently."""

    @crossing(SessionAPI.prune)
    def prune(self) -> None:
        """Delete the sessions whose last record is older than the given number of days."""

    @crossing(SessionAPI.repair)
    def repair(self) -> None:
        """Make the stored log of a session readable again; `damage` lists its problems."""

    @crossing(SessionAPI.import_records)
    def import_records(self) -> None:
        """Create a session from exported records."""

    @crossing(SessionAPI.import_messages)
    def import_messages(self) -> None:
        """Create a session from messages in the OpenAI chat completions format."""

    @crossing(SessionAPI.list)
    def list(self) -> None:
        """List sessions, newest first, one page at a time."""


class AsyncioQuestions(TrioObject[QuestionAPI]):
    """The questions that the runs of a runtime are waiting on; see `QuestionAPI`."""

    @crossing_sync(QuestionAPI.__call__)
    def __call__(self) -> None:
        """Return the open questions, oldest first; the same as `pending`."""

    @crossing_sync(QuestionAPI.pending)
    def pending(self) -> None:
        """Return the open questions, oldest first."""

    @crossing_sync(QuestionAPI.answer)
    def answer(self) -> None:
        """Answer a question; the first answer wins."""
