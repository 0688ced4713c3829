"""Endpoints that do not exist, use another protocol, or never finish a response."""

import pytest

from agent_actors.testing import Reply, ScriptedEndpoint, hang, not_http, reply, silent
from tests.cli.doctor.helpers import answering, checks_of, examined, good, statuses


async def test_a_bare_port_is_not_reachable() -> None:
    async with ScriptedEndpoint([], listening=False) as endpoint:
        report = await examined(endpoint.base_url)

    found = statuses(report)
    assert found.pop("reachable") == "fails"
    assert set(found.values()) == {"untried"}
    assert "could not connect" in checks_of(report)["reachable"].detail
    assert not report.usable


async def test_tls_to_plain_port_is_reported() -> None:
    async with ScriptedEndpoint(good) as endpoint:
        https = endpoint.base_url.replace("http:", "https:")
        report = await examined(https, connect_timeout=0.2)

    assert statuses(report)["reachable"] == "fails"
    assert checks_of(report)["reachable"].detail.endswith("; does the server support https?")
    assert not report.usable


async def test_non_http_server_is_reported() -> None:
    async with ScriptedEndpoint(lambda _: not_http()) as endpoint:
        report = await examined(endpoint.base_url)

    assert statuses(report)["answer"] == "fails"


@pytest.mark.parametrize(
    ("head", "content", "expected"),
    [
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html",
            b"<html>Hi</html>",
            "the body is a web page",
        ),
        ("HTTP/1.1 200 OK", b"what?", "the body is something else"),
        ("HTTP/1.1 200 OK", b'{"data": 1}', "the body is something else"),
        (
            "HTTP/1.1 200 OK",
            b'{"data": [{"id": "scriptes"}, {"id": 1}, 2]}',
            "did you mean scriptes?",
        ),
        ("HTTP/1.1 200 OK", b'[{"id": "x"}]', "1 models are listed, but not scripted"),
        ("HTTP/1.1 401 Unauthorized", b'{"error": "who are you?"}', "HTTP 401 who are you?"),
        ("HTTP/1.1 404 Not Found", b"", "no list of models: HTTP 404"),
    ],
)
async def test_invalid_model_list_is_a_note(head: str, content: bytes, expected: str) -> None:
    async with answering(head, content) as base_url:
        report = await examined(base_url)

    check = checks_of(report)["models"]
    assert check.status == "note"
    assert expected in check.detail
    assert (statuses(report)["reachable"], statuses(report)["answer"]) == ("works", "fails")


async def test_hang_ups_mean_unreachable() -> None:
    async with answering("", nothing=True) as base_url:
        report = await examined(base_url)

    assert statuses(report)["reachable"] == "fails"


async def test_late_model_list_is_skipped() -> None:
    async with answering("SSH-2.0-OpenSSH_9.6") as base_url:
        report = await examined(base_url)

    found = statuses(report)
    assert (found["models"], found["reachable"], found["answer"]) == ("note", "fails", "fails")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(silent(), "for the first token"), (reply("One ", hang()), "for the end of the response")],
)
async def test_every_question_is_bounded_in_time(answer: Reply, expected: str) -> None:
    async with ScriptedEndpoint(lambda _: answer) as endpoint:
        report = await examined(endpoint.base_url, timeout=0.2)
        await endpoint.wait_closed()

    assert f"waited 0.2 s {expected}" in checks_of(report)["answer"].detail


async def test_missing_model_list_is_a_note() -> None:
    async with answering("", nothing=True, hold=True) as base_url:
        report = await examined(base_url, timeout=0.1)

    assert checks_of(report)["models"].detail.endswith(
        "waited 0.1 s for the first token (option first_token_timeout)"
    )
    assert (statuses(report)["reachable"], statuses(report)["answer"]) == ("fails", "fails")
