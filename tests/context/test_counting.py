"""Estimates with tiktoken if it is installed, otherwise from characters; nothing is downloaded."""

import functools
import hashlib
import importlib
import sys
from importlib.metadata import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from agent_actors.context import estimate_tokens, naive_tokens, tiktoken_counter
from agent_actors.context import tiktoken_encodings as encodings
from agent_actors.domain.messages import Messages

SAID = Messages().system("Be brief.").user("Hello there.").assistant("Hi!")
DICTS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello there."},
    {"role": "assistant", "content": "Hi!"},
]
CONTENT = b"the data of an encoding"
NAME = "f" * 40


class Fake(ModuleType):
    """A fake tiktoken with one token per word, which records the encodings it is asked for."""

    def __init__(self) -> None:
        super().__init__("tiktoken")
        self.asked: list[str] = []

    def encoding_name_for_model(self, model_name: str) -> str:
        if model_name == "gpt-4o":
            return "o200k_base"
        if model_name == "davinci":
            return "r50k_base"
        if model_name.startswith("gpt-"):
            return "cl100k_base"
        raise KeyError(model_name)

    def get_encoding(self, encoding_name: str) -> object:
        self.asked.append(encoding_name)
        if encoding_name == "o200k_base":
            raise ValueError("an old version knows no such encoding")
        return SimpleNamespace(encode_ordinary=str.split)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start with no loaded encoding and an empty cache folder."""
    monkeypatch.setattr(encodings, "_loaded", functools.cache(encodings._loaded.__wrapped__))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))


@pytest.fixture
def tiktoken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    """Install the fake tiktoken and the data of its encodings."""
    fake = Fake()
    monkeypatch.setitem(sys.modules, "tiktoken", fake)
    data = (NAME, hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(encodings, "DATA", {"cl100k_base": data, "o200k_base": data})
    (tmp_path / NAME).write_bytes(CONTENT)
    return fake


@pytest.mark.feature("OAS-080", "OAS-081")
def test_tiktoken_count_adds_four_per_message(tiktoken: Fake) -> None:
    assert estimate_tokens(SAID) == 2 + 2 + 1 + 3 * 4
    assert estimate_tokens(DICTS, "gpt-4") == 2 + 2 + 1 + 3 * 4
    assert estimate_tokens([]) == 0
    assert tiktoken.asked == ["cl100k_base"]  # loaded once


def test_unknown_model_uses_default_encoding(tiktoken: Fake) -> None:
    assert estimate_tokens(SAID, model="qwen3-32b") == 17
    assert tiktoken.asked == ["cl100k_base"]


@pytest.mark.feature("OAS-093")
def test_tokens_extra_installs_tiktoken(tiktoken: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = metadata("agent-actors").get_all("Requires-Dist") or []
    (line,) = [line for line in needed if line.startswith("tiktoken")]
    assert line.endswith("""; extra == 'tokens'""")
    # The installed tiktoken, with an encoding of one token per byte.
    monkeypatch.delitem(sys.modules, "tiktoken")
    real = importlib.import_module("tiktoken")
    encoding = real.Encoding(
        "bytes",
        pat_str=".",
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={},
    )
    monkeypatch.setitem(real.registry.ENCODINGS, "cl100k_base", encoding)
    assert estimate_tokens(SAID, "gpt-4") == 9 + 12 + 3 + 3 * 4
    assert estimate_tokens(SAID, "unknown") == 9 + 12 + 3 + 3 * 4
    assert tiktoken.asked == []


@pytest.mark.feature("OAS-082")
def test_fallback_is_characters_divided_by_four(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert tiktoken_counter() is None
    assert estimate_tokens(SAID) == estimate_tokens(DICTS) == (9 + 12 + 3) // 4


@pytest.mark.parametrize("model", ["gpt-4o", "davinci"])
def test_unavailable_encoding_is_none(tiktoken: Fake, model: str) -> None:
    assert tiktoken_counter(model) is None
    assert estimate_tokens(SAID, model) == 6


@pytest.mark.feature("OAS-080")
@pytest.mark.parametrize("case", ["absent", "other data", "a folder", "no cache"])
def test_tiktoken_without_data_is_not_called(
    tiktoken: Fake, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / NAME
    if case == "other data":  # tiktoken would delete it and download it again
        file.write_bytes(CONTENT + b"!")
    elif case == "no cache":
        monkeypatch.chdir(tmp_path)  # the empty name must not mean this folder
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    else:
        file.unlink()
        if case == "a folder":
            file.mkdir()
    assert tiktoken_counter() is None
    assert tiktoken.asked == []
    if case == "absent":  # another process has added it meanwhile
        file.write_bytes(CONTENT)
        assert estimate_tokens(SAID) == 17


@pytest.mark.parametrize("variable", ["DATA_GYM_CACHE_DIR", None])
def test_cache_folder_is_that_of_tiktoken(
    tiktoken: Fake, variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    folder = tmp_path / "data-gym-cache"
    folder.mkdir()
    (folder / NAME).write_bytes(CONTENT)
    if variable is None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    else:
        monkeypatch.setenv(variable, str(folder))
    assert estimate_tokens(SAID) == 17


def test_own_counter_is_used(tiktoken: Fake) -> None:
    assert estimate_tokens(SAID, counter=len) == 9 + 12 + 3 + 3 * 4
    assert estimate_tokens(SAID, counter=naive_tokens) == 4 + 5 + 2 + 3 * 4
    assert tiktoken.asked == []


def test_a_long_text_is_counted_in_pieces(tiktoken: Fake) -> None:
    count = tiktoken_counter()
    assert count is not None
    assert count("") == 0
    # One word for the fake tiktoken, but counted in three pieces.
    assert count("a" * 10_000) == 3


# With tiktoken itself, if it is installed.


def test_data_matches_what_tiktoken_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tiktoken")
    public = importlib.import_module("tiktoken_ext.openai_public")

    def record_download(url: str, expected_hash: str) -> None:
        found.append((hashlib.sha1(url.encode()).hexdigest(), expected_hash))
        raise LookupError

    monkeypatch.setattr(public, "load_tiktoken_bpe", record_download)
    for name, data in encodings.DATA.items():
        found: list[tuple[str, str]] = []
        with pytest.raises(LookupError):
            public.ENCODING_CONSTRUCTORS[name]()
        assert found == [data]


def test_tiktoken_itself_fetches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tiktoken")
    fetched: list[str] = []
    monkeypatch.setattr("tiktoken.load.read_file", fetched.append)
    for model in ("gpt-3.5-turbo", "gpt-4o", "gpt-oss-120b", "davinci", "gpt2", "qwen3"):
        assert tiktoken_counter(model) is None
    assert fetched == []


def test_tiktoken_itself_takes_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    bytes_only = tiktoken.Encoding(
        "bytes",
        pat_str=r"\S+|\s+(?!\S)|\s+",
        mergeable_ranks={bytes([one]): one for one in range(256)},
        special_tokens={"<|endoftext|>": 256},
    )
    # As if it were loaded: the tests above check the loading.
    monkeypatch.setattr(encodings, "_loaded", {"cl100k_base": bytes_only}.__getitem__)
    count = tiktoken_counter()
    assert count is not None
    assert count("<|endoftext|>") == 13
    assert count("\ud800") == 3
    assert count("a" * 300_000) == 300_000
    # Counted as one text, this would overflow a stack in tiktoken.
    assert count(" " * 2_000_000) == 2_000_000
