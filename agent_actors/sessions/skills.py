"""The active skills of a session, as part of the system prompt.

No message holds the skills. They come from the fold of the log, so that a session that continues in
another process, or was rewound, names the skills that are active at that point.
"""

from collections.abc import Sequence


def append_skills_prompt(system_prompt: str, skills: Sequence[str]) -> str:
    """Return the system prompt with the active skills below; unchanged if there are none."""
    if not skills:
        return system_prompt
    named = f"Active skills: {', '.join(skills)}"
    return f"{system_prompt}\n\n{named}" if system_prompt else named
