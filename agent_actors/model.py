"""Public API for custom providers: model requests, responses and deltas."""

from typing import TypeAlias

from agent_actors.abc import ByteExchange as ByteExchange
from agent_actors.abc import ByteSink as ByteSink
from agent_actors.abc import HttpRequest as HttpRequest
from agent_actors.abc import ModelProvider as ModelProvider
from agent_actors.abc import ModelSink as ModelSink
from agent_actors.domain.model import FinishDelta as FinishDelta
from agent_actors.domain.model import ModelCompleted as ModelCompleted
from agent_actors.domain.model import ModelDelta as ModelDelta
from agent_actors.domain.model import ModelRequest as ModelRequest
from agent_actors.domain.model import ModelSettings as ModelSettings
from agent_actors.domain.model import NoticeDelta as NoticeDelta
from agent_actors.domain.model import OutputSchema as OutputSchema
from agent_actors.domain.model import ProgressDelta as ProgressDelta
from agent_actors.domain.model import TextDelta as TextDelta
from agent_actors.domain.model import ThinkingDelta as ThinkingDelta
from agent_actors.domain.model import ToolCallDelta as ToolCallDelta
from agent_actors.domain.model import ToolSpec as ToolSpec
from agent_actors.domain.model import UsageDelta as UsageDelta
from agent_actors.domain.usage import Usage as Usage
from agent_actors.profiles.dialect import ChatDialect as ChatDialect
from agent_actors.profiles.profile import ModelRule as ModelRule
from agent_actors.profiles.profile import ProviderProfile as ProviderProfile
from agent_actors.profiles.registry import load_profiles as load_profiles
from agent_actors.providers.anthropic.client import AnthropicMessages as AnthropicMessages
from agent_actors.providers.openai_chat.client import OpenAIChat as OpenAIChat

# The old name of `ModelCompleted`.
ModelFinished: TypeAlias = ModelCompleted
