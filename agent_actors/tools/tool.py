"""The class `Tool`: a description for the model, validation of arguments, and a handler.

A `Tool` is immutable and has no per-run state, so any number of runs may share it. It does not
depend on trio: the caller decides in which thread a sync handler runs and when it is cancelled.
`handler` is the user's own function; a `Binding` defines how it receives the arguments (as one
dict, or by name in the annotated types).
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, Never, TypeAlias, get_args

import attrs

from agent_actors.codec.openai_messages import ToolDict, tool_to_openai
from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.domain.model import ToolSpec
from agent_actors.domain.run import AgentContext
from agent_actors.errors import ConfigError, SchemaError, ToolArgumentsError
from agent_actors.schema.shorthand import object_schema
from agent_actors.tools.binding import Binding, Handler, OneDict, runs_async
from agent_actors.tools.context import DetachedContext, ToolContext
from agent_actors.tools.output import ToolOutput, to_output

if TYPE_CHECKING:
    from agent_actors.schema.validate import Check

OnCancel: TypeAlias = Literal["join", "abandon"]
Validator: TypeAlias = Callable[[JsonObject], str | None]
# A validator that takes the name of the tool and the arguments.
ToolValidator: TypeAlias = Callable[[str, JsonObject], str | None]

# Returns whether the model may call the tool in its next response. The function may declare the
# type of the dependencies that it needs.
Offered: TypeAlias = Callable[[AgentContext[Never]], bool | Awaitable[bool]]

# Returns the paths that a call with these arguments affects.
PathsOf: TypeAlias = Callable[[JsonObject], Sequence[str]]

# The strictest rule among common endpoints.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAX_NAME_CHARACTERS: Final = 64


@attrs.frozen(eq=False, init=False)
class Tool:
    """A tool that a model may call.

    Attributes:
        name: The name: up to 64 letters, digits, `_` and `-`.
        description: The purpose of the tool and when to use it, for the model.
        input_schema: The JSON Schema of the arguments. If None, any object is accepted without
            validation.
        handler: The user's function, sync or async; for an external tool, a function that raises.
        external: True if the tool has no handler; the caller of the run executes its calls.
        timeout: Timeout for one call, in seconds; None means the runtime's default.
        exclusive: True if no other call of the run may run at the same time.
        max_concurrency: Maximum number of concurrent calls of this tool in a runtime; None means
            that this tool has no limit of its own.
        on_cancel: For a sync handler: with `join`, a cancelled call ends when its thread returns;
            with `abandon`, it ends immediately, and the thread continues.
        validator: Called with the arguments after validation by the schema; returns an error
            message, or None.
        read_only: True if the tool changes nothing outside the run.
        destructive: True if the tool may overwrite, delete or revert something instead of only
            adding; never together with `read_only`.
        idempotent: True if a repeated call with the same arguments has no further effect; always
            True with `read_only`.
        open_world: True if the tool accesses more than a closed domain on this machine: the
            network, other people, arbitrary programs.
        untrusted_results: True if the results come from outside, so that they are marked as data
            in what the model sees: `open_world=True` was passed.
        paths: Returns the paths that a call affects, if they are inside an argument, as in a patch;
            otherwise None. Permission rules then apply to these paths.
        offered: Returns whether the model may call the tool in its next response; None: always.
        binding: Defines how the handler receives the arguments.
        is_async: True if the handler is async.
        takes_context: True if the handler takes a `ToolContext`.
        deps_type: The class of the dependencies that the handler needs, from its hint
            `ToolContext[Database]`; None if it names none.
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
    untrusted_results: bool
    paths: PathsOf | None
    offered: Offered | None
    binding: Binding = attrs.field(repr=False)
    is_async: bool
    takes_context: bool
    deps_type: type | None
    _detached: DetachedContext = attrs.field(repr=False)
    _check_schema: "Check | None" = attrs.field(repr=False)

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
        open_world: bool | None = None,
        paths: PathsOf | None = None,
        offered: Offered | None = None,
        binding: Binding | None = None,
    ) -> None:
        """Create a tool whose handler takes one dict of arguments, or a tool without a handler.

        A tool without a handler is *external*. Hooks and permissions apply to its calls as to any
        other call. The run is then suspended, with the calls in `result.external_calls`, and
        continues when `runtime.resume` receives their results. Options that affect how a handler
        runs have no effect on an external tool.

        A `PermissionPolicy` uses `read_only`, `destructive`, `idempotent` and `open_world` to
        decide about calls. They have the same meanings and defaults as the Model Context Protocol's
        tool annotations: the worst case is assumed for a tool that does not set them.

        Args:
            name: The name: up to 64 letters, digits, `_` and `-`.
            description: Description for the model.
            input_schema: A JSON Schema of an object, the short form (see `tool`), or None.
            handler: Called with one dict, and with the `ToolContext` if it has a second parameter;
                None for an external tool.
            timeout: Timeout for one call, in seconds; None means the runtime's default.
            exclusive: True if no other call of the run may run at the same time.
            max_concurrency: Maximum number of concurrent calls of this tool in a runtime.
            on_cancel: `join` or `abandon`, for a sync handler.
            validator: A function for additional validation of the arguments.
            read_only: True if the tool changes nothing outside the run.
            destructive: True if the tool may overwrite, delete or revert something; None means the
                opposite of `read_only`.
            idempotent: True if a repeated call has no further effect; ignored with `read_only`.
            open_world: True if the tool accesses more than a closed domain on this machine; its
                results are then marked as data in what the model sees. None means True for
                permissions, without the mark.
            paths: A function that returns the paths that a call affects, for a tool whose paths are
                inside an argument, as in a patch. A permission rule without a field, such as
                `ApplyPatch(src/**)`, applies to them: it allows a call if it matches all paths, and
                denies it if it matches one.
            offered: A function, sync or async, that is called before each model call with an
                `AgentContext`, and returns whether the model may call the tool in its response;
                None: always. A call of a tool that was not offered gets an error result, as for an
                unknown tool.
            binding: Defines how a handler that does not take a single dict receives the arguments;
                `@tool` sets it for a typed function.

        Raises:
            ConfigError: The tool is invalid. The message names the tool and the problem.
        """
        check_name(name)
        _check_options(name, description, timeout, max_concurrency, on_cancel)
        _check_traits(name, read_only, destructive, idempotent, open_world)
        external = handler is None
        handler = _carried_out_elsewhere if handler is None else handler
        is_async = runs_async(handler, tool=name)
        schema = None if input_schema is None else _schema(input_schema, tool=name)
        # The validator is slow to import, and programs without tools do not need it.
        from agent_actors.schema.validate import compile_schema  # noqa: PLC0415

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
            open_world is not False,
            open_world is True,
            paths,
            offered,
            bound,
            is_async,
            bound.takes_context,
            bound.deps_type,
            DetachedContext(name),
            None if schema is None else compile_schema(bound.checked_schema or schema, tool=name),
        )

    @property
    def spec(self) -> ToolSpec:
        """The tool's name, description and schema, as the model receives them."""
        return ToolSpec(self.name, self.description, self.input_schema)

    def to_openai_format(self) -> ToolDict:
        """Return the tool in OpenAI's wire format."""
        return tool_to_openai(self.spec)

    def check(self, arguments: JsonObject) -> None:
        """Validate arguments against the schema, and then with the tool's own validator.

        Raises:
            ToolArgumentsError: The arguments are invalid. The message names the field and the
                expected and actual values. If the validator raised an exception, it is the cause.
        """
        if self._check_schema is not None:
            self._check_schema(arguments)
        if self.validator is not None:
            try:
                fault = self.validator(copy_object(arguments))
            except Exception as error:
                raise ToolArgumentsError(
                    f"the tool's own validator raised {type(error).__name__}: {error}",
                    tool=self.name,
                ) from error
            if fault:
                raise ToolArgumentsError(fault, tool=self.name)

    async def execute(self, arguments: Mapping[str, JsonValue], *, deps: object = None) -> object:
        """Validate the arguments, call the handler, and return its return value unchanged.

        Use this method without a runtime, in manual mode. A sync handler runs in the calling thread
        and blocks the event loop until it returns. The handler receives a deep copy of the
        arguments.

        Args:
            arguments: The arguments.
            deps: The dependencies for `ctx.deps`, for example a substitute in a test.

        Raises:
            ToolArgumentsError: The arguments are invalid.

        Cancellation: depends on the handler.
        """
        own = copy_object(arguments)
        self.check(own)
        context = self._detached if deps is None else DetachedContext(self.name, deps)
        result = self.binding.call(self.handler, own, context)
        return await result if inspect.isawaitable(result) else result

    async def invoke(self, arguments: JsonObject, context: ToolContext | None) -> ToolOutput:
        """Call an async handler with validated arguments, and return its result as an output.

        Raises:
            ToolArgumentsError: An argument does not match the annotated type.
            TypeError: The result cannot be represented in JSON.

        Cancellation: depends on the handler.
        """
        return self.output_of(await self.call(arguments, context))

    async def call(self, arguments: JsonObject, context: ToolContext | None) -> object:
        """Call an async handler with validated arguments, and return its return value unchanged.

        For callers that convert the value elsewhere with `output_of`, because converting a large
        value takes long.

        Raises:
            ToolArgumentsError: An argument does not match the annotated type.

        Cancellation: depends on the handler.
        """
        result = self._call(arguments, context)
        # `iscoroutine` takes a quarter of the time of `isawaitable`.
        if inspect.iscoroutine(result) or inspect.isawaitable(result):
            return await result
        return result

    def invoke_sync(self, arguments: JsonObject, context: ToolContext | None) -> ToolOutput:
        """Call a sync handler with validated arguments, in the calling thread.

        Raises:
            ToolArgumentsError: An argument does not match the annotated type.
            TypeError: The result cannot be represented in JSON, or the handler is async.
        """
        result = self._call(arguments, context)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(
                f"tool {self.name!r}: the handler is a plain function that returned an awaitable; "
                "make it `async def`, or its wrapper if it has one"
            )
        return self.output_of(result)

    def output_of(self, result: object) -> ToolOutput:
        """Convert a handler's return value to an output; see `to_output`.

        Raises:
            TypeError: The value cannot be represented in JSON. The message names the tool and the
                type.
        """
        try:
            return to_output(result)
        except TypeError as error:
            raise TypeError(
                f"tool {self.name!r} returned {type(result).__name__}: {error}"
            ) from None

    def _call(self, arguments: JsonObject, context: ToolContext | None) -> object:
        context_given = self._detached if context is None else context
        return self.binding.call(self.handler, copy_object(arguments), context_given)


