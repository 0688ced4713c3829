"""Lists, finds and searches files of the workspace for a model."""

import json
from itertools import takewhile
from posixpath import basename
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.workspace.files import (
    MAX_MATCHES,
    FileKind,
    GrepMatch,
    GrepMatches,
    GrepQuery,
)
from agent_actors.domain.workspace.report import CallResources
from agent_actors.toolbox.calls import workspace_of
from agent_actors.toolbox.failure import ToolFailure
from agent_actors.tools import ToolContext, ToolOutput

GrepMode: TypeAlias = Literal["content", "files_with_matches", "count"]

# Matching lines that are counted or grouped by file, which are not shown themselves.
_MAX_COUNTED: Final = 10_000
_MAX_CHARACTERS: Final = 100_000
_TYPES: Final[dict[FileKind, str]] = {"file": "file", "directory": "dir", "other": "other"}


@attrs.frozen
class FileSearch:
    """Searches the workspace within limits.

    Attributes:
        max_entries: Maximum number of entries of a directory.
        max_matches: Maximum number of files or matching lines of a search.
        max_characters: Maximum number of characters of the matching lines of a search.
    """

    max_entries: int = _MAX_COUNTED
    max_matches: int = MAX_MATCHES
    max_characters: int = _MAX_CHARACTERS

    async def list(self, ctx: ToolContext, path: str) -> ToolOutput:
        """Return the entries of a directory as a JSON array of `{name, type, size}`.

        If the directory has too many entries, the type of the last element is `truncated`.

        Raises:
            WorkspaceError: The directory cannot be listed.

        Cancellation: safe.
        """
        listing = await workspace_of(ctx).list(path, limit=self.max_entries)
        ctx.used(CallResources(paths=(path,)))
        entries: list[JsonObject] = [
            {"name": basename(entry.path), "type": _TYPES[entry.kind], "size": entry.size}
            for entry in listing.entries
        ]
        if listing.truncated:
            text = f"only the first {len(entries)} entries are listed; use a glob pattern"
            entries.append({"name": text, "type": "truncated", "size": 0})
        # The array is text, because an object with the type `file` in a result would be a block.
        return ToolOutput(json.dumps(entries, ensure_ascii=False))

    async def glob(
        self, ctx: ToolContext, pattern: str, path: str, *, use_gitignore: bool = False
    ) -> JsonObject:
        """Return the files that match a pattern.

        Raises:
            WorkspaceError: The directory or the pattern is invalid.

        Cancellation: safe.
        """
        found = await workspace_of(ctx).glob(
            pattern, path, limit=self.max_matches, use_gitignore=use_gitignore
        )
        ctx.used(CallResources(paths=(path,)))
        return {"files": list(found.paths), "truncated": found.truncated}

    async def grep(
        self, ctx: ToolContext, query: GrepQuery, mode: GrepMode = "content"
    ) -> JsonObject:
        """Return the matching lines, the files that contain them, or their numbers by file.

        Args:
            ctx: The call.
            query: The search; its `limit` may only lower the maximum number of results.
            mode: The form of the result.

        Raises:
            ToolFailure: A number of the query is invalid.
            WorkspaceError: The path or the pattern is invalid.

        Cancellation: safe.
        """
        if query.limit < 1 or query.before < 0 or query.after < 0:
            raise ToolFailure("limit must be at least 1, and before and after at least 0")
        limit = min(query.limit, self.max_matches)
        asked = limit if mode == "content" else _MAX_COUNTED
        found = await workspace_of(ctx).grep(attrs.evolve(query, limit=asked))
        files = tuple(dict.fromkeys(match.file for match in found.matches))
        ctx.used(CallResources(paths=(query.path, *files)))
        skipped: JsonObject = {"skipped_files": found.skipped} if found.skipped else {}
        if mode == "content":
            return {**self._content(found, query), **skipped}
        truncated = found.truncated or len(files) > limit
        if mode == "files_with_matches":
            return {"files": list(files[:limit]), "truncated": truncated, **skipped}
        counts = dict.fromkeys(files, 0)
        for match in found.matches:
            counts[match.file] += 1
        shown: list[JsonValue] = [{"file": file, "count": counts[file]} for file in files[:limit]]
        return {"counts": shown, "truncated": truncated, **skipped}

    def _content(self, found: GrepMatches, query: GrepQuery) -> JsonObject:
        room = self.max_characters

        def fits(match: GrepMatch) -> bool:
            nonlocal room
            lines = (match.file, match.text, *match.before, *match.after)
            room -= sum(map(len, lines))
            return room >= 0

        kept = list(takewhile(fits, found.matches))
        matches: list[JsonValue] = [
            {
                "file": match.file,
                "line": match.line,
                "text": match.text,
                **({"before": list(match.before)} if query.before else {}),
                **({"after": list(match.after)} if query.after else {}),
            }
            for match in kept
        ]
        return {
            "matches": matches,
            "truncated": found.truncated or len(kept) < len(found.matches),
        }
