"""Anthropic's Messages API, and endpoints with a similar API."""

from agent_actors.providers.anthropic.client import AnthropicMessages as AnthropicMessages
