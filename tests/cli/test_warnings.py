"""Warnings of the library on the command line."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from agent_actors.cli.app import dispatch

LOG = logging.getLogger("agent_actors.stores.jsonl")


@pytest.mark.parametrize(
    ("warn", "shown"),
    [
        (partial(LOG.warning, "\x1b[31m%s\nis new", "x"), "warning: \ufffd[31mx is new\n"),
        (partial(LOG.warning, "a hook raised", exc_info=ValueError("x")), ""),
        (partial(LOG.info, "no news"), ""),
    ],
)
def test_warnings_are_single_lines(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    warn: Callable[[], None],
    shown: str,
) -> None:
    def command(_: Sequence[str]) -> None:
        warn()

    monkeypatch.setattr("agent_actors.cli.app.app", command)
    assert dispatch([]) == 0
    assert capsys.readouterr().err == shown
    assert not logging.getLogger("agent_actors").handlers
