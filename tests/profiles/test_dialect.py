import pytest

from agent_actors.errors import ConfigError
from agent_actors.profiles.dialect import PLAIN, ChatDialect


def test_a_dialect_is_a_value() -> None:
    assert ChatDialect() == PLAIN
    assert hash(ChatDialect(refuses=["seed"])) == hash(ChatDialect(refuses={"seed"}))


def test_single_refused_field_is_one_name() -> None:
    assert ChatDialect(refuses="seed").refuses == frozenset({"seed"})


@pytest.mark.parametrize("field", ["text_tool_calls", "structured_output"])
def test_unknown_mode_is_refused(field: str) -> None:
    modes: dict[str, object] = {field: "telepathy"}
    with pytest.raises(
        ConfigError, match=rf"the field '{field}' must be one of .*; got 'telepathy'"
    ):
        ChatDialect(**modes)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
