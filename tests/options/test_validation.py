"""Errors of each field name the accepted values, the given value and the fix, also for unknown
names.
"""

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from typing import ForwardRef

import attrs
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors import AgentOptions, Prices, UsageLimits, tool
from agent_actors.errors import ConfigError
from agent_actors.options import agent_options as options_module
from agent_actors.options.agent_options import OptionFields
from agent_actors.options.validation import _OTHER_NAMES, nearest
from agent_actors.permissions import PermissionDecision, PermissionRequest

URL = "http://localhost:1/v1"
OURS = {field.name for field in attrs.fields(AgentOptions) if field.init}

# Untyped on purpose: values that a type checker would reject must also be refused at run time.
build: Callable[..., AgentOptions] = AgentOptions


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def untyped(function: Callable[..., object]) -> Callable[..., object]:
    return function


def refused(**fields: object) -> str:
    with pytest.raises(ConfigError) as caught:
        build(**{"model": "m", "base_url": URL, **fields})
    return str(caught.value)


def test_typed_keywords_are_the_fields() -> None:
    assert set(OptionFields.__annotations__) | {"output_type", "deps_type"} == OURS


def test_evolve_keywords_have_field_types() -> None:
    for field in attrs.fields(AgentOptions):
        if field.init and field.converter is None and field.name in OptionFields.__annotations__:
            assert _resolved(OptionFields, field.name) == _resolved(AgentOptions, field.name)


def _resolved(of: type, name: str) -> object:
    found = of.__annotations__[name]
    if isinstance(found, ForwardRef):
        found = found.__forward_arg__
    return getattr(options_module, found, found) if isinstance(found, str) else found


def test_shell_hides_validation_helpers() -> None:
    shown = inspect.signature(AgentOptions).parameters
    assert set(shown) == OURS
    assert shown["temperature"].default == 0.7


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": 4}, "model must be a string; got 4"),
        ({"model": None}, "got None; omit it to take it from the environment"),
        ({"base_url": None}, "base_url must be a string; got None; omit it to take it"),
        (
            {"system_prompt": ["Hi"]},
            "a string, or a function that takes an AgentContext; got ['Hi']",
        ),
        ({"temperature": "0.7"}, "temperature must be a number, or None; got '0.7'"),
        ({"temperature": True}, "temperature must be a number, or None; got True"),
        ({"max_tokens": 10.5}, "max_tokens must be a whole number, or None; got 10.5"),
        ({"max_iterations": None}, "max_iterations must be a whole number; got None"),
        ({"max_retries": "3"}, "max_retries must be a whole number; got '3'"),
        (
            {"run_timeout": None},
            "run_timeout must be a number of seconds; got None; math.inf means",
        ),
        ({"run_timeout": "5s"}, "run_timeout must be a number of seconds; got '5s'"),
        ({"include_usage": 1}, "include_usage must be True or False; got 1"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls must be True, False or None"),
        ({"extra_body": [1]}, "extra_body must be a mapping; got [1]"),
        ({"permissions": 5}, "permissions must be a PermissionPolicy, the name of a mode, or None"),
        ({"headers": {"x": 1}}, "headers must map strings to strings; the entry 'x' does not"),
        ({"headers": {1: "x"}}, "headers must map strings to strings; the entry 1 does not"),
        ({"stop": 5}, "stop must be a list of strings; got 5"),
        ({"stop": ["a", 5]}, "stop must contain non-empty strings; got 5"),
        ({"stop": ""}, "stop must contain non-empty strings; got ''"),
        ({"tools": add}, "tools must be a list of tools; got Tool("),
        ({"tools": "add"}, "tools must be a list of tools; got 'add'"),
        ({"cwd": 5}, "cwd must be a path; got 5"),
        (
            {"fallbacks": 5},
            "fallbacks must be a list of names of models, or of AgentOptions; got 5",
        ),
        ({"fallbacks": [5]}, "fallbacks must contain only names of models, or AgentOptions; got 5"),
        ({"can_use_tool": "ask"}, "can_use_tool must be a function, or None; got 'ask'"),
        ({"http_client": "x"}, "http_client must be an httpx.AsyncClient, or None; got 'x'"),
        ({"on_ask": "later"}, "on_ask must be 'wait' or 'suspend'; got 'later'"),
        ({"on_suspended": "go"}, "on_suspended must be 'raise' or 'deny'; got 'go'"),
        ({"limits": 5}, "limits must be a UsageLimits, as in UsageLimits(requests=20); got 5"),
        ({"session_limits": None}, "as in UsageLimits(requests=20); got None"),
        ({"prices": 3}, "prices must be a Prices, as in Prices(input=1.0, output=2.0), or None"),
        ({"permissions": {"deny": [], "mode": "plan"}}, "write PermissionPolicy(deny=…, mode=…)"),
        ({"headers": {"a b": "c"}}, "headers: 'a b' is not a valid HTTP header name"),
        ({"headers": {"": "c"}}, "headers: '' is not a valid HTTP header name"),
        ({"headers": {"ä": "c"}}, "headers: 'ä' is not a valid HTTP header name"),
        ({"headers": {"x-a": "c\r\nd: e"}}, "headers: the value of 'x-a' must be printable ASCII"),
    ],
)
def test_wrong_type_is_reported(fields: Mapping[str, object], expected: str) -> None:
    message = refused(**fields)
    assert message.startswith("AgentOptions: ")
    assert expected in message


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": 2.1}, "temperature must be from 0 to 2, or None to not send it; got 2.1"),
        ({"temperature": -0.1}, "temperature must be from 0 to 2"),
        ({"temperature": math.nan}, "temperature must be from 0 to 2"),
        ({"temperature": 5}, "pass it as extra_body={'temperature': …}"),
        ({"top_p": 1.01}, "top_p must be from 0 to 1"),
        ({"presence_penalty": -3}, "presence_penalty must be from -2 to 2"),
        ({"frequency_penalty": math.inf}, "frequency_penalty must be from -2 to 2"),
        ({"max_turns": 0}, "max_turns must be at least 1, or None for any number; got 0"),
        ({"max_tool_iterations": -1}, "max_tool_iterations must not be negative; got -1"),
        ({"output_retries": -1}, "output_retries must not be negative; got -1"),
        ({"tool_choice": "ad", "tools": [add]}, "did you mean 'add'? Known: add, auto, none"),
    ],
)
def test_value_out_of_range_is_reported(fields: Mapping[str, object], expected: str) -> None:
    assert expected in refused(**fields)


