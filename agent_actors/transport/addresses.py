"""Decide whether an IP address belongs to a public host.

A model, a web page or a redirect can name any address. Requests made on their behalf must not reach
the services on this machine, in its network, or the metadata service of its cloud (server-side
request forgery). The check applies to the address that a socket connects to, because a host name
can resolve to a different address each time.
"""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from types import MappingProxyType
from typing import Final, TypeAlias

AddressCheck: TypeAlias = Callable[[str], str]
"""Returns the reason why an address must not be connected to; empty text if it may."""

# The IANA registry of special-purpose addresses, and the address of Azure's metadata service, which
# lies in a public network. A narrower network comes before a wider one that contains it.
_IPV4: Final[Mapping[IPv4Network, str]] = MappingProxyType(
    {
        IPv4Network(network): kind
        for network, kind in (
            ("0.0.0.0/8", "an unspecified address"),
            ("10.0.0.0/8", "a private address"),
            ("100.64.0.0/10", "a shared address of a carrier network"),
            ("127.0.0.0/8", "a loopback address"),
            ("168.63.129.16/32", "the metadata service of a cloud"),
            ("169.254.0.0/16", "a link-local address"),
            ("172.16.0.0/12", "a private address"),
            ("192.0.0.0/24", "a reserved address"),
            ("192.0.2.0/24", "an address for documentation"),
            ("192.88.99.0/24", "a reserved address"),
            ("192.168.0.0/16", "a private address"),
            ("198.18.0.0/15", "an address for benchmarks"),
            ("198.51.100.0/24", "an address for documentation"),
            ("203.0.113.0/24", "an address for documentation"),
            ("224.0.0.0/4", "a multicast address"),
            ("240.0.0.0/4", "a reserved address"),
        )
    }
)
_IPV6: Final[Mapping[IPv6Network, str]] = MappingProxyType(
    {
        IPv6Network(network): kind
        for network, kind in (
            ("::/128", "an unspecified address"),
            ("::1/128", "a loopback address"),
            ("fc00::/7", "a private address"),
            ("fe80::/10", "a link-local address"),
            ("fec0::/10", "a private address"),
            ("ff00::/8", "a multicast address"),
            ("2001::/23", "a reserved address"),
            ("2001:db8::/32", "an address for documentation"),
            ("2002::/16", "a reserved address"),
            ("3fff::/20", "an address for documentation"),
        )
    }
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
# Networks whose addresses lead to the IPv4 address in their last 32 bits: IPv4-mapped addresses,
# and the well-known prefix of NAT64.
_LEADS_TO_IPV4: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
# The third quarter of an ISATAP address (RFC 5214), which is followed by an IPv4 address.
_ISATAP: Final = frozenset((0x00005EFE, 0x02005EFE))


def find_address_error(address: str) -> str:
    """Return why an address is not that of a public host; empty text if it is public.

    Args:
        address: An IPv4 or IPv6 address, without brackets, possibly with a zone.
    """
    text, zone, _ = address.partition("%")
    if zone:
        return "a link-local address"
    try:
        found = ip_address(text)
    except ValueError:
        return "not an IP address"
    return _ipv4_error(found) if isinstance(found, IPv4Address) else _ipv6_error(found)


def _ipv4_error(address: IPv4Address) -> str:
    return next((kind for network, kind in _IPV4.items() if address in network), "")


def _ipv6_error(address: IPv6Address) -> str:
    number = int(address)
    embedded = IPv4Address(number & 0xFFFFFFFF)
    if any(address in network for network in _LEADS_TO_IPV4):
        return _ipv4_error(embedded)
    for network, kind in _IPV6.items():
        if address in network:
            return kind
    if address not in _GLOBAL_UNICAST:
        return "a reserved address"
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        return _ipv4_error(embedded)
    return ""
