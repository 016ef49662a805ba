"""Topic ids: which 16 bytes may be one (Kafka's Uuid)."""

from base64 import urlsafe_b64encode
from typing import Final

_RESERVED: Final = (bytes(16), bytes(15) + b"\x01")


def is_reserved(topic_id: bytes) -> bool:
    """Whether Kafka keeps it for itself, or prints it with a leading dash (Uuid.randomUuid)."""
    return topic_id in _RESERVED or urlsafe_b64encode(topic_id).startswith(b"-")
