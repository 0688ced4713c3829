"""Check repeatedly, in linear time, whether argument text that is still arriving is complete.

`WholeObjects` finds the end of each top-level object in a text that arrives in chunks. `arguments`
checks each object once, when it ends. One check is enough, because a valid object stays valid, and
no later text can fix an invalid one.
"""

import re
from typing import Final

from agent_actors.protocol.response.arguments import is_complete_object

_IN_STRING: Final = re.compile(r'["\\]')
# Square brackets need not be tracked: if one is not closed, the object around it is invalid.
_IN_OBJECT: Final = re.compile(r'[{}"]')
_BETWEEN: Final = re.compile(r"[^ \t\r\n]")


class WholeObjects:
    """Tracks a text and reports at any time whether `is_complete_object` is true for it."""

    __slots__ = ("_any", "_dead", "_depth", "_escaped", "_kept", "_quoted", "_wrapped")

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = False
        # True if the text is a single string, which may contain objects.
        self._wrapped = False
        # `_any`: something was complete. `_dead`: something was complete but was not a valid
        # object.
        self._any = self._dead = False
        # The chunks of the object or string that is still incomplete.
        self._kept: list[str] = []

    @property
    def whole(self) -> bool:
        """True if the text so far is one or more complete objects, possibly in a string."""
        return self._any and not (self._dead or self._depth or self._quoted)

    def feed(self, text: str) -> None:
        """Process more of the text."""
        start = at = 0
        while at < len(text) and not self._dead:
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = self._pattern().search(text, at)
            if found is None:
                break
            at = found.end()
            if not (self._depth or self._quoted):
                start = found.start()
                self._begin(found.group())
            elif self._ends(found.group()):
                self._settle(text[start:at])
        if self._depth or self._quoted:
            self._kept.append(text[start:])

    def _pattern(self) -> re.Pattern[str]:
        if self._quoted:
            return _IN_STRING
        return _IN_OBJECT if self._depth else _BETWEEN

    def _begin(self, first: str) -> None:
        """Start an object or a string at its first character."""
        if first == "{" and not self._wrapped:
            self._depth = 1
        elif first == '"' and not self._any:
            self._quoted = self._wrapped = True
        else:
            self._dead = True

    def _ends(self, mark: str) -> bool:
        """Process a marker character. Return whether it ends the current object or string."""
        if mark == "\\":
            self._escaped = True
        elif mark == '"':
            self._quoted = not self._quoted
        else:
            self._depth += 1 if mark == "{" else -1
        return not (self._depth or self._quoted or self._escaped)

    def _settle(self, rest: str) -> None:
        """Check the object or string that ends with these characters."""
        self._any = True
        self._dead = not is_complete_object("".join((*self._kept, rest)))
        self._kept.clear()
