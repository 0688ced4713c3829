"""OpenAI's chat completions, and the many endpoints that speak something like them."""

from agent_actors.providers.openai_chat.client import OpenAIChat as OpenAIChat
