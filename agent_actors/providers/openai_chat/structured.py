"""How a chat completion is asked for an answer that fits a schema: three ways, by the dialect.

- `json_schema`: the endpoint is given the schema (`response_format`) and keeps to it. `strict` is
  sent with the schema's strict form, where it has one; else it is sent as false, with the schema as
  it is.
- `json_object`: the endpoint only promises JSON. The schema is told to the model behind the system
  prompt, which is also where such endpoints want to read the word JSON.
- `tool`: the schema is that of a tool which the model has to call; see `providers/output_tool.py`.

What an endpoint promises is never relied on: whoever asked checks what came. A caller's own
`response_format`, among the further fields, wins.
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
    """A request as it is to be sent, and what its answer goes through.

    Attributes:
        request: The request.
        sink: Whom the pieces go to.
        tool: The tool by which the output is asked for; None if there is none.
    """

    request: ModelRequest
    sink: ModelSink
    tool: OutputTool | None = None

    def answer(self, answer: ModelCompleted) -> ModelCompleted:
        """The answer as whoever asked is to have it."""
        return answer if self.tool is None else self.tool.answer(answer)


def ask_for_output(request: ModelRequest, sink: ModelSink, dialect: ChatDialect) -> Asked:
    """Put what a request wants its answer to be into a form that the endpoint takes."""
    output = request.output
    if output is None:
        return Asked(request, sink)
    if dialect.structured_output == "tool":
        tool = OutputTool.of(request, output)
        return Asked(tool.request, tool.sink(sink), tool)
    if dialect.structured_output == "json_schema":
        return Asked(_with_format(request, _json_schema(output)), sink)
    told = _with_format(request, {"type": "json_object"})
    prompt = "\n\n".join(filter(None, (request.system_prompt, _in_words(output))))
    return Asked(attrs.evolve(told, system_prompt=prompt), sink)


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
        "The final answer is one JSON object and nothing else. It has to fit this JSON Schema:\n"
        + json.dumps(output.schema, ensure_ascii=False)
    )
