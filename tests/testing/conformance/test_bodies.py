"""A turn has the same content in either protocol."""

import json

from hypothesis import given

from agent_actors.domain.blocks import TextBlock, ToolUseBlock
from agent_actors.domain.model import ModelCompleted
from agent_actors.testing import body_of, finished, say, usage
from agent_actors.testing.script import Step
from agent_actors.testing.strategies import turns
from tests.providers.anthropic import answers as messages
from tests.providers.openai_chat import answers as chat


def brief(answer: ModelCompleted) -> tuple[str, list[tuple[str, str, object]]]:
    calls = [b for b in answer.blocks if isinstance(b, ToolUseBlock)]
    text = "".join(b.text for b in answer.blocks if isinstance(b, TextBlock))
    return text, [(call.id, call.name, call.input) for call in calls]


@given(turns())
def test_protocols_render_same_turn(turn: list[Step]) -> None:
    expected = brief(finished(turn, call_id="call_0_{}".format))
    for stream in (True, False):
        for answer in (
            chat.read_all([body_of(turn, "chat", stream=stream)])[1],
            messages.read_all([body_of(turn, "messages", stream=stream)])[1],
        ):
            assert brief(answer) == expected


def test_body_contains_its_usage() -> None:
    turn: list[Step] = [say("Hi"), usage(3, 1)]
    assert json.loads(body_of(turn, stream=False))["usage"]["prompt_tokens"] == 3
    assert json.loads(body_of(turn, "messages", stream=False))["usage"]["input_tokens"] == 3
    assert b'"prompt_tokens":3' in body_of(turn)
