"""Run flake8-async with its arguments, and compute the positions in a file only once.

    python -m scripts.async_pass --enable=ASYNC1 FILES

flake8-async has several visitors per file. Because a visitor may rewrite the code, flake8-async
computes the positions of all nodes again before each visitor, which takes most of the time. The
checks of this project rewrite nothing, so that all visitors can share the positions.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Protocol

from libcst import CSTTransformer, MetadataWrapper, Module


class _Visitor(CSTTransformer):
    noqas: dict[int, set[str]]


class _State(Protocol):
    problems: list[object]


class _Runner(Protocol):
    """The part of `flake8_async.runner.Flake8AsyncRunner_cst` that its method `run` uses."""

    module: Module
    state: _State
    noqas: dict[int, set[str]]
    utility_visitors: Sequence[_Visitor]
    visitors: Sequence[_Visitor]


def run(self: _Runner) -> list[object]:
    """Run all visitors over the same tree. Replaces the method of flake8-async."""
    # The copy would guard against a tree that contains a node twice; the parser makes none.
    tree = MetadataWrapper(self.module, unsafe_skip_copy=True)
    for visitor in (*self.utility_visitors, *self.visitors):
        tree.visit(visitor)
        self.noqas = visitor.noqas
    return self.state.problems


def main() -> int:
    """Check the files named on the command line. Return 0 if all files are clean."""
    if any(argument.startswith("--autofix") for argument in sys.argv):
        raise ValueError("files cannot be rewritten in one pass; run flake8-async instead")
    importlib.import_module("flake8_async.runner").Flake8AsyncRunner_cst.run = run
    status: int = importlib.import_module("flake8_async").main()
    return status


if __name__ == "__main__":
    sys.exit(main())
