"""The doctor examines endpoints of many kinds over real sockets."""

from functools import partial

import attrs
import pytest
import trio

from agent_actors.cli.doctor.capture import Capture, Stopwatch
from agent_actors.cli.doctor.probe_request import ProbeResult
from agent_actors.cli.doctor.probes import _judged_stream
from agent_actors.cli.doctor.report import CHECKS
from agent_actors.cli.doctor.stream_quirks import ResponseFindings
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.profiles.profile import ProviderProfile
from agent_actors.profiles.registry import builtin_profiles
from agent_actors.testing import (
    EndpointRequest,
    Reply,
    ReplyTurn,
    ScriptedEndpoint,
    Step,
    body,
    call,
    finish,
    hang_up,
    html,
    in_band_error,
    reply,
    say,
    silent,
    status,
    usage,
)
from agent_actors.testing.conformance.quirks_chat import CHAT_QUIRKS
from tests.cli.doctor.helpers import (
    KEY,
    LAST,
    ONE,
    PLAIN,
    TWO,
    as_reply,
    checks_of,
    examined,
    good,
    statuses,
)
from tests.cli.helpers import PATIENCE


async def test_capable_endpoint_passes_every_check() -> None:
    tried: list[str] = []
    async with ScriptedEndpoint(good) as endpoint:
        report = await examined(endpoint.base_url, tell=tried.append)

    assert statuses(report) == dict.fromkeys(CHECKS, "works")
    assert report.usable
    assert (report.observed_quirks, report.recommendations) == ((), ())
    told = {name: check.detail for name, check in checks_of(report).items()}
    assert told["models"] == "1 models are listed, including scripted"
    assert told["answer"] == "one, two, three, four, five."
    assert told["usage"] == "7 tokens in, 9 out"
    assert told["reasoning"] == "18 characters of thinking in reasoning_content"
    assert told["tool call"] == 'get_weather({"city": "Paris"})'
    assert told["tool result"] == "It is sunny in Paris."
    assert told["parallel calls"] == "2 calls in one response"
    assert told["wrong model"] == "HTTP 404: there is no such model"
    assert told["wrong key"] == "HTTP 401: this is no key of ours"
    assert report.figures.deltas == 7
    assert report.figures.first_token_ms is not None
    assert tried == ["reachable", "answer", *CHECKS[6:]]


async def test_anthropics_protocol_is_examined_too() -> None:
    async with ScriptedEndpoint(good) as endpoint:
        report = await examined(endpoint.base_url, profile=builtin_profiles()["anthropic"])

    assert report.usable
    assert (report.protocol, report.observed_quirks) == ("anthropic", ())
    assert set(statuses(report).values()) == {"works"}
    listing = endpoint.requests[0]
    assert (listing.path, listing.headers["x-api-key"]) == ("/v1/models", KEY)


async def test_model_list_request_carries_the_key() -> None:
    profile = ProviderProfile(name="mine", api_key_header="x-mine")
    async with ScriptedEndpoint(good) as endpoint:
        await examined(f"{endpoint.base_url}/chat/completions", profile=profile)

    listing = endpoint.requests[0]
    assert (listing.path, listing.headers["x-mine"]) == ("/v1/models", KEY)


READABLE = [name for name, quirk in CHAT_QUIRKS.quirks.items() if quirk.outcome == "same"]


@pytest.mark.parametrize("name", READABLE)
async def test_quirk_is_reported_by_number_without_harm(name: str) -> None:
    quirk = CHAT_QUIRKS.quirks[name]

    def render(steps: tuple[Step, ...]) -> Reply:
        turn = (*steps, usage(7, 9))
        return body(CHAT_QUIRKS.distorted(turn, [name]).body, framing="chunked", split=[60])

    async with ScriptedEndpoint(partial(good, render=render)) as endpoint:
        report = await examined(endpoint.base_url)

    # `id_is_name` needs tools with different names, and a damaged line may have been part of a
    # call, so
    # no call in these responses runs.
    assert report.usable == (name not in {"id_is_name", "junk_lines"})
    found = {one.number for one in report.observed_quirks}
    # Some quirks do not show in these responses: they need a call without parameters, a character
    # outside the Basic Multilingual Plane, or a call id that the doctor has seen before.
    rare = {"arguments_empty", "arguments_absent", "arguments_null", "split_characters", "id_known"}
    if quirk.number and name not in rare:
        assert quirk.number in found


