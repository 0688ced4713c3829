"""Request a response that matches a schema, in one of three ways that the dialect selects.

- `json_schema`: the endpoint receives the schema (`response_format`) and enforces it. If the schema
  has a strict form, that form is sent with `strict` set to true. Otherwise the schema is sent
  unchanged, with `strict` set to false.
- `json_object`: the endpoint guarantees only JSON. The schema is added after the system prompt,
  where such endpoints also require the word JSON.
- `tool`: the schema becomes the input schema of a tool that the model must call; see
  `providers/output_tool.py`.

These guarantees are not relied on: the caller validates the output. A `response_format` that the
caller passes in `extra_body` takes precedence.
"""

import json

import attrs

from agent_actors.abc import ModelSink
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import ModelCompleted, ModelRequest, OutputSchema
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.providers.output_tool import OutputTool


@attrs.frozen(eq=False)
class Asked:
    """A request as it is sent, and how to process its response.

    Attributes:
        request: The request.
        sink: The sink that receives the deltas.
        tool: The tool that requests the output; None if no tool is used.
    """

    request: ModelRequest
    sink: ModelSink
    tool: OutputTool | None = None

    def answer(self, answer: ModelCompleted) -> ModelCompleted:
        """Return the response for the caller, with the output tool's call as text."""
        return answer if self.tool is None else self.tool.answer(answer)


def ask_for_output(request: ModelRequest, sink: ModelSink, dialect: ChatDialect) -> Asked:
    """Add the schema of the requested output in the way that the endpoint supports."""
    output = request.output
    if output is None:
        return Asked(request, sink)
    if dialect.structured_output == "tool":
        tool = OutputTool.of(request, output)
        return Asked(tool.request, tool.sink(sink), tool)
    if dialect.structured_output == "json_schema":
        return Asked(_with_format(request, _json_schema(output)), sink)
    with_format = _with_format(request, {"type": "json_object"})
    prompt = "\n\n".join(filter(None, (request.system_prompt, _in_words(output))))
    return Asked(attrs.evolve(with_format, system_prompt=prompt), sink)


def _with_format(request: ModelRequest, value: JsonValue) -> ModelRequest:
    own = {"response_format": value, **request.settings.extra_body}
    return attrs.evolve(request, settings=attrs.evolve(request.settings, extra_body=own))


def _json_schema(output: OutputSchema) -> JsonValue:
    described: JsonObject = {"description": output.description} if output.description else {}
    strict = output.strict_schema
    schema: JsonObject = {
        "name": output.name,
        **described,
        "schema": output.schema if strict is None else strict,
        "strict": strict is not None,
    }
    return {"type": "json_schema", "json_schema": schema}


def _in_words(output: OutputSchema) -> str:
    return (
        "The final answer is one JSON object and nothing else. It must match this JSON Schema:\n"
        + json.dumps(output.schema, ensure_ascii=False)
    )
