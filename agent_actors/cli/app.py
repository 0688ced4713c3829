"""The commands, their options, and the handling of incorrect usage.

This module defines names, help texts and defaults. Each command is implemented in its own module.
"""

import logging
import math
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final

from cyclopts import App, CycloptsError, Parameter

from agent_actors import AgentOptions, __version__
from agent_actors.cli.agent_file import agent_from
from agent_actors.cli.chat.command import ChatArguments, run_chat
from agent_actors.cli.demo.command import run_demo
from agent_actors.cli.demo.runner import DemoPlan
from agent_actors.cli.doctor.command import examine
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.outcome import BROKEN_PIPE, MISUSED, complete, fail, interrupted, reject
from agent_actors.cli.parameters import FROM_STDIN, AtLeastOne, Flag, NotNegative, Store, Text
from agent_actors.cli.run_prompt import OutputOptions, SessionLocation, run_prompt
from agent_actors.cli.safe_text import visible
from agent_actors.cli.sessions.app import app as sessions_app
from agent_actors.cli.trace import show_trace
from agent_actors.cli.workspace_choice import choose_tools
from agent_actors.errors import ConfigError
from agent_actors.permissions import PermissionMode
from agent_actors.profiles.resolve import NO_API_KEY

_Url = Annotated[Text, Parameter(env_var="AGENT_ACTORS_BASE_URL")]
_Model = Annotated[Text, Parameter(env_var="AGENT_ACTORS_MODEL")]
_Key = Annotated[Text, Parameter(env_var="AGENT_ACTORS_API_KEY")]
_Named = Annotated[str | None, Parameter(show_default=False)]
_Provider = Annotated[_Named, Parameter(env_var="AGENT_ACTORS_PROVIDER")]
_Seconds = Annotated[float, Parameter(show_default=False)]

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
    code: Flag = False,
    sessions: AtLeastOne = 100,
    tools: NotNegative = 8,
    turns: AtLeastOne = 1,
    provider: _Named = None,
    base_url: Text = "",
    model: Text = "",
    api_key: _Key = "",
    json: Flag = False,
) -> int:
    """Run many sessions at once, against an embedded endpoint or a real one.

    The command fails if a run does not finish, or if a task or a connection outlives the runtime.
    With --code, one session repairs a small project in a bubblewrap sandbox instead.

    Args:
        code: Let an agent repair a small project in a sandbox, which requires bubblewrap. The
            options for sessions, tools and turns have no effect.
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
    if code:
        # Imported here because only this demo needs the toolbox.
        from agent_actors.cli.demo.repair import run_repair  # noqa: PLC0415

        return await run_repair(plan, as_json=json)
    return await run_demo(plan, as_json=json)


@app.command
async def run(
    prompt: str,
    /,
    *,
    provider: _Provider = None,
    base_url: _Url = "",
    model: _Model = "",
    system: Text = "",
    api_key: _Key = "",
    api_key_header: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    timeout: _Seconds = math.inf,  # noqa: ASYNC109 - a user option; the run enforces it
    tools: tuple[str, ...] = (),
    workspace: Text = "",
    unconfined: Flag = False,
    session: str | None = None,
    store: Store = "",
    show_thinking: Flag = False,
    usage: Flag = False,
    json: Flag = False,
    agent: Text = "",
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
        tools: Your tools as module:attribute, a tool or a list of tools; or names of built-in
            tools, or of the sets code and filesystem; may be repeated. The model may call all of
            them without approval, because no person can be asked.
        workspace: Directory in which built-in tools work. Commands run in a bubblewrap sandbox if
            bubblewrap is installed, and are refused otherwise.
        unconfined: Run commands without a sandbox, with your rights.
        session: Id of the session to continue or to create. Requires --store.
        store: Path of the store: a file, or an existing directory for plain files.
        show_thinking: Write the model's thinking to stderr.
        usage: Write the token usage to stderr.
        json: Print every event as a line of JSON.
        agent: File that describes the agent, in YAML, TOML or JSON. The other options replace its
            fields.
    """
    missing = "" if agent else _missing(provider, base_url, model)
    if not missing and session is not None and not store:
        missing = "--session requires --store PATH; without a store, the session ends with the run"
    if missing:
        return fail(missing, MISUSED)
    shown = OutputOptions(thinking=show_thinking, usage=usage, as_json=json)
    place = SessionLocation(session, store)

    async def work() -> int:
        chosen = choose_tools(tools, workspace, unconfined=unconfined)
        if chosen.note:
            sys.stderr.write(f"note: {chosen.note}\n")
        previews = EditPreviews(None if json else chosen.root)
        options = agent_from(
            agent,
            model=model,
            base_url=base_url,
            provider=provider or None,
            system_prompt=system,
            api_key=api_key or NO_API_KEY,
            api_key_header=api_key_header,
            max_tokens=max_tokens,
            temperature=temperature,
            run_timeout=timeout,
            tools=chosen.tools,
            builtin_tools=chosen.builtin_tools,
            workspace=chosen.workspace,
            hooks=previews.hooks,
            slash_commands=True,
        )
        return await run_prompt(prompt, options, shown, place, previews)

    return await complete(work)


@app.command
async def chat(
    *,
    provider: _Provider = None,
    base_url: _Url = "",
    model: _Model = "",
    system: Text = "",
    api_key: _Key = "",
    api_key_header: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    tools: tuple[str, ...] = (),
    workspace: Text = "",
    unconfined: Flag = False,
    checkpoints: Text = "",
    demo_tools: Flag = False,
    permissions: Annotated[PermissionMode, Parameter(show_default=True)] = PermissionMode.DEFAULT,
    session: str | None = None,
    store: Store = "",
    show_thinking: Flag = False,
    plain: Flag = False,
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
        tools: Your tools as module:attribute, a tool or a list of tools; or names of built-in
            tools, or of the sets code and filesystem; may be repeated.
        workspace: Directory in which built-in tools work. Commands run in a bubblewrap sandbox if
            bubblewrap is installed, and are refused otherwise.
        unconfined: Run commands without a sandbox, with your rights.
        checkpoints: Directory for copies of the workspace's files, from which /rewind --files
            restores them. By default below ~/.local/state; without a terminal, none are made.
        demo_tools: Offer a clock, a calculator and notes as tools, to try out the chat.
        permissions: Permission mode; default asks before calls that change something.
        session: Id of the session to continue or to create.
        store: Path of the store: a file, or an existing directory for plain files. By default a
            file below ~/.local/state; without a terminal, the chat is not stored.
        show_thinking: Show the model's thinking.
        plain: Use no colours and no cursor movement. Always on outside a terminal.
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
        workspace=workspace,
        unconfined=unconfined,
        checkpoints=checkpoints,
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
    json: Flag = False,
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
        return reject(error)
    return await examine(options, timeout=timeout, as_json=json)


@app.command
def trace(file: str, /) -> int:
    """Draw the spans of a trace as a waterfall.

    Args:
        file: File that a JsonlTraceRecorder has written.
    """
    return show_trace(file)


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
