"""Functions stay short, and folders hold few modules."""

from tests.conventions.sizes import FOLDER_MODULES, FUNCTION_LINES, crowded, oversized
from tests.conventions.tree import library_files, python_files, read


def test_functions_are_within_their_size() -> None:
    bad = [found for path in python_files() for found in oversized(path, read(path))]
    assert not bad, "\n".join(bad)


def function(lines: int, *, head: str = "def f() -> None:", docstring: str = "") -> str:
    body = [f"    {docstring}"] * bool(docstring) + ["    pass"] * (lines - 1)
    return "\n".join([head, *body]) + "\n"


def test_function_at_the_limit_is_accepted() -> None:
    assert oversized("x.py", function(FUNCTION_LINES)) == []
    (found,) = oversized("x.py", function(FUNCTION_LINES + 1))
    assert found == f"x.py:1: f has {FUNCTION_LINES + 1} lines; at most {FUNCTION_LINES}"


def test_an_async_method_counts_as_a_function() -> None:
    method = function(FUNCTION_LINES + 1, head="async def g() -> None:")
    source = "class K:\n" + "".join(f"    {line}\n" for line in method.splitlines())
    (found,) = oversized("x.py", source)
    assert found.startswith("x.py:2: g has")


def test_a_docstring_is_not_counted() -> None:
    docstring = '"""One.\n\n' + "    More.\n" * 40 + '    """'
    assert oversized("x.py", function(FUNCTION_LINES, docstring=docstring)) == []
    assert len(oversized("x.py", function(FUNCTION_LINES + 1, docstring=docstring))) == 1


def test_function_with_a_reason_may_be_longer() -> None:
    long = FUNCTION_LINES + 1
    assert oversized("x.py", function(long, head="def f() -> None:  # size: one table")) == []
    assert len(oversized("x.py", function(long, head="def f() -> None:  # size:"))) == 1


def test_folders_hold_few_modules() -> None:
    assert not crowded(library_files())


def test_folder_over_the_limit_is_named() -> None:
    full = ["agent_actors/x/__init__.py"]
    full += [f"agent_actors/x/m{number}.py" for number in range(1, FOLDER_MODULES)]
    assert crowded([*full, "agent_actors/x/y/z.py"]) == []
    assert crowded([*full, "agent_actors/x/more.py"]) == [
        f"agent_actors/x: {FOLDER_MODULES + 1} modules; at most {FOLDER_MODULES}"
    ]
