"""Lines of a terminal as an SVG picture, drawn by rich.

The picture loads nothing from the network: it uses fonts of the reader's system.
"""

import io
from collections.abc import Iterable
from html import escape
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# rich's SVG format, without its fonts, which would be loaded from the network, and without its
# window.
_FORMAT: Final = f"""\
<svg role="img" viewBox="0 0 {{width}} {{height}}" xmlns="http://www.w3.org/2000/svg">
<title>ABOUT</title>
<style>
.{{unique_id}}-matrix {{{{ font: {{char_height}}px {_FONT}; line-height: {{line_height}}px; }}}}
{{styles}}
</style>
<defs>
<clipPath id="{{unique_id}}-clip-terminal">
<rect x="0" y="0" width="{{terminal_width}}" height="{{terminal_height}}"/>
</clipPath>
{{lines}}
</defs>
<rect width="{{width}}" height="{{height}}" rx="8" fill="GROUND"/>
<g transform="translate({{terminal_x}}, {{terminal_y}})">
{{backgrounds}}
<g class="{{unique_id}}-matrix">
{{matrix}}
</g>
</g>
</svg>
"""
_GROUND: Final = (27, 31, 39)
_INK: Final = (215, 218, 224)
_COLORS: Final = [
    (59, 64, 72), (224, 108, 117), (152, 195, 121), (229, 192, 123),
    (97, 175, 239), (198, 120, 221), (86, 182, 194), _INK,
    (127, 132, 142), (239, 136, 145), (179, 211, 156), (239, 209, 154),
    (138, 198, 247), (215, 155, 234), (127, 204, 214), (255, 255, 255),
]  # fmt: skip
_THEME: Final = TerminalTheme(_GROUND, _INK, _COLORS[:8], _COLORS[8:])


def picture(lines: Iterable[Text], about: str) -> str:
    """Return a picture of these lines.

    Args:
        lines: The lines, from the top.
        about: A description for readers who cannot see the picture.
    """
    lines = list(lines)
    width = max(line.cell_len for line in lines)
    console = Console(record=True, file=io.StringIO(), width=max(width, 1), highlight=False)
    for line in lines:
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    ground = f"#{bytes(_GROUND).hex()}"
    drawn = console.export_svg(theme=_THEME, code_format=_FORMAT, unique_id="terminal")
    return drawn.replace("GROUND", ground, 1).replace("ABOUT", escape(about), 1)
