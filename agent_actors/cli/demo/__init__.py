"""`agent-actors demo`: many sessions at once, against an embedded endpoint or a real one.

`runner` runs the sessions with the prompts and tools of `workload`, `tally` computes the results,
`display` shows them, and `command` is the command itself.
"""
