"""Settings of Python's garbage collector for processes with many streams.

A run consists of many objects that live as long as its stream. Python's default is to collect after
every 700 new objects, and such a collection visits the young objects again and again. In a process
with thousands of streams, collecting takes a third of the time of opening a stream, although hardly
any garbage is found: the runtime leaves few reference cycles.
"""

import gc
from typing import Final

from agent_actors.errors import ConfigError

YOUNG_OBJECTS: Final = 50_000
"""The number of new objects after which the collector runs; about 100 streams create as many."""


def tune_gc(young_objects: int = YOUNG_OBJECTS) -> None:
    """Make Python's garbage collector run less often, for processes that hold many streams.

    Call this function once, after your imports and before the runtime is opened. It changes the
    collector of the whole process: it collects once, exempts all objects that exist now from later
    collections, and then sets the threshold of the youngest generation. Garbage in reference cycles
    is kept longer, which costs a few megabytes.

    Args:
        young_objects: The number of new objects after which the collector runs.

    Raises:
        ConfigError: The number is less than 1; the collector would never run.
    """
    if young_objects < 1:
        raise ConfigError(f"tune_gc: young_objects must be at least 1; got {young_objects}")
    gc.collect()
    gc.freeze()
    _, *older = gc.get_threshold()
    gc.set_threshold(young_objects, *older)
