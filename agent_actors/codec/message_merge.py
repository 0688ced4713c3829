"""Merges a conversation with the dicts that user code made from it and may have changed.

Hooks receive conversations as dicts, and may return changed ones. The dicts contain less than the
original messages: they lack signatures of thinking blocks, opaque blocks and origins. Therefore
each unchanged dict is replaced by its original message, and only new or changed dicts are parsed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

import attrs
import msgspec

from agent_actors.codec.openai_messages import message_to_openai, messages_from_openai
from agent_actors.domain.json import MAX_MESSAGE_DEPTH, JsonValue, is_deeper
from agent_actors.domain.messages import Message, Messages

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@attrs.frozen
class _HandedOut:
    message: Message
    # One key per dict; a message with several tool results has several dicts.
    keys: list[bytes | None]


def messages_rewritten(before: Messages, dicts: Iterable[Mapping[str, object]]) -> Messages:
    """Return the conversation in `dicts`, using the original message for each unchanged dict.

    Args:
        before: The conversation from which the original dicts were created.
        dicts: The returned dicts: reordered, added and removed dicts are allowed.

    Raises:
        MessageError: A dict is not a valid message. The message names its position and the error.
    """
    dicts = list(dicts)
    read = messages_from_openai(dicts)
    return Messages(_kept(read, [_key(item) for item in dicts], _by_first_key(before)))


def _kept(
    read: Messages, keys: list[bytes | None], handed_out: dict[bytes | None, list[_HandedOut]]
) -> Iterator[Message]:
    at = 0
    while at < len(keys):
        known = handed_out.get(keys[at], [])
        matches = (n for n, one in enumerate(known) if keys[at : at + len(one.keys)] == one.keys)
        found = next(matches, None)
        if found is None:
            yield read[at]
            at += 1
        else:
            # Equal messages are used in their original order; the last of them any number of times.
            one = known.pop(found) if len(known) > 1 else known[found]
            yield one.message
            at += len(one.keys)


def _by_first_key(messages: Messages) -> dict[bytes | None, list[_HandedOut]]:
    found: dict[bytes | None, list[_HandedOut]] = {}
    for message in messages:
        keys = [_key(item) for item in message_to_openai(message)]
        if None not in keys and keys:
            found.setdefault(keys[0], []).append(_HandedOut(message, keys))
    return found


def _key(item: Mapping[str, object]) -> bytes | None:
    """Return a key that identifies a dict's content; None if the dict is not JSON."""
    if is_deeper(cast(JsonValue, item), MAX_MESSAGE_DEPTH):
        return None
    try:
        return _ENCODER.encode(item)
    except (TypeError, ValueError):
        return None
