"""Code that the stores on disk share: a writer thread, locks, safe files and listings."""
