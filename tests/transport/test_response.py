import pytest

from agent_actors.transport.response import ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"


def read(*pieces: bytes, head_only: bool = False, **limits: int) -> tuple[ResponseReader, bytes]:
    reader = ResponseReader(head_only=head_only, **limits)
    return reader, b"".join(reader.feed(piece) for piece in pieces)


def test_head_keeps_header_order() -> None:
    reader, _ = read(OK + b"X-A: 1\r\nx-b:\r\nX-a: \xe9\r\ncontent-length: 0\r\n\r\n")
    assert reader.head is not None
    assert reader.head.headers[:3] == ((b"X-A", b"1"), (b"x-b", b""), (b"X-a", b"\xe9"))
    assert reader.head.joined() == {"x-a": "1, é", "x-b": "", "content-length": "0"}
    assert (reader.head.status, reader.head.reason, reader.head.http_version) == (200, b"OK", "1.1")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_response_is_independent_of_splits(size: int) -> None:
    answer = (
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
        + OK
        + b"Transfer-Encoding: chunked\r\nX: y\r\n\r\n"
        + b"5;a=b\r\nhello\r\n0006\r\n world\r\n0\r\nTrailer: z\r\n\r\n"
    )
    reader, body = read(*(answer[i : i + size] for i in range(0, len(answer), size)))
    assert body == b"hello world"
    assert reader.complete
    assert reader.keep_alive
    assert not reader.surplus
    assert reader.head is not None
    assert reader.head.headers == ((b"Transfer-Encoding", b"chunked"), (b"X", b"y"))


def test_unsized_response_ends_with_connection() -> None:
    reader, body = read(OK + b"\r\nab", b"c")
    assert (body, reader.complete) == (b"abc", False)
    reader.end(clean=True)
    assert reader.complete
    assert not reader.keep_alive
    assert reader.failure is None


def test_forgeable_end_ends_no_response() -> None:
    reader, _ = read(OK + b"\r\nab")
    reader.end(clean=False)
    assert reader.failure == "the connection was closed in the middle of the response"


def test_early_end_is_a_failure() -> None:
    silent = ResponseReader()
    assert not silent.begun
    silent.end(clean=True)
    assert silent.failure == "the connection was closed before a response arrived"
    cut, _ = read(OK + b"content-length: 3\r\n\r\nab")
    cut.end(clean=True)
    assert cut.failure == "the connection was closed in the middle of the response"


def test_second_end_changes_nothing() -> None:
    reader, _ = read(OK + b"content-length: 2\r\n\r\nab")
    reader.end(clean=False)
    assert reader.complete
    assert reader.failure is None
    failed, _ = read(b"nonsense")
    before = failed.failure
    failed.end(clean=True)
    assert failed.failure == before


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_bodiless_responses_end_with_head(status: bytes) -> None:
    reader, body = read(b"HTTP/1.1 " + status + b"\r\ncontent-length: 5\r\n\r\n")
    assert (body, reader.complete, reader.keep_alive) == (b"", True, True)


def test_head_response_has_no_body() -> None:
    reader, body = read(OK + b"content-length: 5\r\n\r\n", head_only=True)
    assert (body, reader.complete, reader.keep_alive) == (b"", True, True)
    more, body = read(OK + b"content-length: 5\r\n\r\nhello", head_only=True)
    assert (body, more.complete, more.surplus) == (b"", True, True)


@pytest.mark.parametrize(
    "surplus",
    [b"x", OK + b"content-length: 0\r\n\r\n", b"\x00"],
)
@pytest.mark.parametrize("split", [False, True])
def test_data_after_response_is_surplus(surplus: bytes, *, split: bool) -> None:
    answer = OK + b"content-length: 2\r\n\r\nab"
    reader, body = read(answer, surplus) if split else read(answer + surplus)
    assert (body, reader.complete, reader.surplus) == (b"ab", True, True)
    assert reader.failure is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"nonsense", "Expected HTTP"),
        (b"HTTP/1.1 099 X\r\n\r\n", "the status 099 is not valid"),
        (
            b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
            "the server switched to a protocol that was not requested",
        ),
        (OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nab", "Content-Length"),
        (OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n", "Transfer-Encoding"),
        (OK + b"transfer-encoding: gzip\r\n\r\n", "the transfer coding 'gzip' is not supported"),
        (OK + b"transfer-encoding: gzip, chunked\r\n\r\n", "the transfer coding"),
        (
            OK + b"transfer-encoding: chunked\t\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            "the transfer coding",
        ),
        (
            OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
            "the transfer coding",
        ),
        (OK + b"x: a\r\n b\r\n\r\n", "whitespace"),
        (OK + b"x: a\x00b\r\n\r\n", "header value"),
        (OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n", "chunk size"),
    ],
)
def test_ambiguous_http_is_refused(answer: bytes, reason: str) -> None:
    reader, body = read(answer)
    assert body == b""
    assert reader.failure is not None
    assert reason in reader.failure
    assert not reader.keep_alive


def test_data_before_failure_is_returned() -> None:
    reader, body = read(OK + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n")
    assert body == b"ab"
    assert reader.failure is not None


@pytest.mark.parametrize(
    "pieces",
    [
        [OK + b"x: " + b"a" * 300 + b"\r\ncontent-length: 0\r\n\r\n"],
        [OK, *[b"x: yyyy\r\n"] * 50],
        [b"HTTP/1.1 200 " + b"a" * 300 + b"\r\n\r\n"],
        [OK + b"transfer-encoding: chunked\r\n\r\n", b"5;a=" + b"b" * 300],
        [OK + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + b"x: yyyy\r\n" * 50],
        [b"HTTP/1.1 100 Continue\r\n\r\n"] * 20,
    ],
    ids=["a header", "headers", "a phrase", "a chunk's extension", "trailers", "interim answers"],
)
def test_framing_without_end_is_refused(pieces: list[bytes]) -> None:
    reader, _ = read(*pieces, max_head=200)
    assert reader.failure is not None
    assert "than 200 bytes" in reader.failure


def test_a_body_over_the_limit_is_refused() -> None:
    reader, _ = read(OK + b"content-length: 9\r\n\r\n", b"abc", b"def", max_body=5)
    assert reader.failure == "the body is larger than 5 bytes"


def test_content_allows_for_more_framing() -> None:
    chunk = b"1;" + b"x" * 90 + b"\r\na\r\n"
    reader, body = read(OK + b"transfer-encoding: chunked\r\n\r\n", *[chunk] * 20, max_head=200)
    assert (body, reader.failure) == (b"a" * 20, None)


@pytest.mark.parametrize("version", [b"2.0", b"0.9"])
def test_another_version_of_http_is_refused(version: bytes) -> None:
    reader, _ = read(b"HTTP/" + version + b" 200 OK\r\ncontent-length: 0\r\n\r\n")
    assert reader.failure == f"the version HTTP/{version.decode()} is not supported"


@pytest.mark.parametrize(
    ("head", "again"),
    [
        (OK, True),
        (OK + b"Connection: x, Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\n", True),
        (OK + b"transfer-encoding: chunked\r\n", True),
    ],
)
def test_head_response_needs_no_length(head: bytes, *, again: bool) -> None:
    reader, body = read(head + b"\r\n", head_only=True)
    assert (body, reader.complete, reader.keep_alive) == (b"", True, again)
    more, _ = read(head + b"\r\nabc", head_only=True)
    assert more.surplus
