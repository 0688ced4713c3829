"""llama.cpp's own HTTP server with the model of `tiny_model`: `python -m … llama_server FILE`.

This program runs in the environment of the servers, which has xllamacpp, the server as a Python
extension. It writes the model to FILE, prints the server's address, and serves until it is killed.
"""

import importlib
import signal
import sys
from pathlib import Path

from tests.foreign_llm.tiny_model import write_model


def main() -> None:
    path = Path(sys.argv[1])
    write_model(path)
    # Imported by name because the tools that check this file run without this package.
    llama = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(path)
    params.port = 0
    params.n_ctx = 8192
    params.n_parallel = 4
    params.cpuparams.n_threads = 1
    params.warmup = False
    server = llama.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - the parent process reads it
    signal.pause()


if __name__ == "__main__":
    main()
