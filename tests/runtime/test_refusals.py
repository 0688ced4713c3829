"""Refused, filtered and damaged responses in complete runs, over both protocols."""

from typing import Literal

import attrs
import pytest

from agent_actors import AgentOptions, Client, open_runtime, query, tool
from agent_actors.domain.blocks import ToolUseBlock, ToolUseError
from agent_actors.domain.messages import Messages
from agent_actors.events import AssistantMessage
from agent_actors.hooks import StopEvent
from agent_actors.model import ProviderProfile
from agent_actors.testing import Reply, ScriptedEndpoint, body, call, finish, reply, say
from tests.providers.anthropic import answers as messages
from tests.providers.openai_chat import answers as chat

Speech = Literal["openai", "anthropic"]
each_protocol = pytest.mark.parametrize("protocol", ["openai", "anthropic"])
REFUSED = reply(say("Well."), call("touch", {"path": "a"}), finish("refusal"))


@attrs.define
class Tools:
    """Tools that count their calls."""

    ran: list[str] = attrs.field(factory=list[str])

    def options(
        self, endpoint: ScriptedEndpoint, protocol: Speech, *, resends: bool = False
    ) -> AgentOptions:
        def touch(path: str) -> str:
            """Touch a file."""
            self.ran.append(path)
            return "touched"

        url = endpoint.base_url
        profile = ProviderProfile(name="p", protocol=protocol, base_url=url, resend_refused=resends)
        return AgentOptions(model="m", provider=profile, api_key="k", tools=[tool(touch)])


def valid(history: Messages) -> bool:
    called = [one.id for message in history for one in message.tool_calls]
    answered = [message.tool_call_id for message in history if message.role == "tool"]
    return called == answered


@each_protocol
@pytest.mark.parametrize("resends", [False, True])
async def test_refused_calls_never_run(protocol: Speech, resends: bool) -> None:
    tools = Tools()
    async with ScriptedEndpoint([REFUSED, "Fine."]) as endpoint, open_runtime() as runtime:
        options = tools.options(endpoint, protocol, resends=resends)
        refused = await runtime.run("Touch it", options, session_id="s")
        later = await runtime.run("And now?", options, session_id="s")
    assert (refused.stop_reason, refused.iterations, tools.ran) == ("refusal", 1, [])
    assert refused.stop_details is not None
    assert refused.stop_details.type == "refusal"
    assert valid(refused.messages)
    assert [one.is_error for one in refused.tool_calls] == [True]
    # The refused response stays in the history; it is sent again only if a profile says so.
    assert later.stop_reason == "completed"
    assert "Well." in [message.content for message in later.messages]
    sent = str(endpoint.requests[1].body)
    assert ("Well." in sent) is resends
    assert ("did not run" in sent) is resends
    assert later.stop_details is None


async def test_stop_hooks_see_the_refusal() -> None:
    seen: list[str] = []

    async def on_stop(event: StopEvent) -> None:
        seen.append(event.stop_reason)

    tools = Tools()
    filtered = reply(call("touch", {"path": "a"}), finish("content_filter"))
    async with ScriptedEndpoint([filtered]) as endpoint, open_runtime() as runtime:
        options = tools.options(endpoint, "openai").evolve(hooks={"on_stop": on_stop})
        result = await runtime.run("Touch it", options)
    assert (result.stop_reason, seen, tools.ran) == ("content_filter", ["content_filter"], [])


@pytest.mark.parametrize("auto", [False, True])
async def test_clients_are_handed_no_refused_call(auto: bool) -> None:
    tools = Tools()
    async with ScriptedEndpoint([REFUSED, REFUSED]) as endpoint, open_runtime():
        options = tools.options(endpoint, "openai").evolve(auto_execute_tools=auto)
        async with query("Touch it", options) as found:
            blocks = [block async for message in found for block in message.content]
        async with Client(options) as client:
            await client.query("Touch it")
            blocks += [block async for block in client.receive_messages()]
    assert found.result is not None
    assert found.result.stop_reason == "refusal"
    assert not any(isinstance(block, ToolUseBlock) for block in blocks)
    assert sum(isinstance(block, ToolUseError) for block in blocks) == 2
    assert tools.ran == []


async def test_refusals_survive_fork_and_rewind() -> None:
    tools = Tools()
    script: list[Reply | str] = ["Hello.", REFUSED, "Fine.", "Fine."]
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        options = tools.options(endpoint, "openai")
        await runtime.run("Hi", options, session_id="s")
        await runtime.run("Touch it", options, session_id="s")
        await runtime.sessions.fork("s", new_id="t")
        forked = await runtime.run("Again", options, session_id="t")
        resumed = await runtime.run("Again", options, session_id="s")
    for result, sent in ((forked, endpoint.requests[2]), (resumed, endpoint.requests[3])):
        assert result.stop_reason == "completed"
        assert valid(result.messages)
        assert "Well." not in str(sent.body)
        assert [one["role"] for one in sent.messages] == ["user", "assistant", "user", "user"]


@each_protocol
async def test_damaged_call_is_reported_not_run(protocol: Speech) -> None:
    damage = b"data: {damaged\n\n"
    if protocol == "openai":
        first = chat.sse(chat.calls(chat.entry(0, "a", "touch", '{"path": "a')), done=False)
        rest = chat.sse(chat.calls(chat.entry(0, None, None, 'b"}')), chat.chunk({}, "tool_calls"))
    else:
        begun = messages.start(0, messages.tool_use("a", "touch"))
        first = messages.sse(messages.begin(), begun, messages.arguments('{"path": "a'))
        end = [messages.stop(0), *messages.end("tool_use")]
        rest = messages.sse(messages.arguments('b"}'), *end)
    tools = Tools()
    script: list[Reply | str] = [body(first + damage + rest), "Done."]
    async with (
        ScriptedEndpoint(script) as endpoint,
        open_runtime() as runtime,
        runtime.stream("Touch it", tools.options(endpoint, protocol)) as events,
    ):
        seen = [event async for event in events]
    result = events.result
    assert (result.stop_reason, result.damaged_lines, tools.ran) == ("completed", 1, [])
    (called,) = result.tool_calls
    assert called.is_error
    assert "lost or damaged" in str(called.content)
    marked = [one.damaged_lines for one in seen if isinstance(one, AssistantMessage)]
    assert marked == [1, 0]
    assert valid(result.messages)
