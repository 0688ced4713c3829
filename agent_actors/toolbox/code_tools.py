"""The tools of the vocabulary `code`: the names that current coding models know."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from agent_actors.domain.json import JsonObject
from agent_actors.domain.workspace.files import MAX_MATCHES, GrepQuery
from agent_actors.toolbox.calls import fails_as_result
from agent_actors.toolbox.files.edits import Edit
from agent_actors.toolbox.files.patch_parsing import patched_paths
from agent_actors.toolbox.files.reading import DEFAULT_LINES
from agent_actors.toolbox.operations import Operations
from agent_actors.toolbox.search import GrepMode
from agent_actors.toolbox.todos import TodoItem, TodoList
from agent_actors.tools import Tool, ToolContext, tool


def _read(operations: Operations) -> Tool:
    @tool("Read", read_only=True, open_world=False)
    @fails_as_result
    async def read(
        file_path: str, ctx: ToolContext, offset: int = 1, limit: int = DEFAULT_LINES
    ) -> object:
        """Read a file of the workspace.

        A text file is returned as lines with their numbers: `number`, tab, `line`. The number and
        the tab are not part of the file. An image or a PDF is shown. Read a file before you edit
        it.

        Args:
            file_path: The path of the file, relative to the root of the workspace or absolute.
            offset: The number of the first line to read, from 1.
            limit: The maximum number of lines to read.
        """
        return await operations.reader.read(ctx, file_path, offset, limit)

    return read


def _write(operations: Operations) -> Tool:
    @tool("Write", destructive=True, idempotent=True, open_world=False)
    @fails_as_result
    async def write(
        file_path: str, content: str, ctx: ToolContext, overwrite: bool = True
    ) -> JsonObject:
        """Create a text file, or replace its complete content. Missing directories are created.

        To change a part of a file, use Edit. Returns the path and the number of bytes written.

        Args:
            file_path: The path of the file, relative to the root of the workspace or absolute.
            content: The complete new content.
            overwrite: False to fail if the file already exists.
        """
        return await operations.changer.write(ctx, file_path, content, overwrite=overwrite)

    return write


def _edit(operations: Operations) -> Tool:
    @tool("Edit", destructive=True, open_world=False)
    @fails_as_result
    async def edit(
        file_path: str,
        old: str,
        new: str,
        ctx: ToolContext,
        *,
        count: int = 1,
        before: str = "",
        after: str = "",
    ) -> JsonObject:
        """Replace exact text in a file. Read the file first.

        The text must match exactly, with all white space and without line numbers. The first
        occurrence is replaced; include more lines to choose another one. Returns the number of
        replacements, and the lines of further occurrences that were not replaced.

        Args:
            file_path: The path of the file, relative to the root of the workspace or absolute.
            old: The text to replace.
            new: The new text.
            count: The maximum number of occurrences to replace; 0 to replace all.
            before: A text that must come before the replaced text; empty for none.
            after: A text that must come after the replaced text; empty for none.
        """
        wanted = Edit(old=old, new=new, count=count, before=before, after=after)
        edited = await operations.changer.edit(ctx, file_path, wanted, ("old", "before", "after"))
        return edited.summary

    return edit


def _apply_patch(operations: Operations) -> Tool:
    @tool("ApplyPatch", destructive=True, open_world=False, paths=_paths_of_patch)
    @fails_as_result
    async def apply_patch(patch: str, ctx: ToolContext) -> JsonObject:
        """Change several files with one patch. If a part of it does not fit, nothing changes.

        A patch has this form:

        *** Begin Patch
        *** Update File: path/of/file.py
        @@ class Example:
         an unchanged line
        -a removed line
        +an added line
        *** Add File: path/of/new_file.txt
        +the first line
        *** Delete File: path/of/old_file.txt
        *** End Patch

        Each change of a file begins with `@@`, optionally followed by a line above the change, such
        as the head of a class or function. Include about three unchanged lines before and after the
        changed ones, and list the changes in the order of the file. After `*** Update File:`, the
        line `*** Move to: new/path` renames the file. Returns the changed files.

        Args:
            patch: The complete patch, from `*** Begin Patch` to `*** End Patch`.
        """
        return await operations.patches.apply(ctx, patch)

    return apply_patch


def _paths_of_patch(arguments: JsonObject) -> tuple[str, ...]:
    return patched_paths(str(arguments["patch"]))


def _glob(operations: Operations) -> Tool:
    @tool("Glob", read_only=True, open_world=False)
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
    @tool("Grep", read_only=True, open_world=False)
    @fails_as_result
    async def grep(
        query: str,
        ctx: ToolContext,
        *,
        file_glob: str = "",
        path: str = ".",
        mode: GrepMode = "content",
        ignore_case: bool = False,
        before: int = 0,
        after: int = 0,
        multiline: bool = False,
        use_gitignore: bool = True,
        limit: int = MAX_MATCHES,
    ) -> JsonObject:
        """Search the content of files with a regular expression.

        Returns the matching lines with their files and line numbers.

        Args:
            query: The regular expression.
            file_glob: Search only files whose name or path matches this pattern, such as `*.py`.
            path: The file or directory to search.
            mode: `content` returns matching lines, `files_with_matches` only the paths of files,
                `count` the number of matching lines of each file.
            ignore_case: True to ignore case.
            before: The number of lines to return before each match.
            after: The number of lines to return after each match.
            multiline: True if the expression may match across lines.
            use_gitignore: True to leave out files that `.gitignore` excludes.
            limit: The maximum number of results.
        """
        wanted = GrepQuery(
            pattern=query,
            path=path,
            file_glob=file_glob,
            ignore_case=ignore_case,
            before=before,
            after=after,
            multiline=multiline,
            use_gitignore=use_gitignore,
            limit=limit,
        )
        return await operations.search.grep(ctx, wanted, mode)

    return grep


def _bash(operations: Operations) -> Tool:
    shell = operations.shell

    @tool("Bash", timeout=operations.command_deadline)
    @fails_as_result
    async def bash(
        command: str,
        ctx: ToolContext,
        *,
        timeout_s: float = shell.timeout_s,
        max_output_bytes: int = shell.max_output_bytes,
        background: bool = False,
        cwd: str = ".",
    ) -> object:
        """Run a shell command in the workspace and return its output and exit code.

        Each command runs in a new shell, so directories and variables are not kept between calls.
        The command has no terminal and no input. To read, edit or search files, use the tools for
        files.

        Args:
            command: The command, run by `/bin/sh`.
            timeout_s: The maximum duration in seconds; the default is also the maximum.
            max_output_bytes: The maximum size of each of stdout and stderr in bytes; the default is
                also the maximum.
            background: True to return a `task_id` at once and let the command run. Use BashOutput
                to read its output and KillBash to end it. Use it for servers and long commands.
            cwd: The directory where the command starts.
        """
        if background:
            return await shell.start(ctx, command, cwd=cwd)
        return await shell.run(
            ctx, command, timeout_s=timeout_s, max_output_bytes=max_output_bytes, cwd=cwd
        )

    return bash


def _bash_output(operations: Operations) -> Tool:
    @tool("BashOutput", read_only=True, open_world=False)
    @fails_as_result
    async def bash_output(task_id: str, ctx: ToolContext) -> JsonObject:
        """Return the new output of a background command since the last call, and its status.

        Args:
            task_id: The id that Bash returned.
        """
        return await operations.shell.output(ctx, task_id)

    return bash_output


def _kill_bash(operations: Operations) -> Tool:
    @tool("KillBash", destructive=True, idempotent=True, open_world=False)
    @fails_as_result
    async def kill_bash(task_id: str, ctx: ToolContext) -> JsonObject:
        """End a background command and return its last output.

        Args:
            task_id: The id that Bash returned.
        """
        return await operations.shell.kill(ctx, task_id)

    return kill_bash


def _todo_write(operations: Operations) -> Tool:
    del operations
    todo_list = TodoList("completed")

    # The list is part of the session, so nothing outside the run changes. A sync function would run
    # in a thread.
    @tool("TodoWrite", read_only=True, open_world=False)
    @fails_as_result
    async def todo_write(todos: list[TodoItem], ctx: ToolContext) -> JsonObject:  # noqa: ASYNC124
        """Replace the list of your tasks, to plan and track work with several steps.

        Pass the complete list each time. The status of a task is `pending`, `in_progress` or
        `completed`. Mark a task as `in_progress` before you begin it, and as `completed` as soon as
        it is finished.

        Args:
            todos: The complete list.
        """
        return todo_list.replace(ctx, todos)

    return todo_write


CODE_TOOLS: Final[Mapping[str, Callable[[Operations], Tool]]] = MappingProxyType(
    {
        "Read": _read,
        "Write": _write,
        "Edit": _edit,
        "ApplyPatch": _apply_patch,
        "Glob": _glob,
        "Grep": _grep,
        "Bash": _bash,
        "BashOutput": _bash_output,
        "KillBash": _kill_bash,
        "TodoWrite": _todo_write,
    }
)
"""Functions that create the tools, by name and in the order in which models see them."""
