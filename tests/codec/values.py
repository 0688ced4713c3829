"""Strategies for JSON values."""

from typing import Final

from hypothesis import strategies as st

from agent_actors.domain.json import JsonObject, JsonValue

# No lone surrogates: JSON text cannot carry them, so text that was read contains none.
texts: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

_scalars: Final[st.SearchStrategy[JsonValue]] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)

json_values: Final[st.SearchStrategy[JsonValue]] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
json_objects: Final[st.SearchStrategy[JsonObject]] = st.dictionaries(texts, json_values, max_size=4)
