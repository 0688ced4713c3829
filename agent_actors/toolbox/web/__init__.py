"""Tools that use the web: `web_fetch`, `web_search` and `HTTPTool`."""

from agent_actors.toolbox.web.fetch_tool import web_fetch as web_fetch
from agent_actors.toolbox.web.http_tool import HTTPTool as HTTPTool
from agent_actors.toolbox.web.search_tool import SearchProvider as SearchProvider
from agent_actors.toolbox.web.search_tool import SearchResult as SearchResult
from agent_actors.toolbox.web.search_tool import TavilySearch as TavilySearch
from agent_actors.toolbox.web.search_tool import web_search as web_search
