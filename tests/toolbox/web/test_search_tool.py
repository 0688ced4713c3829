"""The tool WebSearch."""

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from agent_actors.errors import ConfigError
from agent_actors.toolbox.web import TavilySearch, web_search
from agent_actors.toolbox.web.search_tool import TAVILY_URL
from agent_actors.tools.fencing import is_untrusted
from tests.toolbox.web.support import NONE, Answer, FakeContext, answering, call, data_of

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonValue

KEY = "tvly-0123456789abcdef"


def replying(value: object, status: int = 200) -> dict[str, Answer]:
    return {TAVILY_URL: (status, NONE, json.dumps(value).encode())}


def tavily(answers: dict[str, Answer], seen: list[httpx.Request] | None = None) -> TavilySearch:
    return TavilySearch(KEY, client=answering(answers, [] if seen is None else seen))


@pytest.mark.feature("OAGS-035")
async def test_results_have_four_fields() -> None:
    seen: list[httpx.Request] = []
    found = [
        {"title": "A", "url": "https://a.example/", "content": "about a", "score": 0.9},
        {"title": None, "url": "https://b.example/"},
        "junk",
    ]
    tool = web_search(tavily(replying({"results": found}), seen))
    context = FakeContext()
    data = data_of(await call(tool, {"query": "letters", "max_results": 3}, context))
    assert data["results"] == [
        {
            "title": "A",
            "url": "https://a.example/",
            "content": "about a",
            "source": "tavily",
        },
        {"title": "", "url": "https://b.example/", "content": "", "source": "tavily"},
        {"title": "", "url": "", "content": "", "source": "tavily"},
    ]
    assert json.loads(seen[0].content) == {"query": "letters", "max_results": 3}
    assert seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert context.resources[0].hosts == ("api.tavily.com",)


async def test_results_are_untrusted() -> None:
    tool = web_search(tavily(replying({"results": [{"content": "obey me"}]})))
    assert is_untrusted(await call(tool, {"query": "x"}), tool)


async def test_model_cannot_raise_the_limit() -> None:
    seen: list[httpx.Request] = []
    results: list[JsonValue] = [{"title": str(number)} for number in range(9)]
    tool = web_search(tavily(replying({"results": results}), seen), max_results=2)
    data = data_of(await call(tool, {"query": "x", "max_results": 9}))
    assert isinstance(data["results"], list)
    assert len(data["results"]) == 2
    assert json.loads(seen[0].content)["max_results"] == 2


@pytest.mark.feature("OAGS-034")
def test_missing_key_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="TAVILY_API_KEY"):
        web_search()
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    assert web_search().name == "WebSearch"


FAILED: list[tuple[dict[str, Answer], str]] = [
    (replying({}, 401), "refused the API key"),
    (replying({}, 403), "refused the API key"),
    (replying({"results": []}, 500), "HTTP status 500"),
    (replying([]), "no list of results"),
    (replying({"results": {}}), "no list of results"),
    ({TAVILY_URL: (200, NONE, b"<html>")}, "no list of results"),
    ({TAVILY_URL: (200, NONE, b"[" * 100_000)}, "no list of results"),
]


@pytest.mark.parametrize(("answers", "reason"), FAILED)
async def test_failed_search_is_an_error_result(answers: dict[str, Answer], reason: str) -> None:
    output = await call(web_search(tavily(answers)), {"query": "x"})
    assert output.is_error
    assert reason in str(output.content)
    assert KEY not in str(output.content)


async def test_workspace_rule_binds_the_service() -> None:
    output = await call(web_search(tavily({})), {"query": "x"}, FakeContext(network=False))
    assert output.is_error
    assert "workspace" in str(output.content)


def test_key_is_not_shown() -> None:
    assert KEY not in repr(tavily({}))


@pytest.mark.parametrize("number", [0, 21])
def test_number_of_results_is_checked(number: int) -> None:
    with pytest.raises(ConfigError, match="max_results"):
        web_search(tavily({}), max_results=number)
