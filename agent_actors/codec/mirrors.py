"""Mirrors: msgspec Structs with a tag and the same fields as an attrs class.

msgspec selects the Struct by its tag and validates every field while it parses. This takes a tenth
of the time that parsing to a dict and validating it afterwards would take. The classes of `domain`
do not depend on msgspec.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import attrs
import msgspec

from agent_actors.codec.hints import resolved_hints
from agent_actors.domain.structs.attrs_struct import is_required


class Mirror(msgspec.Struct, kw_only=True, tag_field="type"):
    """The base class of all mirrors."""

    mirrored: ClassVar[Any]
    names: ClassVar[tuple[str, ...]]

    def body(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.names}


def mirror_of(
    cls: Any,
    *,
    base: type[Mirror] = Mirror,
    leave: frozenset[str] = frozenset(),
    replace: Callable[[Any], Any] = lambda hint: hint,
) -> type[Mirror]:
    """Create the mirror of an attrs class; the class's `type` is the tag.

    Args:
        cls: The attrs class.
        base: A mirror whose fields come first.
        leave: Names of the fields to omit.
        replace: Called with each field's type; returns the type in the mirror.
    """
    hints = resolved_hints(cls)
    fields = [field for field in attrs.fields(cls) if field.name not in leave]
    struct = msgspec.defstruct(
        cls.__name__,
        [_struct_field(field, replace(hints[field.name])) for field in fields],
        bases=(base,),
        tag=cls.type,
        tag_field="type",
        kw_only=True,
        namespace={"mirrored": cls, "names": tuple(field.name for field in fields)},
    )
    return cast(type[Mirror], struct)


def _struct_field(field: "attrs.Attribute[Any]", hint: Any) -> Any:
    if field.default is attrs.NOTHING or is_required(field.default):
        return (field.name, hint)
    if isinstance(field.default, Mapping):
        return (field.name, hint, msgspec.field(default_factory=dict[str, Any]))
    return (field.name, hint, field.default)
