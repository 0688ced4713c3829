"""The option `compaction`: its short forms, its limits and its validation."""

from pathlib import Path
from typing import Any

import pytest

from agent_actors import AgentOptions, Compaction
from agent_actors.errors import ConfigError
from agent_actors.hooks.builtin import SummarizationHook


def made(value: Any, provider: str = "openai", **fields: Any) -> AgentOptions:
    return AgentOptions(model="m", provider=provider, api_key="k", compaction=value, **fields)


def test_short_forms() -> None:
    assert made(None).compaction is None
    assert made(False).compaction is None
    assert made(True).compaction == Compaction()
    assert made({"tokens": 5000, "keep": 0.2}).compaction == Compaction(tokens=5000, keep=0.2)


def test_limit_depends_on_the_window() -> None:
    assert Compaction().limit(0) == 108_800
    assert Compaction(threshold=0.5, context_window=1000).limit(200_000) == 500
    assert Compaction(tokens=7).limit(200_000) == 7
    anthropic = made(True, "anthropic")
    assert Compaction().limit(anthropic.profile_window) == 170_000


def test_summary_model_gets_its_own_options() -> None:
    options = made(Compaction(model="small"), tool_choice="none", fallbacks="other")
    assert options.summary_options is not None
    assert options.summary_options.model == "small"
    assert made(True).summary_options is None


def test_file_contains_compaction(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("model: m\nbase_url: http://localhost:1/v1\ncompaction: {tokens: 9000}\n")
    assert AgentOptions.from_file(file).compaction == Compaction(tokens=9000)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (5, "compaction must be True, False, a table or Compaction; got 5"),
        ({"token": 5}, "compaction has no field 'token'"),
        ({"threshold": 0}, "threshold must be from 0 to 1; got 0"),
        ({"threshold": 85}, "threshold must be from 0 to 1; got 85"),
        ({"keep": True}, "keep must be from 0 to 1; got True"),
        ({"keep_min": 0}, "keep_min must be an integer of at least 1; got 0"),
        ({"tokens": 1.5}, "tokens must be an integer of at least 1; got 1.5"),
        ({"model": " "}, "model must be the name of a model"),
        ({"instructions": None}, "instructions must be text"),
        ({"plan": "window"}, "plan must be a function"),
    ],
)
def test_invalid_compaction_is_refused(value: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made(value)


@pytest.mark.feature("WICK-065")
def test_hook_turns_on_compaction() -> None:
    assert made(None, hooks=SummarizationHook()).compaction == Compaction(context_window=128_000)
    chosen = SummarizationHook("small", 64_000)
    assert made(None, hooks=[chosen]).compaction == Compaction(model="small", context_window=64_000)
    assert made(Compaction(tokens=9), hooks=[chosen]).compaction == Compaction(tokens=9)
    with pytest.raises(ConfigError, match="context_window must be an integer of at least 1; got 0"):
        SummarizationHook(context_window=0)
