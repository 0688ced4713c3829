"""The four patterns for a small context send the requests that their pages describe."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from agent_actors.context import estimate_tokens
from agent_actors.testing import EndpointRequest, ReplyTurn, ScriptedEndpoint, call, reply, say
from tests.program_helpers import run_program

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
# Seconds; an example takes far less, so that only a hang fails.
PATIENCE = 60
# A response of about 200 tokens.
LONG = "It is a fact that " * 45


async def requests_of(
    example: str, script: Callable[[EndpointRequest], ReplyTurn]
) -> tuple[list[EndpointRequest], str]:
    """Run the example; return the requests that the endpoint received, and the example's output."""
    with trio.fail_after(PATIENCE):
        async with ScriptedEndpoint(script) as endpoint:
            done = await run_program(
                ["-W", "error", str(EXAMPLES / example)],
                env={**os.environ, "BASE_URL": endpoint.base_url, "MODEL": "scripted"},
            )
    assert done.returncode == 0, done.stderr.decode()
    return list(endpoint.requests), done.stdout.decode()


def lengths(requests: list[EndpointRequest]) -> list[int]:
    """Return the number of messages in each request, without system prompts."""
    return [len([one for one in r.messages if one["role"] != "system"]) for r in requests]


@pytest.mark.feature("OAS-089", "OAS-120")
async def test_stateless_agents_send_one_message_each() -> None:
    requests, printed = await requests_of("context_stateless.py", lambda _: reply("bug"))
    assert lengths(requests) == [1, 1, 1]
    assert printed.splitlines()[0] == "101 bug (2 messages)"


@pytest.mark.feature("OAS-090", "OAS-120")
async def test_truncation_sends_chapter_and_summary_only() -> None:
    requests, printed = await requests_of("context_truncation.py", lambda _: reply("So it is."))
    assert lengths(requests) == [1, 3, 5, 3, 5, 7, 3, 5, 7]
    assert printed.splitlines() == [
        "The harbour: 6 messages, 2 kept",
        "The crossing: 8 messages, 2 kept",
        "The island: 8 messages, 2 kept",
    ]


@pytest.mark.feature("OAS-091", "OAS-120")
async def test_budget_bounds_request_not_history() -> None:
    requests, printed = await requests_of(
        "context_budget.py", lambda _: reply(say("It is a fact that " * 15))
    )
    assert lengths(requests) == [1, 3, 5, 7, 7, 7]
    assert "sent 7 of 9 messages" in printed.splitlines()
    assert all(request.messages[0]["role"] == "user" for request in requests)
    assert printed.splitlines()[-1].startswith("12 kept, about ")


@pytest.mark.feature("OAS-092", "OAS-120")
async def test_external_facts_are_looked_up() -> None:
    def script(request: EndpointRequest) -> ReplyTurn:
        if request.new_results:
            return reply(str(request.new_results[-1]["content"]))
        if "dog is" in request.last_content:
            return reply(call("remember", {"topic": "Dog", "fact": "The dog is Rex."}))
        if "Lyon" in request.last_content:
            return reply(call("remember", {"topic": "home", "fact": "They live in Lyon."}))
        return reply(call("recall", {"topic": "dog"}))

    requests, printed = await requests_of("context_memory.py", script)
    assert requests[-1].new_results[-1]["content"] == "The dog is Rex."
    # No message sent with the last question contained its answer.
    assert "Rex" not in str(requests[-2].messages)
    assert printed.splitlines()[-1].endswith(" 0 messages here, 2 facts there")


@pytest.mark.feature("OAS-083")
def test_margin_depends_on_model_family() -> None:
    page = (EXAMPLES.parent / "how-to/context.md").read_text(encoding="utf-8")
    docstring = estimate_tokens.__doc__ or ""
    for family in ("GPT", "Llama 3", "Qwen", "Mistral", "Claude", "Gemini"):
        for text in (page, docstring):
            row = next(line for line in text.splitlines() if "|" in line and family in line)
            assert row.rstrip(" |").endswith("0 %")


async def test_compacted_chat_keeps_its_log() -> None:
    def script(request: EndpointRequest) -> ReplyTurn:
        return reply("A storm, and Anna." if "Transcript:" in str(request.messages) else LONG)

    requests, printed = await requests_of("compact_chat.py", script)
    lines = printed.splitlines()
    assert any(line.startswith("compacted: ") for line in lines)
    assert lines[-2] == "[Summary of the earlier conversation, which this message replaces.]"
    assert lines[-1].endswith(" after the rewind")
    assert len(requests) > 12
