"""Runs a program until the standard input ends: `python held.py COMMAND …`.

The program leads its own process group, and the whole group is killed at the end. None of its
processes can outlive the tests: if the tests die, their end of the pipe is closed too. A signal
that ends this program also kills the group.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    # The tests may be ended by a signal to their process group, which includes this program.
    received: list[int] = []
    running = False

    def end(number: int, _: object) -> None:
        received.append(number)
        if running:
            sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end)
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True) as child:

        def watch() -> None:
            # This does not use a file object, because a thread would hold its lock while the
            # interpreter ends.
            while os.read(0, 1024):
                pass
            kill(child.pid)

        try:
            running = True
            if received:  # a signal arrived before the constructor returned
                sys.exit(128 + received[0])
            threading.Thread(target=watch, daemon=True).start()
            return child.wait()
        finally:
            # Kill the processes that the program has left behind.
            kill(child.pid)


def kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
