"""`python -m agent_actors`: the same as the console script `agent-actors`."""

import sys

from agent_actors.cli import main

if __name__ == "__main__":
    sys.exit(main())
