"""The check of the built distributions reports missing and unexpected files."""

import tomllib

from scripts.distribution import (
    PUBLIC_EXTRAS,
    ROOT,
    metadata_problems,
    sdist_problems,
    wheel_problems,
)

SOURCE = ["agent_actors/__init__.py", "agent_actors/py.typed"]
METADATA = """\
Version: 1.0
License-Expression: MIT
Classifier: Typing :: Typed
""" + "".join(f"Provides-Extra: {name}\n" for name in PUBLIC_EXTRAS)


def test_missing_typed_marker_is_reported() -> None:
    assert list(wheel_problems(SOURCE[:1], SOURCE)) == ["the wheel lacks agent_actors/py.typed"]
    assert list(sdist_problems(SOURCE[:1], SOURCE)) == ["the sdist lacks agent_actors/py.typed"]


def test_tests_in_a_distribution_are_reported() -> None:
    names = [*SOURCE, "tests/test_a.py"]
    assert list(wheel_problems(names, SOURCE)) == ["the wheel contains tests/test_a.py"]
    assert list(sdist_problems([*names, "LICENSE"], SOURCE)) == [
        "the sdist contains tests/test_a.py"
    ]
    assert not list(wheel_problems([*SOURCE, "agent_actors-1.0.dist-info/RECORD"], SOURCE))


def test_wrong_metadata_is_reported() -> None:
    assert not list(metadata_problems(METADATA, "1.0"))
    assert list(metadata_problems("Version: 2\n" + METADATA.partition("\n")[2], "1.0")) == [
        "the metadata has version 2, expected 1.0"
    ]
    assert len(list(metadata_problems("Version: 1.0\n", "1.0"))) == len(PUBLIC_EXTRAS) + 2


def test_checked_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(PUBLIC_EXTRAS) <= set(project["optional-dependencies"])
