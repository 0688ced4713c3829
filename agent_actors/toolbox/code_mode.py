"""Code mode: one tool that runs a Python program of the model, which calls other tools.

The program runs in an interpreter of its own, in a bubblewrap sandbox without network and without
the files of the project. Only the tools of the run have effects, and each of their calls passes
`ToolContext.call_tool`. The program and this process exchange lines of JSON through two FIFOs in
the sandbox's directory, which is removed with the call.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import Final, Self, cast

import attrs
import msgspec
import trio

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.workspace.processes import ProcessLimits, ProcessResult, ProcessSpec
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.toolbox.workspace.bubblewrap import BubblewrapWorkspace, find_bubblewrap
from agent_actors.tools import Tool, ToolContext
from agent_actors.tools.output import ToolOutput

DEFAULT_TIMEOUT: Final = 120.0
"""The default maximum duration of a program in seconds, not counting questions to a person."""

DEFAULT_CALLS: Final = 200
"""The default maximum number of calls of one program."""

_OUTPUT_BYTES: Final = 50_000
# Maximum size of the arguments of one call; a program that sends more is ended.
_REQUEST_BYTES: Final = 4_000_000
_PIECE_BYTES: Final = 65_536
_NO_PYTHON: Final = 127
_PROGRAM: Final = "program.py"
_STARTER: Final = "starter.py"
_CALLS: Final = "calls"
_RESULTS: Final = "results"

# Runs inside the sandbox. The program sees one function for each tool.
_STARTER_TEXT: Final = '''
import json
import sys
import threading

class ToolError(Exception):
    """A call failed; the text is the reason."""

calls = open("calls", "w", encoding="utf-8")
results = open("results", encoding="utf-8")
lock = threading.Lock()

def function_of(tool):
    def call(**arguments):
        with lock:
            print(json.dumps({"tool": tool, "arguments": arguments}), file=calls, flush=True)
            result = json.loads(results.readline())
        if result["is_error"]:
            raise ToolError(result["content"])
        return result["content"]
    call.__name__ = tool
    return call

names = {"__name__": "__main__", "ToolError": ToolError}
for name, tool in json.loads(sys.argv[1]).items():
    names[name] = function_of(tool)
with open("program.py", encoding="utf-8") as file:
    code = compile(file.read(), "program.py", "exec")
exec(code, names)
'''
_COMMAND: Final = (
    "/bin/sh",
    "-c",
    f'command -v python3 >/dev/null || exit {_NO_PYTHON}; exec python3 -I -B {_STARTER} "$0"',
)
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "The complete Python program."}},
    "required": ["code"],
    "additionalProperties": False,
}


class CodeMode(Tool):
    """A tool that runs a Python program of the model, which can call other tools of the run.

    The model can process many results in one step, and only what the program prints uses tokens.
    The result is `{exit_code, stdout, stderr, calls}`. The program sees a function for each tool;
    the functions take keyword arguments, return the content of the result, and raise `ToolError` if
    the call failed. The tools must also be tools of the agent. Their calls are recorded, and obey
    the permissions and limits of the run, so the tool itself counts as read-only. The sandbox needs
    bubblewrap, and `python3` in `/usr`.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        name: str = "RunPython",
        timeout: float = DEFAULT_TIMEOUT,
        max_calls: int = DEFAULT_CALLS,
        max_output_bytes: int = _OUTPUT_BYTES,
    ) -> None:
        """Create the tool.

        Args:
            tools: The tools that programs may call; the agent must have them as well.
            name: The tool's name.
            timeout: Maximum duration of a program in seconds, not counting questions to a person.
            max_calls: Maximum number of calls of one program.
            max_output_bytes: Maximum size of each of stdout and stderr.

        Raises:
            ConfigError: There are no tools, two tools have the same function name, or a limit is
                not positive.
            WorkspaceError: `bwrap` is not installed or cannot create a sandbox.
        """
        find_bubblewrap()
        callable_tools = tuple(tools)
        functions = _functions(callable_tools, name)
        if max_calls < 1 or max_output_bytes < 1:
            raise ConfigError(
                f"tool {name!r}: max_calls and max_output_bytes must be positive; got "
                f"{max_calls!r} and {max_output_bytes!r}"
            )
        programs = _Programs(functions, max_calls, max_output_bytes)
        super().__init__(
            name,
            _description(callable_tools, functions),
            _SCHEMA,
            programs.run,
            timeout=timeout,
            read_only=True,
            open_world=False,
        )


def _functions(tools: Iterable[Tool], name: str) -> dict[str, str]:
    """Return the names of tools, by the names of their functions."""
    functions: dict[str, str] = {}
    for tool in tools:
        function = tool.name.replace("-", "_")
        function = f"{function}_" if iskeyword(function) else function
        function = function if function.isidentifier() else f"tool_{function}"
        if function in functions:
            raise ConfigError(
                f"tool {name!r}: the tools {functions[function]!r} and {tool.name!r} would have "
                f"the same function name {function!r}"
            )
        functions[function] = tool.name
    if not functions:
        raise ConfigError(f"tool {name!r}: expected at least one tool that programs may call")
    return functions


def _description(tools: Iterable[Tool], functions: Mapping[str, str]) -> str:
    by_name = {tool.name: tool for tool in tools}
    lines = [
        f"- {function}({', '.join(_parameters(by_name[tool]))}): "
        f"{by_name[tool].description.partition(chr(10))[0]}"
        for function, tool in functions.items()
    ]
    return (
        "Run a Python program in a sandbox, to call several tools and process their results. The "
        "program has only the standard library, no network, and no files of the project. Print "
        "what you need; nothing else is returned. These functions call tools. They take keyword "
        "arguments, return the content of the result, and raise ToolError if the call failed:\n"
        + "\n".join(lines)
    )