@pytest.mark.parametrize("name", ["temperature", "top_p", "presence_penalty", "seed", "max_turns"])
def test_optional_fields_accept_none(name: str) -> None:
    assert getattr(build(model="m", base_url=URL, **{name: None}), name) is None


def test_range_ends_are_inclusive() -> None:
    for temperature in (0, 2, 0.0, 2.0):
        options = AgentOptions(model="m", base_url=URL, temperature=temperature)
        assert options.settings.temperature == temperature


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost:1234/v1", "write 'http://localhost:1234/v1', for example"),
        ("host", "got 'host'; write 'http://host', for example"),
        ("user:pass@host/v1?key=k", "got 'host/v1'; write 'http://host/v1'"),
        ("ftp://host", "got 'ftp://host'; write 'http://localhost:1234/v1'"),
        ("http://", "must begin with http:// or https:// and name a host"),
        ("http://host:0", "must begin with"),
        ("http://host:port", "must begin with"),
        ("http://[::1", "must begin with"),
    ],
)
def test_invalid_url_hides_its_secrets(url: str, expected: str) -> None:
    message = refused(base_url=url)
    assert message.startswith("AgentOptions: base_url must begin with http:// or https://")
    assert expected in message
    assert "pass" not in message
    assert "key" not in message


def test_environment_url_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ACTORS_BASE_URL", "host/v1")
    with pytest.raises(ConfigError, match=r"base_url \(from AGENT_ACTORS_BASE_URL\) must begin"):
        AgentOptions(model="m")