def _carried_out_elsewhere(arguments: JsonObject) -> str:
    del arguments
    raise LookupError("the tool has no handler; the caller of the run executes its calls")


def check_name(name: str) -> None:
    """Raise an error for a name that some endpoints would reject.

    Raises:
        ConfigError: The name is invalid. The message contains the name and the rule.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - names may come from untyped code
        raise ConfigError(f"a tool's name must be text; got {name!r:.80}")
    if not name:
        raise ConfigError("a tool's name must not be empty; expected letters, digits, '_' and '-'")
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
            f"tool {name!r}: timeout must be a positive number of seconds, math.inf for no "
            f"timeout, or None for the runtime's default; got {timeout!r}"
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
    open_world: bool | None,
) -> None:
    # These values may come from untyped code. A text such as "false" would count as true, and a
    # permission check that relies on it would allow too much.
    for trait, value, may_be_none in (
        ("read_only", read_only, False),
        ("destructive", destructive, True),
        ("idempotent", idempotent, True),
        ("open_world", open_world, True),
    ):
        if not (isinstance(value, bool) or (may_be_none and value is None)):
            raise ConfigError(f"tool {name!r}: {trait} must be True or False; got {value!r:.80}")
    if read_only and destructive:
        raise ConfigError(
            f"tool {name!r}: the tool cannot be both read_only and destructive; set one to False"
        )


def _schema(schema: Mapping[str, object], *, tool: str) -> JsonObject:
    try:
        return object_schema(schema)
    except SchemaError as error:
        raise SchemaError(f"tool {tool!r}: {error}") from None
