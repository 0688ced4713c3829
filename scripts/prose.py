"""Count habits of language in the project's prose.

`python -m scripts.prose [ROOT]` counts some words and sentence openings in the docstrings and
comments of `agent_actors/` and in the pages of `docs/`, and measures the length of test names. The
counts only show which texts to read again; no text should be written to improve a count.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

_SENTENCE_END: Final = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'-]*")
_CODE_BLOCK: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADLESS: Final = re.compile(r"(What|Who|How|Whether)\b")


@attrs.frozen
class Habit:
    """A habit of language, the pattern that finds it, and the target count per 10,000 words."""

    name: str
    pattern: "re.Pattern[str]"
    target: str


HABITS: Final = (
    Habit("tell, told", re.compile(r"\b(?:tell|tells|told|telling)\b", re.IGNORECASE), "<= 3"),
    Habit("stand, stands", re.compile(r"\bstands?\b", re.IGNORECASE), "<= 3"),
    Habit("must, should", re.compile(r"\b(?:must|should)\b", re.IGNORECASE), ">= 20"),
    Habit("for example", re.compile(r"\b(?:for example|for instance)\b", re.IGNORECASE), ">= 8"),
)


@attrs.frozen
class Prose:
    """The texts of one kind: docstrings, comments or pages."""

    texts: tuple[str, ...]

    @property
    def words(self) -> int:
        """The number of words."""
        return sum(len(_WORD.findall(text)) for text in self.texts)

    def per_10_000(self, count: int) -> float:
        """Format `count` as a rate per 10,000 words."""
        return 10_000 * count / max(self.words, 1)

    def sentences(self) -> Iterator[str]:
        """Yield each sentence, with white space collapsed."""
        for text in self.texts:
            for sentence in _SENTENCE_END.split(text):
                if folded := " ".join(sentence.split()):
                    yield folded


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement inside a node.

    This is much faster than `ast.walk`, which also visits expressions.
    """
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, field, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring of a module, its classes and its functions."""
    for node in (tree, *statements(tree)):
        match node:
            case (
                ast.Module(body=[ast.Expr(value=ast.Constant(value=str(text)) as at), *_])
                | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str(text)) as at), *_])
                | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str(text)) as at), *_])
                | ast.AsyncFunctionDef(
                    body=[ast.Expr(value=ast.Constant(value=str(text)) as at), *_]
                )
            ):
                yield at.lineno, text
            case _:
                pass


def comments(source: str) -> Iterator[str]:
    """Yield the text of each block of comments; directives for tools are left out."""
    block: list[str] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(
            r"#\s*(noqa|type:|pyright:|ruff:|size:)", token.string
        ):
            continue
        if token.start[0] != last + 1 and block:
            yield " ".join(block)
            block = []
        block.append(token.string.lstrip("#").strip())
        last = token.start[0]
    if block:
        yield " ".join(block)


def page_text(markdown: str) -> str:
    """Return the prose of a page, without code blocks, tables and headings."""
    lines = _CODE_BLOCK.sub("", markdown).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("|", "#", "<", "!!!", "::: ")))


def test_names(root: Path) -> list[str]:
    """Yield the name of each test function, without `test_`."""
    names: list[str] = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        for node in statements(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = node.name.removeprefix("test_")
                if name != node.name:
                    names.append(name)
    return names


def _of_package(root: Path) -> tuple[Prose, Prose]:
    code = [path.read_text("utf-8") for path in sorted((root / "agent_actors").rglob("*.py"))]
    documented = tuple(text for source in code for _, text in docstrings(ast.parse(source)))
    commented = tuple(text for source in code for text in comments(source))
    return Prose(documented), Prose((*documented, *commented))


def _report(name: str, prose: Prose) -> Iterator[tuple[str, str, str]]:
    what = sum(bool(re.match(r"What\b[^?]*$", sentence)) for sentence in prose.sentences())
    yield f"{name}: words", f"{prose.words:,}", ""
    yield f"{name}: openings with a bare What", f"{prose.per_10_000(what):.1f}", "<= 3"
    for habit in HABITS:
        count = sum(len(habit.pattern.findall(text)) for text in prose.texts)
        yield f"{name}: {habit.name}", f"{prose.per_10_000(count):.1f}", habit.target


def report(root: Path) -> list[tuple[str, str, str]]:
    """Return the rows of the table: the habit or measure, the count, and the target."""
    documented, package = _of_package(root)
    pages = Prose(
        tuple(page_text(path.read_text("utf-8")) for path in sorted((root / "docs").rglob("*.md")))
    )
    headless = sum(bool(_HEADLESS.match(text.lstrip())) for text in documented.texts)
    names = test_names(root)
    words = [len(name.split("_")) for name in names]
    return [
        *_report("code", package),
        *_report("docs", pages),
        ("docstrings", f"{len(documented.texts):,}", ""),
        ("docstrings that begin with What, Who, How or Whether", str(headless), "0"),
        ("tests", f"{len(names):,}", ""),
        ("mean words per test name", f"{sum(words) / max(len(words), 1):.1f}", "<= 6"),
        ("test names with more than seven words", f"{sum(n > 7 for n in words):,}", "0"),
    ]


def main(arguments: list[str]) -> None:
    """Print the table for a checkout; the current directory by default."""
    rows = report(Path(arguments[0]) if arguments else Path())
    width = max(len(name) for name, _, _ in rows)
    print(f"{'per 10,000 words, where no other unit is named':<{width}}  {'count':>8}  target")
    for name, count, target in rows:
        print(f"{name:<{width}}  {count:>8}  {target}")


if __name__ == "__main__":
    main(sys.argv[1:])
