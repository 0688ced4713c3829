"""Fixtures for pytest: scripted models and endpoints, a runtime, a virtual clock, recorded traffic.

Enable them in the `conftest.py` at the root of the tests:

    pytest_plugins = ["agent_actors.testing.pytest_plugin"]

pytest does not load this module by itself, so that it costs other projects nothing. The fixture
`runtime` requires pytest-trio. All other fixtures work in sync tests, on trio and on asyncio.
"""

import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pytest
import trio
import trio.testing

from agent_actors.runtime.config import RuntimeArguments
from agent_actors.runtime.runtime import Runtime, open_runtime
from agent_actors.testing.endpoint import EndpointScript, ScriptedEndpoint
from agent_actors.testing.model import ModelScript, ScriptedModel
from agent_actors.testing.runs.client import recorded_client as open_recorded_client

if TYPE_CHECKING:
    import httpx

_OPTION: Final = "--record-traffic"
# Seconds; starting and stopping an endpoint takes a few milliseconds.
_PATIENCE: Final = 20.0


class MakeModel(Protocol):
    """The fixture `scripted_model`."""

    def __call__(self, script: ModelScript) -> ScriptedModel:
        """Return a model that responds according to the script."""
        ...


class StartEndpoint(Protocol):
    """The fixture `scripted_endpoint`."""

    def __call__(self, script: EndpointScript) -> ScriptedEndpoint:
        """Return an endpoint that listens until the test ends.

        The endpoint runs in a thread of its own. Its counters and requests can be read in the test.
        Its methods cannot be called there.
        """
        ...


class UseRecording(Protocol):
    """The fixture `recorded_client`."""

    def __call__(self, *, record: str | Path | None = None) -> "httpx.AsyncClient":
        """Return a client for `http_client=` that plays recorded traffic.

        Args:
            record: The file, relative to the test's module; None: `recordings/` and the names of
                the module and the test.
        """
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records traffic."""
    parser.addoption(
        _OPTION,
        action="store_true",
        help="send the requests of the fixture recorded_client to the endpoints, and record them",
    )


@pytest.fixture
def scripted_model() -> Generator[MakeModel]:
    """Make models that respond according to a script; check that all of their streams have ended.

    Example:
        `model = scripted_model([call("now"), "It is noon."])`
    """
    models: list[ScriptedModel] = []

    def make(script: ModelScript) -> ScriptedModel:
        models.append(ScriptedModel(script))
        return models[-1]

    yield make
    live = sum(model.live for model in models)
    assert not live, f"{live} streams of scripted models are still active after the test"


@pytest.fixture
def scripted_endpoint() -> Generator[StartEndpoint]:
    """Start endpoints on loopback that respond according to a script; stop them after the test.

    A request without a reply in the script, and an exception of the script, fail the test.

    Example:
        `endpoint = scripted_endpoint([status(503), "It is noon."])`
    """
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(_serving(script))


@pytest.fixture
def recorded_client(request: pytest.FixtureRequest) -> Generator[UseRecording]:
    """Make HTTP clients that play recorded traffic, or record it with `--record-traffic`."""
    live = bool(request.config.getoption(_OPTION))
    module = Path(request.path)

    def use(*, record: str | Path | None = None) -> "httpx.AsyncClient":
        name = record or f"recordings/{module.stem}.{request.node.name}.json"
        return stack.enter_context(open_recorded_client(record=module.parent / name, live=live))

    with ExitStack() as stack:
        yield use


@pytest.fixture
def virtual_clock() -> trio.testing.MockClock:
    """Skip all waiting times of a trio test; sockets and threads need the real clock."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.fixture
def runtime_options() -> RuntimeArguments:
    """Return the arguments of the fixture `runtime`; a test can override this fixture."""
    return {}


@pytest.fixture
async def runtime(runtime_options: RuntimeArguments) -> AsyncGenerator[Runtime]:
    """Open a runtime for a trio test; check that the test leaves no live run."""
    async with open_runtime(**runtime_options) as opened:
        yield opened
        live = opened.statistics().runs
        assert not live, f"{live} runs are still live after the test; await or cancel them"


@contextmanager
def _serving(script: EndpointScript) -> Generator[ScriptedEndpoint]:
    """Run an endpoint in a thread."""
    endpoint = ScriptedEndpoint(script)
    stop = trio.Event()
    ready = threading.Event()
    tokens: list[trio.lowlevel.TrioToken] = []
    failures: list[BaseException] = []

    async def serve() -> None:
        async with endpoint:
            tokens.append(trio.lowlevel.current_trio_token())
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as failure:  # noqa: BLE001, ASYNC103 - raised in the test's thread
            failures.append(failure)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="scripted endpoint", daemon=True)
    thread.start()
    ready.wait(_PATIENCE)
    try:
        if tokens:
            yield endpoint
    finally:
        for token in tokens:
            token.run_sync_soon(stop.set)
        thread.join(_PATIENCE)
    for failure in failures:
        raise failure
