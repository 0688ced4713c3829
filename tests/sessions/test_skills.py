"""A model is told which skills are in force."""

from agent_actors.sessions.skills import with_skills


def test_skills_stand_below_the_system_prompt() -> None:
    assert with_skills("Be brief.", ["a", "b"]) == "Be brief.\n\nActive skills: a, b"
    assert with_skills("", ("a",)) == "Active skills: a"
    assert with_skills("Be brief.", ()) == "Be brief."
