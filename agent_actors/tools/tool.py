"""A tool: a value that says what it is, checks arguments and calls its handler.

A `Tool` is frozen and holds no state of any run, so that any number of runs may share it. It knows
no trio: whoever calls it decides where a sync handler runs, when it is cancelled and what it waits
for. `handler` stays the user's own function; how the arguments reach it (as one dict, or by name
and in the annotated types) is the business of `Binding`.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, get_args

import attrs

from agent_actors.codec.openai_messages import ToolDict, tool_to_openai
from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.domain.model import ToolSpec
from agent_actors.errors import ConfigError, SchemaError, ToolArgumentsError
from agent_actors.schema.shorthand import object_schema
from agent_actors.schema.validate import Check, compile_schema
from agent_actors.tools.binding import Binding, Handler, OneDict, runs_async
from agent_actors.tools.context import DetachedContext, ToolContext
from agent_actors.tools.output import ToolOutput, to_output

OnCancel: TypeAlias = Literal["join", "abandon"]
Validator: TypeAlias = Callable[[JsonObject], str | None]

# The strictest of the endpoints' common rules.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAX_NAME_CHARACTERS: Final = 64


@attrs.frozen(eq=False, init=False)
class Tool:
    """A tool on offer to a model.

    Attributes:
        name: Letters, digits, `_` and `-`; 64 at most.
        description: What it does and when to use it, for the model.
        input_schema: The JSON Schema of its arguments; None: any object is taken unchecked.
        handler: The user's own function, sync or async; of an external tool one that raises.
        external: It has no handler here: the caller carries its calls out.
        timeout: Deadline of one call, in seconds; None: the runtime's default.
        exclusive: Runs alone among its run's calls.
        max_concurrency: The most calls of it at once in a runtime; None: no bound of its own.
        on_cancel: For a sync handler, whether a cancelled call ends when its thread returns
            (`join`), or at once, leaving the thread to itself (`abandon`).
        validator: Called with the arguments after the schema check; returns what is wrong with
            them, or None.
        read_only: It changes nothing outside of the run.
        destructive: It may overwrite, delete or undo, and does not only add; never with
            `read_only`.
        idempotent: To call it again with the same arguments changes nothing more; always with
            `read_only`.
        open_world: It reaches beyond a closed domain of this machine: the network, other people,
            programs of any kind.
        binding: How arguments reach the handler.
        is_async: True if the handler is async.
        takes_context: True if the handler wants a `ToolContext`.
    """

    name: str
    description: str
    input_schema: Mapping[str, JsonValue] | None = attrs.field(repr=False)
    handler: Handler
    external: bool
    timeout: float | None
    exclusive: bool
    max_concurrency: int | None
    on_cancel: OnCancel
    validator: Validator | None
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    binding: Binding = attrs.field(repr=False)
    is_async: bool
    takes_context: bool
    _detached: DetachedContext = attrs.field(repr=False)
    _check_schema: Check | None = attrs.field(repr=False)

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: Mapping[str, object] | None,
        handler: Handler | None = None,
        *,
        timeout: float | None = None,
        exclusive: bool = False,
        max_concurrency: int | None = None,
        on_cancel: OnCancel = "join",
        validator: Validator | None = None,
        read_only: bool = False,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool = True,
        binding: Binding | None = None,
    ) -> None:
        """Make a tool whose handler takes one dict of arguments, or one without a handler.

        One without is *external*. Its calls pass hooks and permissions like any other; then the run
        ends suspended with them in `result.external_calls`, and goes on when `runtime.resume` is
        given their results. What is said here of how a handler runs makes no difference to it.

        What it says of itself (`read_only` and so on) decides what a `PermissionPolicy` asks about.
        Meanings and defaults are those of the Model Context Protocol's tool annotations: of a tool
        that says nothing the worst is assumed.

        Args:
            name: Letters, digits, `_` and `-`; 64 at most.
            description: For the model.
            input_schema: A JSON Schema of an object, or the short form (see `tool`), or None.
            handler: Called with one dict, and with the `ToolContext` if it has a second parameter;
                None: an external tool.
            timeout: Seconds; None: the runtime's default.
            exclusive: Runs alone among its run's calls.
            max_concurrency: The most calls of it at once in a runtime.
            on_cancel: `join` or `abandon`, for a sync handler.
            validator: A further check of the arguments.
            read_only: It changes nothing outside of the run.
            destructive: It may overwrite, delete or undo; None: yes, unless it is `read_only`.
            idempotent: Calling it again changes nothing more; of what is `read_only` that is so
                whatever is said here.
            open_world: It reaches beyond a closed domain of this machine.
            binding: How arguments reach the handler, where it does not take one dict; `@tool` on
                a typed function gives it.

        Raises:
            ConfigError: Naming the tool and what about it cannot work.
        """
        check_name(name)
        _check_options(name, description, timeout, max_concurrency, on_cancel)
        _check_traits(name, read_only, destructive, idempotent, open_world)
        external = handler is None
        handler = _carried_out_elsewhere if handler is None else handler
        is_async = runs_async(handler, tool=name)
        schema = None if input_schema is None else _schema(input_schema, tool=name)
        bound = binding or OneDict.of(handler, tool=name)
        self.__attrs_init__(  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
            name,
            description,
            schema,
            handler,
            external,
            timeout,
            exclusive,
            max_concurrency,
            on_cancel,
            validator,
            read_only,
            not read_only if destructive is None else destructive,
            read_only or idempotent is True,
            open_world,
            bound,
            is_async,
            bound.takes_context,
            DetachedContext(name),
            None if schema is None else compile_schema(schema, tool=name),
        )

    @property
    def spec(self) -> ToolSpec:
        """What the model is told of it."""
        return ToolSpec(self.name, self.description, self.input_schema)

    def to_openai_format(self) -> ToolDict:
        """The tool as OpenAI's wire has it."""
        return tool_to_openai(self.spec)

    def check(self, arguments: JsonObject) -> None:
        """Check arguments against the schema, then by the tool's own validator.

        Raises:
            ToolArgumentsError: Naming the field, what was expected and what came.
        """
        if self._check_schema is not None:
            self._check_schema(arguments)
        if self.validator is not None:
            fault = _own_fault(self.validator, copy_object(arguments))
            if fault:
                raise ToolArgumentsError(fault, tool=self.name)

    async def execute(self, arguments: Mapping[str, JsonValue]) -> object:
        """Check the arguments, call the handler, and return what it returns, as it is.

        For use without a runtime, in manual mode. A sync handler runs in place: it blocks the
        event loop until it returns. The handler gets its own deep copy of the arguments.

        Raises:
            ToolArgumentsError: The arguments do not fit.

        Cancellation: the handler's own.
        """
        own = copy_object(arguments)
        self.check(own)
        result = self.binding.call(self.handler, own, self._detached)
        return await result if inspect.isawaitable(result) else result

    async def invoke(self, arguments: JsonObject, context: ToolContext | None) -> ToolOutput:
        """Call an async handler with checked arguments, and take its result as an output.

        Raises:
            ToolArgumentsError: An argument does not fit the annotated type.
            TypeError: The result is no JSON.

        Cancellation: the handler's own.
        """
        result = self._call(arguments, context)
        return self._output(await result if inspect.isawaitable(result) else result)

    def invoke_sync(self, arguments: JsonObject, context: ToolContext | None) -> ToolOutput:
        """Call a sync handler with checked arguments, in the thread of the caller.

        Raises:
            ToolArgumentsError: An argument does not fit the annotated type.
            TypeError: The result is no JSON, or the handler was async after all.
        """
        result = self._call(arguments, context)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(
                f"tool {self.name!r}: the handler is a plain function that returned an awaitable; "
                "make it `async def`, or its wrapper if it has one"
            )
        return self._output(result)

    def _call(self, arguments: JsonObject, context: ToolContext | None) -> object:
        given = self._detached if context is None else context
        return self.binding.call(self.handler, copy_object(arguments), given)

    def _output(self, result: object) -> ToolOutput:
        try:
            return to_output(result)
        except TypeError as error:
            raise TypeError(
                f"tool {self.name!r} returned {type(result).__name__}: {error}"
            ) from None


