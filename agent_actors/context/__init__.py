"""Public API for token estimates, trimming, and strategies of compaction.

This module only contains imports. Its functions change neither their arguments nor stored sessions.
A runtime sends a session's complete history, up to the limits in the options; to send less, start a
session with fewer messages.
"""

from agent_actors.context.counting import estimate_tokens as estimate_tokens
from agent_actors.context.tiktoken_encodings import tiktoken_counter as tiktoken_counter
from agent_actors.context.trimming import Trimmer as Trimmer
from agent_actors.context.trimming import truncate_messages as truncate_messages
from agent_actors.protocol.compaction import CompactionBudget as CompactionBudget
from agent_actors.protocol.compaction import CompactionPlan as CompactionPlan
from agent_actors.protocol.compaction import sliding_window as sliding_window
from agent_actors.protocol.compaction import summarize_old_messages as summarize_old_messages
from agent_actors.protocol.token_estimate import TokenCounter as TokenCounter
from agent_actors.protocol.token_estimate import naive_tokens as naive_tokens
