"""Finish reasons with which endpoints report that a response was refused or failed.

Endpoints that translate from another protocol often keep the finish reasons of that protocol. The
decoders of all protocols therefore recognise the finish reasons of all protocols.
"""

from collections.abc import Mapping
from typing import Final

from agent_actors.domain.model import FinishReason
from agent_actors.errors import ProviderInBandError

NO_REASON_WORDS: Final = frozenset({"", "null", "none"})
"""Values that mean "not finished yet", in addition to an absent field and JSON's null."""

REFUSAL_WORDS: Final[Mapping[str, FinishReason]] = {
    "refusal": "refusal",
    "refused": "refusal",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "error_toxic": "content_filter",
    "sensitive": "content_filter",
    # Finish reasons of Gemini.
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "model_armor": "content_filter",
    "image_safety": "content_filter",
    "image_prohibited_content": "content_filter",
    "image_recitation": "content_filter",
}
"""The finish reason for each word, in lower case."""

_FAILURES: Final[Mapping[str, str]] = {
    # OpenRouter, Mistral, Cohere, vLLM.
    "error": "the endpoint failed while it generated the response",
    # vLLM and SGLang, for example when the server shuts down.
    "abort": "the endpoint aborted the response",
    "aborted": "the endpoint aborted the response",
    "cancelled": "the endpoint cancelled the response",
    # DeepSeek.
    "insufficient_system_resource": "the endpoint ran out of resources during the response",
    # GLM.
    "network_error": "the endpoint lost the connection to the model",
    # Cohere.
    "timeout": "the endpoint's own time limit for the response expired",
    # Gemini.
    "malformed_function_call": "the model wrote a tool call that the endpoint cannot parse",
    "malformed_response": "the model wrote a response that the endpoint cannot parse",
    "unexpected_tool_call": "the model called a tool that was not offered to it",
    "too_many_tool_calls": "the model called too many tools in a row",
    "missing_thought_signature": "the request lacks the signature of an earlier tool call",
    # Bedrock.
    "malformed_model_output": "the model wrote a response that the endpoint cannot parse",
    "malformed_tool_use": "the model wrote a tool call that the endpoint cannot parse",
}
"""A description of the failure for each word, in lower case. `protocol/retry.py` decides which of
these failures are retried.
"""


def plain_word(word: str) -> str:
    """Return a finish reason in lower case, without the category that some gateways add in front.

    For example, Gemini's chat completions send `function_call_filter: MALFORMED_FUNCTION_CALL`.
    """
    word = word.strip().lower()
    _, colon, detail = word.partition(":")
    detail = detail.strip()
    return detail if colon and (detail in _FAILURES or detail in REFUSAL_WORDS) else word


def failure_of(word: str, *, endpoint: str) -> ProviderInBandError | None:
    """Return the error that a finish reason reports; None if the response did not fail.

    Args:
        word: The finish reason, as `plain_word` returns it.
        endpoint: The name of the endpoint in error messages.
    """
    what = _FAILURES.get(word)
    if what is None:
        return None
    return ProviderInBandError(f"{what} (finish reason {word!r})", endpoint=endpoint, code=word)