def picky(request: EndpointRequest) -> ReplyTurn:
    if "max_tokens" in request.body:
        error = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return status(400, {"error": {"message": error}})
    if "stream_options" in request.body:
        return status(422, {"error": {"message": "stream_options: Extra inputs not permitted"}})
    if "temperature" in request.body:
        return status(400, {"error": {"message": "`temperature` is deprecated for this model."}})
    if "parallel_tool_calls" in request.body:
        return status(400, {"error": {"message": 'Unknown name "parallel_tool_calls"'}})
    return good(request)


async def test_refused_features_are_left_out_and_reported() -> None:
    async with ScriptedEndpoint(picky) as endpoint:
        report = await examined(endpoint.base_url)

    assert report.usable
    assert {one.name: one.value for one in report.recommendations} == {
        "max_tokens_field": "max_completion_tokens",
        "include_usage": False,
        "refuses": ("parallel_tool_calls", "temperature"),
    }


async def test_required_echoes_and_short_ids_are_detected() -> None:
    def strict(request: EndpointRequest) -> ReplyTurn:
        said = [one for one in request.messages if one.get("role") == "assistant"]
        for one in said:
            if "reasoning_content" not in one:
                error = "The reasoning_content in the thinking mode must be passed back."
                return status(400, {"error": {"message": error}})
        if any(len(str(result["tool_call_id"])) != 9 for result in request.new_results):
            error = "Tool call id must be a-z, A-Z, 0-9, with a length of 9."
            return status(400, {"message": error})
        return good(request, lambda steps: as_reply((PLAIN[0], *steps)))

    async with ScriptedEndpoint(strict) as endpoint:
        report = await examined(endpoint.base_url)

    assert report.usable
    assert {one.name: one.value for one in report.recommendations} == {
        "echo_reasoning": "reasoning_content",
        "short_call_ids": True,
    }


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
            "tags",
        ),
        (
            '<|channel|>commentary to=functions.get_weather<|message|>{"city": "Paris"}',
            "harmony",
        ),
    ],
)
async def test_inline_calls_are_read_once_known(written: str, kind: str) -> None:
    def in_text(request: EndpointRequest) -> ReplyTurn:
        calls = request.tool_names and not request.new_results
        return good(request, lambda steps: as_reply((say(written),) if calls else steps))

    async with ScriptedEndpoint(in_text) as endpoint:
        report = await examined(endpoint.base_url)

    assert report.usable
    assert {one.name: one.value for one in report.recommendations} == {"text_tool_calls": kind}
    assert [one.number for one in report.observed_quirks] == [25]
    asked = [one.messages for one in endpoint.requests]
    assert all(one not in asked[:number] for number, one in enumerate(asked) if len(one) > 1)
    assert sum(len(one) == 1 and "in Paris?" in str(one) for one in asked) == 1


async def test_repeated_text_recommends_a_setting() -> None:
    def render(steps: tuple[Step, ...]) -> Reply:
        return body(CHAT_QUIRKS.distorted(steps, ["cumulative"]).body)

    async with ScriptedEndpoint(partial(good, render=render)) as endpoint:
        report = await examined(endpoint.base_url)

    assert {one.name: one.value for one in report.recommendations} == {"cumulative": True}


async def test_model_without_tool_calls_is_unsuitable() -> None:
    def talker(request: EndpointRequest) -> ReplyTurn:
        return good(request, lambda _: as_reply(LAST))

    async with ScriptedEndpoint(talker) as endpoint:
        report = await examined(endpoint.base_url)

    assert not report.usable
    found = statuses(report)
    assert (found["answer"], found["tool call"], found["tool result"]) == (
        "works",
        "fails",
        "untried",
    )
    assert found["wrong key"] == "works"
    assert "the model sent: It is sunny in Paris." in checks_of(report)["tool call"].detail


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((call("get_weather", {"town": "Paris"}),), "expected get_weather with a city"),
        ((call("search", {"city": "Paris"}),), "expected get_weather with a city, got search("),
        ((call("get_weather", '{"city": '),), "no executable call"),
        ((), "no executable call; the model sent: nothing"),
    ],
)
async def test_unexpected_call_is_reported(steps: tuple[Step, ...], expected: str) -> None:
    def other(request: EndpointRequest) -> ReplyTurn:
        return good(request, lambda usual: as_reply(steps if usual is ONE else usual))

    async with ScriptedEndpoint(other) as endpoint:
        report = await examined(endpoint.base_url)

    assert not report.usable
    assert statuses(report)["tool call"] == "fails"
    assert expected in checks_of(report)["tool call"].detail


