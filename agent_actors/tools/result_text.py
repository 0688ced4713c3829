"""The text of a tool result in slices: measuring it, and cutting it to a maximum size.

A result may have hundreds of megabytes. One step over all of it, such as `json.dumps`, would block
every other thread of the interpreter until it ends. Everything here proceeds in slices instead, so
that another thread can run after each of them.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from agent_actors.domain.blocks import part_label, part_text
from agent_actors.domain.json import JsonObject, JsonValue

Content: TypeAlias = str | JsonObject | list[JsonValue]

# Characters of a slice: about a tenth of a millisecond of encoding.
SLICE: Final = 2**16
# The number of values that `is_small` looks at. More of them would take a millisecond.
_LOOKS: Final = 500
# An upper bound of the bytes of a character (a control character as `\\u0000`), and of the bytes of
# a value in addition to its characters.
_BYTES_PER_CHARACTER: Final = 6
_BYTES_PER_VALUE: Final = 32


def is_small(value: JsonValue, limit: float) -> bool:
    """Return whether the text of a value has certainly no more than `limit` bytes.

    Takes less than a millisecond. A value with many parts may be small although this returns False.
    """
    if isinstance(value, str) and value.isascii():
        return len(value) <= limit
    left, waiting = limit, [value]
    for _ in range(_LOOKS):
        if not waiting or left < 0:
            break
        part = waiting.pop()
        left -= _BYTES_PER_VALUE
        if isinstance(part, str):
            left -= len(part) * _BYTES_PER_CHARACTER
        elif isinstance(part, dict):
            if len(part) > _LOOKS:
                return False
            left -= sum(map(len, part)) * _BYTES_PER_CHARACTER
            waiting += part.values()
        elif isinstance(part, list | tuple):
            if len(part) > _LOOKS:
                return False
            waiting += part
    return not waiting and left >= 0


def text_chunks(content: Content) -> Iterator[bytes]:
    """Yield the text of a result, as `ToolResultBlock.text` has it, in UTF-8 chunks."""
    chunk: list[bytes] = []
    size = 0
    for piece in _slices(content):
        chunk.append(piece.encode())
        size += len(chunk[-1])
        if size >= SLICE:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


def cut_text(chunks: Iterable[bytes], size: int) -> str:
    """Return the text of the first `size` bytes of a text, without a character that is cut."""
    head = bytearray()
    for chunk in chunks:
        head += chunk[: size - len(head)]
        if len(head) == size:
            break
    return head.decode(errors="ignore")


def cut_content(content: Content, chunks: Iterable[bytes], size: int) -> tuple[Content, int]:
    """Return the content cut to its first bytes of text, and the number of bytes of that text.

    The images and files in a list of blocks stay. Content that is JSON becomes text.

    Args:
        content: The content.
        chunks: Its text, see `text_chunks`.
        size: The maximum number of bytes.
    """
    texts = _part_texts(content)
    if texts is None:
        head = cut_text(chunks, size)
        return head, len(head.encode())
    assert isinstance(content, list)
    parts: list[JsonValue] = []
    used = 0
    for part, text in zip(content, texts, strict=True):
        head = cut_text((text[: size - used].encode(),), size - used)
        used += len(head.encode())
        if part_label(part) is not None:
            parts.append(part)
        elif head:
            parts.append({"type": "text", "text": head})
        if head != text:
            size = used  # nothing follows a text that is cut
    return parts, used


def _part_texts(content: Content) -> list[str] | None:
    """Return the text of each part of a list of blocks; None if the content is anything else."""
    if not isinstance(content, list):
        return None
    texts = [part_text(part) for part in content]
    found = [text for text in texts if text is not None]
    return found if texts and len(found) == len(texts) else None


def _slices(content: Content) -> Iterator[str]:
    if isinstance(content, str):
        yield from _sliced(content)
        return
    texts = _part_texts(content)
    if texts is not None:
        for text in texts:
            yield from _sliced(text)
    elif isinstance(content, list):
        yield from _json([part_label(part) or part for part in content])
    else:
        yield from _json(content)


def _sliced(text: str) -> Iterator[str]:
    for start in range(0, len(text), SLICE):
        yield text[start : start + SLICE]


def _json(value: JsonValue) -> Iterator[str]:
    """Yield JSON text as `json.dumps` writes it, in slices."""
    if is_small(value, SLICE):
        yield json.dumps(value, ensure_ascii=False)
    elif isinstance(value, dict):
        yield "{"
        for number, (key, item) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _json(key)
            yield ": "
            yield from _json(item)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _json(item)
        yield "]"
    else:
        assert isinstance(value, str)  # every other value is small
        yield '"'
        for piece in _sliced(value):
            yield json.dumps(piece, ensure_ascii=False)[1:-1]
        yield '"'
