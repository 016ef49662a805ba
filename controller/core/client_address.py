"""The addresses of clients, as Kafka spells them."""

from ipaddress import AddressValueError, IPv6Address


def canonical_address(address: str) -> str:
    """An address as Java's InetAddress.getHostAddress spells it, so that it is equal to the host of
    an ACL: an IPv4 client of a socket for IPv6 has an IPv4 address, and an IPv6 address has all its
    eight groups."""
    numbers, scope, zone = address.partition("%")
    try:
        found = IPv6Address(numbers)
    except AddressValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in found.exploded.split(":"))
    return ":".join(groups) + scope + zone
