"""No module of the library imports itself, directly or through other modules."""

import pytest

from tests.conventions.cycles import cycles, import_graph
from tests.conventions.tree import library_files, read


def test_there_are_no_import_cycles() -> None:
    graph = import_graph({path: read(path) for path in library_files()})
    assert not cycles(graph)


@pytest.mark.parametrize(
    "sources",
    [
        {"x": "from agent_actors.y import Y", "y": "import agent_actors.x"},
        {"x": "from agent_actors import y", "y": "def f():\n    from agent_actors.x import X"},
        {
            "x": "from agent_actors.z import Z",
            "y": "if TYPE_CHECKING:\n    from agent_actors.x import X",
            "z": "from agent_actors.y import Y",
        },
    ],
)
def test_cycle_is_found_through_any_import(sources: dict[str, str]) -> None:
    graph = import_graph({f"agent_actors/{name}.py": text for name, text in sources.items()})
    assert cycles(graph) == [tuple(f"agent_actors.{name}" for name in sorted(sources))]


def test_shared_import_is_not_a_cycle() -> None:
    graph = import_graph(
        {
            "agent_actors/x.py": "from agent_actors.y import Y\nfrom agent_actors.z import Z",
            "agent_actors/y.py": "from agent_actors.z import Z\nfrom other import x",
            "agent_actors/z.py": "import agent_actors.missing",
        }
    )
    assert cycles(graph) == []
