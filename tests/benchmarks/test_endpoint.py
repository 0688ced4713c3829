import json
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager

import httpx
import pytest

from benchmarks.contenders import BODY, Splitter
from benchmarks.harness import Endpoint


@contextmanager
def client(served: Endpoint, answer: str) -> Generator[httpx.Client]:
    with httpx.Client(base_url=served.base_url(answer), trust_env=False) as found:
        yield found


def texts(body: bytes) -> list[str]:
    split = Splitter()
    split.feed(body)
    return split.texts


def test_burst_delivers_every_delta_in_order(served: Endpoint) -> None:
    with client(served, "burst/120/50") as one:
        body = one.post("/chat/completions", json=BODY).content
    assert texts(body) == [f"word{number} " for number in range(120)]
    *_, last, done, nothing = body.split(b"\n\n")
    assert json.loads(last.removeprefix(b"data: "))["choices"][0]["finish_reason"] == "stop"
    assert (done, nothing) == (b"data: [DONE]", b"")


def test_a_paced_answer_brings_every_delta(served: Endpoint) -> None:
    with client(served, "paced/500/20") as one:
        body = one.post("/chat/completions", json=BODY).content
    assert texts(body) == [f"word{number} " for number in range(20)]


def test_timed_response_has_increasing_times(served: Endpoint) -> None:
    began = time.monotonic()
    with client(served, "timed/500/20") as one:
        body = one.post("/chat/completions", json=BODY).content
    times = [float(text) for text in texts(body)]
    assert len(times) == 20
    assert began - 1e-5 <= times[0]
    assert times == sorted(times)
    assert times[-1] <= time.monotonic()


def test_paced_response_writes_each_delta_separately(served: Endpoint) -> None:
    with (
        client(served, "paced/200/10") as one,
        one.stream("POST", "/chat/completions", json=BODY) as response,
    ):
        reads = [texts(data) for data in response.iter_raw()]
    assert all(len(read) <= 1 for read in reads[:-1])


def test_tools_come_before_the_final_response(served: Endpoint) -> None:
    with client(served, "tools/8/50") as one:
        first = one.post("/chat/completions", json=BODY).content
        results = [{"role": "tool", "tool_call_id": "call_0", "content": "done"}]
        answer = json.dumps({**BODY, "messages": results}, separators=(",", ":"))
        second = one.post("/chat/completions", content=answer).content
    events = [event.removeprefix(b"data: ") for event in first.split(b"\n\n")[:-3]]
    calls = [json.loads(event)["choices"][0]["delta"]["tool_calls"][0] for event in events]
    assert [call["index"] for call in calls] == list(range(8))
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [
        {"item": index} for index in range(8)
    ]
    assert texts(first) == []
    assert len(texts(second)) == 50


def test_connection_is_kept_for_next_request(
    served: Endpoint,
) -> None:
    host, _, port = served.url.removeprefix("http://").partition(":")
    head = b"POST /burst/3/3/v1/chat/completions HTTP/1.1\r\ncontent-length: 8\r\n\r\n"
    with socket.create_connection((host, int(port))) as one:
        for _ in range(2):
            for piece in (head[:20], head[20:] + b"1234"):
                one.sendall(piece)
                served.stats()  # makes sure that the endpoint reads this piece separately
                with pytest.raises(BlockingIOError):
                    one.recv(1, socket.MSG_DONTWAIT)
            one.sendall(b"5678")
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += one.recv(65536)
            assert received.count(b"word") == 3


def test_endpoint_reports_its_usage_and_traffic(served: Endpoint) -> None:
    before = served.stats()
    with client(served, "burst/1/1") as one:
        one.post("/chat/completions", content=b"x" * 100_000)
    after = served.stats()
    assert after["received"] > before["received"] + 100_000
    assert after["cpu"] > before["cpu"]


def test_leaving_client_harms_no_other(served: Endpoint) -> None:
    with (
        client(served, "paced/100/1000") as one,
        one.stream("POST", "/chat/completions", json=BODY) as response,
    ):
        assert next(response.iter_raw())
    with client(served, "burst/3/3") as one:
        assert len(texts(one.post("/chat/completions", json=BODY).content)) == 3
