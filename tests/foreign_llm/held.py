"""Runs a program until the standard input ends: `python held.py COMMAND …`.

The program is the head of a process group of its own, and the whole group is killed, so that
nothing of it outlives the tests, whatever becomes of them: when they die, their end of the pipe
does too. A signal to end does the same.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    # Whoever ends the tests may do so with a signal to all of their group, this program among them.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True) as child:

        def watch() -> None:
            # Not through a file object, whose lock a thread would hold while the interpreter ends.
            while os.read(0, 1024):
                pass
            kill(child.pid)

        threading.Thread(target=watch, daemon=True).start()
        try:
            return child.wait()
        finally:
            # Whatever it has left behind.
            kill(child.pid)


def kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
