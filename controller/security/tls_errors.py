"""Why a TLS connection failed, for people."""

import ssl


def reason_of(error: Exception) -> str:
    """One clause without the places in OpenSSL's code."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, ConnectionError) and not str(error):
        # asyncio raises it without a text if the other side ends a TLS handshake.
        return "it closed the connection at the TLS handshake: does this port have TLS?"
    return str(error) or type(error).__name__
