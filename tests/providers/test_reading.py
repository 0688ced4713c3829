"""The first character of a body, however it comes."""

from hypothesis import given
from hypothesis import strategies as st

from agent_actors.providers.reading import begin_body

blanks = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"\t", b"\xef\xbb\xbf", b"\xef", b"\xbb"])
).map(b"".join)


def begun(body: bytes, reads: list[int]) -> tuple[bytes, bytes]:
    kept, first, at = b"", b"", 0
    for size in [*reads, len(body) + 1]:
        data, at = body[at : at + size], at + size
        if first:
            kept += data
        else:
            kept, first = begin_body(kept, data)
    return kept, first


@given(blanks, st.binary(max_size=5), st.lists(st.integers(1, 4), max_size=30))
def test_a_body_begins_in_the_same_way_however_it_was_split(
    before: bytes, rest: bytes, reads: list[int]
) -> None:
    assert begun(before + b"x" + rest, reads) == begun(before + b"x" + rest, [])


def test_blank_lines_are_let_go_of_and_a_mark_is_kept() -> None:
    kept = b""
    for _ in range(1000):
        kept, first = begin_body(kept, b" \r\n\n" * 20 + b" " * 20)
        assert (len(kept), first) == (4, b"")
    assert begin_body(kept, b"\n{") == (b"{", b"{")
    assert begin_body(b"\xef\xbb", b"\xbfdata: x") == (b"\xef\xbb\xbfdata: x", b"d")
    # A blank before the field's name makes it another field; that must stay to be seen.
    assert begin_body(b"", b"\n data: x") == (b" data: x", b"d")
