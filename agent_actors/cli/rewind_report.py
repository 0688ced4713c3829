"""The result of a rewind as text and as JSON. Pure."""

from collections.abc import Iterator

from agent_actors.cli.safe_text import visible
from agent_actors.domain.json import JsonObject
from agent_actors.domain.workspace.trees import FileRewind


def rewind_lines(rewound: FileRewind) -> Iterator[str]:
    """Yield a line for each file, after a line with their number."""
    count = len(rewound.changes)
    verb = "would be restored" if rewound.dry_run else "restored"
    yield f"{count} {'file' if count == 1 else 'files'} {verb}"
    for change in rewound.changes:
        yield f"  {'write ' if change.kind == 'written' else 'delete'} {visible(change.path)}"
    for path in rewound.conflicts:
        yield f"  keep   {visible(path)} (others changed it too)"
    for text in rewound.not_covered:
        yield f"  not covered: {visible(text)}"


def rewind_as_json(rewound: FileRewind) -> JsonObject:
    """Return the files of a rewind as JSON."""
    return {
        "dry_run": rewound.dry_run,
        "changes": [{"path": one.path, "kind": one.kind} for one in rewound.changes],
        "conflicts": list(rewound.conflicts),
        "not_covered": list(rewound.not_covered),
    }
