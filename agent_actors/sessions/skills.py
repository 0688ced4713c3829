"""Lists a session's active skills in the system prompt.

Active skills are not part of any message. They are computed from the log, so that a session that is
rewound, or resumed in another process, lists the skills that are active at that point.
"""

from collections.abc import Sequence


def append_skills_prompt(system_prompt: str, skills: Sequence[str]) -> str:
    """Return the system prompt with a list of the active skills; unchanged if there are none."""
    if not skills:
        return system_prompt
    named = f"Active skills: {', '.join(skills)}"
    return f"{system_prompt}\n\n{named}" if system_prompt else named
