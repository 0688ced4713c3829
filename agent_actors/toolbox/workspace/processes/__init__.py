"""Run the commands of workspaces: a supervisor process, limits, and the environment."""
