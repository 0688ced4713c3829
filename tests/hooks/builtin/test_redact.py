"""Common shapes of keys are redacted, other text is kept, and no text takes long."""

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.model import ModelCompleted
from agent_actors.hooks import AfterModelEvent
from agent_actors.hooks.builtin import ASSIGNED_SECRET, SECRET_SHAPES, RedactSecrets
from agent_actors.tools.output import ToolOutput
from tests.hooks.builtin.helpers import after, context

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject, JsonValue

# Joined here so that no secret scanner takes the texts for keys.
LETTERS = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA"
KEYS = {
    "AWS access key": "AKIA" + "ABCDEFGH12345678",
    "GitHub token": "ghp_" + LETTERS + "abcd",
    "GitLab token": "glpat-" + LETTERS,
    "Slack token": "xoxb-" + "123456789012-abcdef",
    "API key": "sk-" + "proj-" + LETTERS,
    "Google key": "AIza" + LETTERS + "abc",
    "Stripe key": "sk_live_" + LETTERS,
    "npm token": "npm_" + LETTERS + "abcd",
    "PyPI token": "pypi-" + LETTERS * 2,
    "Hugging Face token": "hf_" + LETTERS,
    "JSON web token": "eyJ" + LETTERS + ".eyJ" + LETTERS + "." + LETTERS,
    "private key": "-----BEGIN RSA PRIVATE " + "KEY-----\nab-c\nDEK-Info: x\n"
    "-----END RSA PRIVATE " + "KEY-----",
}
PARTS = {
    "AWS secret key": ("aws_secret_access_key = '", "aB3/+" * 8, "'"),
    "bearer token": ("Authorization: Bearer ", LETTERS, ""),
    "password": ("postgres://someone:", "p4ss:word", "@db/x"),
}
HOOK = RedactSecrets()


@pytest.mark.parametrize(("name", "key"), KEYS.items(), ids=KEYS.keys())
@pytest.mark.parametrize("around", ["{}", "key={}", '"{}"', "see ({}), then", "\n{}\n", "{}."])
def test_key_is_redacted_at_any_position(name: str, key: str, around: str) -> None:
    assert HOOK.redact(around.format(key)) == around.format(f"[redacted {name}]")


@pytest.mark.parametrize(("name", "parts"), PARTS.items(), ids=PARTS.keys())
def test_text_around_a_secret_stays(name: str, parts: tuple[str, str, str]) -> None:
    head, secret, tail = parts
    assert HOOK.redact(head + secret + tail) == f"{head}[redacted {name}]{tail}"


def test_unterminated_private_key_is_redacted() -> None:
    text = "x -----BEGIN PRIVATE " + "KEY-----\nAAAA\nBBBB"
    assert HOOK.redact(text) == "x [redacted private key]"


def test_every_shape_has_its_case() -> None:
    assert {shape.name for shape in SECRET_SHAPES} == KEYS.keys() | PARTS.keys()


@pytest.mark.parametrize(
    "text",
    [
        "The task-based sketch of a risk-free desk-bound-and-very-long-hyphenated-word.",
        "bearer of internationalisations and other news",
        "https://example.com/a:b@c and mailto:a@b.c, http://host:8080/path",
        "a5f3" * 16,
        "ghp_short sk-short AKIA1234 hf_no npm_no",
        "eyJust a word. eyJanother word.",
        "BEGIN PUBLIC KEY",
        "password = read()",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert HOOK.redact(text) == text


def test_assigned_secrets_are_redacted_on_request() -> None:
    hook = RedactSecrets([ASSIGNED_SECRET])
    assert hook.redact('PASSWORD="hunter2hunter2"') == 'PASSWORD="[redacted secret]"'
    assert hook.redact("api-key: abcdefgh") == "api-key: [redacted secret]"


HOSTILE = (
    *("eyJ-", "eyJaaaaaaaa.", "sk-", "-----BEGIN PRIVATE " + "KEY-----", "-", "a://", "bearer "),
    *("AKIA", "aws_secret_key=", "ghp_", "a" * 20 + ":", "xoxb-", "token=", " ", "A1"),
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_many_key_prefixes_stay_fast(piece: str) -> None:
    """With quadratic time, the test would take minutes, so a regression would be noticed."""
    hook = RedactSecrets([*SECRET_SHAPES, ASSIGNED_SECRET])
    text = piece * (200_000 // len(piece)) + f" {KEYS['npm token']}"
    assert "[redacted" in hook.redact(text)


@given(st.text())
def test_clean_text_is_unchanged(text: str) -> None:
    once = HOOK.redact(text)
    assert HOOK.redact(once) == once


KEY = KEYS["GitHub token"]
MARK = "[redacted GitHub token]"


def test_all_json_text_but_images_is_redacted() -> None:
    image: JsonValue = {"type": "image", "source": f"data:;base64,{KEYS['AWS access key']}"}
    value: JsonValue = {"a": [KEY, 1, None, (True, KEY)], KEY: image}
    assert HOOK.clean(value) == {"a": [MARK, 1, None, [True, MARK]], MARK: image}


@pytest.mark.parametrize("kind", ["file", "image"])
def test_fake_file_block_is_redacted(kind: str) -> None:
    listed: JsonValue = {"type": kind, "content": KEY, "source": f"data:,{KEY}"}
    assert HOOK.clean([listed]) == [{"type": kind, "content": MARK, "source": f"data:,{MARK}"}]


def text_of(text: str) -> "JsonObject":
    return {"type": "text", "text": text}


@pytest.mark.parametrize("at", [0, 4, 39])
async def test_key_across_two_texts_is_redacted(at: int) -> None:
    image: JsonValue = {"type": "image", "source": "https://a.example/b.png"}
    around: list[JsonValue] = [text_of("before "), image, text_of("fine"), 7]
    split: list[JsonValue] = [text_of(f"is {KEY[:at]}"), text_of(f"{KEY[at:]}.")]
    decision = await HOOK.after_tool(after([*around, *split]), context())
    assert decision is not None
    found = cast("list[JsonObject]", decision.modified_output)
    assert found[:4] == around
    assert "".join(str(part["text"]) for part in found[4:]) == f"is {MARK}."


async def test_results_are_redacted_before_any_use() -> None:
    async def leak(call: ToolUseBlock) -> ToolOutput:
        return ToolOutput(f"found {KEY}", data={"key": KEY}, is_error=True)

    async def fine(call: ToolUseBlock) -> ToolOutput:
        return clean

    clean = ToolOutput("fine", data=[1])
    call = ToolUseBlock("c", "echo", {})
    found = await HOOK.wrap_tool_call(call, leak, context())
    assert found == ToolOutput(f"found {MARK}", data={"key": MARK}, is_error=True)
    assert await HOOK.wrap_tool_call(call, fine, context()) is clean


async def test_output_of_other_hooks_is_redacted() -> None:
    decision = await HOOK.after_tool(after({"a": KEY}), context())
    assert decision is not None
    assert decision.reason == "secrets"
    assert decision is not None
    assert decision.modified_output == {"a": MARK}
    assert await HOOK.after_tool(after("fine"), context()) is None


@pytest.mark.parametrize(("text", "clean"), [(f"It is {KEY}.", f"It is {MARK}."), ("Hm.", None)])
async def test_answers_are_cleaned(text: str, clean: str | None) -> None:
    event = AfterModelEvent(answer=ModelCompleted(()), text=text, iteration=1)
    decision = await HOOK.after_model(event, context())
    assert (decision and decision.modified_output) == clean
