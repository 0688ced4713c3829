"""Options from files in three formats and from the environment; errors name the place."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors import AgentOptions, Prices, UsageLimits, tool
from agent_actors.errors import ConfigError
from agent_actors.options.files.loading import fields_of_environ, fields_of_file
from agent_actors.permissions import PermissionMode
from agent_actors.testing import strategies

URL = "http://localhost:1/v1"
# Untyped on purpose, as in the tests of the fields.
from_file: Callable[..., AgentOptions] = AgentOptions.from_file

YAML = """
model: qwen3-32b
base_url: http://localhost:1234/v1
system_prompt: |
  Print ${HOME}.
temperature: null
max_retries: 1
run_timeout: 30
idle_timeout: .inf
stop: [END, "###"]
extra_body: {top_k: 5}
limits: {requests: 5, cost: 0.5}
prices: {input: 3, output: 15}
permissions: {mode: accept_edits, deny: ["Bash(rm *)"]}
fallbacks:
  - small
  - {model: big, base_url: "http://localhost:2/v1"}
"""
TOML = """
model = "qwen3-32b"
base_url = "http://localhost:1234/v1"
system_prompt = "Print ${HOME}.\\n"
temperature = "none"
max_retries = 1
run_timeout = 30
idle_timeout = inf
stop = ["END", "###"]
extra_body = {top_k = 5}
limits = {requests = 5, cost = 0.5}
prices = {input = 3, output = 15}
permissions = {mode = "accept_edits", deny = ["Bash(rm *)"]}
fallbacks = ["small", {model = "big", base_url = "http://localhost:2/v1"}]
"""
JSON = json.dumps(
    {
        "model": "qwen3-32b",
        "base_url": "http://localhost:1234/v1",
        "system_prompt": "Print ${HOME}.\n",
        "temperature": None,
        "max_retries": 1,
        "run_timeout": 30,
        "idle_timeout": "inf",
        "stop": ["END", "###"],
        "extra_body": {"top_k": 5},
        "limits": {"requests": 5, "cost": 0.5},
        "prices": {"input": 3, "output": 15},
        "permissions": {"mode": "accept_edits", "deny": ["Bash(rm *)"]},
        "fallbacks": ["small", {"model": "big", "base_url": "http://localhost:2/v1"}],
    }
)


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that writes a file and returns its path."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.yaml", YAML), ("a.yml", YAML), ("a.toml", TOML), ("a.JSON", JSON), ("b.yml", JSON)],
)
def test_the_same_options_come_from_each_form(
    name: str, text: str, write: Callable[[str, str], Path]
) -> None:
    options = AgentOptions.from_file(write(name, text), tools=[add], temperature=0.5)
    assert (options.model, options.base_url) == ("qwen3-32b", "http://localhost:1234/v1")
    assert options.system_prompt == "Print ${HOME}.\n"  # kept exactly as written in the file
    assert (options.max_retries, options.run_timeout, options.idle_timeout) == (1, 30, math.inf)
    assert (options.stop, options.extra_body) == (("END", "###"), {"top_k": 5})
    assert (options.limits, options.prices) == (
        UsageLimits(requests=5, cost=0.5),
        Prices(input=3, output=15),
    )
    assert options.permissions is not None
    assert options.permissions.mode is PermissionMode.ACCEPT_EDITS
    assert [one.model for one in options.fallback_options] == ["small", "big"]
    # Arguments override the file.
    assert (options.temperature, list(options.tools_by_name)) == (0.5, ["add"])
    assert AgentOptions.from_file(write(name, text)).temperature is None


def test_empty_file_sets_no_field(write: Callable[[str, str], Path]) -> None:
    for name in ("a.yaml", "a.toml"):
        assert AgentOptions.from_file(write(name, ""), model="m", base_url=URL).model == "m"


def test_folder_is_relative_to_the_file(write: Callable[[str, str], Path], tmp_path: Path) -> None:
    path = write("a.yaml", f"{{model: m, base_url: '{URL}', cwd: work}}")
    assert AgentOptions.from_file(path).cwd == tmp_path / "work"
    assert AgentOptions.from_file(str(path), cwd="/").cwd == Path("/")


def test_secrets_come_from_the_environment(
    write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", " secret ")
    monkeypatch.setenv("HOST", "localhost:5")
    path = write(
        "a.yaml",
        """
        model: m
        base_url: http://${HOST}/v1
        api_key: ${KEY}
        headers: {x-key: "Bearer ${KEY}"}
        """,
    )
    options = AgentOptions.from_file(path)
    assert (options.base_url, options.api_key) == ("http://localhost:5/v1", "secret")
    assert options.headers == {"x-key": "Bearer secret"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api_key: ${NO_SUCH}", "api_key refers to the environment variable 'NO_SUCH'"),
        ("headers: {x: '${NO_SUCH}'}", "headers.x refers to the environment variable"),
        ("api_key: '${}'", "environment variable '', which is not set"),
        ("api_key: 5", "api_key must be a string; got a value of type int"),
        ("headers: [5]", "headers must be a mapping; got a value of type list"),
        ("modell: m", "unknown field 'modell'; did you mean 'model'?"),
        ("5: m", "unknown field 5; Known: "),
        (
            "tools: [add]",
            "tools takes Python objects, which a file cannot contain; pass it in code",
        ),
        ("output_type: int", "as in AgentOptions.from_file(…, output_type=…)"),
        ("provider: 5", "provider must be the name of a profile; got 5"),
        ("provider: olama", "did you mean 'ollama'?"),
        ("cwd: 5", "cwd must be a path; got 5"),
        ("limits: 5", "limits must be a table; got 5"),
        ("limits: {request: 5}", "limits: unknown field 'request'; did you mean 'requests'?"),
        ("limits: {requests: -5}", "requests must be a whole number above 0"),
        ("prices: {input: 1}", "prices: the field 'output' is missing"),
        ("permissions: {above: 1}", "permissions: unknown field 'above'"),
        ("permissions: {deny: 5}", "permissions: "),
        ("permissions: plann", "plann"),
        ("fallbacks: [{modle: m}]", "fallbacks: unknown field 'modle'"),
        ("fallbacks: [5]", "fallbacks must contain only names of models"),
        ("temperature: hot", "temperature must be a number, or None; got 'hot'"),
        ("temperature: yes", "temperature must be a number, or None; got True"),
        ("model: 2024-01-01", "model must be a string; got datetime.date("),
        ("[1, 2]", "expected a table of fields, such as model and base_url; got [1, 2]"),
        ("just a text", "expected a table of fields"),
        ("a: [", "not valid YAML: "),
        ("model: a\nmodel: b", "not valid YAML: the key 'model' occurs twice"),
        ("extra_body: {a: {b: 1, b: 2}}", "the key 'b' occurs twice"),
        ("a: &x [1]\nb: *x", "aliases (*name) are not supported; repeat the value"),
        ("a: &x [*x]", "aliases"),
        ("a: !!python/object/apply:os.getcwd []", "not valid YAML: "),
        ("[" * 200_000, "not valid YAML: tables and lists are nested more than 50 levels deep"),
        ("? [a]\n: 1", "not valid YAML: "),
    ],
)
def test_file_mistake_names_the_file(
    text: str, expected: str, write: Callable[[str, str], Path]
) -> None:
    path = write("a.yaml", text)
    with pytest.raises(ConfigError) as caught:
        from_file(path, **({} if "model:" in text else {"model": "m"}), base_url=URL)
    assert str(caught.value).startswith(f"{path}: ")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.toml", "model = ", "not valid TOML: "),
        ("a.toml", "model = 'a'\nmodel = 'b'", "not valid TOML: "),
        ("a.json", "{", "not valid JSON: "),
        ("a.json", '{"model": "a", "model": "b"}', "not valid JSON: the name 'model' occurs twice"),
        ("a.json", "[" * 100_000, "not valid JSON: "),
        ("a.json", "null and void", "not valid JSON: "),
        ("a.ini", "model = m", "the file name must end in .yaml, .yml, .toml, .json; got '.ini'"),
        ("a", "model = m", "the file name must end in .yaml, .yml, .toml, .json; got ''"),
        ("a.yaml", "#" * (2**18 + 1), "expected at most 262144 bytes of options"),
    ],
)
def test_wrong_file_content_is_reported(
    name: str, text: str, expected: str, write: Callable[[str, str], Path]
) -> None:
    path = write(name, text)
    with pytest.raises(ConfigError) as caught:
        AgentOptions.from_file(path)
    assert str(caught.value).startswith(f"{path}: {expected}")


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "a.yaml"
    broken.write_bytes(b"\xff\xfe\xff")
    for path, expected in (
        (tmp_path / "none.yaml", "the file cannot be read: No such file"),
        (tmp_path, "the file cannot be read: Is a directory"),
        (broken, "expected text in UTF-8"),
        ("a\0.yaml", "the file cannot be read: embedded null"),
    ):
        with pytest.raises(ConfigError, match=expected):
            AgentOptions.from_file(path)


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"model": "m"}')
    assert AgentOptions.from_file(path, base_url=URL).model == "m"


def test_wrong_keyword_field_is_reported(write: Callable[[str, str], Path]) -> None:
    path = write("a.yaml", "model: m")
    with pytest.raises(ConfigError, match="did you mean 'base_url'"):
        from_file(path, base_ur=URL)


@given(st.one_of(strategies.json_values(), strategies.json_objects()))
def test_any_json_loads_or_raises_clearly(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(value), encoding="utf-8", errors="surrogatepass")
    values: dict[str, object] = {}
    message = ""
    try:
        values = fields_of_file(path, AgentOptions, {}, dict)
    except ConfigError as error:
        message = str(error)
    fields = {field.name for field in attrs.fields(AgentOptions)}
    if message or not isinstance(value, dict):
        assert "any.json: " in message or value is None
    else:
        assert values.keys() == value.keys() <= fields


def test_the_environment_names_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "MODEL": "m",
        "BASE_URL": URL,
        "API_KEY": "secret",
        "TEMPERATURE": "0.25",
        "MAX_TOKENS": "none",
        "MAX_ITERATIONS": "3",
        "RUN_TIMEOUT": "inf",
        "IDLE_TIMEOUT": "5",
        "TOOL_DELTAS": "Yes",
        "INCLUDE_USAGE": "false",
        "PARALLEL_TOOL_CALLS": "none",
        "TOOL_CHOICE": "none",
        "STOP": "END",
        "PERMISSIONS": "plan",
        "FALLBACKS": "small, big,",
        "SYSTEM_PROMPT": "Be brief.",
        "SEED": " ",
        "OTHER": "someone else's",
        "PROFILES": "",
    }.items():
        monkeypatch.setenv(f"AGENT_ACTORS_{name}", text)
    options = AgentOptions.from_env(system_prompt="Be long.", output_type=int)
    assert (options.model, options.resolved and options.resolved.base_url) == ("m", URL)
    # These come from the environment of any options; they are not fields that a fallback would get.
    assert (options.base_url, options.api_key) == ("", "not-needed")
    assert options.resolved is not None
    assert options.resolved.api_key == "secret"
    assert (options.temperature, options.max_tokens, options.seed) == (0.25, None, None)
    assert (options.max_iterations, options.run_timeout) == (3, math.inf)
    assert (options.tool_deltas, options.include_usage) == (True, False)
    assert (options.parallel_tool_calls, options.tool_choice) == (None, "none")
    assert (options.stop, options.fallbacks) == (("END",), ("small", "big"))
    assert options.permissions is not None
    assert options.permissions.mode is PermissionMode.PLAN
    assert options.system_prompt == "Be long."
    assert type(options.idle_timeout) is int


def test_the_environment_names_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ACTORS_PROVIDER", "ollama")
    monkeypatch.setenv("AGENT_ACTORS_CWD", "/")
    options = AgentOptions.from_env(model="m")
    assert options.resolved is not None
    assert options.resolved.profile.name == "ollama"
    assert options.cwd == Path("/")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("TEMPERATURE", "hot", "temperature must be a number, or None; got 'hot'"),
        ("MAX_ITERATIONS", "2.5", "max_iterations must be a whole number; got '2.5'"),
        ("MAX_ITERATIONS", "none", "max_iterations must be a whole number; got 'none'"),
        ("MAX_TOKENS", "9" * 5000, "max_tokens must be a whole number, or None"),
        ("TOOL_DELTAS", "maybe", "tool_deltas must be true or false; got 'maybe'"),
        ("HEADERS", "{}", "headers cannot be set by a variable; set it in a file"),
        ("TOOLS", "add", "tools cannot be set by a variable"),
        ("LIMITS", "5", "limits cannot be set by a variable"),
        ("TIMEOUT", "9", "did you mean AGENT_ACTORS_TOTAL_TIMEOUT or AGENT_ACTORS_IDLE_TIMEOUT or"),
        ("TEMPRATURE", "1", "is not an option; did you mean AGENT_ACTORS_TEMPERATURE?"),
    ],
)
def test_variable_mistake_names_the_variable(name: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fields_of_environ({f"AGENT_ACTORS_{name}": text, "PATH": "x"}, AgentOptions)
    assert str(caught.value).startswith(f"AGENT_ACTORS_{name}")
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=8)))
def test_other_variables_are_ignored(environ: dict[str, str]) -> None:
    theirs = {f"AGENT_ACTORS_SERVER_{name}": text for name, text in environ.items()}
    assert fields_of_environ(theirs, AgentOptions) == {}


def test_unknown_fields_of_any_type_are_named(tmp_path: Path) -> None:
    """A key in YAML may be a number."""
    path = tmp_path / "a.yaml"
    path.write_text(f"{{model: m, base_url: '{URL}', limits: {{1: 2, other: 3}}}}")
    with pytest.raises(ConfigError, match="limits: "):
        from_file(path)
