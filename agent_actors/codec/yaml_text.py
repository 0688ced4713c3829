"""Reads YAML from files that may be hostile, with a cost that is proportional to their size.

PyYAML expands aliases, silently keeps the last of duplicate keys, and takes a time that grows with
the square of the nesting depth. All three are rejected here before anything is constructed.
"""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    _Loader = yaml.SafeLoader
else:
    # The loader in C is about ten times faster. Wheels of PyYAML contain it.
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_DEPTH: Final = 50
"""Maximum nesting of tables and lists."""


class _StrictLoader(_Loader):
    """A YAML loader that rejects duplicate keys."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ValueError(f"the key {key.value!r} occurs twice")
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_yaml(text: str, max_depth: int = MAX_DEPTH) -> object:
    """Return the value of a YAML document; None for an empty one.

    Args:
        text: The document.
        max_depth: Maximum nesting of tables and lists.

    Raises:
        ValueError, yaml.YAMLError: The text is not valid YAML, has aliases or duplicate keys, or is
            nested too deeply.
    """
    _check_events(yaml.parse(text, _Loader), max_depth)
    return yaml.load(text, _StrictLoader)


def _check_events(events: Iterable[yaml.Event], max_depth: int) -> None:
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("aliases (*name) are not supported; repeat the value")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > max_depth:
            raise ValueError(f"tables and lists are nested more than {max_depth} levels deep")