def _parameters(tool: Tool) -> list[str]:
    schema = tool.input_schema or {}
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return ["**arguments"]
    needed = required if isinstance(required, list) else []
    return [name if name in needed else f"{name}=..." for name in properties]


@attrs.frozen
class _Programs:
    """Runs the programs of one tool."""

    functions: Mapping[str, str]
    max_calls: int
    max_output_bytes: int

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Run a program and return its output.

        Cancellation: the program and its calls end first; its directory is removed.
        """
        async with (
            _directory(cast(str, arguments["code"])) as directory,
            _Channel(directory) as link,
        ):
            workspace = BubblewrapWorkspace(
                directory, limits=ProcessLimits(wall_seconds=None, file_bytes=100_000_000)
            )
            try:
                served = _Calls(self, context, link)
                result = await self._execute(workspace, served)
            finally:
                with trio.CancelScope(shield=True):
                    await workspace.aclose()
        return self._output(result, served)

    async def _execute(
        self, workspace: BubblewrapWorkspace, served: "_Calls"
    ) -> ProcessResult | WorkspaceError | None:
        """Run the program; return None if it sent an invalid call."""
        functions = msgspec.json.encode(self.functions).decode()
        spec = ProcessSpec(argv=(*_COMMAND, functions), max_output_bytes=self.max_output_bytes)
        result: ProcessResult | WorkspaceError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.serve, nursery.cancel_scope)
            try:
                result = await workspace.exec(spec)
            except WorkspaceError as error:  # the nursery would wrap the error in a group
                result = error
            nursery.cancel_scope.cancel("the program has ended")
        return result

    def _output(
        self, result: ProcessResult | WorkspaceError | None, served: "_Calls"
    ) -> ToolOutput:
        if result is None:
            return ToolOutput("the program sent an invalid call, so it was ended", is_error=True)
        if isinstance(result, WorkspaceError):
            return ToolOutput(str(result), is_error=True)
        if result.end.exit_code == _NO_PYTHON and not (served.made or result.stderr):
            return ToolOutput("the sandbox has no python3; install Python in /usr", is_error=True)
        described: dict[str, JsonValue] = {"exit_code": result.end.exit_code}
        if result.end.signal:
            described["signal"] = result.end.signal
        return ToolOutput(
            {
                **described,
                "stdout": result.stdout.decode("utf-8", "replace"),
                "stderr": result.stderr.decode("utf-8", "replace"),
                "stdout_truncated": result.stdout_truncated,
                "stderr_truncated": result.stderr_truncated,
                "calls": served.made,
            }
        )


class _Channel:
    """The FIFOs between a program and this process; use it with `async with`."""

    def __init__(self, directory: Path) -> None:
        # With both directions open, a FIFO never ends, whatever the program opens and closes.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        self._calls = trio.lowlevel.FdStream(os.open(directory / _CALLS, flags))
        self._results = trio.lowlevel.FdStream(os.open(directory / _RESULTS, flags))
        self._rest = bytearray()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with trio.CancelScope(shield=True):
            await self._calls.aclose()
            await self._results.aclose()

    async def line(self) -> bytes | None:
        """Return the next line of the program; None if it is too long.

        Cancellation: safe.
        """
        while (end := self._rest.find(b"\n")) < 0:
            if len(self._rest) > _REQUEST_BYTES:
                return None
            self._rest += await self._calls.receive_some(_PIECE_BYTES)
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    async def answer(self, content: JsonValue, *, is_error: bool) -> None:
        """Send the result of a call.

        Cancellation: a part of the result may have been sent.
        """
        result = msgspec.json.encode({"content": content, "is_error": is_error})
        await self._results.send_all(result + b"\n")


@attrs.define(eq=False)
class _Calls:
    """The calls of one program."""

    _programs: _Programs
    _context: ToolContext
    _channel: _Channel
    made: int = attrs.field(default=0, init=False)

    async def serve(self, program: trio.CancelScope) -> None:
        """Make the calls that the program requests, one after the other.

        Cancellation: the current call ends first.
        """
        while (line := await self._channel.line()) is not None:
            call = _call_of(line)
            if call is None or call[0] not in self._programs.functions.values():
                break
            if self.made >= self._programs.max_calls:
                why = f"the program has made {self.made} calls, which is the maximum"
                await self._channel.answer(why, is_error=True)
                continue
            self.made += 1
            result = await self._context.call_tool(*call)
            content = str(result.content) if result.is_error else result.content
            await self._channel.answer(content, is_error=result.is_error)
        program.cancel("the program sent an invalid call")


def _call_of(line: bytes) -> tuple[str, JsonObject] | None:
    try:
        value: JsonValue = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
    match value:
        case {"tool": str(tool), "arguments": dict(arguments)}:
            return tool, arguments
        case _:
            return None


@asynccontextmanager
async def _directory(code: str) -> AsyncGenerator[Path]:
    """Create the directory of a program, and remove it at the end."""
    directory = await trio.to_thread.run_sync(_make_directory, code)
    try:
        yield directory
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, directory, ignore_errors=True))


def _make_directory(code: str) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="agent-actors-code-")).resolve()
    for name in (_CALLS, _RESULTS):
        os.mkfifo(directory / name, 0o600)
    (directory / _STARTER).write_text(_STARTER_TEXT)
    (directory / _PROGRAM).write_text(code, encoding="utf-8", errors="replace")
    return directory