@pytest.mark.parametrize(
    ("last", "state", "expected"),
    [
        (reply(), "fails", "did not respond with text"),
        (as_reply(ONE[1:]), "works", "the model called the tool again"),
        (status(500, "no\ntools"), "fails", "HTTP 500: no tools"),
        (reply("A", in_band_error("out of memory")), "fails", "out of memory"),
    ],
)
async def test_response_to_tool_result_is_checked(last: Reply, state: str, expected: str) -> None:
    def forgetful(request: EndpointRequest) -> ReplyTurn:
        return last if request.new_results else good(request)

    async with ScriptedEndpoint(forgetful) as endpoint:
        report = await examined(endpoint.base_url)

    check = checks_of(report)["tool result"]
    assert (check.status, report.usable) == (state, state == "works")
    assert expected in check.detail


@pytest.mark.parametrize(
    ("several", "expected"),
    [(as_reply(ONE), "1 calls; two were requested"), (status(500), "HTTP 500")],
)
async def test_calls_one_by_one_are_enough(several: Reply, expected: str) -> None:
    def one_by_one(request: EndpointRequest) -> ReplyTurn:
        return several if "Tokyo" in request.last_content else good(request)

    async with ScriptedEndpoint(one_by_one) as endpoint:
        report = await examined(endpoint.base_url)

    check = checks_of(report)["parallel calls"]
    assert (check.status, report.usable) == ("note", True)
    assert expected in check.detail


async def test_endpoint_accepting_any_key_is_reported() -> None:
    def lax(request: EndpointRequest) -> ReplyTurn:
        return good(attrs.evolve(request, headers={}, body={**request.body, "model": "m"}))

    async with ScriptedEndpoint(lax) as endpoint:
        report = await examined(endpoint.base_url)

    found = checks_of(report)
    assert (found["wrong model"].status, found["wrong key"].status) == ("note", "note")
    assert found["wrong key"].detail == "every key is accepted"


async def test_unclear_rejections_are_reported() -> None:
    def odd(request: EndpointRequest) -> ReplyTurn:
        answer = good(request)
        if answer.status == 404:
            return html()
        return status(500, {"message": f"no {KEY}"}) if answer.status == 401 else answer

    async with ScriptedEndpoint(odd) as endpoint:
        report = await examined(endpoint.base_url)

    found = checks_of(report)
    assert "not clearly rejected: expected an event stream" in found["wrong model"].detail
    # A key that the endpoint repeats is not shown.
    assert found["wrong key"].detail == "not clearly rejected: HTTP 500: no [redacted]"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (html(), "got an HTML page"),
        (status(401, {"error": {"message": f"bad key {KEY}"}}), "HTTP 401: bad key [redacted]"),
        (status(503), "HTTP 503"),
        (body(b'{"no": "completion"}'), "JSON that is not a chat completion"),
        (reply(in_band_error("out of memory")), "out of memory"),
        (reply(finish("length")), "no text; the finish reason is 'length'"),
        (hang_up(), "connection"),
    ],
)
async def test_missing_plain_response_stops_the_examination(answer: Reply, expected: str) -> None:
    async with ScriptedEndpoint(lambda _: answer) as endpoint:
        report = await examined(endpoint.base_url)

    check = checks_of(report)["answer"]
    assert (check.status, report.usable) == ("fails", False)
    assert expected in check.detail


@pytest.mark.parametrize("answer", [status(400, {"message": "no tools here"}), status(500)])
async def test_endpoint_refusing_tools_is_reported(answer: Reply) -> None:
    def script(request: EndpointRequest) -> ReplyTurn:
        return answer if request.tool_names else good(request)

    async with ScriptedEndpoint(script) as endpoint:
        report = await examined(endpoint.base_url)

    assert f"HTTP {answer.status}" in checks_of(report)["tool call"].detail
    assert not report.usable


async def test_ever_changing_refusals_are_bounded() -> None:
    def moody(request: EndpointRequest) -> ReplyTurn:
        field = "max_tokens" if "max_tokens" in request.body else "max_completion_tokens"
        return status(400, {"message": f"not {field}"})

    async with ScriptedEndpoint(moody) as endpoint:
        report = await examined(endpoint.base_url)

    assert not report.usable
    assert report.recommendations == ()
    fields = [[k for k in one.body if k.startswith("max_")] for one in endpoint.requests[1:]]
    assert fields == [["max_tokens"], ["max_completion_tokens"]]


