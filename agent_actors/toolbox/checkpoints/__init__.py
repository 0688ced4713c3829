"""Checkpoints: copies of a workspace's files in a directory outside of it, and their restoration.

The modules use only the operations of `abc.Workspace` and, where a workspace has them, those of
`abc.TreeWorkspace`. Copies are addressed by their content, so that a checkpoint stores only files
that no earlier checkpoint contains.
"""
