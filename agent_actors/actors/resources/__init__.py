"""The resources that a session keeps between its runs: workspace and background commands."""