async def test_anthropic_question_is_asked_once() -> None:
    def strict(request: EndpointRequest) -> ReplyTurn:
        return status(400, {"error": {"message": "max_tokens: 2048 > 1024"}})

    async with ScriptedEndpoint(strict) as endpoint:
        await examined(endpoint.base_url, profile=builtin_profiles()["anthropic"])
    assert [one.method for one in endpoint.requests] == ["GET", "POST"]


async def test_known_inline_calls_are_not_probed_again() -> None:
    broken = as_reply((say("<tool_call> get_weather </tool_call>"),))

    def script(request: EndpointRequest) -> ReplyTurn:
        return good(request, lambda steps: broken if request.tool_names else as_reply(steps))

    profile = ProviderProfile(name="mine", dialect=ChatDialect(text_tool_calls="tags"))
    async with ScriptedEndpoint(script) as endpoint:
        report = await examined(endpoint.base_url, profile=profile)

    assert (report.usable, report.recommendations) == (False, ())
    assert len([one for one in endpoint.requests if one.tool_names]) == 1


async def test_cancelled_probe_closes_its_connection() -> None:
    with trio.fail_after(PATIENCE):
        async with ScriptedEndpoint(lambda _: silent()) as endpoint, trio.open_nursery() as nursery:
            nursery.start_soon(examined, endpoint.base_url)
            await endpoint.wait_requests(2)
            nursery.cancel_scope.cancel()
        assert endpoint.open_connections == 0


async def test_instant_or_document_responses_are_noted() -> None:
    async def detail_of(render: Reply) -> str:
        def script(request: EndpointRequest) -> ReplyTurn:
            return render if not request.tool_names else good(request)

        async with ScriptedEndpoint(script) as endpoint:
            return checks_of(await examined(endpoint.base_url))["streaming"].detail

    assert "nearly the complete response" in await detail_of(reply("One, two."))
    assert "a single document arrived" in await detail_of(
        body(CHAT_QUIRKS.distorted(PLAIN, ["whole_document"]).body)
    )


@pytest.mark.parametrize(
    ("reads", "seconds", "state", "detail"),
    [
        (1, 0.02, "works", "too fast to tell whether the response is buffered"),
        (1, 2.0, "note", "the response is buffered and arrives at once"),
        (9, 2.0, "works", "9 deltas in 9 reads over 2.00 s"),
    ],
)
async def test_only_slow_responses_count_as_buffered(
    reads: int, seconds: float, state: str, detail: str
) -> None:
    watch = Stopwatch()
    watch.pieces = 9
    outcome = ProbeResult(None, None, Capture(reads=reads), watch, seconds, ResponseFindings())
    found = _judged_stream(outcome)
    assert (found[0], found[1].startswith(detail)) == (state, True)


async def test_without_counts_or_thoughts_that_is_noted() -> None:
    def script(request: EndpointRequest) -> ReplyTurn:
        return good(request, lambda steps: reply(*steps[-1:] if steps is PLAIN else steps))

    async with ScriptedEndpoint(script) as endpoint:
        report = await examined(
            endpoint.base_url,
            profile=ProviderProfile(name="mine", dialect=ChatDialect(include_usage=False)),
        )

    found = checks_of(report)
    assert (found["usage"].status, found["reasoning"].status) == ("note", "note")
    assert report.usable


async def test_matching_profile_is_proposed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedEndpoint(good) as endpoint:
        there = attrs.evolve(builtin_profiles()["vllm"], base_url=endpoint.base_url)
        monkeypatch.setattr(
            "agent_actors.cli.doctor.probes.builtin_profiles", lambda: {"vllm": there}
        )
        unnamed = await examined(endpoint.base_url)
        named = await examined(endpoint.base_url, profile=there)

    assert [(one.place, one.name, one.value) for one in unnamed.recommendations] == [
        ("option", "provider", "vllm")
    ]
    assert named.recommendations == ()
    assert named.expected == there.quirks


async def test_calls_of_later_responses_are_recognized() -> None:
    same = call("get_weather", {"city": "Paris"}, split=[3], id="always-this")

    def script(request: EndpointRequest) -> ReplyTurn:
        return good(request, lambda steps: as_reply((same,) if steps in (ONE, TWO) else steps))

    async with ScriptedEndpoint(script) as endpoint:
        report = await examined(endpoint.base_url)

    assert [one.number for one in report.observed_quirks] == [22]
