"""OpenAI's chat completions, and endpoints with a similar API."""

from agent_actors.providers.openai_chat.client import OpenAIChat as OpenAIChat
