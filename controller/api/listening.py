"""The sockets of the endpoint: the daemon binds them, the front serves them."""

import socket
from collections.abc import Mapping, Sequence
from typing import Final

from controller.api.endpoint_security import PLAIN, EndpointSecurity
from controller.api.errors import CannotListen
from controller.core.values import Endpoint

BACKLOG: Final = 512
"""Connections that the kernel queues before they are accepted."""


class BoundListener:
    """A listening socket for one entry of `listeners`. It outlives the front processes."""

    def __init__(
        self, endpoint: Endpoint, bound: socket.socket, security: EndpointSecurity = PLAIN
    ) -> None:
        self.endpoint = endpoint
        self.socket = bound
        self.security = security


def listen(
    listeners: Sequence[Endpoint], security: Mapping[str, EndpointSecurity] | None = None
) -> tuple[BoundListener, ...]:
    """Listen on all endpoints. An empty host means every interface. `security`: of the listeners
    with TLS or SASL, by name. Raises `CannotListen`."""
    secured = security or {}
    bound: list[BoundListener] = []
    try:
        for endpoint in listeners:
            of_listener = secured.get(endpoint.listener, PLAIN)
            bound.append(BoundListener(endpoint, _bind(endpoint), of_listener))
    except CannotListen:
        for one in bound:
            one.socket.close()
        raise
    return tuple(bound)


def _bind(endpoint: Endpoint) -> socket.socket:
    address = f"{endpoint.listener}://{endpoint.host}:{endpoint.port}"
    try:
        if endpoint.host:
            family = socket.getaddrinfo(endpoint.host, endpoint.port)[0][0]
            return _server(endpoint, family, both=False)
        both = socket.has_dualstack_ipv6()
        return _server(endpoint, socket.AF_INET6 if both else socket.AF_INET, both=both)
    except OSError as fault:
        raise CannotListen(f"cannot listen on {address}: {fault}") from fault


def _server(endpoint: Endpoint, family: int, *, both: bool) -> socket.socket:
    address = (endpoint.host, endpoint.port)
    return socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=both)
