"""Write and read a session without a runtime."""

import tempfile
from pathlib import Path

import trio

from agent_actors.events import UserMessage, bare_event
from agent_actors.stores.alone import open_standalone
from agent_actors.stores.sqlite import SqliteStore

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "sessions.db"


async def main() -> None:
    async with open_standalone(SqliteStore(path)) as alone:
        await alone.append("trip", bare_event(UserMessage, text="I want to see Paris."))
        print((await alone.messages("trip")).pretty())
        print([info.session_id for info in (await alone.store.list_sessions()).sessions])


trio.run(main)
folder.cleanup()