def _carried_out_elsewhere(arguments: JsonObject) -> str:
    del arguments
    raise LookupError("it has no handler; its calls are for whoever started the run to carry out")


def check_name(name: str) -> None:
    """Refuse a name that some endpoint would refuse.

    Raises:
        ConfigError: Naming it and the rule.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - names come from strangers
        raise ConfigError(f"a tool's name must be text; got {name!r:.80}")
    if not name:
        raise ConfigError("a tool's name is empty; expected letters, digits, '_' and '-'")
    if len(name) > _MAX_NAME_CHARACTERS:
        raise ConfigError(
            f"tool name {name[:_MAX_NAME_CHARACTERS]!r}… has {len(name)} characters; "
            f"at most {_MAX_NAME_CHARACTERS} are allowed"
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(f"tool name {name!r} is invalid; expected letters, digits, '_' and '-'")


def _check_options(
    name: str, description: str, timeout: float | None, max_concurrency: int | None, on_cancel: str
) -> None:
    if not isinstance(description, str):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
        raise ConfigError(f"tool {name!r}: the description must be text; got {description!r:.80}")
    if timeout is not None and not timeout > 0:
        raise ConfigError(
            f"tool {name!r}: timeout must be a positive number of seconds, math.inf for none, or "
            f"None for the runtime's default; got {timeout!r}"
        )
    if max_concurrency is not None and max_concurrency < 1:
        raise ConfigError(
            f"tool {name!r}: max_concurrency must be at least 1, or None; got {max_concurrency!r}"
        )
    if on_cancel not in get_args(OnCancel):
        raise ConfigError(
            f"tool {name!r}: on_cancel must be 'join' or 'abandon'; got {on_cancel!r}"
        )


def _check_traits(
    name: str,
    read_only: bool,
    destructive: bool | None,
    idempotent: bool | None,
    open_world: bool,
) -> None:
    # Said by strangers too: a text such as "false" would be true, and let through what must not.
    for trait, value, may_be_none in (
        ("read_only", read_only, False),
        ("destructive", destructive, True),
        ("idempotent", idempotent, True),
        ("open_world", open_world, False),
    ):
        if not (isinstance(value, bool) or (may_be_none and value is None)):
            raise ConfigError(f"tool {name!r}: {trait} must be True or False; got {value!r:.80}")
    if read_only and destructive:
        raise ConfigError(
            f"tool {name!r}: it cannot be both read_only and destructive; what only reads destroys "
            "nothing"
        )


def _schema(schema: Mapping[str, object], *, tool: str) -> JsonObject:
    try:
        return object_schema(schema)
    except SchemaError as error:
        raise SchemaError(f"tool {tool!r}: {error}") from None


def _own_fault(validator: Validator, arguments: JsonObject) -> str | None:
    try:
        return validator(arguments)
    except Exception as error:  # noqa: BLE001 - it is the user's code, and its failure the call's
        return f"the tool's own validator raised {type(error).__name__}: {error}"
