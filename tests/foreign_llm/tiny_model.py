"""A language model written by hand, small enough to be created when a test starts.

The model is a GGUF file of about two megabytes for the `llama` architecture. This module does not
depend on the server that loads it. Attention and feed-forward weights are zero, so the next token
depends on the current token alone: the embedding of each token is a direction of its own, and the
output layer gives nearly all of the probability to the token that follows. The model is therefore a
chain, and a text is a path through it. A path must not cross itself or another path. A text is
therefore split so that no piece occurs twice.

The last token of the prompt selects the path, and the chat template writes that token: one after a
tool result, another if tools are offered, and a third otherwise.

Only the standard library is used, because this runs in an environment that has the servers but not
our packages. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

GREETING: Final = "Für Ж, → and 🚀, one word after the other, until it is all said."
LOOKING: Final = "I shall look."
ANSWER: Final = "Paris is warm, and Oslo is cold: there you have them both!"
CITIES: Final = ("Paris", "Oslo")

_CALLS: Final = "".join(
    f'\n<tool_call>\n{{"name": "weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'
    for city in CITIES
)
_PATHS: Final[Mapping[str, str]] = {
    "<|greet|>": GREETING,
    "<|look|>": LOOKING + _CALLS,
    "<|answer|>": ANSWER,
}
_END: Final = "<|im_end|>"

_TEMPLATE: Final = """\
{%- if tools %}<|im_start|>system
You may call functions. They are within <tools></tools>:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
For each call answer with a JSON object within <tool_call></tool_call>:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}
{{- '}\n</tool_call>' }}
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if messages[-1].role == "tool" %}<|answer|>{% elif tools %}<|look|>{% else %}<|greet|>{% endif %}
{%- endif %}"""

# The width must provide a direction for each token of a path, and one for all other tokens.
_WIDTH: Final = 256
_HEADS: Final = 4
_HIDDEN: Final = 32
_CONTEXT: Final = 4096
# After normalization a direction has length 16 (the root of the width). The next token then leads
# every other token by a factor of e to the 160th, which no requested temperature can offset.
_CERTAIN: Final = 10.0

# Types of tokens and values, with the numbers of the format.
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_ALIGNMENT: Final = 32

_Tensor = tuple[str, tuple[int, ...], "array[float]"]


def pieces(text: str, taken: frozenset[str]) -> list[str]:
    """Split the text into tokens that are not taken and do not repeat; non-ASCII becomes bytes.

    Raises:
        LookupError: The text cannot be split in this way.
    """
    if not text:
        return []
    if not text[0].isascii():
        head = [f"<0x{byte:02X}>" for byte in text[0].encode()]
        if not taken.isdisjoint(head):
            raise LookupError(text)
        return head + pieces(text[1:], taken.union(head))
    for length in (4, 3, 5, 2, 6, 7, 8, 1):
        piece = text[:length].replace(" ", "\u2581")
        if len(piece) == length and text[:length].isascii() and piece not in taken:
            try:
                return [piece, *pieces(text[length:], taken | {piece})]
            except LookupError:
                continue
    raise LookupError(text)


def vocabulary() -> tuple[list[str], list[int], list[list[str]]]:
    """Return the tokens, their kinds, and each path as tokens up to the end of the turn."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * 256
    controls = ["<|im_start|>", _END, *_PATHS]
    tokens += controls
    kinds += [_CONTROL] * len(controls)
    paths: list[list[str]] = []
    used: frozenset[str] = frozenset()
    for first, text in _PATHS.items():
        path = pieces(text, used)
        used = used.union(path)
        new = [piece for piece in path if piece not in tokens]
        tokens += new
        kinds += [_NORMAL] * len(new)
        paths.append([first, *path, _END])
    return tokens, kinds, paths


