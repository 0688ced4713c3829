"""The project knowledge of one run: reading it, and the tools for skills."""
