"""Strategies for blocks and for events of every type."""

from collections.abc import Mapping
from typing import Any, Final, get_args

import attrs
from hypothesis import strategies as st

from agent_actors.codec.hints import resolved_hints
from agent_actors.domain.blocks import (
    AssistantBlock,
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.events import (
    EVENT_TYPES,
    TODO_STATUSES,
    CompactionKind,
    Event,
    EventScope,
    Todo,
)
from agent_actors.domain.model import FinishReason, StopDetails
from agent_actors.domain.usage import Usage
from agent_actors.domain.workspace.background import BackgroundOwner
from agent_actors.domain.workspace.processes import ProcessEnd
from agent_actors.domain.workspace.trees import CheckpointPhase
from tests.codec.values import json_objects, json_values, texts

_contents: Final = texts | json_objects | st.lists(json_values, max_size=3)
_block_strategies: Final[dict[Any, st.SearchStrategy[Any]]] = {
    TextBlock: st.builds(TextBlock, texts, extra=json_objects, origin=texts),
    ThinkingBlock: st.builds(ThinkingBlock, texts, texts, extra=json_objects, origin=texts),
    ToolUseBlock: st.builds(
        ToolUseBlock, texts, texts, json_objects, texts, extra=json_objects, origin=texts
    ),
    ToolUseError: st.builds(
        ToolUseError, texts, st.none() | texts, texts, texts, extra=json_objects, origin=texts
    ),
    ToolResultBlock: st.builds(
        ToolResultBlock, texts, _contents, st.booleans(), texts, extra=json_objects
    ),
    ImageBlock: st.builds(ImageBlock, texts, texts, detail=texts, extra=json_objects),
    FileBlock: st.builds(FileBlock, texts, texts, texts, extra=json_objects),
    OpaqueBlock: st.builds(OpaqueBlock, json_objects, texts, extra=json_objects),
}
blocks: Final[st.SearchStrategy[ContentBlock]] = st.one_of(*_block_strategies.values())

_floats: Final = st.floats(allow_nan=False, allow_infinity=False)
_counts: Final = st.integers(0, 10**9)
_usages: Final = st.builds(Usage, _counts, _counts, _counts, _counts, _counts, st.booleans())
_todos: Final = st.builds(Todo, texts, texts, st.sampled_from(TODO_STATUSES))
_ends: Final = st.builds(
    ProcessEnd,
    exit_code=st.none() | _counts,
    signal=texts,
    timed_out=st.booleans(),
    duration=_floats,
    cpu_seconds=_floats,
    max_memory_bytes=_counts,
)
_BY_HINT: Final[list[tuple[Any, st.SearchStrategy[Any]]]] = [
    (str, texts),
    (str | None, st.none() | texts),
    (int, _counts),
    (float, _floats),
    (float | None, st.none() | _floats),
    (bool, st.booleans()),
    (Any, json_values),
    (FinishReason, st.sampled_from(get_args(FinishReason))),
    (Usage, _usages),
    (ProcessEnd, _ends),
    (CheckpointPhase, st.sampled_from(get_args(CheckpointPhase))),
    (CompactionKind, st.sampled_from(get_args(CompactionKind))),
    (BackgroundOwner, st.sampled_from(get_args(BackgroundOwner))),
    (
        StopDetails | None,
        st.none() | st.builds(StopDetails, texts, texts, texts, json_objects),
    ),
    (dict[str, Any], json_objects),
    (dict[str, Any] | None, st.none() | json_objects),
    (Mapping[str, dict[str, Any]], st.dictionaries(texts, json_objects, max_size=2)),
    (str | dict[str, Any] | list[Any], _contents),
    (tuple[int, ...], st.lists(_counts, max_size=3).map(tuple)),
    (tuple[str, ...], st.lists(texts, max_size=3).map(tuple)),
    (tuple[Todo, ...], st.lists(_todos, max_size=3).map(tuple)),
    (tuple[ContentBlock, ...], st.lists(blocks, max_size=2).map(tuple)),
    (
        tuple[AssistantBlock, ...],
        st.lists(
            st.one_of(*(_block_strategies[cls] for cls in get_args(AssistantBlock))), max_size=2
        ).map(tuple),
    ),
]
scopes: Final = st.builds(
    EventScope, texts, texts, texts, _counts, st.none() | texts, st.none() | texts
)


def _strategy_of(hint: Any) -> st.SearchStrategy[Any]:
    return next(strategy for known, strategy in _BY_HINT if known == hint)


def _events_of(cls: type[Event]) -> st.SearchStrategy[Event]:
    hints = resolved_hints(cls)
    header = {field.name for field in attrs.fields(Event)}
    own = {
        field.name: _strategy_of(hints[field.name])
        for field in attrs.fields(cls)
        if field.name not in header
    }
    return st.builds(cls, scopes, texts, _floats, seq=st.none() | _counts, **own)


events: Final[st.SearchStrategy[Event]] = st.one_of(
    *(_events_of(cls) for cls in EVENT_TYPES.values())
)
