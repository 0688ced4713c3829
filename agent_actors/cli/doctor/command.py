"""The work of `agent-actors doctor`: examine the endpoint, show the report, return the status."""

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
        trying: The name of the current check.
        report: The report; None before the end.
    """

    options: AgentOptions
    timeout: float
    trying: str = ""
    report: Report | None = None

    async def work(self) -> int:
        """Examine the endpoint.

        Returns:
            The exit status: 0 if an agent can use the endpoint.

        Raises:
            ConfigError: The URL is not valid.

        Cancellation: safe; the connections are closed.
        """
        target = self.options.resolved
        assert target is not None  # the command line never passes a provider object
        split_base_url(target.base_url, example="http://localhost:1234/v1")
        exchange = CapturingExchange(
            make_exchange(target.base_url, connect_timeout=self.options.connect_timeout)
        )
        try:
            probe = EndpointProbe(target, exchange, timeout=self.timeout)
            self.report = await Examination(probe, self._tell).examine()
        finally:
            await exchange.aclose()  # noqa: ASYNC102 - it does not block
        return 0 if self.report.usable else FAILED

    def look(self) -> str:
        """Return the name of the current check."""
        return self.trying

    def _tell(self, name: str) -> None:
        self.trying = name


async def examine(options: AgentOptions, *, timeout: float, as_json: bool) -> int:  # noqa: ASYNC109 - the limit of each request; the probe enforces it
    """Examine an endpoint and show the report.

    Args:
        options: The agent that would use the endpoint.
        timeout: Seconds for each request.
        as_json: True: print one JSON object and nothing else.

    Returns:
        The exit status: 0 if an agent can use the endpoint.

    Cancellation: safe; the connections are closed.
    """
    console = Console()
    doctor = Doctor(options, timeout)
    live = console.is_terminal and not as_json
    alongside = [partial(show_progress, console, doctor.look)] if live else []
    status = await complete(doctor.work, alongside=alongside)
    if doctor.report is None:
        return status
    if as_json:
        sys.stdout.write(json.dumps(doctor.report.as_json()) + "\n")
    else:
        show(console, doctor.report)
    return status