def _weights(tokens: Sequence[str], paths: Sequence[Sequence[str]]) -> list[_Tensor]:
    number = {token: at for at, token in enumerate(tokens)}
    size = (_WIDTH, len(tokens))
    embedding = array("f", bytes(4 * _WIDTH * len(tokens)))
    output = array("f", bytes(4 * _WIDTH * len(tokens)))
    steps = [step for path in paths for step in pairwise(path)]
    direction = [0] * len(tokens)
    for at, (token, following) in enumerate(steps, start=1):
        direction[number[token]] = at
        output[number[following] * _WIDTH + at] = _CERTAIN
    # A token that is on no path ends the turn.
    output[number[_END] * _WIDTH] = _CERTAIN
    for row, at in enumerate(direction):
        embedding[row * _WIDTH + at] = 1.0
    ones = array("f", [1.0]) * _WIDTH
    square = (_WIDTH, _WIDTH), array("f", bytes(4 * _WIDTH * _WIDTH))
    narrow = array("f", bytes(4 * _WIDTH * _HIDDEN))
    return [
        ("token_embd.weight", size, embedding),
        ("output_norm.weight", (_WIDTH,), ones),
        ("output.weight", size, output),
        ("blk.0.attn_norm.weight", (_WIDTH,), ones),
        ("blk.0.attn_q.weight", *square),
        ("blk.0.attn_k.weight", *square),
        ("blk.0.attn_v.weight", *square),
        ("blk.0.attn_output.weight", *square),
        ("blk.0.ffn_norm.weight", (_WIDTH,), ones),
        ("blk.0.ffn_gate.weight", (_WIDTH, _HIDDEN), narrow),
        ("blk.0.ffn_up.weight", (_WIDTH, _HIDDEN), narrow),
        ("blk.0.ffn_down.weight", (_HIDDEN, _WIDTH), narrow),
    ]


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _uint(value: int) -> bytes:
    return struct.pack("<II", _UINT32, value)


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    return struct.pack("<IIQ", _ARRAY, kind, len(items)) + b"".join(items)


def _metadata(tokens: Sequence[str], kinds: Sequence[int]) -> Iterator[tuple[str, bytes]]:
    yield "general.architecture", struct.pack("<I", _STRING) + _string("llama")
    yield "llama.context_length", _uint(_CONTEXT)
    yield "llama.embedding_length", _uint(_WIDTH)
    yield "llama.block_count", _uint(1)
    yield "llama.feed_forward_length", _uint(_HIDDEN)
    yield "llama.attention.head_count", _uint(_HEADS)
    yield "llama.attention.layer_norm_rms_epsilon", struct.pack("<If", _FLOAT32, 1e-6)
    yield "llama.rope.dimension_count", _uint(_WIDTH // _HEADS)
    yield "tokenizer.ggml.model", struct.pack("<I", _STRING) + _string("llama")
    yield "tokenizer.ggml.tokens", _list(_STRING, [_string(token) for token in tokens])
    yield "tokenizer.ggml.scores", _list(_FLOAT32, [bytes(4)] * len(tokens))
    yield "tokenizer.ggml.token_type", _list(_INT32, [struct.pack("<i", kind) for kind in kinds])
    yield "tokenizer.ggml.bos_token_id", _uint(tokens.index("<s>"))
    yield "tokenizer.ggml.eos_token_id", _uint(tokens.index(_END))
    yield "tokenizer.ggml.unknown_token_id", _uint(tokens.index("<unk>"))
    yield "tokenizer.ggml.add_bos_token", struct.pack("<I?", _BOOL, False)
    yield "tokenizer.ggml.add_space_prefix", struct.pack("<I?", _BOOL, False)
    yield "tokenizer.chat_template", struct.pack("<I", _STRING) + _string(_TEMPLATE)


def write_model(path: Path) -> None:
    """Write the model to a file.

    Raises:
        OSError: The file cannot be written.
    """
    tokens, kinds, paths = vocabulary()
    metadata = list(_metadata(tokens, kinds))
    weights = _weights(tokens, paths)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(metadata))
    head += b"".join(_string(key) + value for key, value in metadata)
    at = 0
    for name, shape, data in weights:
        head += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, at)
        at += 4 * len(data)
    head += bytes(-len(head) % _ALIGNMENT)
    # The length of every tensor is a multiple of the alignment, so that no padding is needed.
    path.write_bytes(head + b"".join(data.tobytes() for _, _, data in weights))
