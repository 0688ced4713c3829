"""A scripted endpoint as a process of its own: `python -m agent_actors.testing --port 0`.

It prints its base URL on one line, serves the demo's script, and ends when its standard input
does (so that it never outlives who started it) or is interrupted. `--keep` lets it run on without
an input, for a shell.
"""

import argparse
import sys
from collections.abc import Sequence

import trio

from agent_actors.testing.demo import ONE_SENTENCE, demo_script
from agent_actors.testing.endpoint import ScriptedEndpoint


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the input ends or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m agent_actors.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default: any that is free")
    parser.add_argument("--tools", type=int, default=8, help="calls of a session's first answer")
    parser.add_argument("--tool", action="append", help="a tool to call; default: those on offer")
    parser.add_argument(
        "--deltas", type=int, default=ONE_SENTENCE, help="deltas of the last answer"
    )
    parser.add_argument("--every", type=float, default=0.01, help="seconds between two deltas")
    parser.add_argument("--keep", action="store_true", help="run on when the input ends")
    options = parser.parse_args(arguments)
    script = demo_script(
        options.tools, tool_names=options.tool, deltas=options.deltas, every=options.every
    )
    try:
        trio.run(_serve, ScriptedEndpoint(script, port=options.port), options.keep)
    except* KeyboardInterrupt:
        pass


async def _serve(endpoint: ScriptedEndpoint, keep: bool) -> None:
    async with endpoint:
        sys.stdout.write(f"{endpoint.base_url}\n")
        sys.stdout.flush()
        if keep:
            await trio.sleep_forever()
        # Abandoned: on Ctrl-C the thread may still wait for the input, which nothing can end.
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    main()
