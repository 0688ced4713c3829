"""The public names of the package: where they are, and how they are imported."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agent_actors
from agent_actors import model
from tests.conventions.test_install import python


def test_old_names_of_classes_are_aliases() -> None:
    assert model.ModelFinished is model.ModelCompleted
    assert agent_actors.AssistantMessage is agent_actors.QueryMessage


def test_every_public_name_has_a_home() -> None:
    """The imports for type checkers, the table of modules and `__all__` agree."""
    tree = ast.parse(Path(agent_actors.__file__).read_text())
    typed = {
        (node.module, name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("agent_actors.")
        for name in node.names
    }
    table = next(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_HOMES"
    )
    assert table is not None
    homes: dict[str, tuple[str, ...]] = ast.literal_eval(table)
    assert {(f"agent_actors.{home}", name) for home in homes for name in homes[home]} == typed
    assert sorted(name for _, name in typed) == sorted(agent_actors.__all__)
    assert set(agent_actors.__all__) < set(dir(agent_actors))


def test_importing_the_package_loads_little(tmp_path: Path) -> None:
    code = "import sys, agent_actors; print(*[n for n in sys.modules if n in ('trio', 'attrs')])"
    assert python(code, tmp_path) == "\n"


def test_packages_are_attributes(tmp_path: Path) -> None:
    code = "import agent_actors; print(agent_actors.errors.AgentError.__name__, agent_actors.run)"
    assert python(code, tmp_path).startswith("AgentError <function run")


def test_unknown_name_gets_a_suggestion() -> None:
    code = "import agent_actors; agent_actors.AgentOption"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert "has no attribute 'AgentOption'" in done.stderr
    with pytest.raises(AttributeError, match="has no attribute '_secret'"):
        agent_actors.__getattr__("_secret")
