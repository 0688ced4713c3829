"""The skills that are in force in a session, as its model is told of them.

They are not part of any message: they come from the fold of the log, so that a session that goes on
in another process, or has been taken back, names those that count there and then.
"""

from collections.abc import Sequence


def with_skills(system_prompt: str, skills: Sequence[str]) -> str:
    """The system prompt, and below it the skills in force; the same text if there are none."""
    if not skills:
        return system_prompt
    named = f"Active skills: {', '.join(skills)}"
    return f"{system_prompt}\n\n{named}" if system_prompt else named
