"""Completes JSON text that is still being streamed, so that it can be decoded at any time.

The text is scanned once, however often it is completed. A completed document contains a string up
to its last character so far. It omits a number, a literal or a key that may continue. An endpoint
may put the JSON into a code fence. Any other text before the JSON means that there is none.
"""

import re
from typing import Final

# Blank characters and the beginning of a code fence, which may precede the JSON.
_BEFORE: Final = re.compile(r"[ \t\r\n\ufeff]*(?:```[A-Za-z0-9]*[ \t]*\r?\n[ \t\r\n]*)?")
_MAY_BE_FENCE: Final = re.compile(r"[ \t\r\n\ufeff]*(?:`{1,3}[A-Za-z0-9]*[ \t]*\r?)?")
_STRUCTURE: Final = re.compile(r'["{}\[\],:]')
_IN_STRING: Final = re.compile(r'["\\]')
# An escape sequence, with both halves of a surrogate pair.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}"
    r"|u(?![dD][89abAB])[0-9a-fA-F]{4}"
    r"|[^u])"
)
# The longest escape sequence: a surrogate pair.
_LONGEST_ESCAPE: Final = 12
_CLOSERS: Final = {"{": "}", "[": "]"}


class GrowingJson:
    """One JSON object or array, whose text arrives in parts.

    Attributes:
        is_json: False if the text is certainly not one JSON object or array.
        is_complete: True if the object or array has ended.
    """

    def __init__(self) -> None:
        self.is_json: bool = True
        self.is_complete: bool = False
        self._text = ""
        # The text before this position has been scanned.
        self._position = 0
        # The text before this position is valid JSON if the open containers are closed.
        self._valid = 0
        self._open: list[str] = []
        self._begun = self._in_string = self._expects_key = self._in_key = False

    def feed(self, text: str) -> None:
        """Add the next part of the text."""
        if self.is_complete or not self.is_json:
            return
        self._text += text
        if not self._begun and not self._begin():
            return
        goes_on = True
        while goes_on:
            goes_on = self._scan_string() if self._in_string else self._scan_structure()

    def completed(self) -> str:
        """Return the text so far as a complete JSON document; empty if nothing has arrived."""
        if not self._begun or not self.is_json:
            return ""
        closers = "".join(_CLOSERS[opener] for opener in reversed(self._open))
        if self._in_string and not self._in_key:
            return f'{self._text[: self._position]}"{closers}'
        return self._text[: self._valid] + closers

    def _begin(self) -> bool:
        before = _BEFORE.match(self._text)
        start = 0 if before is None else before.end()
        if start == len(self._text):
            return False
        if self._text[start] in _CLOSERS:
            self._text, self._begun = self._text[start:], True
        elif _MAY_BE_FENCE.fullmatch(self._text) is None:
            self.is_json = False
        return self._begun

    def _scan_string(self) -> bool:
        """Scan to the end of the string; return False if more text is needed."""
        while (found := _IN_STRING.search(self._text, self._position)) is not None:
            if found[0] == '"':
                self._position, self._in_string = found.end(), False
                if not self._in_key:
                    self._valid = found.end()
                return True
            escape = _ESCAPE.match(self._text, found.start())
            if escape is None:
                self._position = found.start()
                # An invalid escape sequence, or half of a surrogate pair.
                self.is_json = len(self._text) - self._position < _LONGEST_ESCAPE
                return False
            self._position = escape.end()
        self._position = len(self._text)
        return False

    def _scan_structure(self) -> bool:
        """Scan to the next structural character; return False if more text is needed."""
        found = _STRUCTURE.search(self._text, self._position)
        if found is None:
            self._position = len(self._text)
            return False
        self._position = found.end()
        match found[0]:
            case '"':
                self._in_string, self._in_key = True, self._expects_key
            case "{" | "[":
                self._open.append(found[0])
                self._valid, self._expects_key = found.end(), found[0] == "{"
            case ",":
                self._valid, self._expects_key = found.start(), self._open[-1] == "{"
            case ":":
                self._expects_key = False
            case closer:
                if _CLOSERS[self._open.pop()] != closer:
                    self.is_json = False
                    return False
                self._valid, self._expects_key = found.end(), False
                self.is_complete = not self._open
        return not self.is_complete
