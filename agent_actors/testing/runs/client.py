"""HTTP clients that play the recorded traffic of an endpoint."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_actors.testing.runs.recording import Recording

if TYPE_CHECKING:
    import httpx


@contextmanager
def recorded_client(
    *, record: str | os.PathLike[str], live: bool = False
) -> Generator["httpx.AsyncClient"]:
    """Yield a client for `http_client=` that plays the recorded traffic of a real endpoint.

    A response belongs to a request with the same method, URL and body. It is used once. Requests
    may therefore be sent in any order. Played responses need no network, no key and no real time.

    Args:
        record: The file with the traffic, as JSON with one line per line of a response.
        live: True: send the requests to the endpoint, and write the file when the block ends
            without an exception. Headers of requests are not recorded, and their credentials are
            replaced by `[redacted]` everywhere else. Content is recorded: read the file before you
            publish it.

    Raises:
        FileNotFoundError: The file does not exist, and `live` is False.
        ValueError: The file is not a recording.
    """
    # httpx is slow to import.
    from agent_actors.testing.runs.transports import client_of  # noqa: PLC0415

    recording = Recording(Path(record))
    if not live:
        recording.load()
    yield client_of(recording, live=live)
    if live:
        recording.save()
