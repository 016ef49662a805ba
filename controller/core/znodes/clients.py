"""Znodes about Kafka's clients, which no controller reads or writes: old consumers and delegation
tokens."""

from typing import Final

CONSUMERS: Final = "/consumers"
_DELEGATION: Final = "/delegation_token"
DELEGATION_TOKENS: Final = f"{_DELEGATION}/tokens"
DELEGATION_TOKEN_CHANGES: Final = f"{_DELEGATION}/token_changes"
