"""The tools of the vocabulary `filesystem`: short names with few parameters."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from agent_actors.domain.json import JsonObject
from agent_actors.domain.workspace.files import GrepQuery
from agent_actors.toolbox.calls import fails_as_result
from agent_actors.toolbox.files.edits import Edit
from agent_actors.toolbox.files.reading import DEFAULT_LINES
from agent_actors.toolbox.operations import Operations
from agent_actors.toolbox.todos import TodoItem, TodoList
from agent_actors.tools import Tool, ToolContext, tool


def _ls(operations: Operations) -> Tool:
    @tool("ls", read_only=True, open_world=False)
    @fails_as_result
    async def ls(ctx: ToolContext, path: str = ".") -> object:
        """List a directory. Returns a JSON array of the name, type and size of each entry.

        Args:
            path: The directory, relative to the root of the workspace or absolute.
        """
        return await operations.search.list(ctx, path)

    return ls


def _read_file(operations: Operations) -> Tool:
    @tool("read_file", read_only=True, open_world=False)
    @fails_as_result
    async def read_file(
        path: str, ctx: ToolContext, offset: int = 1, limit: int = DEFAULT_LINES
    ) -> object:
        """Read a file of the workspace.

        A text file is returned as lines with their numbers: `number`, tab, `line`. The number and
        the tab are not part of the file. An image or a PDF is shown. Read a file before you edit
        it.

        Args:
            path: The path of the file, relative to the root of the workspace or absolute.
            offset: The number of the first line to read, from 1.
            limit: The maximum number of lines to read.
        """
        return await operations.reader.read(ctx, path, offset, limit)

    return read_file


def _write_file(operations: Operations) -> Tool:
    @tool("write_file", destructive=True, idempotent=True, open_world=False)
    @fails_as_result
    async def write_file(path: str, content: str, ctx: ToolContext) -> JsonObject:
        """Create a text file, or replace its complete content. Missing directories are created.

        To change a part of a file, use edit_file. Returns the path and the number of bytes written.

        Args:
            path: The path of the file, relative to the root of the workspace or absolute.
            content: The complete new content.
        """
        return await operations.changer.write(ctx, path, content)

    return write_file


def _edit_file(operations: Operations) -> Tool:
    @tool("edit_file", destructive=True, open_world=False)
    @fails_as_result
    async def edit_file(path: str, old_text: str, new_text: str, ctx: ToolContext) -> JsonObject:
        """Replace the first occurrence of a text in a file. Read the file first.

        The text must match exactly, with all white space and without line numbers. Include more
        lines to choose another occurrence. Returns the number of replacements, and the lines of
        further occurrences that were not replaced.

        Args:
            path: The path of the file, relative to the root of the workspace or absolute.
            old_text: The text to replace.
            new_text: The new text.
        """
        wanted = Edit(old=old_text, new=new_text)
        edited = await operations.changer.edit(ctx, path, wanted, ("old_text", "before", "after"))
        return {"path": path, **edited.summary}

    return edit_file


def _glob(operations: Operations) -> Tool:
    @tool("glob", read_only=True, open_world=False)
    @fails_as_result
    async def glob(pattern: str, ctx: ToolContext, path: str = ".") -> JsonObject:
        """Find files by their names. Returns their paths, sorted.

        Args:
            pattern: A glob pattern such as `*.py` or `src/**/*.ts`; `**` matches any directories.
            path: The directory in which to search.
        """
        return await operations.search.glob(ctx, pattern, path)

    return glob


def _grep(operations: Operations) -> Tool:
    @tool("grep", read_only=True, open_world=False)
    @fails_as_result
    async def grep(pattern: str, ctx: ToolContext, path: str = ".") -> JsonObject:
        """Search the content of files with a regular expression.

        Returns the matching lines with their files and line numbers. Files that `.gitignore`
        excludes are left out.

        Args:
            pattern: The regular expression.
            path: The file or directory to search.
        """
        return await operations.search.grep(ctx, GrepQuery(pattern=pattern, path=path))

    return grep


def _execute(operations: Operations) -> Tool:
    shell = operations.shell

    @tool("execute", timeout=operations.command_deadline)
    @fails_as_result
    async def execute(command: str, ctx: ToolContext, background: bool = False) -> object:
        """Run a shell command in the workspace and return its output and exit code.

        Each command runs in a new shell, so directories and variables are not kept between calls.
        The command has no terminal and no input. To read, edit or search files, use the tools for
        files.

        Args:
            command: The command, run by `/bin/sh`.
            background: True to return a `task_id` at once and let the command run. Use bash_output
                to read its output and kill_bash to end it. Use it for servers and long commands.
        """
        if background:
            return await shell.start(ctx, command)
        return await shell.run(ctx, command)

    return execute


def _bash_output(operations: Operations) -> Tool:
    @tool("bash_output", read_only=True, open_world=False)
    @fails_as_result
    async def bash_output(task_id: str, ctx: ToolContext) -> JsonObject:
        """Return the new output of a background command since the last call, and its status.

        Args:
            task_id: The id that execute returned.
        """
        return await operations.shell.output(ctx, task_id)

    return bash_output


def _kill_bash(operations: Operations) -> Tool:
    @tool("kill_bash", destructive=True, idempotent=True, open_world=False)
    @fails_as_result
    async def kill_bash(task_id: str, ctx: ToolContext) -> JsonObject:
        """End a background command and return its last output.

        Args:
            task_id: The id that execute returned.
        """
        return await operations.shell.kill(ctx, task_id)

    return kill_bash


def _write_todos(operations: Operations) -> Tool:
    del operations
    todo_list = TodoList("done")

    # The list is part of the session, so nothing outside the run changes. A sync function would run
    # in a thread.
    @tool("write_todos", read_only=True, open_world=False)
    @fails_as_result
    async def write_todos(todos: list[TodoItem], ctx: ToolContext) -> JsonObject:  # noqa: ASYNC124
        """Replace the list of your tasks, to plan and track work with several steps.

        Pass the complete list each time. The status of a task is `pending`, `in_progress` or
        `done`. Mark a task as `in_progress` before you begin it, and as `done` as soon as it is
        finished.

        Args:
            todos: The complete list.
        """
        return todo_list.replace(ctx, todos)

    return write_todos


FILESYSTEM_TOOLS: Final[Mapping[str, Callable[[Operations], Tool]]] = MappingProxyType(
    {
        "ls": _ls,
        "read_file": _read_file,
        "write_file": _write_file,
        "edit_file": _edit_file,
        "glob": _glob,
        "grep": _grep,
        "execute": _execute,
        "bash_output": _bash_output,
        "kill_bash": _kill_bash,
        "write_todos": _write_todos,
    }
)
"""Functions that create the tools, by name and in the order in which models see them."""
