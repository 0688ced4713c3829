"""Code shared by the stores on disk: a writer thread, locks, safe file access and listings."""
