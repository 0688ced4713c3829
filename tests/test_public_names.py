"""Public names that have two spellings."""

from agent_actors import model


def test_old_names_of_classes_are_aliases() -> None:
    assert model.ModelFinished is model.ModelCompleted
