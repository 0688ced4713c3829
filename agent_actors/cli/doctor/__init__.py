"""`agent-actors doctor`: tries an endpoint for what an agent needs, and tells what it found.

`probes` sends requests, and `capture` records the responses. `stream_quirks` and `call_quirks` find
quirks in the bytes, `recommendations` says which settings they need, `report` holds the results,
and `render` prints them.
"""
