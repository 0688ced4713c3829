"""The tools for files: reading, writing, exact edits and patches.

`decoding`, `numbering`, `edits`, `nearest`, `patch_parsing` and `patch_application` do no I/O.
"""