@given(st.one_of(st.integers(), st.binary(), st.lists(st.text()), st.none()))
def test_a_key_is_never_shown(value: object) -> None:
    for name in ("api_key", "headers"):
        message = refused(**{name: value}) if value is not None else refused(api_key=value)
        assert message.count("got a value of type") == 1
        assert value is None or repr(value) not in message.partition("got")[2] or value in ([], 0)


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-sécret", "“sk-secret”"])
def test_invalid_header_key_is_refused_early(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "api_key must be printable ASCII without line breaks; look for a stray newline"
    assert expected in refused(api_key=key)
    assert "cret" not in refused(api_key=key)
    monkeypatch.setenv("AGENT_ACTORS_API_KEY", f"{key}|")  # whitespace at its end is removed
    assert expected in refused()


def test_short_choice_lists_are_complete() -> None:
    few = [f"name_{n}" for n in range(16)]
    assert nearest("nam_1", few).startswith("did you mean 'name_1'? Known: name_0, ")
    assert nearest("nam_1", [*few, "x"]) == "did you mean 'name_1'?"
    assert nearest("zzz", [*few, "x"]).startswith("Known: name_0, ")


def test_long_value_is_truncated() -> None:
    assert len(refused(temperature="x" * 10_000)) < 200


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temprature": 0}, "unknown field 'temprature'; did you mean 'temperature'?"),
        ({"base-url": URL}, "unknown field 'base-url'; did you mean 'base_url'?"),
        ({"zzz": 1}, "unknown field 'zzz'; Known: agent_name, "),
        ({"settings": 1}, "unknown field 'settings'; "),
        (
            {"timeout": 60},
            "'first_token_timeout', 'connect_timeout', 'run_timeout' or 'tool_timeout'?",
        ),
        ({"Allowed-Tools": []}, "unknown field 'Allowed-Tools'; did you mean 'permissions'?"),
    ],
)
def test_unknown_keyword_suggests_nearest_field(
    fields: Mapping[str, object], expected: str
) -> None:
    assert expected in refused(**fields)


def test_names_of_other_packages_mean_fields() -> None:
    fields = {field.name for field in attrs.fields(AgentOptions) if field.init}
    meant = {field for found in _OTHER_NAMES.values() for field in found}
    assert meant <= fields
    assert not fields & set(_OTHER_NAMES)


def test_fields_are_named() -> None:
    with pytest.raises(
        ConfigError,
        match=r"fields must be passed by name, as in AgentOptions\(model='qwen3-32b'\); got 'm'",
    ):
        build("m")


def test_options_can_be_copied() -> None:
    options = AgentOptions(model="m", base_url=URL, tools=[add], stop=["a"])
    for twin in (copy.copy(options), attrs.evolve(options), options.evolve()):
        assert twin is not options
        assert (twin.model, twin.tools, twin.stop) == ("m", options.tools, ("a",))


def test_evolved_options_are_checked_like_new_ones() -> None:
    options = AgentOptions(model="m", base_url=URL, temperature=0.1)
    other = options.evolve(temperature=0.5, tools=[add], output_type=int)
    assert (options.temperature, other.temperature) == (0.1, 0.5)
    assert (options.settings.temperature, other.settings.temperature) == (0.1, 0.5)
    assert list(other.tools_by_name) == ["add"]
    assert other.output is not None
    evolve = untyped(options.evolve)
    with pytest.raises(ConfigError, match="did you mean 'max_tokens'"):
        evolve(max_token=5)
    with pytest.raises(ConfigError, match="temperature must be"):
        evolve(temperature=9)
    with pytest.raises(ConfigError, match="unknown field 'resolved'"):
        evolve(resolved=None)


async def test_unawaitable_client_is_refused() -> None:
    with httpx.Client() as client:
        assert "http_client must be an httpx.AsyncClient" in refused(http_client=client)
    async with httpx.AsyncClient() as other:
        assert AgentOptions(model="m", base_url=URL, http_client=other).http_client is other


def test_custom_provider_needs_no_url() -> None:
    class Mine:
        async def complete(self, request: object) -> str:
            return ""

    assert AgentOptions(model="m", provider=Mine(), base_url="nowhere").resolved is None


def test_valid_values_are_kept_unchanged() -> None:
    class Text(str):
        __slots__ = ()

    limits, prices = UsageLimits(requests=1, cost=1), Prices(input=1, output=2)
    options = AgentOptions(model=Text("m"), base_url=URL, limits=limits, prices=prices, top_p=1)
    assert (options.model, options.limits, options.prices) == ("m", limits, prices)


async def approve(request: PermissionRequest) -> PermissionDecision:
    return PermissionDecision("allow")


def test_asking_policy_needs_an_approver() -> None:
    with pytest.raises(ConfigError, match="there is no approver"):
        AgentOptions(model="m", base_url=URL, permissions="prompt")
    AgentOptions(model="m", base_url=URL, permissions="prompt", can_use_tool=approve)
    AgentOptions(model="m", base_url=URL, permissions="prompt", on_ask="wait")


def test_tool_choice_is_part_of_the_settings() -> None:
    assert AgentOptions(model="m", base_url=URL, tool_choice="none").settings.tool_choice == "none"
