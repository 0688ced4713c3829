"""The commands, their options, and the handling of incorrect usage.

This module defines names, help texts and defaults. Each command is implemented in its own module.
"""

import json
import logging
import math
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Final

import attrs
from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number
from rich.console import Console

from agent_actors import AgentOptions, __version__
from agent_actors.cli.answer import FROM_STDIN, OutputOptions, SessionLocation, answer
from agent_actors.cli.chat.command import ChatArguments, run_chat
from agent_actors.cli.demo import Demo, DemoPlan
from agent_actors.cli.display import show_live, table
from agent_actors.cli.doctor.command import examine
from agent_actors.cli.outcome import BROKEN_PIPE, MISUSED, complete, fail, interrupted
from agent_actors.cli.safe_text import visible
from agent_actors.cli.sessions.app import app as sessions_app
from agent_actors.cli.tally import report_of
from agent_actors.cli.user_tools import load_tools
from agent_actors.errors import ConfigError
from agent_actors.permissions import PermissionMode
from agent_actors.profiles.resolve import NO_API_KEY

_Text = Annotated[str, Parameter(show_default=False)]
_Url = Annotated[_Text, Parameter(env_var="AGENT_ACTORS_BASE_URL")]
_Model = Annotated[_Text, Parameter(env_var="AGENT_ACTORS_MODEL")]
_Key = Annotated[_Text, Parameter(env_var="AGENT_ACTORS_API_KEY")]
_Named = Annotated[str | None, Parameter(show_default=False)]
_Provider = Annotated[_Named, Parameter(env_var="AGENT_ACTORS_PROVIDER")]
_AtLeastOne = Annotated[int, Parameter(validator=Number(gte=1))]
_NotNegative = Annotated[int, Parameter(validator=Number(gte=0))]
_Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
_Seconds = Annotated[float, Parameter(show_default=False)]
_Store = Annotated[_Text, Parameter(env_var="AGENT_ACTORS_STORE")]

_PACKAGE: Final = "agent_actors"

