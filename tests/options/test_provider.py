"""`provider` as a name or a profile: the endpoint, the request, and the shared state."""

import math
import os
from pathlib import Path

import attrs
import httpx
import pytest
import trio
import trio.testing

from agent_actors import AgentOptions, open_runtime
from agent_actors.errors import ConfigError, ProviderDeadlineError
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.profiles.profile import Protocol, ProviderProfile
from agent_actors.profiles.registry import builtin_profiles, load_profiles
from agent_actors.testing import ScriptedEndpoint, ScriptedModel, Step, hang, reply, say

URL = "http://localhost:1/v1"
PROTOCOLS: tuple[Protocol, ...] = ("openai", "anthropic")
# Seconds; only a failing test waits this long.
PATIENCE = 10.0


@pytest.fixture(autouse=True)
def no_providers_of_a_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = [
        name
        for profile in builtin_profiles().values()
        for name in (*profile.base_url_env, *profile.model_env, *profile.api_key_env)
    ]
    for name in (*theirs, *(name for name in os.environ if name.startswith("AGENT_ACTORS_"))):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.feature("OAS-003", "OAS-077")
async def test_profile_name_alone_is_sufficient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert AgentOptions(model="qwen3", provider="ollama").resolved is not None
    async with ScriptedEndpoint(["Hello."]) as endpoint, open_runtime() as runtime:
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{endpoint.port}")
        result = await runtime.run("Hi", AgentOptions(model="qwen3", provider="ollama"))

    assert result.text == "Hello."
    (request,) = endpoint.requests
    assert request.path == "/v1/chat/completions"
    assert (request.model, request.headers["authorization"]) == ("qwen3", "Bearer not-needed")


@pytest.mark.feature("ASDK-022")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_runs_use_the_caller_client(provider: str) -> None:
    async with (
        ScriptedEndpoint(["Hello."]) as endpoint,
        httpx.AsyncClient(headers={"x-mine": "yes"}) as client,
    ):
        options = AgentOptions(
            model="m",
            provider=provider,
            base_url=endpoint.base_url,
            http_client=client,
            api_key="k",
        )
        async with open_runtime() as runtime:
            assert (await runtime.run("Hi", options)).text == "Hello."
        assert not client.is_closed
    assert [request.headers["x-mine"] for request in endpoint.requests] == ["yes"]


@pytest.mark.feature("ASDK-021", "ASDK-023")
async def test_anthropic_uses_its_protocol_and_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedEndpoint(["Hello.", "Hello."]) as endpoint, open_runtime() as runtime:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
        old = AgentOptions(model="claude-sonnet-4-5", provider="anthropic", tool_choice="auto")
        await runtime.run("Hi", old)
        await runtime.run("Hi", old, model="claude-opus-4-7")

    first, second = endpoint.requests
    assert first.path == second.path == "/v1/messages"
    assert first.headers["x-api-key"] == "sk-1"
    assert (first.model, first.body["temperature"]) == ("claude-sonnet-4-5", 0.7)
    # This model refuses sampling settings.
    assert (second.model, "temperature" in second.body) == ("claude-opus-4-7", False)
    assert "sk-1" not in repr(old)
    assert "sk-1" not in repr(old.resolved)


async def test_own_profile_controls_the_request() -> None:
    async with ScriptedEndpoint(["Hello."]) as endpoint, open_runtime() as runtime:
        profile = ProviderProfile(
            name="mine",
            base_url=endpoint.base_url,
            model="m",
            api_key_header="x-key",
            dialect=ChatDialect(max_tokens_field="most", refuses={"temperature"}),
        )
        await runtime.run("Hi", AgentOptions(provider=profile, api_key="k", include_usage=False))

    (request,) = endpoint.requests
    assert (request.model, request.headers["x-key"]) == ("m", "k")
    assert (request.body["most"], request.wants_usage) == (4096, False)
    assert "temperature" not in request.body


async def test_dialect_without_usage_overrides_option() -> None:
    async with ScriptedEndpoint(["Hello."]) as endpoint, open_runtime() as runtime:
        options = AgentOptions(
            model="m", provider="mistral", base_url=endpoint.base_url, api_key="k"
        )
        await runtime.run("Hi", options)

    assert not endpoint.requests[0].wants_usage


@pytest.mark.feature("ASDK-026")
async def test_call_model_overrides_option_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENT_ACTORS_MODEL", "from-env")
    async with ScriptedEndpoint(lambda _: reply("Hello.")) as endpoint, open_runtime() as runtime:
        options = AgentOptions(base_url=endpoint.base_url)
        assert options.model == "from-env"
        await runtime.run("Hi", options)
        options = attrs.evolve(options, model="of-options")
        await runtime.run("Hi", options)
        await runtime.run("Hi", options, model="of-call")
        async with runtime.stream("Hi", options, model="of-stream") as events:
            async for _ in events:
                pass
        with pytest.raises(ConfigError, match="must not be blank"):
            await runtime.run("Hi", options, model=" ")
        assert len(runtime.statistics().endpoints) == 1

    assert [request.model for request in endpoint.requests] == [
        "from-env",
        "of-options",
        "of-call",
        "of-stream",
    ]


async def test_environment_names_model_of_own_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ScriptedModel(["Hello."])
    with pytest.raises(ConfigError, match=r"model is missing; .* set AGENT_ACTORS_MODEL"):
        AgentOptions(provider=model)
    monkeypatch.setenv("AGENT_ACTORS_MODEL", "from-env")
    options = AgentOptions(provider=model)
    assert (options.model, options.resolved) == ("from-env", None)
    async with open_runtime() as runtime:
        assert (await runtime.run("Hi", options)).text == "Hello."


