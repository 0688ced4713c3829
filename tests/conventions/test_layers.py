"""Imports go downward only, and each outside package is imported only where it is allowed."""

import ast
import textwrap

import pytest

from tests.conventions.layers import ADAPTERS, LAYERS, RANKS, imports, violations
from tests.conventions.tree import library_files, read


def test_imports_point_downward() -> None:
    bad = [found for path in library_files() for found in violations(path, read(path))]
    assert not bad, "\n".join(bad)


def test_every_package_has_one_rank() -> None:
    names = [name for layer in LAYERS for name in layer.packages]
    assert len(names) == len(set(names)) == len(RANKS)
    assert set(names) > ADAPTERS
    assert RANKS["cli"] > RANKS["runtime"] > RANKS["abc"] > RANKS["domain"] > RANKS["errors"]


def of(path: str, source: str) -> list[str]:
    return violations(f"agent_actors/{path}", textwrap.dedent(source))


@pytest.mark.parametrize(
    ("path", "source", "reason"),
    [
        ("domain/x.py", "from agent_actors.codec import events", "domain is below codec"),
        ("domain/x.py", "from agent_actors import codec", "domain is below codec"),
        ("domain/x.py", "import agent_actors.codec.events", "domain is below codec"),
        ("runtime/x.py", "import agent_actors", "runtime is below __init__"),
        ("runtime/x.py", "from agent_actors import open_runtime", "runtime is below __init__"),
        ("runtime/x.py", "from agent_actors.testing import y", "runtime is below testing"),
        ("asyncio/x.py", "from agent_actors.testing import y", "must not import each other"),
        ("abc.py", "def f():\n    import agent_actors.transport.x", "abc is below transport"),
        ("codec/x.py", "import_module('agent_actors.hooks')", "codec is below hooks"),
        ("sessions/x.py", "from agent_actors.project import y", "must not import each other"),
        ("actors/x.py", "from agent_actors.providers import y", "must not import each other"),
        ("mcp/x.py", "from agent_actors.toolbox import y", "must not import each other"),
        ("domain/x.py", "from agent_actors.utils import y", "'utils' is in no layer"),
        ("utils/x.py", "", "'utils' is in no layer"),
        ("codec/x.py", "from .schema import y", "relative import"),
        ("runs/driver.py", "from agent_actors.providers.openai_chat import client", "only agent_"),
        ("protocol/x.py", "import trio", "must not import trio"),
        ("protocol/x.py", "import os.path", "must not import os"),
        ("protocol/x.py", "from time import monotonic", "must not import time"),
        ("protocol/x.py", "import random", "must not import random"),
        ("hooks/x.py", "import trio", "is below kernel"),
        ("tools/x.py", "from trio import Event", "is below kernel"),
        ("providers/x.py", "import httpx", "only transport/ imports httpx"),
        ("testing/x.py", "import hypothesis", "only testing/strategies"),
        ("cli/x.py", "from hypothesis import given", "only testing/strategies"),
        ("runtime/x.py", "import asyncio", "must not import asyncio"),
        ("runtime/x.py", "import anyio", "must not import anyio"),
        ("runs/x.py", "from agent_actors.asyncio import bridge", "runs is below asyncio"),
        ("client/x.py", "import sniffio", "only asyncio/ crosses"),
        ("runtime/x.py", "from rich.table import Table", "only cli/ imports it"),
        ("domain/x.py", "from typing import Any", "only codec/ and schema/ use `Any`"),
        ("domain/x.py", "import typing\nx: typing.Any", "only codec/ and schema/ use `Any`"),
    ],
)
def test_bad_import_is_found(path: str, source: str, reason: str) -> None:
    (found,) = of(path, source)
    assert reason in found
    assert found.startswith(f"agent_actors/{path}:")


def test_type_checking_import_counts() -> None:
    (found,) = of(
        "domain/x.py",
        """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from agent_actors.runtime import Runtime
        """,
    )
    assert "domain is below runtime" in found


def test_sans_io_holds_for_types_too() -> None:
    source = "import typing\nif typing.TYPE_CHECKING:\n    import httpx\nelse:\n    import os\n"
    assert len(of("protocol/x.py", source)) == 2


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", "from agent_actors.runtime.runtime import open_runtime as open_runtime"),
        ("__main__.py", "from agent_actors.cli import main"),
        ("cli/x.py", "import agent_actors\nfrom agent_actors.testing import y\nimport rich"),
        ("domain/x.py", "from agent_actors.domain.y import Z\nfrom agent_actors import errors"),
        ("domain/x.py", "from agent_actors.errors import AgentError"),
        ("runtime/wiring.py", "from agent_actors.providers.openai_chat import client"),
        ("runs/driver.py", "from agent_actors.actors import hook_bus\nimport trio"),
        ("abc.py", "import trio"),
        ("transport/x.py", "import httpx"),
        ("providers/x.py", "if TYPE_CHECKING:\n    import httpx"),
        ("testing/strategies.py", "import hypothesis"),
        ("testing/strategies/chunks.py", "from hypothesis import strategies"),
        ("codec/x.py", "from typing import Any"),
        ("mcp/x.py", "import mcp\nimport anyio"),
        ("domain/x.py", "import msgspec, attrs, os"),
    ],
)
def test_good_import_is_accepted(path: str, source: str) -> None:
    assert of(path, source) == []


def test_imports_are_found_at_any_depth() -> None:
    source = """
    import a, b.c
    from d import e
    class K:
        try:
            import f
        except ImportError:
            from g import h
    if TYPE_CHECKING:
        import i
    importlib.import_module("j")
    """
    found = {(i.module, i.typing_only) for i in imports(ast.parse(textwrap.dedent(source)))}
    assert found == {
        ("a", False),
        ("b.c", False),
        ("d", False),
        ("f", False),
        ("g", False),
        ("i", True),
        ("j", False),
    }
