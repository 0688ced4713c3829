"""The examination of an endpoint: the checks, their order, and the judgement of each result.

The prompts and the judgement are defined here; `probe_request` sends the requests. If a check
fails, only the checks that depend on it are skipped; if the connection fails, all checks are
skipped.
"""

import difflib
import json
import math
from collections.abc import Callable, Sequence
from typing import Final, cast

from agent_actors.cli.doctor.capture import Capture
from agent_actors.cli.doctor.probe_request import EndpointProbe, ProbeResult
from agent_actors.cli.doctor.recommendations import (
    Recommendation,
    recommend_profile,
    recommend_text_calls,
    seen,
    slow,
)
from agent_actors.cli.doctor.report import CHECKS, Check, Figures, Report, Status
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, nests_deeper
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ToolSpec
from agent_actors.errors import ProviderConnectError, ProviderError, ProviderStatusError
from agent_actors.profiles.registry import builtin_profiles
from agent_actors.profiles.resolve import OPENAI_COMPATIBLE
from agent_actors.providers.error_body import looks_like_html, message_of_body

_COUNT: Final = "Count from one to thirty in English words, with commas. Say nothing else."
_ONE_CITY: Final = "What is the weather in Paris? Find out by calling get_weather."
_TWO_CITIES: Final = (
    "What is the weather in Paris, and in Tokyo? Call get_weather for both cities at once, "
    "in this one answer."
)
_WEATHER: Final = "Sunny, 21 degrees."
_TOOL: Final = ToolSpec(
    "get_weather",
    "Tell the weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city's name."}},
        "required": ["city"],
    },
)
_NO_MODEL: Final = "no-such-model-of-agent-actors-doctor"
_NO_KEY: Final = "wrong-key-of-agent-actors-doctor"
_SHOWN: Final = 300
"""Maximum number of displayed characters of an endpoint's text."""

_MS: Final = 1000.0
_INSTANT: Final = 0.1
"""Seconds. All deltas of a faster response may arrive in one read, even without buffering."""


