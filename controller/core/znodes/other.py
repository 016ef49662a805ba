"""Znodes of Kafka's brokers and clients that no controller reads or writes."""

from typing import Final

from controller.core.znodes.brokers import BROKERS

BROKER_SEQUENCE: Final = f"{BROKERS}/seqid"
CONSUMERS: Final = "/consumers"
_DELEGATION: Final = "/delegation_token"
DELEGATION_TOKENS: Final = f"{_DELEGATION}/tokens"
DELEGATION_TOKEN_CHANGES: Final = f"{_DELEGATION}/token_changes"
