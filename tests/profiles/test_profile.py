"""A profile is validated when it is created, and applies its rules to the models they name."""

from collections.abc import Callable, Mapping

import pytest

from agent_actors.errors import ConfigError
from agent_actors.profiles.dialect import PLAIN, ChatDialect
from agent_actors.profiles.profile import ModelRule, ProviderProfile

# Untyped on purpose: values that a type checker rejects must be rejected at run time too.
build: Callable[..., ProviderProfile] = ProviderProfile

SILENT = ChatDialect(refuses={"temperature"})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": " "}, "the field 'name' must not be blank"),
        (
            {"protocol": "grpc"},
            "the field 'protocol' must be one of 'openai', 'anthropic'; got 'grpc'",
        ),
        ({"base_url": "localhost"}, "the field 'base_url' must begin with http:// or https://"),
        ({"path": "v1"}, "the field 'path' must begin with a slash; got 'v1'"),
        ({"quirks": [0]}, "the field 'quirks' must contain only numbers from 1 to 50"),
        ({"quirks": [51]}, "the field 'quirks' must contain only numbers from 1 to 50"),
        ({"models": [ModelRule((), PLAIN)]}, "each rule in the field 'models' must have names"),
        (
            {"api_key_env": "sk-1 2"},
            "the field 'api_key_env' must contain names of environment variables",
        ),
        ({"base_url_env": ["a b"]}, "the field 'base_url_env'"),
        ({"model_env": [""]}, "the field 'model_env'"),
        ({"protocol": "anthropic", "api_key_header": "k"}, "the field 'api_key_header'"),
        (
            {"protocol": "anthropic", "dialect": ChatDialect(cumulative=True)},
            "supports only the dialect field 'refuses'",
        ),
        (
            {
                "protocol": "anthropic",
                "models": [ModelRule("x", ChatDialect(max_tokens_field="y"))],
            },
            "supports only the dialect field 'refuses'",
        ),
    ],
)
def test_invalid_profile_field_is_refused_by_name(
    fields: Mapping[str, object], expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(**{"name": "mine", **fields})

    assert str(caught.value).startswith(f"profile {fields.get('name', 'mine')!r}: ")
    assert expected in str(caught.value)


def test_single_text_becomes_a_list() -> None:
    profile = ProviderProfile(name="mine", api_key_env="MY_KEY", quirks=[3, 1, 3])

    assert (profile.api_key_env, profile.quirks) == (("MY_KEY",), (1, 3))


def test_first_matching_model_rule_wins() -> None:
    profile = ProviderProfile(
        name="mine", models=[ModelRule("big-chat*", PLAIN), ModelRule(["big-*", "o?"], SILENT)]
    )

    assert profile.dialect_of("big-chat-1") is PLAIN
    assert profile.dialect_of("big-1") is SILENT
    assert profile.dialect_of("o1") is SILENT
    assert profile.dialect_of("O1") is profile.dialect
    assert profile.dialect_of("small") is profile.dialect


def test_messages_may_refuse_fields() -> None:
    profile = ProviderProfile(
        name="mine", protocol="anthropic", models=[ModelRule("claude-*", SILENT)]
    )

    assert profile.dialect_of("claude-9").refuses == {"temperature"}
