"""When a text grows, only its last block is drawn again."""

import io

from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.markdown import Markdown

from agent_actors.cli.chat.terminal.markdown import Block, blocks, finished_size, shortened

# Lines that form Markdown blocks. Brackets are left out, because a link may be defined later.
LINES = st.sampled_from(
    [
        "",
        "",
        "word",
        "#",
        "# head",
        "#tag",
        "- item",
        "-",
        "---",
        "===",
        "1. one",
        "   more",
        "    code",
        "```",
        "~~~py",
        "> quote",
        "| a | b |",
        "|---|---|",
        "<div>",
        "* *",
    ]
)
TEXTS = st.lists(LINES, max_size=14).map("\n".join)


def kinds(text: str) -> list[tuple[str, str]]:
    return [(t.type, t.content) for t in Markdown(text).parsed if t.type != "inline" or t.content]


@given(TEXTS)
@example("para\n#hashtag")
def test_finished_text_never_changes(text: str) -> None:
    finished, rest = "", ""
    parts: list[str] = []
    for character in text:
        rest += character
        size = finished_size(rest)
        if size:
            parts.append(rest[:size])
            finished, rest = finished + rest[:size], rest[size:]

    assert finished + rest == text
    shown = [kind for part in [*parts, rest] for kind in kinds(part)]
    assert shown == kinds(text)


@given(TEXTS)
def test_blocks_are_the_text(text: str) -> None:
    found = blocks(text)
    assert "".join(found) == text
    assert [kind for block in found for kind in kinds(block)] == kinds(text)


def test_next_block_finishes_a_paragraph() -> None:
    assert finished_size("One.") == 0
    assert finished_size("One.\n\n") == 0
    assert finished_size("One.\n\nTwo") == 0
    assert finished_size("One.\n\nTwo\n") == len("One.\n\n")
    assert finished_size("") == finished_size("\n\n") == finished_size("[a]: b\n") == 0


def test_long_fence_shows_its_end() -> None:
    code = "\n".join(str(number) for number in range(100))
    assert shortened(f"```py\n{code}", 3) == "```py\n97\n98\n99"
    assert shortened("```py\n1\n2", 3) == "```py\n1\n2"
    assert shortened("```py", 3) == "```py"
    assert shortened(code, 3) == code


def lines_of(text: str) -> list[str]:
    console = Console(file=io.StringIO(), width=20)
    with console.capture() as capture:
        console.print(Block(text))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_block_is_trimmed_and_shows_links() -> None:
    assert lines_of("- one\n- two\n") == [" • one", " • two"]
    assert lines_of("```\n\ncode\n\n```") == [" code"]
    assert lines_of("[x](http://e.example)") == ["x (http://e.example)"]
    assert lines_of("\n\n") == []
