"""Arguments take precedence over AGENT_ACTORS_*, the provider's own variables, and its profile."""

import pytest

from agent_actors.errors import ConfigError
from agent_actors.profiles.profile import ModelRule, ProviderProfile
from agent_actors.profiles.registry import builtin_profiles
from agent_actors.profiles.resolve import (
    NO_API_KEY,
    OPENAI_COMPATIBLE,
    resolve,
    resolve_provider,
)

MINE = ProviderProfile(
    name="mine",
    base_url="http://profile/v1",
    base_url_env="MINE_URL",
    path="/v1",
    model="profile-model",
    model_env="MINE_MODEL",
    api_key_env=["MINE_KEY", "MINE_OLD_KEY"],
    api_key_required=True,
    models=[ModelRule("slow*", builtin_profiles()["deepseek"].dialect)],
)
OWN = {"MINE_URL": "http://own/v2", "MINE_MODEL": "own-model", "MINE_KEY": "own-key"}
OURS = {
    "AGENT_ACTORS_BASE_URL": "http://ours/v3",
    "AGENT_ACTORS_MODEL": "our-model",
    "AGENT_ACTORS_API_KEY": "our-key",
}


@pytest.mark.feature("ASDK-026")
def test_the_order_in_which_they_count() -> None:
    given = resolve(
        MINE, {**OWN, **OURS}, base_url="http://given", model="given-model", api_key="given-key"
    )
    assert (given.base_url, given.model, given.api_key) == (
        "http://given",
        "given-model",
        "given-key",
    )
    ours = resolve(MINE, {**OWN, **OURS})
    assert (ours.base_url, ours.model, ours.api_key) == ("http://ours/v3", "our-model", "our-key")
    own = resolve(MINE, OWN)
    assert (own.base_url, own.model, own.api_key) == ("http://own/v2", "own-model", "own-key")
    last = resolve(MINE, {"MINE_OLD_KEY": "old"})
    assert (last.base_url, last.model, last.api_key) == (
        "http://profile/v1",
        "profile-model",
        "old",
    )


def test_blank_values_count_as_unset() -> None:
    blank = dict.fromkeys((*OURS, *OWN), "  ")
    found = resolve(MINE, {**blank, "MINE_KEY": " k\n"}, base_url=" ", model=" ")
    assert (found.base_url, found.model, found.api_key) == (
        "http://profile/v1",
        "profile-model",
        "k",
    )


def test_nothing_is_known_of_any_endpoint() -> None:
    found = resolve(OPENAI_COMPATIBLE, {})
    assert (found.base_url, found.model, found.api_key, found.api_key_header) == (
        "",
        "",
        None,
        None,
    )


@pytest.mark.feature("ASDK-021")
def test_missing_key_names_its_variables() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(MINE, {"MINE_KEY": " "})
    assert "the provider 'mine': set MINE_KEY or MINE_OLD_KEY or AGENT_ACTORS_API_KEY" in str(
        caught.value
    )
    anthropic = builtin_profiles()["anthropic"]
    with pytest.raises(ConfigError, match="set ANTHROPIC_API_KEY or AGENT_ACTORS_API_KEY"):
        resolve(anthropic, {})
    assert resolve(anthropic, {"ANTHROPIC_API_KEY": "k"}).api_key == "k"


@pytest.mark.feature("OAS-075")
def test_gateway_replaces_provider_and_may_add_key() -> None:
    found = resolve(MINE, {}, base_url="https://gateway.example/mine?team=7", api_key="")
    assert (found.base_url, found.api_key) == ("https://gateway.example/mine?team=7", "")
    assert resolve(MINE, {}, headers=["X-Api-Key"]).api_key is None
    with pytest.raises(ConfigError, match="no API key"):
        resolve(MINE, {}, headers=["x-team"])


def test_caller_key_header_precedes_profile() -> None:
    azure = builtin_profiles()["azure"]
    assert resolve(azure, {}, api_key="k").api_key_header == "api-key"
    assert resolve(azure, {}, api_key="k", api_key_header="x").api_key_header == "x"
    assert resolve(azure, {}, headers=["API-Key"]).api_key is None


def test_model_dialect_is_used_last() -> None:
    environ = {"MINE_KEY": "k", "MINE_MODEL": "slow-1"}
    assert resolve(MINE, environ).dialect.echo_reasoning == "reasoning_content"
    assert resolve(MINE, environ, model="fast").dialect == MINE.dialect


@pytest.mark.feature("OAS-077")
@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("box", "http://box:11434/v1"),
        ("box:8080", "http://box:8080/v1"),
        (":8080", "http://127.0.0.1:8080/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:80", "http://127.0.0.1:80/v1"),
        ("[::]:9", "http://127.0.0.1:9/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("https://box", "https://box/v1"),
        ("http://box:1/", "http://box:1/v1"),
        ("http://me:pw@box/api/v2?x=1", "http://me:pw@box/api/v2?x=1"),
    ],
)
def test_server_variable_may_name_only_host(host: str, url: str) -> None:
    assert resolve(builtin_profiles()["ollama"], {"OLLAMA_HOST": host}).base_url == url


def test_azures_variable_names_the_resource_alone() -> None:
    environ = {
        "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/",
        "AZURE_OPENAI_API_KEY": "k",
    }
    azure = builtin_profiles()["azure"]
    assert resolve(azure, environ).base_url == "https://mine.openai.azure.com/openai/v1"
    bare = {**environ, "AZURE_OPENAI_ENDPOINT": "mine.openai.azure.com"}
    assert resolve(azure, bare).base_url == "https://mine.openai.azure.com/openai/v1"


def test_no_secret_is_shown() -> None:
    found = resolve(MINE, {}, base_url="http://me:s3cret@host/v1?key=s3cret", api_key="s3cret")
    assert "s3cret" not in repr(found)
    assert "http://host/v1" in repr(found)
    for value in ("http://me:s3cret", "http://[s3cret"):
        with pytest.raises(ConfigError) as caught:
            resolve(MINE, {"MINE_URL": value, "MINE_KEY": "k"})
        assert str(caught.value) == (
            "the environment variable MINE_URL does not contain a valid URL; expected a URL such as http://profile/v1"
        )
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(("passed", "sent"), [("sk-1", "sk-1"), (NO_API_KEY, "from-environ")])
def test_passed_key_precedes_the_environment(passed: str, sent: str) -> None:
    found = resolve_provider(
        "openai",
        {"OPENAI_API_KEY": "from-environ"},
        base_url="",
        model="m",
        api_key=passed,
        api_key_header=None,
        headers=(),
    )
    assert found is not None
    assert found.api_key == sent
