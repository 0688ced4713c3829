"""The sessions of a runtime: list, read and change them, and control the runs that hold them."""
