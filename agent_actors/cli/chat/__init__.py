"""`agent-actors chat`: a conversation in a terminal, or line by line through pipes.

`command.py` starts a chat, and `loop.py` runs it. Parsing input (`commands.py`), formatting text
(`formatting.py`) and laying out a turn (`view.py`) are pure. `terminal/` reads and writes with an
editor, colours and cursor movement; `plain_view.py` does not need them.
"""
