"""Writes the paced part of many responses from one task.

A streamed response consists mostly of short pauses with a few bytes between them. A task that wakes
up for each write costs five times as much as the write itself. Therefore one task keeps all pending
writes in a heap and writes each one when it is due. The task of a response wakes up only when its
beats are finished, when the client has disconnected, or when the client does not read.
"""

import heapq
from collections.abc import Sequence
from itertools import count
from typing import TypeAlias

import attrs
import trio

from agent_actors.testing._http import ClientGone, Connection

# A beat: seconds to pause, and the bytes to write after the pause.
Beat: TypeAlias = tuple[float, bytes]


@attrs.define(eq=False)
class _Job:
    connection: Connection
    beats: Sequence[Beat]
    ended: trio.Event
    position: int = 0
    rest: bytes = b""
    gone: bool = False


class Pacer:
    """Sends beats to connections; `run` must be running in a task."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, _Job]] = []
        self._order = count()
        self._sooner = trio.lowlevel.ParkingLot()

    async def run(self) -> None:
        """Write data when it is due; never returns."""
        while True:
            deadline = self._due[0][0] if self._due else float("inf")
            with trio.CancelScope(deadline=deadline):
                await self._sooner.park()
            now = trio.current_time()
            while self._due and self._due[0][0] <= now:
                self._beat(heapq.heappop(self._due)[2], now)

    async def play(self, connection: Connection, beats: Sequence[Beat]) -> None:
        """Pause and write, beat by beat.

        Raises:
            ClientGone: The client closed or broke the connection; detected within two beats.

        Cancellation: only together with the complete pacer; otherwise the job would continue.
        """
        job = _Job(connection, beats, trio.Event())
        while job.position < len(beats):
            self._schedule(job, trio.current_time())
            await job.ended.wait()
            if job.gone:
                raise ClientGone
            await connection.send(job.rest)
            job.rest, job.ended = b"", trio.Event()

    def _schedule(self, job: _Job, now: float) -> None:
        due = now + job.beats[job.position][0]
        heapq.heappush(self._due, (due, next(self._order), job))
        if self._due[0][2] is job:
            self._sooner.unpark_all()

    def _beat(self, job: _Job, now: float) -> None:
        data = job.beats[job.position][1]
        job.position += 1
        try:
            job.rest = job.connection.send_nowait(data)
        except ClientGone:
            job.gone = True
        if job.gone or job.rest or job.position == len(job.beats):
            job.ended.set()
        else:
            self._schedule(job, now)
