"""Checks of language: banned words, sentences without a subject, and long test names.

The rules are data in `language.toml`. The checks look for banned words in docstrings, in strings
that a person reads (error messages, command output), and in the pages of the documentation.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Final

import attrs

from scripts.prose import docstrings, statements
from tests.conventions.tree import ROOT

RULES: Final = ROOT / "tests/conventions/language.toml"
# A text with fewer words is a name, a pattern or a key rather than a sentence.
SENTENCE_WORDS: Final = 4

_CODE_BLOCK: Final = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_SENTENCES: Final = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")


@attrs.frozen
class Rules:
    """The rules in `language.toml`."""

    banned: tuple[tuple[re.Pattern[str], str], ...]
    any_banned: re.Pattern[str]
    headless: re.Pattern[str]
    docstring: re.Pattern[str]
    longest_name: int


@cache
def rules() -> Rules:
    """Read the rules."""
    table = tomllib.loads(RULES.read_text("utf-8"))
    banned = {
        r"\b(?:" + pattern.replace(" ", r"\s+") + r")\b": instead
        for pattern, instead in table["banned"].items()
    }
    return Rules(
        banned=tuple((re.compile(one, re.IGNORECASE), banned[one]) for one in banned),
        any_banned=re.compile("|".join(banned), re.IGNORECASE),
        headless=re.compile(table["sentences"]["headless"]),
        docstring=re.compile(table["sentences"]["docstring"]),
        longest_name=table["tests"]["longest_name"],
    )


def of_python(path: str, source: str) -> Iterator[str]:
    """Yield the problems in a module's docstrings and strings, as `path:line: reason`."""
    tree = ast.parse(source)
    documented = dict(docstrings(tree))
    for line, text in documented.items():
        if rules().docstring.match(text.lstrip()):
            yield f"{path}:{line}: the docstring begins with {text.split()[0]!r}"
        yield from _of_text(path, line, text)
    for line, text in _texts(tree):
        if line not in documented:
            yield from _of_text(path, line, text)


def of_page(path: str, markdown: str) -> Iterator[str]:
    """Yield the problems in a page's prose (code is ignored), as `path:line: reason`."""
    plain = _CODE_BLOCK.sub(lambda match: "\n" * match[0].count("\n"), markdown)
    for number, paragraph in _paragraphs(plain):
        yield from _of_text(path, number, paragraph)


def long_names(path: str, source: str) -> Iterator[str]:
    """Yield the names of tests that are too long, as `path:line: reason`."""
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:5] == "test_":
            words = node.name.removeprefix("test_").split("_")
            if len(words) > rules().longest_name:
                yield f"{path}:{node.lineno}: {len(words)} words in {node.name}"


def _of_text(path: str, line: int, text: str) -> Iterator[str]:
    prose = _CODE.sub("`code`", text)
    banned = rules().banned if rules().any_banned.search(prose) else ()
    for pattern, instead in banned:
        if found := pattern.search(prose):
            yield f"{path}:{line}: {found[0]!r}; write: {instead}"
    for sentence in _SENTENCES.split(prose):
        opening = sentence.strip().lstrip("*-_ ")
        if rules().headless.match(opening) and not opening.endswith("?"):
            yield f"{path}:{line}: a sentence begins with {opening.split()[0]!r}: {opening[:60]!r}"


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                pass
            case ast.JoinedStr(values=values):
                parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in values)
                text = "".join(map(str, parts))
            case _:
                continue
        if len(text.split()) >= SENTENCE_WORDS:
            yield node.lineno, text


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    first, lines = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if not line.strip() or line.lstrip().startswith(("#", "|", "- ", "* ")):
            if lines:
                yield first, "\n".join(lines)
            lines = []
        if line.strip():
            if not lines:
                first = number
            # A heading may be a clause, or a question without a question mark.
            lines.append("" if line.startswith("#") else line)
