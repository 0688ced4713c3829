"""Throughput of the pure decoders on the hot path, in MB/s: SSE alone, and SSE with assembly."""

import time
from collections.abc import Callable
from typing import Final

from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelRequest, ModelSettings
from agent_actors.protocol.sse import SSEDecoder
from agent_actors.providers.openai_chat.response import ChatResponseParser
from benchmarks.endpoint import pin
from benchmarks.record import QUICK, report, take_turns

READS: Final = 100 if QUICK else 1000
PER_READ: Final = 50

_EVENT: Final = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"word%d "},"finish_reason":null}]}\n\n'
)


def main() -> None:
    """Run the benchmark."""
    pin(0)
    reads = [
        b"".join(_EVENT % number for number in range(at, at + PER_READ))
        for at in range(0, READS * PER_READ, PER_READ)
    ]
    size = sum(map(len, reads))
    request = ModelRequest(Messages().user("Go."), ModelSettings("m"))

    def throughput(feed: Callable[[bytes], object]) -> float:
        began = time.process_time()
        for read in reads:
            feed(read)
        return size / (time.process_time() - began) / 1e6

    contenders = {
        "SSE": lambda: throughput(SSEDecoder().feed),
        "SSE, chunks and assembly": lambda: throughput(
            ChatResponseParser(request, endpoint="x").feed
        ),
    }
    report("codecs", "Throughput of the pure decoders", "MB/s", take_turns(contenders))


if __name__ == "__main__":
    main()
