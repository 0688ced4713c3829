"""The workspace in directories of this machine, and the file operations that sandboxes share."""
