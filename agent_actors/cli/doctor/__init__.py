"""`agent-actors doctor`: tries an endpoint for what an agent needs, and tells what it found.

`probes` asks and keeps what came (`capture`); `stream_quirks` and `call_quirks` read the odd ways
from the bytes, `remedies` says what to set for them, `report` holds it all, and `show` draws it.
"""
