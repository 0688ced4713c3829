"""The order of `agent-actors doctor`: settle where to ask, examine, show, and come to a status."""

import json
import sys
from functools import partial

import attrs
from rich.console import Console

from agent_actors import AgentOptions
from agent_actors.cli.doctor.capture import CapturingExchange
from agent_actors.cli.doctor.probe_request import EndpointProbe
from agent_actors.cli.doctor.probes import Examination
from agent_actors.cli.doctor.render import show, show_progress
from agent_actors.cli.doctor.report import Report
from agent_actors.cli.outcome import FAILED, complete
from agent_actors.providers.base_url import split_base_url
from agent_actors.transport.backends.select import make_exchange


@attrs.define(eq=False)
class Doctor:
    """One run of the command.

    Args:
        options: The agent that would use the endpoint.
        timeout: Seconds for each request.

    Attributes:
        trying: What is tried now.
        report: What was found; None before the end.
    """

    options: AgentOptions
    timeout: float
    trying: str = ""
    report: Report | None = None

    async def work(self) -> int:
        """Examine the endpoint.

        Returns:
            The exit status: 0 if an agent can work with it.

        Raises:
            ConfigError: Its URL is none.

        Cancellation: safe; the connections are closed.
        """
        target = self.options.resolved
        assert target is not None  # the command line makes no providers of its own
        split_base_url(target.base_url, example="http://localhost:1234/v1")
        exchange = CapturingExchange(
            make_exchange(target.base_url, connect_timeout=self.options.connect_timeout)
        )
        try:
            probe = EndpointProbe(target, exchange, timeout=self.timeout)
            self.report = await Examination(probe, self._tell).examine()
        finally:
            await exchange.aclose()  # noqa: ASYNC102 - it waits for nobody
        return 0 if self.report.usable else FAILED

    def look(self) -> str:
        """What is tried now."""
        return self.trying

    def _tell(self, name: str) -> None:
        self.trying = name


async def examine(options: AgentOptions, *, timeout: float, as_json: bool) -> int:  # noqa: ASYNC109 - the bound of each request, carried out by whoever asks
    """Examine an endpoint and show what was found.

    Args:
        options: The agent that would use it.
        timeout: Seconds for each request.
        as_json: Print one JSON object, and nothing else.

    Returns:
        The exit status: 0 if an agent can work with it.

    Cancellation: safe; the connections are closed.
    """
    console = Console()
    doctor = Doctor(options, timeout)
    live = console.is_terminal and not as_json
    beside = [partial(show_progress, console, doctor.look)] if live else []
    status = await complete(doctor.work, beside=beside)
    if doctor.report is None:
        return status
    if as_json:
        sys.stdout.write(json.dumps(doctor.report.as_json()) + "\n")
    else:
        show(console, doctor.report)
    return status
