"""Finish reasons with which endpoints report that a response was refused or filtered.

Endpoints that translate another protocol often keep the words of that protocol. The decoders of all
protocols therefore recognise the words of all protocols.
"""

from collections.abc import Mapping
from typing import Final

from agent_actors.domain.model import FinishReason

REFUSAL_WORDS: Final[Mapping[str, FinishReason]] = {
    "refusal": "refusal",
    "refused": "refusal",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "error_toxic": "content_filter",
    "sensitive": "content_filter",
    # Words of Gemini.
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
