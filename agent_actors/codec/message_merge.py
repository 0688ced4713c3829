"""A conversation that was handed out as dicts, and came back.

The wire's dicts hold less than the messages they were made from: seals of thoughts, blocks that one
provider alone knows, and who gave them. So a message that comes back as it was handed out stays
the very message it was, and only what was written anew is read.
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
    # Of several results each is a dict of its own.
    keys: list[bytes | None]


def messages_rewritten(before: Messages, dicts: Iterable[Mapping[str, object]]) -> Messages:
    """The conversation that somebody made of another one.

    Args:
        before: What was handed out.
        dicts: What came back; in whatever order, with or without what was there.

    Raises:
        MessageError: Naming the message that is none, and what is wrong with it.
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
        whole = (n for n, one in enumerate(known) if keys[at : at + len(one.keys)] == one.keys)
        found = next(whole, None)
        if found is None:
            yield read[at]
            at += 1
        else:
            # Messages that look alike come back in the order in which they stood; the last of them
            # again and again.
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
    """What tells a dict from any other; None for one that is no JSON."""
    if is_deeper(cast(JsonValue, item), MAX_MESSAGE_DEPTH):
        return None
    try:
        return _ENCODER.encode(item)
    except (TypeError, ValueError):
        return None
