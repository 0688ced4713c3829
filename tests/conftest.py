"""Setup for all tests: Hypothesis profiles, and a guard against leaked resources."""

import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import program_helpers, thread_clock
from tests.conventions.leaks import Snapshot

# A shell starts background jobs with SIGINT ignored. Programs that tests start and interrupt would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Options read these variables; tests must not use a developer's own endpoint.
for name in [name for name in os.environ if name.startswith("AGENT_ACTORS_")]:
    del os.environ[name]

# Programs that tests start import `children/sitecustomize.py`, which makes warnings of the package
# errors.
CHILDREN = str(Path(__file__).with_name("children"))
os.environ["PYTHONPATH"] = os.pathsep.join(
    dict.fromkeys([CHILDREN, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
)

# The suite behaves the same on every machine and in every run, and a slow machine does not fail it.
# "deep" is for `make test-deep`: each run uses new random examples, and .hypothesis stores failing
# ones.
settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    print_blob=True,
    # On a new interpreter, Hypothesis first builds its character table, during whichever test needs
    # it.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("default"))
# The profile for the first pass of `make mutation`; the second pass uses the default.
settings.register_profile("mutation", settings.get_profile("default"), max_examples=10)
settings.register_profile(
    "deep",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Turn off tracing during tests that are marked `no_cover`.

    pytest-cov pauses only one measurement; a worker of xdist has two, and the other would continue.
    """
    tracer = sys.gettrace()
    untraced = item.get_closest_marker("no_cover") is not None
    if untraced:
        sys.settrace(None)
    try:
        return (yield)
    finally:
        if untraced:
            sys.settrace(tracer)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many conformance checks passed, and the results of the store crash tests."""
    held = sum(
        value
        for report in terminalreporter.getreports("passed")
        for name, value in getattr(report, "user_properties", ())
        if name == "conformance_examples"
    )
    if held:
        terminalreporter.write_line(f"the conformance checks passed for {held:,} random examples")
    for report in terminalreporter.getreports("passed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == "crash_table":
                terminalreporter.write_line(str(value))


@pytest.fixture(scope="session", autouse=True)
def only_forks_are_measured() -> Iterator[None]:
    """Measure coverage only in tests and in programs that `program_helpers` starts."""
    with program_helpers.measuring_only_forks():
        yield


@pytest.fixture(scope="session", autouse=True)
def clocks_wait_for_threads() -> Iterator[None]:
    """Keep a mock clock from jumping past a deadline while a worker thread runs."""
    with thread_clock.waiting_for_threads():
        yield


@pytest.fixture(scope="session")
def fork_server() -> Iterator[None]:
    """Run the server that starts programs for `program_helpers`.

    The server belongs to the session, so that the check of leaked resources finds it already there.
    """
    with program_helpers.serving():
        yield


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a socket, a thread or a child process behind."""
    before = Snapshot.take()
    yield
    left = before.left_behind()
    if left:
        pytest.fail("left behind: " + "; ".join(left), pytrace=False)
