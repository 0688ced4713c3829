"""One URL in many spellings: rules decide the same for all of them."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.json import JsonObject
from agent_actors.permissions import Allow, Ask, Deny, PermissionPolicy, Rule
from agent_actors.permissions.url_readings import LONGEST_URL, host_names, readings, rest_forms
from agent_actors.tools import Tool
from tests.permissions.support import BASH, FETCH, HERE, LOOSE, NOTE, READ, SEND, call

LOOPBACK: Final = "Fetch(domain:127.0.0.1)"
SITE: Final = "Fetch(domain:example.com)"
STATS: Final = "Fetch(https://example.com/stats)"
ADMIN: Final = "Fetch(https://example.com/admin/*)"
PORT: Final = "Fetch(*://example.com:8080/*)"

# Spelling, rule, and whether the rule restricts the spelling.
SPELLINGS: Final = [
    # IPv4 numbers.
    ("http://127.0.0.1/", LOOPBACK, True),
    ("http://127.1/", LOOPBACK, True),
    ("http://127.0.1", LOOPBACK, True),
    ("http://2130706433/", LOOPBACK, True),
    ("http://0x7f000001/", LOOPBACK, True),
    ("http://0X7F.1/", LOOPBACK, True),
    ("http://0177.0.0.1/", LOOPBACK, True),
    ("http://017700000001/", LOOPBACK, True),
    ("http://127.0.0.1./", LOOPBACK, True),
    ("http://127.0.0.1:9/", LOOPBACK, True),
    ("http://%31%32%37.0.0.1/", LOOPBACK, True),
    ("http://\uff11\uff12\uff17.0.0.1/", LOOPBACK, True),
    ("http://127\u30020\uff0e0\uff611/", LOOPBACK, True),
    ("http://\u2460\u2461\u2466.0.0.1/", LOOPBACK, True),
    ("127.1", LOOPBACK, True),
    ("2130706433", LOOPBACK, True),
    ("http://127.0.0.2/", LOOPBACK, False),
    ("http://1.2.3.4/", LOOPBACK, False),
    # The rule in another spelling.
    ("http://127.0.0.1/", "Fetch(domain:0x7f.1)", True),
    ("http://2130706433/", "Fetch(domain:[::ffff:127.0.0.1])", True),
    ("http://127.0.0.1/x", "Fetch(http://0177.1/*)", True),
    ("http://127.0.0.1/", "Fetch(domain:127.*)", True),
    ("http://2130706433/", "Fetch(domain:127.*)", True),
    # IPv6.
    ("http://[::ffff:127.0.0.1]/", LOOPBACK, True),
    ("http://[::FFFF:7f00:1]/", LOOPBACK, True),
    ("http://[0:0:0:0:0:ffff:7f00:0001]/", LOOPBACK, True),
    ("http://[::127.0.0.1]/", LOOPBACK, True),
    ("http://[::ffff:0:127.0.0.1]/", LOOPBACK, True),
    ("http://[64:ff9b::7f00:1]/", LOOPBACK, True),
    ("http://[64:ff9b:1::7f00:1]/", LOOPBACK, True),
    ("http://[2002:7f00:1::]/", LOOPBACK, True),
    ("http://[2001:0:1:2:3:4:80ff:fffe]/", LOOPBACK, True),
    ("http://[fe80::5efe:127.0.0.1]/", LOOPBACK, True),
    ("::ffff:127.0.0.1", LOOPBACK, True),
    ("http://[2001:db8::1]/", LOOPBACK, False),
    ("http://[0::1]/", "Fetch(domain:[::1])", True),
    ("fe80::1%eth0", "Fetch(domain:[FE80::1])", True),
    ("http://[::2]/", "Fetch(domain:[::1])", False),
    ("http://[::2]/", "Fetch(domain:0.0.0.2)", True),
    # Names.
    ("https://EXAMPLE.COM/", SITE, True),
    ("https://example.com./", SITE, True),
    ("https://ex%61mple.com/", SITE, True),
    ("https://example%2ecom/", SITE, True),
    ("https://example\u3002com/", SITE, True),
    ("https://exa\u00admple.com/", SITE, True),
    ("https://\U0001d41e\U0001d431ample.com/", SITE, True),
    ("https://docs.example.com/", SITE, True),
    ("https://b\u00fccher.de/", "Fetch(domain:xn--bcher-kva.de)", True),
    ("https://a.xn--bcher-kva.de/", "Fetch(domain:*.b\u00fccher.de)", True),
    ("https://example.com.evil.com/", SITE, False),
    ("https://notexample.com/", SITE, False),
    # The text around the host.
    ("  https://example.com/\n", SITE, True),
    ("\x00\x1fhttps://example.com/", SITE, True),
    ("ht\ttps://exam\nple.c\rom/", SITE, True),
    ("hTTpS:example.com", SITE, True),
    ("https:/example.com", SITE, True),
    ("https:\\\\example.com\\x", SITE, True),
    ("https:///\\/example.com", SITE, True),
    ("//example.com/", SITE, True),
    ("ftp://example.com/", SITE, True),
    ("https://user:pass@example.com/", SITE, True),
    ("https://a@b@example.com/", SITE, True),
    ("https://evil.com\\@example.com/", SITE, True),
    ("https://example.com\\@evil.com/", SITE, True),
    ("https://a@example.com:80@evil.com/", SITE, True),
    ("https://example.com@evil.com/", SITE, False),
    ("https://evil.com/https://example.com/", SITE, False),
    ("https://evil.com/ https://example.com/", SITE, True),
    # Ports.
    ("http://example.com:8080/", PORT, True),
    ("http://example.com:08080/", PORT, True),
    ("http://example.com/", PORT, False),
    ("http://example.com:/", "Fetch(*://example.com:80/*)", True),
    ("https://example.com:00443/stats", STATS, True),
    ("http://example.com:80/stats", STATS, False),
    # Paths.
    ("https://example.com/x/../stats", STATS, True),
    ("https://example.com/./stats", STATS, True),
    ("https://example.com/x/%2e%2E/stats", STATS, True),
    ("https://example.com/x/.%2e/stats", STATS, True),
    ("https://example.com/x%2f..%2fstats", STATS, True),
    ("https://example.com\\x\\..\\stats", STATS, True),
    ("https://example.com/x/..%5cstats", STATS, True),
    ("https://example.com/%73tats", STATS, True),
    ("https://example.com/%2573tats", STATS, True),
    ("https://example.com//stats", STATS, True),
    ("https://example.com/x/..;a=b/stats", STATS, True),
    ("https://example.com/stats;a=b", STATS, True),
    ("https://example.com/stats#a", STATS, True),
    ("https://example.com/stats?a", STATS, True),
    ("https://example.com/stats/../x", STATS, False),
    ("https://example.com/admin/x", ADMIN, True),
    ("https://example.com/a/..//admin/./x", ADMIN, True),
    ("https://example.com/x", ADMIN, False),
    ("https://example.com/stats", "Fetch(HTTPS://example.com/x/../stats)", True),
    ("https://example.com/x", "Fetch(https://example.com)", True),
    # A glob that is not a URL, for an argument that is one.
    ("https://ex%61mple.com/x/../stats", "Fetch(*example.com/stats)", True),
    ("http://0x7f.1/", "Fetch(*127.0.0.1*)", True),
    # Unreadable URLs.
    ("http://other.org:+80/", SITE, True),
    ("http://other.org:8_0/", SITE, True),
    ("http://other.org:80a/", SITE, True),
    ("http://other.org:65536/", SITE, True),
    ("http://other.org:\uff18\uff10/", SITE, True),
    ("http://256.1.1.1/", SITE, True),
    ("http://1.2.3.4.5/", SITE, True),
    ("http://0x/.1/", LOOPBACK, False),
    ("http://08.1/", SITE, True),
    ("http://[::1/", SITE, True),
    ("http://[fe80::1%25eth0]/", SITE, True),
    ("http://[::1]x/", SITE, True),
    ("http://other..org/", SITE, True),
    ("http://other.org../", SITE, True),
    ("http://other%00.org/", SITE, True),
    ("http://oth er.org/", SITE, True),
    ("http://other.org%2fx/", SITE, True),
    ("http://\ud800.org/", SITE, True),
    ("http://", SITE, True),
    ("", SITE, True),
    ("javascript:alert(1)", SITE, True),
    ("https://other.org/" + "%25" * 9 + "41", SITE, False),
    ("https://other.org/%" + "25" * 9 + "41", SITE, True),
    ("https://other.org/" + "x" * LONGEST_URL, SITE, True),
    ("http://other.org:+80/", "Fetch(*example*)", True),
]


@pytest.mark.parametrize(("spelling", "rule", "is_restricted"), SPELLINGS)
def test_rules_restrict_every_spelling(spelling: str, rule: str, is_restricted: bool) -> None:
    """Deny and ask agree, and an allow rule for everything does not weaken them."""
    one = call(FETCH, url=spelling)
    denied = PermissionPolicy(mode="bypass", deny=rule, allow="Fetch").decide(one, FETCH, HERE)
    asked = PermissionPolicy(mode="bypass", ask=rule, allow="Fetch").decide(one, FETCH, HERE)
    assert isinstance(denied, Deny if is_restricted else Allow)
    assert isinstance(asked, Ask if is_restricted else Allow)


@pytest.mark.parametrize(
    ("spelling", "rule"),
    [
        ("https://example.com@evil.com/", SITE),
        ("https://evil.com\\@example.com/", SITE),
        ("https://example.com\\@evil.com/", SITE),
        ("https://example.com%2eevil.com/", SITE),
        ("https://ex%61mple.com/", SITE),
        ("https://example.com:+443/", SITE),
        ("https://example.com:443_/", SITE),
        ("https://example.com:99999/", SITE),
        ("https://example.com:0443/", SITE),
        ("https://example.com../", SITE),
        ("https://.example.com/", "Fetch(domain:*.com)"),
        ("https://a..example.com/", "Fetch(domain:*.example.com)"),
        ("https://example\u3002com/", SITE),
        ("http://127.1/", LOOPBACK),
        ("http://2130706433/", "Fetch(domain:*)"),
        ("http://256.1.1.1/", "Fetch(domain:*)"),
        ("http://[::ffff:127.0.0.1]/", LOOPBACK),
        ("http://10.evil.com/", "Fetch(domain:10.*)"),
        ("http://10.0.0.evil.com/", "Fetch(domain:10.0.0.*)"),
        ("https://example.com/stats?a", STATS),
        ("https://example.com/x", "Fetch(https://example.com)"),
        ("https://example.com/admin/./x", ADMIN),
        ("https://example.com/admin/%252e%252e/x", ADMIN),
        ("https://example.com/admin/.", ADMIN),
    ],
)
def test_allow_rules_permit_no_doubtful_spelling(spelling: str, rule: str) -> None:
    policy = PermissionPolicy(mode="deny", allow=rule)
    assert isinstance(policy.decide(call(FETCH, url=spelling), FETCH, HERE), Deny)


@pytest.mark.parametrize(
    ("spelling", "rule"),
    [
        ("http://10.1.2.3/", "Fetch(domain:10.*)"),
        ("http://[0:0::1]/", "Fetch(domain:[::0:1])"),
        ("http://127.0.0.1/", "Fetch(domain:127.1)"),
        ("https://xn--bcher-kva.de/", "Fetch(domain:b\u00fccher.de)"),
        ("https://example.com?q=1", "Fetch(https://example.com/?q=*)"),
    ],
)
def test_allow_rules_are_normalized(spelling: str, rule: str) -> None:
    policy = PermissionPolicy(mode="deny", allow=rule)
    assert isinstance(policy.decide(call(FETCH, url=spelling), FETCH, HERE), Allow)


@pytest.mark.parametrize(
    ("rule", "tool", "arguments", "is_restricted"),
    [
        ("*(domain:a.com)", BASH, {"command": "curl 'https://a.com/x'"}, True),
        ("*(domain:a.com)", BASH, {"command": "curl https://b.com https://a%2ecom/"}, True),
        ("*(domain:a.com)", BASH, {"command": "curl http://b.com:+80/"}, True),
        ("*(domain:a.com)", BASH, {"command": "ls -l | grep x"}, False),
        ("*(domain:a.com)", READ, {"file_path": "my notes.txt"}, False),
        ("*(domain:a.com)", NOTE, {"text": "hello: there"}, False),
        ("*(domain:a.com)", NOTE, {"text": "see https://a.com./x."}, True),
        ("*(domain:a.com)", SEND, {"to": "ann", "body": "hello, there"}, False),
        ("Send(to=domain:a.com)", SEND, {"to": "not a host", "body": ""}, True),
        ("Send(to=domain:127.0.0.1)", SEND, {"to": "0x7f.1", "body": ""}, True),
        ("*(domain:a.com)", LOOSE, {"url": "http://b.com:+80"}, True),
        ("*(domain:a.com)", LOOSE, {"url": ["http://b.com", {"x": ["http://a.com."]}]}, True),
        ("*(domain:a.com)", LOOSE, {"url": ["http://b.com", "http://b.com/x"]}, False),
        ("*(path:/etc/**)", FETCH, {"url": "fi\tle:\\\\\\tmp\\..\\etc\\passwd?x"}, True),
        ("*(path:/etc/**)", FETCH, {"url": "file:etc/%70asswd"}, True),
        ("*(path:/etc/**)", FETCH, {"url": "file:///tmp/x"}, False),
    ],
)
def test_url_rules_look_into_other_arguments(
    rule: str, tool: Tool, arguments: JsonObject, is_restricted: bool
) -> None:
    assert Rule.parse(rule).restricts(tool, arguments, HERE.cwd) is is_restricted


LABELS = st.text("abcxyz019-", min_size=1, max_size=6).map(lambda text: f"h{text}h")
V4 = st.lists(st.integers(0, 255), min_size=4, max_size=4)
PARTS = st.lists(st.text("abc019_", min_size=1, max_size=4), max_size=3)
RULES = st.sampled_from(
    ["domain:*.com", "domain:10.*", "domain:127.0.0.1", "*://*.org/a*", "https://*/*b", "*://*/a/b"]
)


@st.composite
def hosts(draw: st.DrawFn) -> tuple[str, str]:
    """Generate a host in its normal form and in another spelling."""
    if draw(st.booleans()):
        octets = draw(st.sampled_from([[127, 0, 0, 1], [10, 0, 0, 7]]) | V4)
        number = int.from_bytes(bytes(octets), "big")
        tail = number & 0xFFFFFF
        spelt = draw(
            st.sampled_from(
                [
                    str(number),
                    hex(number),
                    f"0{number:o}",
                    f"{octets[0]}.{tail}",
                    f"0x{octets[0]:X}.{octets[1]}.0{number & 0xFFFF:o}",
                    ".".join(f"0{octet:o}" for octet in octets) + ".",
                ]
            )
        )
        return ".".join(map(str, octets)), spelt
    host = f"{draw(LABELS)}.{draw(st.sampled_from(['com', 'org']))}"
    letters = [
        draw(
            st.sampled_from(
                [letter, letter.upper(), f"%{ord(letter):02x}"]
                + ([chr(ord(letter) + 0xFEE0)] if letter.isalnum() else [])
                + (["\u3002", "\uff0e"] if letter == "." else ["\u00ad" + letter])
            )
        )
        for letter in host
    ]
    return host, "".join(letters)


@st.composite
def respelt(draw: st.DrawFn) -> tuple[str, str]:
    """Generate a URL in its normal form and in an equivalent spelling of the URL Standard."""
    scheme, usual = draw(st.sampled_from([("http", 80), ("https", 443)]))
    host, spelt_host = draw(hosts())
    parts = draw(PARTS)
    slash = st.sampled_from(["/", "\\"])
    dots = st.sampled_from(["", ".", "%2e", "%2E"])
    path = ""
    for part in parts:
        dot, up = draw(dots), draw(st.sampled_from(["", "..", "%2e.", ".%2E"]))
        path += "".join(f"{draw(slash)}{one}" for one in [dot, *(["x", up] if up else [])] if one)
        path += f"{draw(slash)}{part}"
    begin = draw(st.sampled_from([":", ":/", "://", ":\\\\", ":/\\/", ":////"]))
    port = draw(st.sampled_from(["", ":", f":{usual}", f":000{usual}"]))
    login = draw(st.sampled_from(["", "u@", "u:p@", "@", "%40:@"]))
    written = draw(st.sampled_from([scheme, scheme.upper(), scheme.title()]))
    text = f"{written}{begin}{login}{spelt_host}{port}{path or draw(st.sampled_from(['', '/']))}"
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from("\t\n\r")) + text[at:]
    ends = st.text(" \x00\x1f\n", max_size=2)
    return f"{scheme}://{host}/{'/'.join(parts)}", draw(ends) + text + draw(ends)


@given(respelt(), RULES)
def test_respelling_changes_no_restriction(urls: tuple[str, str], pattern: str) -> None:
    """The normal form must be readable, so that two refusals do not count as agreement."""
    plain, spelt = urls
    assert readings(plain)
    assert readings(spelt)
    rule = Rule.parse(f"Fetch({pattern})")
    decided = [rule.restricts(FETCH, {"url": url}, HERE.cwd) for url in (plain, spelt)]
    assert decided[0] is decided[1]


@given(
    st.text(max_size=30) | st.text("htps:/\\@.?#%[]0x7+_ \t\ud800a", max_size=30),
    st.sampled_from(["deny", "ask"]),
    RULES,
)
def test_no_unreadable_url_is_allowed(text: str, kind: str, pattern: str) -> None:
    rule = f"Fetch({pattern})"
    policy = PermissionPolicy(
        mode="bypass",
        allow=["Fetch", "Fetch(domain:*)", "Fetch(*://*/*)"],
        deny=[rule] if kind == "deny" else [],
        ask=[rule] if kind == "ask" else [],
    )
    if readings(text) is None:
        assert not isinstance(policy.decide(call(FETCH, url=text), FETCH, HERE), Allow)
        assert not Rule.parse("Fetch(domain:*)").permits(FETCH, {"url": text}, HERE.cwd)
        assert not Rule.parse("Fetch(*://*/*)").permits(FETCH, {"url": text}, HERE.cwd)


@pytest.mark.parametrize(
    ("path", "form"),
    [("/a/./b", "/a/b"), ("/a/b/..", "/a/"), ("/../a", "/a"), ("/a/.", "/a/")],
)
def test_path_forms_include_resolved_dot_segments(path: str, form: str) -> None:
    forms = rest_forms(path)
    assert forms is not None
    assert {path, form} <= forms


def test_host_outside_ascii_names_itself() -> None:
    assert host_names("b\xfccher.example") == frozenset({"b\xfccher.example"})
