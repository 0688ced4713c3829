"""`agent-actors doctor`: test whether an endpoint supports what an agent needs.

`probes` sends requests, and `capture` records the responses. `stream_quirks` and `call_quirks` find
quirks in the bytes, `recommendations` determines the settings for them, `report` holds the results,
and `render` prints them.
"""
