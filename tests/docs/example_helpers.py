"""Helpers that import examples of the docs as modules, for tests that call their functions."""

import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


@contextmanager
def example(name: str) -> Generator[ModuleType]:
    """Import an example that runs nothing on import; remove the module at the end of the block."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # classes look up the module that defines them
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BASE_URL", "http://127.0.0.1:1/v1")
            patch.setenv("MODEL", "scripted")
            spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]
