"""Invalid session ids are refused by the call that gets them, before any work begins."""

import pytest

from agent_actors import AgentOptions, open_runtime
from agent_actors.errors import ConfigError
from agent_actors.testing import ScriptedModel


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 257, "a\nb"])
async def test_invalid_session_id_is_refused_immediately(name: str) -> None:
    model = ScriptedModel([])
    options = AgentOptions(model="m", provider=model)
    async with open_runtime() as runtime:
        with pytest.raises(ConfigError, match="a session id"):
            await runtime.run("hi", options, session_id=name)
        with pytest.raises(ConfigError, match="a session id"):
            runtime.stream("hi", options, session_id=name)
        assert runtime.statistics().runs_started == 0
    assert not model.requests
