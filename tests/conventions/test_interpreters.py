"""The package uses no interface that Python deprecates or removes after 3.11."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from tests.conventions.tree import ROOT, python_files

# Interfaces that are deprecated since Python 3.12 or removed in a later version, and their
# replacements. Not every machine has an interpreter without these interfaces.
DEPRECATED: Final = {
    "asyncio.AbstractEventLoopPolicy": "asyncio.run(..., loop_factory=...)",
    "asyncio.DefaultEventLoopPolicy": "asyncio.run(..., loop_factory=...)",
    "asyncio.get_event_loop_policy": "asyncio.run(..., loop_factory=...)",
    "asyncio.iscoroutinefunction": "inspect.iscoroutinefunction",
    "asyncio.set_event_loop_policy": "asyncio.run(..., loop_factory=...)",
    "ast.Num": "ast.Constant",
    "ast.Str": "ast.Constant",
    "codecs.open": "open",
    "collections.abc.ByteString": "bytes | bytearray | memoryview",
    "datetime.datetime.utcfromtimestamp": "datetime.fromtimestamp(..., UTC)",
    "datetime.datetime.utcnow": "datetime.now(UTC)",
    "datetime.utcfromtimestamp": "datetime.fromtimestamp(..., UTC)",
    "datetime.utcnow": "datetime.now(UTC)",
    "importlib.abc.Traversable": "importlib.resources.abc.Traversable",
    "importlib.abc.ResourceReader": "importlib.resources.abc.ResourceReader",
    "locale.getdefaultlocale": "locale.getlocale",
    "pkgutil.find_loader": "importlib.util.find_spec",
    "pkgutil.get_loader": "importlib.util.find_spec",
    "sys.last_traceback": "sys.last_exc",
    "typing.ByteString": "bytes | bytearray | memoryview",
    "typing.no_type_check_decorator": "typing.no_type_check",
}
# A module without any of these words uses no deprecated interface. A search is much faster than a
# visit of the syntax tree.
_SUSPECT: Final = re.compile(
    rf"\b(?:{'|'.join(name.rpartition('.')[2] for name in DEPRECATED)}|onerror|sqlite3)\b"
)
_LAST_NAMES: Final = frozenset(name.rpartition(".")[2] for name in DEPRECATED)
_NUMBERED: Final = re.compile(r"\?\d")


def faults(source: str) -> Iterator[str]:
    """Yield the deprecated interfaces that a module uses."""
    if not _SUSPECT.search(source):
        return
    uses_sqlite = "import sqlite3" in source
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom():
                yield from _deprecated(f"{node.module}.{name.name}" for name in node.names)
            case ast.Attribute(attr=attribute) if attribute in _LAST_NAMES:
                yield from _deprecated([ast.unparse(node)])
            case ast.keyword(arg="onerror"):
                yield "onerror=: use onexc="
            case ast.Constant(value=str() as text) if uses_sqlite and _NUMBERED.search(text):
                yield "numbered placeholders in SQL: use named ones, and a mapping of values"
            case _:
                pass


def _deprecated(names: Iterable[str]) -> Iterator[str]:
    return (f"{name}: use {DEPRECATED[name]}" for name in names if name in DEPRECATED)


def test_no_deprecated_interface_is_used() -> None:
    found: list[str] = []
    for name in python_files():
        source = (ROOT / name).read_text(encoding="utf-8")
        compile(source, name, "exec", dont_inherit=True)  # a warning about syntax is an error here
        found += [f"{name}: {fault}" for fault in faults(source)]
    assert found == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import sqlite3\nQUERY = 'SELECT ?' '1'", "numbered placeholders"),
        ("from typing import ByteString", "typing.ByteString: use bytes"),
        ("import asyncio\nasyncio.iscoroutinefunction(f)", "use inspect.iscoroutinefunction"),
        ("import shutil\nshutil.rmtree(path, onerror=f)", "onerror=: use onexc="),
    ],
)
def test_deprecated_interface_is_found(source: str, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        assert "; ".join(faults(source)) == ""


@pytest.mark.parametrize(
    ("module", "status"), [("agent_actors.stores.x", 1), ("agent_actors", 1), ("other.x", 0)]
)
def test_package_warning_ends_child_process(module: str, status: int) -> None:
    """In a program started by a test, only warnings from the package are errors."""
    code = (
        "import warnings\n"
        f"warnings.warn_explicit('gone soon', DeprecationWarning, 'x.py', 1, {module!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == status
    assert (b"DeprecationWarning: gone soon" in done.stderr) is bool(status)
