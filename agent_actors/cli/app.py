"""The commands and their options, and what becomes of a command that is called wrongly.

Owns names, help and defaults; what a command does stands in a file of its own.
"""

import json
import math
import os
import sys
from collections.abc import Sequence
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
from agent_actors.cli.sessions.app import app as sessions_app
from agent_actors.cli.tally import report_of
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

    It fails if a run does not finish, or if a task or a connection outlives the runtime.

    Args:
        sessions: How many, all at once.
        tools: Tool calls that each answer is to make, in parallel.
        turns: Prompts per session, one after the other.
        provider: A real endpoint by the name of its profile, such as ollama or anthropic.
        base_url: A real endpoint, such as http://localhost:1234/v1; by default an embedded one.
        model: The model's name, as the real endpoint knows it.
        api_key: The real endpoint's key.
        json: Print one JSON object, and nothing else.
    """
    where = "--provider" if provider is not None else "--base-url"
    real = provider is not None or bool(base_url)
    if real != bool(model):
        given, missing = (where, "--model") if real else ("--model", where)
        return fail(f"{given} needs {missing}; without both, the endpoint is embedded", MISUSED)
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
    timeout: _Seconds = math.inf,  # noqa: ASYNC109 - an option of the user's, carried out by the run
    session: str | None = None,
    store: _Store = "",
    show_thinking: _Flag = False,
    usage: _Flag = False,
    json: _Flag = False,
) -> int:
    """Stream the answer to one prompt.

    Args:
        prompt: What to ask; - reads it from stdin; one with a dash in front stands behind --.
        provider: The endpoint by the name of its profile, such as ollama or anthropic.
        base_url: The endpoint, such as http://localhost:1234/v1.
        model: The model's name, as the endpoint knows it.
        system: The system prompt.
        api_key: The endpoint's key.
        api_key_header: A header for the raw key, in place of "Authorization: Bearer".
        max_tokens: The most tokens of the answer; by default as the endpoint has it.
        temperature: The sampling temperature; by default as the endpoint has it.
        timeout: Seconds for the whole answer.
        session: The session to go on with, or to begin under this name; needs --store.
        store: Where sessions are kept: a file, or a directory of plain files that is there.
        show_thinking: Show the model's chain of thought, on stderr.
        usage: Tell the tokens used, on stderr.
        json: Print every event as a line of JSON.
    """
    missing = _missing(provider, base_url, model)
    if not missing and session is not None and not store:
        missing = "--session needs --store PATH: without it a session ends with the run"
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
    """Talk with a model in a terminal, or a line at a time through pipes.

    Args:
        provider: The endpoint by the name of its profile, such as ollama or anthropic.
        base_url: The endpoint, such as http://localhost:1234/v1.
        model: The model's name, as the endpoint knows it.
        system: The system prompt.
        api_key: The endpoint's key.
        api_key_header: A header for the raw key, in place of "Authorization: Bearer".
        max_tokens: The most tokens of one answer; by default as the endpoint has it.
        temperature: The sampling temperature; by default as the endpoint has it.
        tools: Tools of yours as module:attribute, of a tool or a list of tools; may be repeated.
        demo_tools: Offer a clock, a calculator and notes, to try it.
        permissions: What becomes of calls: default asks about those that change something.
        session: The session to go on with, or to begin under this name; needs --store.
        store: Where sessions are kept: a file, or a directory that is there.
        show_thinking: Show the model's thoughts.
        plain: No colours and no cursor movement; so it is without a terminal.
    """
    missing = _missing(provider, base_url, model)
    if not missing and session is not None and not store:
        missing = (
            "--session needs --store PATH, or AGENT_ACTORS_STORE: without it a session ends with "
            "the chat"
        )
    if missing:
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
    timeout: _Seconds = 60.0,  # noqa: ASYNC109 - an option of the user's, carried out by who asks
    json: _Flag = False,
) -> int:
    """Try an endpoint for what an agent needs, and tell what works and what to set.

    It asks some ten small questions. The exit status is 0 if an agent can work with the endpoint.

    Args:
        provider: The endpoint by the name of its profile, such as ollama or anthropic.
        base_url: The endpoint, such as http://localhost:1234/v1.
        model: The model's name, as the endpoint knows it.
        api_key: The endpoint's key.
        api_key_header: A header for the raw key, in place of "Authorization: Bearer".
        timeout: Seconds for each question; by default 60.
        json: Print one JSON object, and nothing else.
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
    """What has to be said of the endpoint still, in words; empty: nothing."""
    if provider:
        return ""  # its profile may name both, and tells what it does not
    if not base_url:
        return (
            "no endpoint to ask: pass --base-url URL or --provider NAME, "
            "or set AGENT_ACTORS_BASE_URL or AGENT_ACTORS_PROVIDER"
        )
    return "" if model else "no model to ask: pass --model NAME, or set AGENT_ACTORS_MODEL"


async def _demo(plan: DemoPlan, *, as_json: bool) -> int:
    console = Console()
    work = Demo(plan)
    live = console.is_terminal and not as_json
    beside = [partial(show_live, console, plan, work.snapshot)] if live else []
    status = await complete(work.drive, beside=beside)
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
    """Find the command, run it, and come to an exit status.

    Args:
        arguments: What stands after the program's name.
    """
    try:
        status: object = app(_with_stdin(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        return fail(error, MISUSED)
    except BrokenPipeError:
        # What is still buffered has nobody to read it: else the interpreter complains at its end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return interrupted()
    return status if isinstance(status, int) else 0


def _with_stdin(arguments: Sequence[str]) -> list[str]:
    # To the parser a lone dash is an option; behind two it is what it is.
    if FROM_STDIN not in arguments or "--" in arguments:
        return list(arguments)
    others = (argument for argument in arguments if argument != FROM_STDIN)
    return [*others, "--", FROM_STDIN]
