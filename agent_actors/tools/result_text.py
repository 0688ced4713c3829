"""Measures the text of a tool result and truncates it to a maximum size, in slices.

A result may have hundreds of megabytes. Processing all of it in one step, such as `json.dumps`,
would block every other thread of the interpreter. This module therefore works in slices, and other
threads can run after each slice.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from agent_actors.domain.blocks import part_label, part_text
from agent_actors.domain.json import JsonObject, JsonValue

Content: TypeAlias = str | JsonObject | list[JsonValue]

# Number of characters in a slice, which takes about a tenth of a millisecond to encode.
SLICE: Final = 2**16
# The number of values that `is_small` examines. Examining more would take a millisecond.
_LOOKS: Final = 500
# Upper bounds on the bytes per character (a control character becomes `\\u0000`), and on the
# additional bytes per value.
_BYTES_PER_CHARACTER: Final = 6
_BYTES_PER_VALUE: Final = 32


def is_small(value: JsonValue, limit: float) -> bool:
    """Return whether the text of a value certainly has no more than `limit` bytes.

    This takes less than a millisecond. The result may be False for a small value with many parts.
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
    """Yield the text of a result, which is that of `ToolResultBlock.text`, in chunks of UTF-8."""
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
    """Return the text in the first `size` bytes, without an incomplete last character."""
    head = bytearray()
    for chunk in chunks:
        head += chunk[: size - len(head)]
        if len(head) == size:
            break
    return head.decode(errors="ignore")


def cut_content(content: Content, chunks: Iterable[bytes], size: int) -> tuple[Content, int]:
    """Truncate the content; return it and the number of bytes of its remaining text.

    Images and files in a list of blocks are kept. JSON content becomes text.

    Args:
        content: The content.
        chunks: The content's text; see `text_chunks`.
        size: The maximum number of bytes of text.
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
            size = used  # nothing may follow truncated text
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
