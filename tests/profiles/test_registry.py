"""The built-in profiles, a user's own profile files, and the errors for mistakes in such files."""

import os
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import ConfigError
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.profiles.registry import (
    PROFILES_ENV,
    builtin_profiles,
    find_profile,
    known_profiles,
    load_profiles,
    parse_profiles,
)

SAMPLING = {"temperature", "top_p", "presence_penalty", "frequency_penalty"}


@pytest.mark.feature("OAS-076", "OAS-077", "OAS-078", "OAS-079")
@pytest.mark.parametrize(
    ("name", "base_url"),
    [
        ("lmstudio", "http://localhost:1234/v1"),
        ("ollama", "http://localhost:11434/v1"),
        ("llamacpp", "http://localhost:8080/v1"),
        ("vllm", "http://localhost:8000/v1"),
        ("text-generation-webui", "http://localhost:5000/v1"),
    ],
)
def test_local_server_needs_no_key(name: str, base_url: str) -> None:
    profile = builtin_profiles()[name]

    assert (profile.name, profile.base_url, profile.protocol) == (name, base_url, "openai")
    assert not profile.api_key_required


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("mistral", "MISTRAL_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("azure", "AZURE_OPENAI_API_KEY"),
    ],
)
def test_remote_provider_needs_key_and_https(name: str, variable: str) -> None:
    profile = builtin_profiles()[name]

    assert profile.api_key_required
    assert variable in profile.api_key_env
    assert profile.base_url.startswith("https://") or name == "azure"


def test_every_profile_is_tested() -> None:
    assert len(builtin_profiles()) == 13


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("openai", "gpt-4.1", ChatDialect(max_tokens_field="max_completion_tokens")),
        ("openai", "gpt-5-chat-latest", ChatDialect(max_tokens_field="max_completion_tokens")),
        (
            "azure",
            "o3-mini",
            ChatDialect(max_tokens_field="max_completion_tokens", refuses=SAMPLING),
        ),
        ("anthropic", "claude-sonnet-4-5", ChatDialect()),
        ("anthropic", "claude-3-5-haiku-latest", ChatDialect()),
        ("anthropic", "claude-opus-4-20250514", ChatDialect()),
        ("anthropic", "claude-opus-4-7", ChatDialect(refuses={"temperature", "top_p"})),
        ("anthropic", "claude-sonnet-5", ChatDialect(refuses={"temperature", "top_p"})),
        (
            "mistral",
            "mistral-large-latest",
            ChatDialect(short_call_ids=True, include_usage=False, refuses={"seed"}),
        ),
        (
            "deepseek",
            "deepseek-chat",
            ChatDialect(echo_reasoning="reasoning_content", structured_output="json_object"),
        ),
    ],
)
def test_dialect_of_a_model(name: str, model: str, expected: ChatDialect) -> None:
    assert builtin_profiles()[name].dialect_of(model) == expected


MINE = """
[gateway]
extends = "openai"
base_url = "https://gateway.example/v1"
api_key_env = ["GATEWAY_KEY"]
include_usage = false

[[gateway.models]]
names = ["gpt-5-mini"]
cumulative = true

[local]
extends = "gateway"
api_key_required = false
quirks = [2, 1]
"""


def test_file_extends_known_and_earlier_profiles(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)

    found = load_profiles(path)

    assert list(found) == ["gateway", "local"]
    gateway = found["gateway"]
    assert (gateway.name, gateway.base_url) == ("gateway", "https://gateway.example/v1")
    assert (gateway.api_key_env, gateway.api_key_required) == (("GATEWAY_KEY",), True)
    assert gateway.dialect == ChatDialect(
        max_tokens_field="max_completion_tokens", include_usage=False
    )
    # A rule changes values of its profile; inherited rules come after it.
    assert gateway.dialect_of("gpt-5-mini") == ChatDialect(
        max_tokens_field="max_completion_tokens", include_usage=False, cumulative=True
    )
    assert gateway.dialect_of("gpt-5") == builtin_profiles()["openai"].dialect_of("gpt-5")
    assert found["local"].base_url == "https://gateway.example/v1"
    assert (found["local"].api_key_required, found["local"].quirks) == (False, (1, 2))


