"""Connections that cannot be established: the message of the error, and its only cause."""

import errno
import gc
import os
import resource
import socket
import ssl
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from agent_actors.abc import ByteExchange, HttpRequest
from agent_actors.errors import ConfigError, ProviderConnectError
from agent_actors.protocol.retry import judge
from agent_actors.transport.backends.httpx_exchange import HttpxExchange
from agent_actors.transport.backends.httpx_transport import EngineTransport
from agent_actors.transport.backends.native import HttpExchange
from agent_actors.transport.errors import reason_of, root_of
from agent_actors.transport.reactor import EpollReactor, use_reactor
from agent_actors.transport.tls import verifying_context
from tests.transport.asking import descriptors
from tests.transport.sinks import ByteCollector

Make = Callable[[], ByteExchange]
Trust = Callable[[str, str], None]


async def failure(make: Make, url: str) -> ProviderConnectError:
    exchange = make()
    try:
        with pytest.raises(ProviderConnectError) as caught:
            await exchange.exchange(HttpRequest(url, {}, b"{}"), ByteCollector())
    finally:
        await exchange.aclose()
    return caught.value


def engine_client() -> HttpxExchange:
    return HttpxExchange(transport=EngineTransport())


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.fixture
def port() -> Iterator[int]:
    """A port that accepts connections without using a new descriptor of this process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("make", [HttpExchange, HttpxExchange, engine_client])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "no-such-name.invalid"])
async def test_failed_connection_has_one_cause(make: Make, host: str) -> None:
    error = await failure(make, f"http://{host}:{unused_port()}/")
    assert isinstance(error.__cause__, OSError)
    shown = traceback.format_exception(error.__cause__)
    assert len(shown) == 1
    assert "Group" not in "".join(traceback.format_exception(error))
    assert str(error.__cause__) in str(error)


def test_foreign_causes_keep_their_traceback() -> None:
    """A caller's own transport may fail for a reason that only its traceback explains."""
    bug = ValueError("a bug of the caller")
    error = httpx.ConnectError("failed")
    error.__cause__ = bug
    assert root_of(error) is error
    assert reason_of(error) == "a bug of the caller"
    assert error.__cause__ is bug


@contextmanager
def no_free_descriptor(kept: int = 0) -> Generator[None]:
    """Let this process open only `kept` more files."""
    gc.collect()  # may close descriptors
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [os.dup(0) for _ in range(kept + 1)]
    for descriptor in free:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("make", [HttpExchange, HttpxExchange])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_exhausted_descriptors_are_named_and_retried(
    port: int, make: Make, host: str
) -> None:
    with no_free_descriptor():
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        error = await failure(make, f"http://{host}:{port}")
    assert f"could not connect: too many open files: this process may have {limit} " in str(error)
    assert judge(error, now=0).again


async def test_reactor_without_descriptor_closes_the_socket(port: int) -> None:
    use_reactor(EpollReactor())
    before = descriptors()
    with no_free_descriptor(1):
        error = await failure(HttpExchange, f"http://127.0.0.1:{port}")
    assert "too many open files" in str(error)
    assert descriptors() == before


def test_exhausted_system_is_named() -> None:
    full = OSError(errno.ENFILE, os.strerror(errno.ENFILE))
    assert "too many open files in the whole system" in reason_of(full)


# --- trusted certificates -------------------------------------------------------------------------


@pytest.fixture
def trust(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trust]:
    """A function that sets the variable for trusted certificates."""

    def name(variable: str, path: str) -> None:
        for one in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.delenv(one, raising=False)
        monkeypatch.setenv(variable, path)
        verifying_context.cache_clear()

    yield name
    monkeypatch.undo()
    verifying_context.cache_clear()


@pytest.mark.parametrize("make", [HttpExchange, HttpxExchange])
@pytest.mark.parametrize(
    ("variable", "kind", "reason"),
    [
        ("SSL_CERT_FILE", "missing", "cannot be read: No such file or directory"),
        ("SSL_CERT_FILE", "empty", "cannot be read: NO_CERTIFICATE_OR_CRL_FOUND"),
        ("SSL_CERT_FILE", "folder", "cannot be read: Is a directory"),
        ("SSL_CERT_DIR", "missing", "is not a readable directory"),
        ("SSL_CERT_DIR", "empty", "is not a readable directory"),
    ],
)
async def test_unreadable_trust_names_its_variable(  # noqa: PLR0917
    trust: Trust, tmp_path: Path, port: int, make: Make, variable: str, kind: str, reason: str
) -> None:
    path = tmp_path / kind
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    trust(variable, str(path))
    exchange = make()
    with pytest.raises(ConfigError) as caught:
        await exchange.exchange(
            HttpRequest(f"https://127.0.0.1:{port}", {}, b"{}"), ByteCollector()
        )
    await exchange.aclose()
    expected = f"variable {variable} names the trusted certificates, but {str(path)!r} {reason}"
    assert expected in str(caught.value)


async def test_readable_trust_is_used(trust: Trust, tmp_path: Path) -> None:
    trust("SSL_CERT_DIR", str(tmp_path))
    assert verifying_context().verify_mode == ssl.CERT_REQUIRED
    file = tmp_path / "file"
    file.touch()
    trust("SSL_CERT_FILE", str(file))
    with no_free_descriptor(), pytest.raises(OSError, match="Too many open files"):
        verifying_context()
