"""Code shared by the on-disk stores: a writer thread, locks, safe file access and listings."""
