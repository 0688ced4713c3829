"""Recognize errors with which endpoints refuse a request that is longer than the context window."""

import re
from collections.abc import Iterable
from typing import Final

from agent_actors.errors import ProviderError, ProviderInBandError, ProviderStatusError

# 400 and 413 are the usual statuses; some servers respond with 422 or 500.
_STATUSES: Final = frozenset({400, 413, 422, 500})

_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})

# OpenAI and vLLM ("maximum context length is"), Anthropic ("prompt is too long", "exceed context
# limit"), llama.cpp ("exceeds the available context size"), LM Studio ("greater than the context
# length"), Gemini ("input token count … exceeds"), Groq ("reduce the length of the messages").
_TEXTS: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|prompt is too long"
    r"|exceeds? (?:the )?(?:available |model'?s? |maximum )?context"
    r"|(?:greater|longer|larger) than the context|input token count.{0,40}exceeds"
    r"|reduce the length of the (?:messages|prompt)|input is too long|too many input tokens",
    re.IGNORECASE | re.DOTALL,
)

OVERFLOW_HINT: Final = (
    "the conversation is longer than the model's context window; set "
    "AgentOptions(on_overflow='compact') to make it shorter and ask again, or "
    "AgentOptions(compaction=True) to make it shorter in time"
)


def is_context_overflow(error: ProviderError, texts: Iterable[str] = ()) -> bool:
    """Return whether an endpoint refused a request because it is too long.

    Args:
        error: The failure.
        texts: Further parts of error messages with this meaning, from the provider's profile.
    """
    match error:
        case ProviderStatusError(status=status, body_message=message) if status in _STATUSES:
            pass
        case ProviderInBandError(code=code):
            if code.lower() in _CODES:
                return True
            message = str(error)
        case _:
            return False
    lower = message.lower()
    return _TEXTS.search(message) is not None or any(text.lower() in lower for text in texts)
