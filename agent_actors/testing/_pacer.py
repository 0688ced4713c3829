"""Writes the paced part of many responses from one task.

Answers that stream are mostly pauses of some milliseconds with a few bytes between them. A task
that wakes for each costs five times what the write costs; so one task keeps all that is due in a
heap and writes it, and a response's own task wakes once, when its beats are over or something is in
the way: a client that has gone, or one that does not read.
"""

import heapq
from collections.abc import Sequence
from itertools import count
from typing import TypeAlias

import attrs
import trio

from agent_actors.testing._http import ClientGone, Connection

# Seconds to pause, and what to write then.
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
    """Plays beats to connections; `run` must be running meanwhile."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, _Job]] = []
        self._order = count()
        self._sooner = trio.lowlevel.ParkingLot()

    async def run(self) -> None:
        """Write what is due, for ever."""
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
            ClientGone: The client closed or broke the connection; noticed within two beats.

        Cancellation: for the end of the whole pacer only; a job left alone would go on.
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
