"""Carries out the slash commands in the prompt of a run, before the model is called."""

from functools import partial

import attrs

from agent_actors.domain.events import EventBuilder, Notification
from agent_actors.domain.workspace.project import HandlerResult
from agent_actors.errors import ConfigError
from agent_actors.project.commands import (
    CommandEntry,
    CommandLine,
    command_lines,
    expanded,
    unknown_command,
)
from agent_actors.protocol.turn import UserInput
from agent_actors.runs.context import RunContext
from agent_actors.runs.project.handlers import call_handler
from agent_actors.runs.project.run_project import RunProject


@attrs.frozen
class CarriedOut:
    """The prompt after its commands were carried out.

    Attributes:
        prompt: The prompt without the lines of commands; None if nothing is left.
        notices: The records about lines whose command is not known.
    """

    prompt: UserInput | None
    notices: tuple[EventBuilder, ...] = ()


async def carry_out_commands(context: RunContext) -> CarriedOut:
    """Carry out the commands in the prompt, in order, if the agent enables commands.

    Prompts with images, files or several texts have no commands.

    Cancellation: see the handlers of the commands.
    """
    prompt, project = context.spec.prompt, context.project
    if project is None or not context.options.slash_commands or prompt.blocks:
        return CarriedOut(prompt)
    lines = command_lines(prompt.text)
    if not any(line.name for line in lines):
        return CarriedOut(prompt)
    kept: list[str] = []
    notices: list[EventBuilder] = []
    commands = project.knowledge.commands
    for line in lines:
        entry = commands.get(line.name)
        if entry is None:
            kept.append(line.text)
            if line.name:
                text = unknown_command(line.name, commands)
                notices.append(partial(Notification, text=text, data={"command": line.name}))
            continue
        text = await _carried_out(project, entry, line)
        if text:
            kept.append(text)
    left = "\n".join(kept).strip()
    return CarriedOut(UserInput(left) if left else None, tuple(notices))


async def _carried_out(project: RunProject, entry: CommandEntry, line: CommandLine) -> str:
    """Carry out one command, and return the text that replaces its line."""
    if entry.handler is not None:
        project.command_results.append(
            await call_handler(entry.name, entry.handler, line.arguments)
        )
        return ""
    try:
        text = expanded(entry.body, line.arguments)
    except ConfigError as error:
        project.command_results.append(HandlerResult(entry.name, error=str(error)))
        return line.text
    project.command_results.append(HandlerResult(entry.name, text))
    return text


def output_of_commands(context: RunContext) -> str:
    """Return the outputs and the errors of the carried out commands as one text."""
    results = () if context.project is None else context.project.command_results
    return "\n".join(
        result.error or (result.output if isinstance(result.output, str) else "")
        for result in results
    ).strip()
