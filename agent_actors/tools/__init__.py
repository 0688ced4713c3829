"""Tools that a model may call, created from functions or from objects with the right interface."""

from agent_actors.tools.context import ToolContext as ToolContext
from agent_actors.tools.decorator import tool as tool
from agent_actors.tools.output import ToolOutput as ToolOutput
from agent_actors.tools.output import to_output as to_output
from agent_actors.tools.protocol import AnyTool as AnyTool
from agent_actors.tools.protocol import ToolProtocol as ToolProtocol
from agent_actors.tools.protocol import as_tool as as_tool
from agent_actors.tools.protocol import check_tools as check_tools
from agent_actors.tools.tool import Tool as Tool
