"""The program that matches lines with Python's `re`, in a process that can be killed.

A regular expression can take an exponential time, during which `re` neither releases the
interpreter nor can be interrupted. `fallback` runs this file as a separate program, which imports
nothing of the package. The first line of its input is the query as JSON. Each file follows as its
length (8 bytes) and its content. The program writes one line of JSON for the query and for each
file: an object with an error, or the list of the numbers of the matching lines.
"""

import json
import re
import sys


def matching_lines(expression: re.Pattern[str], data: bytes, limit: int) -> list[int]:
    """Return the numbers of the matching lines, counted from 1."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    found: list[int] = []
    for number, line in enumerate(lines, start=1):
        if expression.search(line.removesuffix("\r")):
            found.append(number)
            if len(found) >= limit:
                break
    return found


def matching_ranges(expression: re.Pattern[str], data: bytes, limit: int) -> list[int]:
    """Return the numbers of the lines that matches across lines touch, from 1."""
    text = data.decode("utf-8", "surrogateescape")
    found: list[int] = []
    line, position = 1, 0
    for match in expression.finditer(text):
        if match.start() >= len(text):
            break  # an empty match after the last line
        line += text.count("\n", position, match.start())
        position = match.start()
        inside = text.count("\n", match.start(), max(match.end() - 1, match.start()))
        found.extend(one for one in range(line, line + inside + 1) if one > (found or [0])[-1])
        if len(found) >= limit:
            break
    return found[:limit]


def main() -> None:
    """Answer queries until the input ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    query = json.loads(source.readline())
    flags = re.IGNORECASE if query["ignore_case"] else 0
    if query["multiline"]:
        flags |= re.MULTILINE | re.DOTALL
    try:
        expression = re.compile(query["pattern"], flags)
    except (re.error, OverflowError, RecursionError) as error:
        target.write(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    target.write(b"{}\n")
    target.flush()
    match = matching_ranges if query["multiline"] else matching_lines
    while header := source.read(8):
        data = source.read(int.from_bytes(header, "big"))
        target.write(json.dumps(match(expression, data, query["limit"])).encode() + b"\n")
        target.flush()


if __name__ == "__main__":
    main()
