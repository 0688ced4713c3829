"""Builds value classes as msgspec Structs, although they are declared with `attrs.frozen`.

A stream creates an event per token. Creating a Struct takes a small part of the time of creating a
frozen attrs instance, and the garbage collector need not track a Struct without containers.

For type checkers, a subclass of `AttrsStruct` is an attrs class. At run time, the class statement
builds a Struct, and `attrs.frozen` returns this Struct unchanged. The Struct has the
`__attrs_attrs__` of an attrs class, so `attrs.evolve`, `attrs.fields` and `attrs.asdict` accept it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn, cast, get_origin

import attrs
import msgspec

# The type of what `attrs.field()` returns.
_DECLARATION: Final = type(cast(object, attrs.field()))
# `attrs.frozen` copies this attribute into the namespace of the class that it wants to create.
_BUILT: Final = "_built_struct"
_CLASS_VARIABLE: Final = ("ClassVar", "typing.ClassVar", "t.ClassVar")
# From Python 3.14 on, a namespace has a function that evaluates the annotations.
_LAZY_ANNOTATIONS: Final = frozenset(
    {"__annotate__", "__annotate_func__", "__conditional_annotations__"}
)


def fields_of(cls: type) -> "tuple[attrs.Attribute[object], ...]":
    """Return the fields of a value class."""
    found: tuple[attrs.Attribute[object], ...] = attrs.fields(
        cast("type[attrs.AttrsInstance]", cls)
    )
    return found


def _refuse_missing(owner: str, field: str) -> NoReturn:
    raise TypeError(f"{owner}() needs a value for {field!r}")


def is_required(default: object) -> bool:
    """Return whether a field with this default is required."""
    return getattr(getattr(default, "factory", None), "func", None) is _refuse_missing


def _restored(cls: Callable[..., object], values: Mapping[str, object]) -> object:
    return cls(**values)


def _annotations(namespace: Mapping[str, object]) -> dict[str, object]:
    """Return the annotations of a class body."""
    # A plain class evaluates them in the way of each Python version.
    kept = {key: value for key, value in namespace.items() if key.startswith("__annot")}
    return dict(inspect.get_annotations(type("Annotated", (), kept)))


def _is_field(hint: object) -> bool:
    if isinstance(hint, str):  # from `__future__` import annotations
        return not hint.startswith(_CLASS_VARIABLE)
    return hint is not ClassVar and get_origin(hint) is not ClassVar


def _declared(
    name: str,
    base: type,
    namespace: Mapping[str, object],
    hints: Mapping[str, object],
    header: Mapping[str, object],
) -> type:
    """Return an attrs class with the fields of a value class.

    The fields of `header` have defaults, so that `UserMessage(text="hi")` creates a bare event.
    Python then requires defaults for the fields after them too. The default of a required field
    raises the same error as a missing argument.
    """

    def with_defaults(
        _: type, fields: "list[attrs.Attribute[object]]"
    ) -> "list[attrs.Attribute[object]]":
        return [
            one.evolve(default=attrs.Factory(partial(_refuse_missing, name, one.name)))
            if one.default is attrs.NOTHING
            else one
            for one in fields
        ]

    fields: dict[str, object] = {}
    for field, hint in hints.items():
        if _is_field(hint):
            given = namespace.get(field, header.get(field, attrs.NOTHING))
            fields[field] = given if type(given) is _DECLARATION else attrs.field(default=given)
    declared: type = attrs.make_class(
        name, fields, bases=(base,), frozen=True, field_transformer=with_defaults
    )
    for one in fields_of(declared):
        plain = one.init and one.eq and one.alias == one.name and one.validator is None
        converts = one.converter is not None  # pyright: ignore[reportUnknownMemberType]
        if converts or not plain:
            raise TypeError(
                f"the field {one.name!r} of {name} may only have a default, a "
                "factory, kw_only and repr"
            )
    return declared


def _body_of(
    fields: "Sequence[attrs.Attribute[object]]", hints: Mapping[str, object]
) -> dict[str, object]:
    """Return the part of the body of a Struct class that declares these fields."""
    body: dict[str, object] = {}
    for field in fields:
        factory = cast("Callable[[], object] | None", getattr(field.default, "factory", None))
        body[field.name] = (
            field.default if factory is None else msgspec.field(default_factory=factory)
        )
    return {"__annotations__": {field.name: hints[field.name] for field in fields}, **body}


if TYPE_CHECKING:

    class AttrsStruct:
        """The base class of values that are created often.

        Args:
            gc: False if no instance can be part of a reference cycle.
            header: Values of fields that may be omitted, although type checkers require them.
        """

        def __init_subclass__(
            cls, *, gc: bool = True, header: Mapping[str, object] | None = None
        ) -> None: ...

else:

    class _AttrsStructMeta(msgspec.StructMeta):
        """Builds a Struct from the body of an attrs class."""

        def __new__(mcs, name, bases, namespace, *, header=None, **options):
            built = namespace.get(_BUILT)
            if built is not None:  # `attrs.frozen` creates the class again, to give it slots
                return built
            hints = _annotations(namespace)
            base = getattr(bases[0], "_declared", object)
            declared = _declared(name, base, namespace, hints, header or {})
            own = [field for field in fields_of(declared) if field.name in hints]
            named = [field for field in own if field.kw_only]
            if named:
                # Only all fields of a Struct class can be keyword-only, so they get their own.
                part = _body_of(named, hints)
                bases = (super().__new__(mcs, name, bases, part, kw_only=True), *bases[1:])
            body = {key: value for key, value in namespace.items() if key not in _LAZY_ANNOTATIONS}
            for field in named:
                del hints[field.name], body[field.name]
            positional = _body_of([field for field in own if not field.kw_only], hints)
            body |= {**positional, "__annotations__": hints}
            body |= {"_declared": declared, "__attrs_attrs__": fields_of(declared)}
            built = super().__new__(mcs, name, bases, body, **options)
            setattr(built, _BUILT, built)
            return built

        def __delattr__(cls, name):  # noqa: N805 - a method of a metaclass
            # `attrs.frozen(slots=False)` would change the Struct instead of creating it again.
            raise TypeError(
                f"{cls.__name__} is built as a Struct and cannot be an attrs class without slots"
            )

    class AttrsStruct(msgspec.Struct, frozen=True, metaclass=_AttrsStructMeta):
        """The base class of values that are created often."""

        def __repr__(self):
            shown = [
                f"{one.name}={getattr(self, one.name)!r}"
                for one in fields_of(type(self))
                if one.repr
            ]
            return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(shown)})"

        def __reduce__(self):
            # By name, so that a pickled value does not depend on the order of the fields.
            values = {one.name: getattr(self, one.name) for one in fields_of(type(self))}
            return _restored, (type(self), values)
