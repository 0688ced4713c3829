"""Values of workspaces: files, processes, and the report about a sandbox."""
