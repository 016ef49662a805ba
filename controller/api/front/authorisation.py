"""The one place that decides whether a client's request may go to a broker under our identity.

What is passed on reaches the broker as if refold itself had sent it.
"""

from typing import Final

from controller.core.values import Endpoint

_ANONYMOUS: Final = frozenset({"PLAINTEXT"})
"""Listeners where neither the client nor we have an identity: the broker sees both alike."""


def may_pass_on(came_in: Endpoint, goes_out: Endpoint) -> bool:
    """Whether a request that came in on one of our listeners may go out to that broker's."""
    return {came_in.security_protocol, goes_out.security_protocol} <= _ANONYMOUS
