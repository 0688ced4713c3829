"""Public names with two spellings refer to the same object."""

import agent_actors
from agent_actors import model


def test_old_names_of_classes_are_aliases() -> None:
    assert model.ModelFinished is model.ModelCompleted
    assert agent_actors.AssistantMessage is agent_actors.QueryMessage