async def test_environment_supplies_endpoint_and_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedEndpoint(["Hello."]) as endpoint, open_runtime() as runtime:
        monkeypatch.setenv("AGENT_ACTORS_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("AGENT_ACTORS_API_KEY", "from-env")
        await runtime.run("Hi", AgentOptions(model="m"))

    assert endpoint.requests[0].headers["authorization"] == "Bearer from-env"


@pytest.mark.feature("ASDK-020")
async def test_agents_of_one_provider_share_its_connections() -> None:
    async with ScriptedEndpoint(lambda _: reply("Hello.")) as endpoint, open_runtime() as runtime:
        options = AgentOptions(model="m", provider="vllm", base_url=endpoint.base_url)
        for text in ("One", "Two", "Three"):
            await runtime.run("Hi", attrs.evolve(options, system_prompt=text))
        assert len(runtime.statistics().endpoints) == 1
        other = attrs.evolve(options, api_key="another")
        await runtime.run("Hi", other)
        assert len(runtime.statistics().endpoints) == 2

    assert [request.connection for request in endpoint.requests] == [0, 0, 0, 1]


async def test_models_follow_their_own_rules() -> None:
    async with ScriptedEndpoint(lambda _: reply("Hello.")) as endpoint, open_runtime() as runtime:
        options = AgentOptions(
            model="gpt-4.1", provider="openai", base_url=endpoint.base_url, api_key="k"
        )
        await runtime.run("Hi", options)
        await runtime.run("Hi", options, model="gpt-5-mini")

    first, second = endpoint.requests
    assert first.body["max_completion_tokens"] == second.body["max_completion_tokens"] == 4096
    assert ("temperature" in first.body, "temperature" in second.body) == (True, False)


async def test_one_url_may_speak_two_protocols() -> None:
    async with ScriptedEndpoint(lambda _: reply("Hello.")) as endpoint, open_runtime() as runtime:
        for protocol in PROTOCOLS:
            profile = ProviderProfile(name="x", base_url=endpoint.base_url, protocol=protocol)
            await runtime.run("Hi", AgentOptions(model="m", provider=profile, api_key="k"))

    assert [request.protocol for request in endpoint.requests] == ["chat", "messages"]


@pytest.mark.parametrize("name", ["vllm", "anthropic"])
async def test_runtime_closes_connections_of_provider(name: str) -> None:
    async with ScriptedEndpoint(["Hello."]) as endpoint:
        async with open_runtime() as runtime:
            options = AgentOptions(
                model="m", provider=name, base_url=endpoint.base_url, api_key="k"
            )
            await runtime.run("Hi", options)
            assert endpoint.open_connections == 1
        with trio.fail_after(PATIENCE):
            await endpoint.wait_closed()


@pytest.mark.feature("OAS-010")
async def test_idle_deadline_defaults_to_60_seconds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stalled: list[Step] = [say("One "), hang()]
    async with open_runtime() as runtime:
        for options, waited in (
            (AgentOptions(model="m", provider=ScriptedModel([stalled])), 60.0),
            (AgentOptions(model="m", provider=ScriptedModel([stalled]), idle_timeout=5), 5.0),
        ):
            began = trio.current_time()
            with pytest.raises(ProviderDeadlineError) as caught:
                await runtime.run("Hi", options)
            assert (caught.value.kind, caught.value.seconds) == ("idle", waited)
            assert math.isclose(trio.current_time() - began, waited, abs_tol=0.1)


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("olama", "AgentOptions: there is no provider profile 'olama'; did you mean 'ollama'?"),
        ("", "there is no provider profile ''; Known: anthropic"),
        ("openai", "there is no API key for the provider 'openai': set OPENAI_API_KEY"),
    ],
)
def test_unusable_provider_is_refused_early(provider: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AgentOptions(model="m", provider=provider)
    assert expected in str(caught.value)


def test_missing_endpoint_names_its_variables() -> None:
    with pytest.raises(ConfigError, match=r"set AZURE_OPENAI_ENDPOINT or .* AGENT_ACTORS_BASE_URL"):
        AgentOptions(model="m", provider="azure", api_key="k")


def test_url_password_is_hidden() -> None:
    options = AgentOptions(model="m", base_url="http://me:s3cret@host/v1?key=s3cret")
    assert "s3cret" not in repr(options)
    assert "http://host/v1" in repr(options)


def test_found_key_stays_with_its_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    options = AgentOptions(model="m", provider="openai")
    moved = attrs.evolve(options, provider=None, base_url=URL)
    assert moved.resolved is not None
    assert moved.resolved.api_key is None


@pytest.mark.feature("ASDK-124")
def test_profile_names_models_and_system_prompt(tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(
        '[local]\nbase_url = "http://127.0.0.1:1/v1"\nsystem_prompt = "Be brief."\n'
        '[local.model_names]\nsmall = "vendor/small-7b"\n'
    )
    profile = load_profiles(file)["local"]
    options = AgentOptions(model="small", provider=profile, fallbacks=["small", "large"])
    assert (options.model, options.system_prompt) == ("vendor/small-7b", "Be brief.")
    assert [one.model for one in options.fallback_options] == ["vendor/small-7b", "large"]
    other = options.evolve(model="large", system_prompt="Talk.")
    assert (other.model, other.system_prompt) == ("large", "Talk.")
    file.write_text("[local.model_names]\nsmall = 7\n")
    with pytest.raises(ConfigError, match="the field 'model_names' must be a table of strings"):
        load_profiles(file)
