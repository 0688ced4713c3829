"""Adds `output.delta` events to the events that a reader of a run receives.

The events are created in the reader's task, only if the agent has an output type. A run without a
reader therefore spends no time on them.
"""

from collections.abc import Callable, Sequence
from typing import Generic, cast

import msgspec

from agent_actors.domain.events import (
    AssistantDelta,
    AssistantMessage,
    AttemptRestarted,
    Event,
    OutputDelta,
)
from agent_actors.domain.json import MAX_DEPTH, JsonValue, nests_deeper
from agent_actors.domain.run import OutputT_co, Partial
from agent_actors.protocol.response.growing_json import GrowingJson
from agent_actors.tools.output_spec import OutputSpec


class PartialOutputs(Generic[OutputT_co]):
    """The output of a run while it is streamed.

    Args:
        spec: The output type.
        new_id: Returns the id of an event.

    Attributes:
        latest: The output so far of the current response, or the output of the last response; None
            if there is none.
    """

    def __init__(self, spec: OutputSpec[OutputT_co], new_id: Callable[[], str]) -> None:
        self.latest: Partial[OutputT_co] | None = None
        self._spec = spec
        self._new_id = new_id
        self._json = GrowingJson()
        # The document of the last event, so that no event repeats it.
        self._shown = ""
        # The last delta of the response that is not contained in an event yet.
        self._delta: AssistantDelta | None = None

    def added_to(self, batch: Sequence[Event]) -> tuple[Event, ...]:
        """Return a batch with an `output.delta` event after the deltas that extend the output."""
        events: list[Event] = []
        for event in batch:
            if isinstance(event, AssistantDelta):
                self._json.feed(event.text)
                self._delta = event
            elif isinstance(event, AssistantMessage | AttemptRestarted):
                events += self._output()
                self._json, self._shown = GrowingJson(), ""
                if isinstance(event, AttemptRestarted):
                    self.latest = None
            events.append(event)
        return (*events, *self._output())

    def _output(self) -> list[Event]:
        delta, self._delta = self._delta, None
        text = "" if delta is None else self._json.completed()
        if delta is None or text == self._shown or nests_deeper(text, MAX_DEPTH):
            return []
        try:
            document = cast(JsonValue, msgspec.json.decode(text))
        except msgspec.DecodeError:
            self._json.is_json = False  # the response is not valid, and the run will say so
            return []
        self._shown = text
        self.latest = self._spec.partial(document)
        return [OutputDelta(delta.scope, self._new_id(), delta.ts, self.latest.data)]
