"""The system prompt lists the active skills."""

from agent_actors.sessions.skills import append_skills_prompt


def test_skills_follow_the_system_prompt() -> None:
    assert append_skills_prompt("Be brief.", ["a", "b"]) == "Be brief.\n\nActive skills: a, b"
    assert append_skills_prompt("", ("a",)) == "Active skills: a"
    assert append_skills_prompt("Be brief.", ()) == "Be brief."