def test_environment_profile_file_takes_precedence(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[ollama]\nextends = "ollama"\nbase_url = "http://box:11434/v1"\n')

    profiles = known_profiles({PROFILES_ENV: f" {path} "})

    assert profiles["ollama"].base_url == "http://box:11434/v1"
    assert profiles["ollama"].base_url_env == builtin_profiles()["ollama"].base_url_env
    assert profiles["openai"] == builtin_profiles()["openai"]
    path.write_text('[ollama]\nbase_url = "http://other/v1"\n')
    assert known_profiles({PROFILES_ENV: str(path)})["ollama"].base_url == "http://other/v1"
    assert known_profiles({PROFILES_ENV: "  "}) == builtin_profiles()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a", "not valid TOML"),
        ("x = 1", "'x' must be a table with the fields of a profile, such as [x]; got 1"),
        ('[a]\nprotcol = "openai"', "profile 'a': unknown field 'protcol'; did you mean"),
        ('[a]\nprotcol = "openai"', "did you mean 'protocol'? Known: api_key_env"),
        ("[a]\nzzz = 1", "unknown field 'zzz'; Known: api_key_env"),
        ("[a]\nbase_url = 1", "profile 'a': the field 'base_url' must be a string; got 1"),
        ("[a]\napi_key_required = 1", "the field 'api_key_required' must be true or false; got 1"),
        ('[a]\napi_key_env = "K"', "the field 'api_key_env' must be a list of strings; got 'K'"),
        ("[a]\nrefuses = [1]", "the field 'refuses' must be a list of strings; got [1]"),
        ("[a]\nquirks = [true]", "the field 'quirks' must be a list of integers; got [True]"),
        (
            "[a]\nquirks = [99]",
            "profile 'a': the field 'quirks' must contain only numbers from 1 to 50",
        ),
        ('[a]\nmodels = "x"', "the field 'models' must be a list of tables; got 'x'"),
        ("[a]\nmodels = [1]", "rule 1 in the field 'models' must be a table with names; got 1"),
        (
            "[[a.models]]\nrefuses = []",
            "profile 'a': each rule in the field 'models' must have names",
        ),
        (
            "[[a.models]]\nname = 'x'",
            "rule 1 in the field 'models': unknown field 'name'; did you",
        ),
        ("[[a.models]]\nbase_url = 'x'", "unknown field 'base_url'"),
        ('[a]\ntext_tool_calls = "x"', "profile 'a': the field 'text_tool_calls' must be one of"),
        (
            "[[a.models]]\nnames = ['b']\nstructured_output = 'x'",
            "profile 'a': rule 1 in the field 'models': the field 'structured_output' must be",
        ),
        ('[a]\nextends = "olama"', "the field 'extends' must name a built-in or earlier profile;"),
        ('[a]\nextends = "olama"', "got 'olama'; did you mean 'ollama'? Known: anthropic"),
        ('[a]\nextends = "b"\n[b]', "got 'b'"),
        ("[a]\nextends = 1", "the field 'extends' must be a string"),
        ('[a]\nname = "b"', "unknown field 'name'"),
    ],
)
def test_mistake_names_file_profile_and_field(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_profiles(text, source="mine.toml", known=builtin_profiles())

    assert str(caught.value).startswith("mine.toml: ")
    assert expected in str(caught.value)


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml' cannot be read: No such file"):
        load_profiles(tmp_path / "gone.toml")
    (tmp_path / "latin.toml").write_bytes(b'[a]\nbase_url = "\xff"')
    with pytest.raises(ConfigError, match=r"latin\.toml' cannot be read: it is not UTF-8 text"):
        load_profiles(tmp_path / "latin.toml")
    with pytest.raises(ConfigError, match=f"{os.sep}gone.*named by {PROFILES_ENV}"):
        known_profiles({PROFILES_ENV: f"{tmp_path}{os.sep}gone"})


def test_unknown_profile_suggests_nearest_name() -> None:
    assert find_profile("vllm", builtin_profiles()).name == "vllm"
    with pytest.raises(ConfigError, match="no provider profile 'lm-studio'; did you mean 'lmst"):
        find_profile("lm-studio", builtin_profiles())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
)
FIELDS = st.sampled_from(["base_url", "models", "quirks", "extends", "refuses", "names", "x", ""])


@given(st.dictionaries(FIELDS, VALUES, max_size=4))
def test_any_table_parses_or_fails_clearly(table: dict[str, object]) -> None:
    message = "s: profile 'a': "
    with patch("tomllib.loads", return_value={"a": table}):
        try:
            (profile,) = parse_profiles("", source="s", known=builtin_profiles()).values()
        except ConfigError as error:
            message = str(error)
        else:
            assert profile.name == "a"
    assert message.startswith("s: profile 'a': ")
