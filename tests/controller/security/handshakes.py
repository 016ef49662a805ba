"""TLS handshakes in memory."""

import ssl
from contextlib import suppress


def shake_hands(
    client: ssl.SSLContext, server: ssl.SSLContext, host: str
) -> tuple[str | None, str]:
    """The version and the cipher of a handshake. Raises ssl.SSLError of the side that fails
    first."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    # With TLS 1.3 the server checks the client's certificate after the client has finished.
    sides[1].write(b"x")
    assert sides[0].read(1) == b"x"
    cipher = sides[0].cipher()
    assert cipher is not None
    return sides[0].version(), cipher[0]


def alert_of(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> ssl.SSLError:
    """The error that the client sees if the server refuses its certificate after a handshake of TLS
    1.3."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering, asking, answering):
        with suppress(ssl.SSLError):
            side.do_handshake()
    try:
        asking.read(1)
    except ssl.SSLError as error:
        return error
    raise AssertionError("the server accepts the client")
