"""Addresses that may not be requested on behalf of a model."""

import pytest

from agent_actors.transport.addresses import find_address_error


@pytest.mark.parametrize(
    "address",
    [
        "93.184.216.34",
        "1.1.1.1",
        "172.15.255.255",
        "172.32.0.1",
        "100.128.0.1",
        "2606:2800:220:1:248:1893:25c8:1946",
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
        "2606:4700::5efe:808:808",
    ],
)
def test_public_address_is_allowed(address: str) -> None:
    assert find_address_error(address) == ""


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("10.255.255.255", "private"),
        ("100.64.0.1", "carrier"),
        ("100.100.100.200", "carrier"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("168.63.129.16", "metadata"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.8", "reserved"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "reserved"),
        ("192.168.1.1", "private"),
        ("198.19.0.1", "benchmarks"),
        ("198.51.100.7", "documentation"),
        ("203.0.113.7", "documentation"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:a00:1", "private"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("::7f00:1", "reserved"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("2606:2800::1%1", "link-local"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("2001::1", "reserved"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::", "reserved"),
        ("3fff::1", "documentation"),
        ("5f00::1", "reserved"),
        ("64:ff9b:1::1", "reserved"),
        ("2606:4700::5efe:7f00:1", "loopback"),
        ("2606:4700::200:5efe:a00:1", "private"),
        ("localhost", "not an IP address"),
        ("", "not an IP address"),
    ],
)
def test_special_address_is_refused(address: str, kind: str) -> None:
    assert kind in find_address_error(address)
