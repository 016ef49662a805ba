"""Why a TLS connection failed, for people."""

import ssl
from typing import Final

_NO_AUTHORITY: Final = frozenset((18, 19, 20, 21))
"""OpenSSL's codes for a certificate that no trusted authority has issued (X509_V_ERR_...)."""

_REFUSALS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": "its truststore does not contain the authority that issued it",
    # Java's, for any reason; most often for an unknown authority.
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "check that its truststore contains the authority that "
    "issued it",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it requires a certificate that it can verify",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the certificate has been revoked",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires one, and none is in the keystore",
}
"""Why the other side does not accept the certificate of this side, by OpenSSL's name of its
alert."""


def reason_of(error: Exception) -> str:
    """One clause without the places in OpenSSL's code. "It" is the other side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        is_unknown = error.verify_code in _NO_AUTHORITY
        hint = ": the truststore does not contain the authority that issued it"
        return f"its certificate cannot be trusted: {error.verify_message}{hint * is_unknown}"
    if isinstance(error, ssl.SSLError):
        if error.reason in _REFUSALS:
            return f"it refuses the certificate that it was shown: {_REFUSALS[error.reason]}"
        return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, ConnectionError) and not str(error):
        # asyncio raises it without a text if the other side ends a TLS handshake.
        return "it closed the connection at the TLS handshake: does this port have TLS?"
    return str(error) or type(error).__name__
