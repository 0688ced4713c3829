"""Invalid options are refused at construction with the field's name, and options never change."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest

from agent_actors import AgentOptions, Runtime, open_runtime
from agent_actors.errors import ConfigError
from agent_actors.testing import ScriptedModel
from agent_actors.tools import Tool

URL = "http://localhost:1/v1"

# Untyped on purpose: values that a type checker would reject must also be refused at run time.
build: Callable[..., AgentOptions] = AgentOptions
build_runtime: Callable[..., Runtime] = open_runtime


async def nothing(arguments: dict[str, object]) -> str:
    return ""


def named(name: str) -> Tool:
    return Tool(name, "Nothing.", None, nothing)


@pytest.mark.feature("OAS-002", "ASDK-013", "ASDK-088")
@pytest.mark.parametrize("model", ["", "  "])
def test_a_missing_model_is_refused_by_name(model: str) -> None:
    with pytest.raises(ConfigError, match="model is missing"):
        AgentOptions(model=model, base_url=URL)
    with pytest.raises(ConfigError, match="model is missing"):
        AgentOptions(base_url=URL)


@pytest.mark.feature("OAS-003")
def test_base_url_or_provider_is_required() -> None:
    with pytest.raises(ConfigError, match="base_url is missing"):
        AgentOptions(model="m")
    assert AgentOptions(model="m", provider=ScriptedModel([])).base_url == ""


@pytest.mark.feature("OAS-004", "OAS-008", "OAS-009", "OAS-011", "ASDK-015")
def test_the_defaults() -> None:
    options = AgentOptions(model="m", base_url=URL)
    assert options.tools == ()
    assert (options.max_tokens, options.temperature) == (4096, 0.7)
    assert options.api_key == "not-needed"
    assert options.max_iterations == 25
    assert options.max_calls_per_response == 256
    assert options.run_timeout == math.inf
    assert options.cwd == Path.cwd()
    assert AgentOptions(model="m", base_url=URL, temperature=0).settings.temperature == 0
    assert AgentOptions(model="m", base_url=URL, temperature=None).settings.temperature is None
    assert AgentOptions(model="m", base_url=URL, max_tokens=None).settings.max_tokens is None
    assert AgentOptions(model="m", base_url=URL, stop="END").settings.stop == ("END",)


@pytest.mark.feature("ASDK-096")
def test_options_are_frozen() -> None:
    options = AgentOptions(model="m", base_url=URL)
    for field in ("model", "tools", "settings"):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(options, field, None)


def test_a_key_is_not_shown() -> None:
    options = AgentOptions(
        model="m", base_url=URL, api_key="secret-1", headers={"authorization": "secret-2"}
    )
    assert "secret" not in repr(options)


@pytest.mark.feature("OAS-034", "ASDK-031")
def test_invalid_tool_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        AgentOptions(model="m", base_url=URL, tools=[named("twice"), named("twice")])
    with pytest.raises(ConfigError, match="name"):
        AgentOptions(model="m", base_url=URL, tools=[named("")])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"max_iterations": 0}, "max_iterations must be at least 1"),
        ({"max_calls_per_response": 0}, "max_calls_per_response must be at least 1"),
        ({"run_timeout": 0}, "run_timeout must be above 0"),
        ({"idle_timeout": math.nan}, "idle_timeout must be above 0"),
        ({"reader_stall": -1}, "reader_stall must be above 0"),
        ({"tool_choice": "unknown"}, "tool_choice 'unknown' is not a tool"),
    ],
)
def test_invalid_field_is_refused_by_name(more: Mapping[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(model="m", base_url=URL, **more)


@pytest.mark.feature("ASDK-051")
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"max_sessions": 0}, "max_sessions must be at least 1"),
        ({"max_sessions": -1}, "max_sessions must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"session_ttl": 0}, "session_ttl must be above 0"),
        ({"drain": -1}, "drain must not be negative"),
        ({"on_busy": "later"}, "must be one of"),
    ],
)
def test_invalid_runtime_option_is_refused(more: Mapping[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_runtime(**more)
