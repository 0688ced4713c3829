"""The runtime for asyncio programs, over a trio thread that it owns.

The public names are those of `agent_actors`; values such as `AgentOptions`, `tool` and the events
are imported from there.
"""

from agent_actors.asyncio.client import AsyncioClient as Client
from agent_actors.asyncio.client import AsyncioMessages as Messages
from agent_actors.asyncio.query import AsyncioQuery as Query
from agent_actors.asyncio.query import query as query
from agent_actors.asyncio.query import run as run
from agent_actors.asyncio.runtime import AsyncioRuntime as Runtime
from agent_actors.asyncio.runtime import AsyncioSubscription as Subscription
from agent_actors.asyncio.runtime import open_runtime as open_runtime
from agent_actors.asyncio.stream import AsyncioRunStream as RunStream

__all__ = [
    "Client",
    "Messages",
    "Query",
    "RunStream",
    "Runtime",
    "Subscription",
    "open_runtime",
    "query",
    "run",
]