app: Final = App(
    name="agent-actors",
    help="Run LLM agents: many sessions at once, each streaming and using tools in parallel.",
    version=__version__,
    help_format="plaintext",
    backend="trio",
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
app.command(sessions_app)


@app.command
async def demo(
    *,
    sessions: _AtLeastOne = 100,
    tools: _NotNegative = 8,
    turns: _AtLeastOne = 1,
    provider: _Named = None,
    base_url: _Text = "",
    model: _Text = "",
    api_key: _Key = "",
    json: _Flag = False,
) -> int:
    """Run many sessions at once, against an embedded endpoint or a real one.

    The command fails if a run does not finish, or if a task or a connection outlives the runtime.

    Args:
        sessions: Number of sessions, which all run at once.
        tools: Number of parallel tool calls to request per prompt.
        turns: Number of prompts per session, one after the other.
        provider: Profile name of a real endpoint, for example ollama or anthropic.
        base_url: URL of a real endpoint; without it, an embedded endpoint is used.
        model: Name of the model at the real endpoint.
        api_key: API key of the real endpoint.
        json: Print one JSON object and nothing else.
    """
    where = "--provider" if provider is not None else "--base-url"
    real = provider is not None or bool(base_url)
    if real != bool(model):
        given, missing = (where, "--model") if real else ("--model", where)
        return fail(
            f"{given} requires {missing}; pass both, or neither to use the embedded endpoint",
            MISUSED,
        )
    plan = DemoPlan(
        sessions=sessions,
        tools=tools,
        turns=turns,
        provider=provider,
        base_url=base_url,
        model=model,
        api_key=api_key or NO_API_KEY,
    )
    return await _demo(plan, as_json=json)


@app.command
async def run(
    prompt: str,
    /,
    *,
    provider: _Provider = None,
    base_url: _Url = "",
    model: _Model = "",
    system: _Text = "",
    api_key: _Key = "",
    api_key_header: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    timeout: _Seconds = math.inf,  # noqa: ASYNC109 - a user option; the run enforces it
    tools: tuple[str, ...] = (),
    session: str | None = None,
    store: _Store = "",
    show_thinking: _Flag = False,
    usage: _Flag = False,
    json: _Flag = False,
) -> int:
    """Stream the response to one prompt. Text from a pipe or a file is appended to the prompt.

    Args:
        prompt: The prompt; - reads it from stdin. Put -- before a prompt that begins with a dash.
        provider: Profile name of the endpoint, for example ollama or anthropic.
        base_url: URL of the endpoint, for example http://localhost:1234/v1.
        model: Name of the model at the endpoint.
        system: System prompt.
        api_key: API key of the endpoint.
        api_key_header: Header that carries the plain key, instead of "Authorization: Bearer".
        max_tokens: Maximum number of tokens in the response. By default the endpoint decides.
        temperature: Sampling temperature. By default the endpoint decides.
        timeout: Seconds for the complete response.
        tools: Your tools as module:attribute, a tool or a list of tools; may be repeated. The model
            may call all of them without approval, because no person can be asked.
        session: Id of the session to continue or to create. Requires --store.
        store: Path of the store: a file, or an existing directory for plain files.
        show_thinking: Write the model's thinking to stderr.
        usage: Write the token usage to stderr.
        json: Print every event as a line of JSON.
    """
    missing = _missing(provider, base_url, model)
    if not missing and session is not None and not store:
        missing = "--session requires --store PATH; without a store, the session ends with the run"
    if missing:
        return fail(missing, MISUSED)
    shown = OutputOptions(thinking=show_thinking, usage=usage, as_json=json)
    place = SessionLocation(session, store)

    async def work() -> int:
        options = AgentOptions(
            model=model,
            base_url=base_url,
            provider=provider or None,
            system_prompt=system,
            api_key=api_key or NO_API_KEY,
            api_key_header=api_key_header,
            max_tokens=max_tokens,
            temperature=temperature,
            run_timeout=timeout,
            tools=load_tools(tools),
        )
        return await answer(prompt, options, shown, place)

    return await complete(work)


@app.command
async def chat(
    *,
    provider: _Provider = None,
    base_url: _Url = "",
    model: _Model = "",
    system: _Text = "",
    api_key: _Key = "",
    api_key_header: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    tools: tuple[str, ...] = (),
    demo_tools: _Flag = False,
    permissions: Annotated[PermissionMode, Parameter(show_default=True)] = PermissionMode.DEFAULT,
    session: str | None = None,
    store: _Store = "",
    show_thinking: _Flag = False,
    plain: _Flag = False,
) -> int:
    """Chat with a model in a terminal, or line by line through pipes.

    Args:
        provider: Profile name of the endpoint, for example ollama or anthropic.
        base_url: URL of the endpoint, for example http://localhost:1234/v1.
        model: Name of the model at the endpoint.
        system: System prompt.
        api_key: API key of the endpoint.
        api_key_header: Header that carries the plain key, instead of "Authorization: Bearer".
        max_tokens: Maximum number of tokens in a response. By default the endpoint decides.
        temperature: Sampling temperature. By default the endpoint decides.
        tools: Your tools as module:attribute, a tool or a list of tools; may be repeated.
        demo_tools: Offer a clock, a calculator and notes as tools, to try out the chat.
        permissions: Permission mode; default asks before calls that change something.
        session: Id of the session to continue or to create.
        store: Path of the store: a file, or an existing directory for plain files. By default a
            file below ~/.local/state; without a terminal, the chat is not stored.
        show_thinking: Show the model's thinking.
        plain: Use no colours and no cursor movement. Always on if there is no terminal.
    """
    if missing := _missing(provider, base_url, model):
        return fail(missing, MISUSED)
    arguments = ChatArguments(
        provider=provider or None,
        base_url=base_url,
        model=model,
        system=system,
        api_key=api_key or NO_API_KEY,
        api_key_header=api_key_header,
        max_tokens=max_tokens,
        temperature=temperature,
        tools=tools,
        demo_tools=demo_tools,
        permissions=permissions,
        session=session,
        store=store,
        show_thinking=show_thinking,
    )
    return await run_chat(arguments, plain=plain)


@app.command
async def doctor(
    *,
    provider: _Provider = None,
    base_url: _Url = "",
    model: _Model = "",
    api_key: _Key = "",
    api_key_header: str | None = None,
    timeout: _Seconds = 60.0,  # noqa: ASYNC109 - a user option; each probe enforces it
    json: _Flag = False,
) -> int:
    """Test whether an endpoint supports what an agent needs, and recommend settings.

    The command sends about ten small requests. The exit status is 0 if an agent can use the
    endpoint.

    Args:
        provider: Profile name of the endpoint, for example ollama or anthropic.
        base_url: URL of the endpoint, for example http://localhost:1234/v1.
        model: Name of the model at the endpoint.
        api_key: API key of the endpoint.
        api_key_header: Header that carries the plain key, instead of "Authorization: Bearer".
        timeout: Seconds for each request. The default is 60.
        json: Print one JSON object and nothing else.
    """
    missing = _missing(provider, base_url, model)
    if missing:
        return fail(missing, MISUSED)
    if not timeout > 0:
        return fail(f"--timeout must be above 0 seconds; got {timeout:g}", MISUSED)
    try:
        options = AgentOptions(
            model=model,
            base_url=base_url,
            provider=provider or None,
            api_key=api_key or NO_API_KEY,
            api_key_header=api_key_header,
        )
    except ConfigError as error:
        return fail(str(error).removeprefix("AgentOptions: "), MISUSED)
    return await examine(options, timeout=timeout, as_json=json)


def _missing(provider: str | None, base_url: str, model: str) -> str:
    """Return an error message if the endpoint or the model is missing; else an empty string."""
    if provider:
        return ""  # the profile may define both; wiring reports what is missing
    if not base_url:
        return (
            "no endpoint was given; pass --base-url URL or --provider NAME, "
            "or set AGENT_ACTORS_BASE_URL or AGENT_ACTORS_PROVIDER"
        )
    return "" if model else "no model was given; pass --model NAME, or set AGENT_ACTORS_MODEL"


async def _demo(plan: DemoPlan, *, as_json: bool) -> int:
    console = Console()
    work = Demo(plan)
    live = console.is_terminal and not as_json
    alongside = [partial(show_live, console, plan, work.snapshot)] if live else []
    status = await complete(work.drive, alongside=alongside)
    if not work.finished:
        return status
    report = report_of(work.tally)
    if as_json:
        sys.stdout.write(json.dumps(attrs.asdict(report)) + "\n")
    else:
        console.print(table(plan, work.tally, report))
    for fault in work.faults():
        fail(fault)
    return status


def dispatch(arguments: Sequence[str]) -> int:
    """Find the command, run it, and return the exit status.

    Args:
        arguments: The arguments after the program's name.
    """
    try:
        with _warnings_shown():
            status: object = app(_with_stdin(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        return fail(error, MISUSED)
    except BrokenPipeError:
        # The reader has closed the pipe. Without this redirection, flushing stdout at exit would
        # raise an error.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return interrupted()
    return status if isinstance(status, int) else 0


class _WarningLine(logging.Formatter):
    """Formats a log record as one line without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return f"warning: {visible(record.getMessage())}"


@contextmanager
def _warnings_shown() -> Generator[None]:
    """Show this package's warnings on stderr, without the tracebacks of tools and hooks.

    The output of a command already shows failed tools and hooks. A traceback would break the
    display of `chat`.
    """
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.addFilter(lambda record: not record.exc_info)
    handler.setFormatter(_WarningLine())
    logger = logging.getLogger(_PACKAGE)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _with_stdin(arguments: Sequence[str]) -> list[str]:
    # The parser would treat a lone dash as an option; after `--`, the dash is an argument.
    if FROM_STDIN not in arguments or "--" in arguments:
        return list(arguments)
    others = (argument for argument in arguments if argument != FROM_STDIN)
    return [*others, "--", FROM_STDIN]
