"""Anthropic's Messages, and the endpoints that speak something like them."""

from agent_actors.providers.anthropic.client import AnthropicMessages as AnthropicMessages
