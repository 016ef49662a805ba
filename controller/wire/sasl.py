"""The API keys and versions of SASL."""

from typing import Final

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
SASL_SPANS: Final = {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
