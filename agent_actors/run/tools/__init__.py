"""Tool calls of one run: the toolset, permissions and external tools."""