class Examination:
    """One examination of an endpoint.

    Args:
        probe: Sends the requests.
        tell: Called with the name of the next check.

    Attributes:
        checks: The results so far, by name.
    """

    def __init__(self, probe: EndpointProbe, tell: Callable[[str], None]) -> None:
        self._probe = probe
        self._tell = tell
        self._figures = Figures()
        self._first_token: float | None = None
        self.checks: dict[str, Check] = {}

    async def examine(self) -> Report:
        """Run all checks.

        Cancellation: safe; the connection is closed.
        """
        if await self._reach() and await self._plain():
            await self._tools()
            await self._wrong_model()
            await self._wrong_key()
        return self._report()

    # The checks.

    async def _reach(self) -> bool:
        self._tell("reachable")
        try:
            capture = await self._probe.models()
        except ProviderConnectError as error:
            self._unreachable(error)
            return False
        except ProviderError as error:
            # Another path may work, which the check of the response will show.
            self._put("models", "note", f"not available: {error}")
            return True
        self._put("reachable", "works", f"HTTP {capture.status} from {self._probe.endpoint}")
        self._put("models", *_judged_models(capture, self._probe.target.model))
        return True

    async def _plain(self) -> bool:
        self._tell("answer")
        outcome = await self._probe.ask(Messages().user(_COUNT))
        answer = outcome.answer
        if outcome.capture.status:
            self._put("reachable", "works", f"HTTP {outcome.capture.status}")
        if answer is None:
            if not outcome.capture.status:
                self._unreachable(outcome.failure)
            self._fail("answer", outcome.failure)
            return False
        self._first_token = outcome.first_token
        self._figures = _figures_of(outcome, answer)
        text = answer.text.strip()
        if text:
            self._put("answer", "works", text)
        else:
            self._put("answer", "fails", f"no text; the finish reason is {answer.finish_reason!r}")
        self._put("streaming", *_judged_stream(outcome))
        self._put("usage", *_judged_usage(answer))
        self._put("reasoning", *_judged_reasoning(outcome, answer))
        return True

    async def _tools(self) -> None:
        self._tell("tool call")
        messages = Messages().user(_ONE_CITY)
        outcome = await self._probe.ask(messages, tools=(_TOOL,))
        outcome = await self._read_in_text(messages, outcome)
        answer = outcome.answer
        if answer is None:
            self._fail("tool call", outcome.failure)
            return
        calls = _calls_of(answer)
        status, detail = _judged_call(calls, answer)
        self._put("tool call", status, detail)
        if not calls:
            return
        await self._result(messages.assistant(answer.blocks), calls)
        await self._parallel()

    async def _read_in_text(self, messages: Messages, outcome: ProbeResult) -> ProbeResult:
        """Return the result; if its text contains calls, learn to read them and read it again."""
        answer = outcome.answer
        written = any(one.number == 25 for one in outcome.reading.observed_quirks)
        if answer is None or _calls_of(answer) or not written:
            return outcome
        recommendation = recommend_text_calls(answer.text, self._probe.dialect)
        if recommendation is None:
            return outcome
        self._probe.learn(recommendation)
        return await self._probe.read_again(outcome, messages, tools=(_TOOL,))

    async def _result(self, history: Messages, calls: Sequence[ToolUseBlock]) -> None:
        self._tell("tool result")
        for call in calls:
            history = history.tool(call.id, call.name, _WEATHER)
        outcome = await self._probe.ask(history, tools=(_TOOL,))
        answer = outcome.answer
        if answer is None:
            self._fail("tool result", outcome.failure)
        elif answer.text.strip():
            self._put("tool result", "works", answer.text.strip())
        elif _calls_of(answer):
            self._put("tool result", "works", "accepted; the model called the tool again")
        else:
            self._put("tool result", "fails", "accepted, but the model did not respond with text")

    async def _parallel(self) -> None:
        self._tell("parallel calls")
        outcome = await self._probe.ask(Messages().user(_TWO_CITIES), tools=(_TOOL,), parallel=True)
        if outcome.answer is None:
            self._put("parallel calls", "note", self._said(outcome.failure))
            return
        count = len(_calls_of(outcome.answer))
        if count > 1:
            self._put("parallel calls", "works", f"{count} calls in one response")
        else:
            self._put("parallel calls", "note", f"{count} calls; two were requested")

    async def _wrong_model(self) -> None:
        self._tell("wrong model")
        outcome = await self._probe.send_invalid(model=_NO_MODEL)
        failure = outcome.failure
        if isinstance(failure, ProviderStatusError):
            self._put("wrong model", "works", self._said(failure))
        elif failure is not None:
            self._put("wrong model", "note", f"not clearly rejected: {self._said(failure)}")
        else:
            self._put(
                "wrong model", "note", "every name is accepted, so a mistyped name is not noticed"
            )

    async def _wrong_key(self) -> None:
        self._tell("wrong key")
        outcome = await self._probe.send_invalid(key=_NO_KEY)
        failure = outcome.failure
        if isinstance(failure, ProviderStatusError) and failure.status in {401, 403}:
            self._put("wrong key", "works", self._said(failure))
        elif failure is not None:
            self._put("wrong key", "note", f"not clearly rejected: {self._said(failure)}")
        else:
            self._put("wrong key", "note", "every key is accepted")

    # The judgement.

    def _put(self, name: str, status: Status, detail: str) -> None:
        self.checks[name] = Check(name, status, _short(self._probe.redacted(detail)))

    def _fail(self, name: str, failure: ProviderError | None) -> None:
        self._put(name, "fails", self._said(failure))

    def _unreachable(self, failure: ProviderError | None) -> None:
        # A server without TLS waits silently for a request that never arrives.
        secure = self._probe.target.base_url.startswith("https:")
        doubt = "; does the server support https?" if secure else ""
        self._put("reachable", "fails", f"{self._said(failure)}{doubt}")

    def _said(self, failure: ProviderError | None) -> str:
        assert failure is not None  # a result without a response has an error
        return str(failure).removeprefix(f"{failure.endpoint}: ")

    def _report(self) -> Report:
        probe = self._probe
        target = probe.target
        checks = tuple(self.checks.get(name, Check(name, "untried", "")) for name in CHECKS)
        return Report(
            endpoint=probe.endpoint,
            provider=target.profile.name,
            protocol=target.profile.protocol,
            model=target.model,
            checks=checks,
            figures=self._figures,
            observed_quirks=tuple(one for _, one in sorted(probe.observed_quirks.items())),
            expected=target.profile.quirks,
            recommendations=tuple(self._recommendations()),
        )

    def _recommendations(self) -> list[Recommendation]:
        probe = self._probe
        known = seen(probe.observed_quirks, probe.dialect, cumulative=probe.cumulative)
        named = probe.target.profile is not OPENAI_COMPATIBLE
        home = [] if named else recommend_profile(probe.target.base_url, builtin_profiles())
        return [*home, *probe.recommendations, *known, *slow(self._first_token)]


