"""`agent-actors chat`: a conversation in a terminal, or a line at a time through pipes.

`command.py` holds the loop. What a line means (`commands.py`), how things are put into words
(`words.py`) and how a turn looks (`view.py`, `markdown.py`) are pure; `screen.py` writes to the
terminal, `editor.py` reads from it, and `plain.py` does both without either's powers.
"""
