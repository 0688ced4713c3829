"""The edits of files that `chat` and `run` show."""