def _calls_of(answer: ModelCompleted) -> list[ToolUseBlock]:
    return [block for block in answer.blocks if isinstance(block, ToolUseBlock)]


def _judged_models(capture: Capture, model: str) -> tuple[Status, str]:
    body = bytes(capture.body)
    if not 200 <= capture.status < 300:
        detail = message_of_body(body[:_SHOWN])
        return "note", f"no list of models: HTTP {capture.status} {detail}".strip()
    names = _names_in(body)
    if names is None:
        page = looks_like_html(body[:_SHOWN].decode("utf-8", "replace"))
        body_is = "a web page" if page else "something else"
        return "note", f"no list of models: the body is {body_is}"
    if model in names:
        return "works", f"{len(names)} models are listed, including {model}"
    near = difflib.get_close_matches(model, names, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return "note", f"{len(names)} models are listed, but not {model}{meant}"


def _names_in(body: bytes) -> list[str] | None:
    """Return the names in a list of models; None if the body is not such a list."""
    if nests_deeper(body, MAX_DOCUMENT_DEPTH):
        return None
    try:
        value: object = json.loads(body)
    except ValueError:
        return None
    listed = cast("dict[str, object]", value).get("data") if isinstance(value, dict) else value
    if not isinstance(listed, list):
        return None
    names: list[str] = []
    for entry in cast("list[object]", listed):
        name = cast("dict[str, object]", entry).get("id") if isinstance(entry, dict) else None
        if isinstance(name, str):
            names.append(name)
    return names


def _judged_stream(outcome: ProbeResult) -> tuple[Status, str]:
    pieces, reads = outcome.watch.pieces, outcome.capture.reads
    detail = f"{pieces} deltas in {reads} reads over {outcome.seconds:.2f} s"
    if any(one.number == 47 for one in outcome.reading.observed_quirks):
        return "note", "a stream was requested, but a single document arrived"
    if pieces < 3:
        return "note", f"nearly the complete response arrives in one delta: {detail}"
    if reads < 3 and outcome.seconds < _INSTANT:
        return "works", f"too fast to tell whether the response is buffered: {detail}"
    if reads < 3:
        return "note", f"the response is buffered and arrives at once: {detail}"
    return "works", detail


def _judged_usage(answer: ModelCompleted) -> tuple[Status, str]:
    usage = answer.usage
    detail = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    if usage.estimated or not (usage.input_tokens or usage.output_tokens):
        return "note", "not reported; tokens are estimated"
    return "works", detail


def _judged_reasoning(outcome: ProbeResult, answer: ModelCompleted) -> tuple[Status, str]:
    thoughts = sum(len(block.thinking) for block in answer.blocks if block.type == "thinking")
    field = outcome.reading.reasoning_field
    if thoughts:
        return "works", f"{thoughts} characters of thinking" + (f" in {field}" if field else "")
    return "note", "no thinking was sent"


def _judged_call(calls: Sequence[ToolUseBlock], answer: ModelCompleted) -> tuple[Status, str]:
    if not calls:
        broken = [block.error for block in answer.blocks if block.type == "tool_use_error"]
        answered = broken[0] if broken else answer.text.strip() or "nothing"
        return "fails", f"no executable call; the model sent: {answered}"
    call = calls[0]
    shown = f"{call.name}({json.dumps(call.input, ensure_ascii=False)})"
    if call.name != _TOOL.name or not isinstance(call.input.get("city"), str):
        return "fails", f"expected get_weather with a city, got {shown}"
    return "works", shown


def _figures_of(outcome: ProbeResult, answer: ModelCompleted) -> Figures:
    watch = outcome.watch
    span = watch.last - watch.first if watch.first is not None else 0.0
    tokens = 0 if answer.usage.estimated else answer.usage.output_tokens
    first = outcome.first_token
    return Figures(
        first_token_ms=None if first is None else round(first * _MS, 1),
        deltas=watch.pieces,
        reads=outcome.capture.reads,
        deltas_per_s=_rate(watch.pieces - 1, span),
        tokens_per_s=_rate(tokens, span),
    )


def _rate(count: int, seconds: float) -> float | None:
    # Over a very short time, the rate would measure this program and not the endpoint.
    if count < 1 or seconds < 0.001 or not math.isfinite(seconds):
        return None
    return round(count / seconds, 1)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
