"""Build the wheel and the sdist, check their content, and install both without a compiler.

    python -m scripts.distribution dist

Each distribution is installed into a virtual environment of its own, where its dependencies must
have wheels. The installed command must report the version.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "agent_actors"
TYPED: Final = f"{PACKAGE}/py.typed"
# The other top-level entries of an sdist.
SDIST_FILES: Final = frozenset(
    {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
)
# The extras that users install; the other extras are for developers.
PUBLIC_EXTRAS: Final = ("cli", "testing", "tokens", "pydantic", "tools", "server")
_COMMAND: Final = "agent-actors"


def main(arguments: Sequence[str]) -> int:
    """Build into the folder, check and install; return the exit status."""
    folder = Path(arguments[0] if arguments else "dist")
    version = _version()
    with tempfile.TemporaryDirectory() as built:
        _run(sys.executable, "-m", "build", "--outdir", built, str(ROOT))
        wheel = Path(built, f"{PACKAGE}-{version}-py3-none-any.whl")
        sdist = Path(built, f"{PACKAGE}-{version}.tar.gz")
        problems = [*_tag_problems(version), *_missing(wheel, sdist)]
        if not problems:
            source = _source_files()
            problems += wheel_problems(_names_in_wheel(wheel), source)
            problems += sdist_problems(_names_in_sdist(sdist), source)
            problems += metadata_problems(_metadata_of(wheel), version)
        for problem in problems:
            print(f"distribution: {problem}", file=sys.stderr)
        if problems:
            return 1
        _check_installed(f"{wheel}[cli]", version)
        _check_installed(f"{sdist}[cli]", version)
        folder.mkdir(parents=True, exist_ok=True)
        for path in (wheel, sdist):
            (folder / path.name).write_bytes(path.read_bytes())
            print(f"distribution: {folder / path.name}")
    return 0


def wheel_problems(names: Iterable[str], source: Iterable[str]) -> Iterator[str]:
    """Yield the differences between the files of a wheel and the files of the package."""
    found = {name for name in names if ".dist-info/" not in name}
    yield from _package_problems("the wheel", found, source)
    yield from (f"the wheel contains {name}" for name in sorted(found - set(source)))


def sdist_problems(names: Iterable[str], source: Iterable[str]) -> Iterator[str]:
    """Yield the differences between the files of an sdist and the files that it must contain."""
    found = set(names)
    yield from _package_problems("the sdist", found, source)
    extra = sorted(found - set(source) - SDIST_FILES)
    yield from (f"the sdist contains {name}" for name in extra)


def metadata_problems(metadata: str, version: str) -> Iterator[str]:
    """Yield the errors in the metadata of a wheel."""
    headers = HeaderParser().parsestr(metadata)
    if headers["Version"] != version:
        yield f"the metadata has version {headers['Version']}, expected {version}"
    missing = set(PUBLIC_EXTRAS) - set(headers.get_all("Provides-Extra", []))
    yield from (f"the metadata has no extra {name}" for name in sorted(missing))
    if not headers["License-Expression"]:
        yield "the metadata has no license"
    if "Typing :: Typed" not in headers.get_all("Classifier", []):
        yield "the metadata does not say that the package is typed"


def _package_problems(where: str, found: set[str], source: Iterable[str]) -> Iterator[str]:
    wanted = set(source)
    assert TYPED in wanted
    yield from (f"{where} lacks {name}" for name in sorted(wanted - found))


def _missing(*paths: Path) -> Iterator[str]:
    yield from (f"the build made no {path.name}" for path in paths if not path.is_file())


def _tag_problems(version: str) -> Iterator[str]:
    """A tagged commit must have the version of its tag."""
    tags = _output("git", "-C", str(ROOT), "tag", "--points-at", "HEAD", "v*").split()
    if tags and f"v{version}" not in tags:
        yield f"the commit has the tag {', '.join(tags)}, but the version is {version}"


def _source_files() -> list[str]:
    return _output("git", "-C", str(ROOT), "ls-files", PACKAGE).splitlines()


def _version() -> str:
    scope: dict[str, str] = {}
    exec((ROOT / PACKAGE / "version.py").read_text(encoding="utf-8"), scope)
    return scope["__version__"]


def _names_in_wheel(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def _names_in_sdist(path: Path) -> list[str]:
    with tarfile.open(path) as archive:
        return [member.name.partition("/")[2] for member in archive if member.isfile()]


def _metadata_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def _check_installed(requirement: str, version: str) -> None:
    """Install a distribution into a new environment, and use it there."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder, "bin")
        # The sdist of the package itself is built; its dependencies must have wheels.
        only_wheels = ("--only-binary", ":all:", "--no-binary", "agent-actors")
        _run(str(programs / "pip"), "install", "--quiet", *only_wheels, requirement)
        shown = _output(str(programs / _COMMAND), "--version").strip()
        code = f"import json, {PACKAGE}; print(json.dumps({PACKAGE}.__version__))"
        imported = json.loads(_output(str(programs / "python"), "-I", "-c", code))
        if {shown, imported} != {version}:
            raise SystemExit(f"{requirement} reports {shown} and {imported}, expected {version}")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
