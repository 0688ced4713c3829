"""Public: what fits into a model's context. Tokens are estimated, and conversations cut to size.

Imports only. Nothing here changes what it is given, or what a session keeps: a runtime sends the
whole history of a session, and who wants less starts a session with less, or none.
"""

from agent_actors.context.counting import estimate_tokens as estimate_tokens
from agent_actors.context.tiktoken_encodings import tiktoken_counter as tiktoken_counter
from agent_actors.context.trimming import Trimmer as Trimmer
from agent_actors.context.trimming import truncate_messages as truncate_messages
from agent_actors.protocol.token_estimate import TokenCounter as TokenCounter
from agent_actors.protocol.token_estimate import naive_tokens as naive_tokens
