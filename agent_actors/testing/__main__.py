"""Serve a scripted endpoint in a separate process: `python -m agent_actors.testing --port 0`.

The process prints its base URL on one line and serves the demo's script. It ends when its standard
input ends or when it is interrupted, so it never outlives the process that started it. With
`--keep`, it ignores the end of its input, for use in a shell.
"""

import argparse
import sys
from collections.abc import Sequence

import trio

from agent_actors.testing.demo import ONE_SENTENCE, demo_script
from agent_actors.testing.endpoint import ScriptedEndpoint


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the input ends or Ctrl-C is pressed."""
    parser = argparse.ArgumentParser(prog="python -m agent_actors.testing", description=__doc__)
    parser.add_argument(
        "--port", type=_port, default=0, help="port to listen on; default: any free port"
    )
    parser.add_argument(
        "--tools",
        type=int,
        default=8,
        help="calls in the first response of a session; default: %(default)s",
    )
    parser.add_argument(
        "--tool",
        action="append",
        help="tool to call, may be repeated; default: the tools of the request",
    )
    parser.add_argument(
        "--deltas",
        type=int,
        default=ONE_SENTENCE,
        help="deltas of the last response; default: %(default)s",
    )
    parser.add_argument(
        "--every", type=float, default=0.01, help="seconds between two deltas; default: %(default)s"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep running when the standard input ends"
    )
    options = parser.parse_args(arguments)
    script = demo_script(
        options.tools, tool_names=options.tool, deltas=options.deltas, every=options.every
    )
    try:
        try:
            trio.run(_serve, ScriptedEndpoint(script, port=options.port), options.keep)
        except OSError as error:
            parser.exit(1, f"error: {error.strerror}\n")
    except* KeyboardInterrupt:
        pass


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535; got {port}")
    return port


async def _serve(endpoint: ScriptedEndpoint, keep: bool) -> None:
    async with endpoint:
        sys.stdout.write(f"{endpoint.base_url}\n")
        sys.stdout.flush()
        if keep:
            await trio.sleep_forever()
        # The thread is abandoned: after Ctrl-C it may still be reading the input, and this read
        # cannot be interrupted.
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    main()
