"""Conversations through the asyncio client and `query()`."""

import asyncio

import attrs
import pytest

from agent_actors import TextBlock, ToolUseBlock, tool
from agent_actors.asyncio import Client, open_runtime, query
from agent_actors.errors import ClientError, ConfigError, SessionError
from agent_actors.testing import call, hang, say
from tests.asyncio.helpers import agent, run


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_client_holds_a_conversation() -> None:
    async def main() -> None:
        async with Client(agent([say("Hel", "lo.")], [say("Bye.")])) as client:
            for prompt, answer in (("Hi.", "Hello."), ("Bye?", "Bye.")):
                await client.query(prompt)
                texts = [
                    b.text async for b in client.receive_messages() if isinstance(b, TextBlock)
                ]
                assert "".join(texts) == answer
                assert client.result is not None
                assert client.result.text == answer
            assert client.turn_count == 2
            assert [m["role"] for m in client.history] == ["user", "assistant"] * 2
        with pytest.raises(ClientError, match="closed"):
            await client.query("Again.")

    run(main)


def test_client_executes_calls_by_hand() -> None:
    async def main() -> None:
        options = attrs.evolve(
            agent([call("add", {"a": 1, "b": 2})], [say("3.")], tools=(add,)),
            auto_execute_tools=False,
        )
        async with open_runtime() as runtime, Client(options, runtime=runtime) as client:
            await client.query("1 + 2?")
            calls = [b async for b in client.receive_messages() if isinstance(b, ToolUseBlock)]
            assert [one.id for one in client.open_calls] == [one.id for one in calls]
            await client.add_tool_result(calls[0].id, await add.execute(calls[0].input))
            await client.continue_turn()
            async for _ in client.receive_messages():
                pass
            assert client.history[-1]["content"] == "3."
            assert await runtime.is_busy(client.session_id) is False

    run(main)


def test_client_resumes_and_replaces_history() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            await runtime.run("Hi.", agent([say("Hello.")]), session_id="s")
            async with Client(agent([say("Yes.")]), runtime=runtime, resume="s") as client:
                assert client.history[-1]["content"] == "Hello."
                await client.replace_history([{"role": "user", "content": "Still there?"}])
                assert len(client.history) == 1
                await client.continue_turn()
                async for _ in client.receive_messages():
                    pass
                assert client.history[-1]["content"] == "Yes."
            with pytest.raises(SessionError):
                await Client(agent(), runtime=runtime, resume="none").__aenter__()

    run(main)


def test_client_belongs_to_one_task() -> None:
    async def main() -> None:
        async with open_runtime(), Client(agent([say("One."), hang()])) as client:
            await client.query("Hi.")
            messages = client.receive_messages()
            assert await anext(messages) == TextBlock("One.")

            async def other() -> None:
                with pytest.raises(ClientError, match="already reading this turn"):
                    await anext(messages)

            await asyncio.wait_for(asyncio.ensure_future(other()), None)
            await client.interrupt()
            assert [block async for block in messages] == []

    run(main)


def test_client_errors_name_the_remedy() -> None:
    async def main() -> None:
        client = Client(agent())
        with pytest.raises(ClientError, match="async with"):
            _ = client.history
        with pytest.raises(ClientError, match="async with"):
            await client.query("Hi.")
        with pytest.raises(ConfigError, match="different sessions"):
            await Client(agent(), resume="a", session_id="b").__aenter__()
        async with client:
            with pytest.raises(ClientError, match="only once"):
                await client.__aenter__()
            with pytest.raises(ClientError, match="nothing to receive"):
                await anext(client.receive_messages())

    run(main)


def test_query_yields_messages_and_result() -> None:
    async def main() -> None:
        for outer in (open_runtime(), None):
            asking = query("Hi.", agent([say("Hel", "lo.")]))
            if outer is not None:
                await outer.__aenter__()
            async with asking as messages:
                found = [message async for message in messages]
            blocks = [block for message in found for block in message.content]
            assert "".join(b.text for b in blocks if isinstance(b, TextBlock)) == "Hello."
            assert found[-1].stop_reason == "completed"
            assert asking.result is not None
            assert asking.result.text == "Hello."
            with pytest.raises(ClientError):
                await asking.__aenter__()
            if outer is not None:
                await outer.__aexit__(None, None, None)

    run(main)
