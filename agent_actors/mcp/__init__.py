"""MCP servers as tools of an agent, and a client for one server; requires the extra `mcp`.

Agents use servers through `AgentOptions.mcp_servers`. `MCPClient` uses one server without an agent.
"""

from agent_actors.mcp.client import MCPClient as MCPClient
from agent_actors.options.mcp_servers import HttpServer as HttpServer
from agent_actors.options.mcp_servers import InProcessServer as InProcessServer
from agent_actors.options.mcp_servers import SseServer as SseServer
from agent_actors.options.mcp_servers import StdioServer as StdioServer
