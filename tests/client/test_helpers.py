"""The functions with the names of open-agent-sdk."""

import pytest

from agent_actors import create_client, format_messages, open_runtime
from tests.client.helpers import agent, ask, shown


@pytest.mark.feature("OAS-121", "ASDK-123")
async def test_created_client_uses_the_runtime() -> None:
    async with open_runtime(max_sessions=7, drain=2) as runtime:
        async with create_client(agent("Hello.")[0], runtime=runtime) as client:
            assert shown(await ask(client, "Hi.")) == ["text Hello."]
            assert runtime.history(client.session_id) is not None
        assert (runtime.options.max_sessions, runtime.options.drain) == (7, 2)


@pytest.mark.feature("OAS-121")
def test_messages_have_the_wire_format() -> None:
    assert format_messages("Be brief.", "Hi.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
    ]
    assert format_messages("", "Hi.") == [{"role": "user", "content": "Hi."}]
