"""The configurations of users in /config/users: credentials and quotas (DynamicConfig.User).

Credentials are secrets: the fold only has keyed digests of them
(api_requests/scram_credentials.py).
"""

from collections.abc import Mapping
from typing import Final

from controller.core.config_types import (
    InvalidConfiguration,
    Parse,
    anything,
    double,
    int64,
    parse_value,
)

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The names of Kafka's SCRAM mechanisms, which are the keys of a user's credentials."""

_QUOTAS: Final[Mapping[str, Parse]] = {
    "producer_byte_rate": int64,
    "consumer_byte_rate": int64,
    "request_percentage": double,
    "controller_mutation_rate": double,
}


def is_secret(key: str) -> bool:
    """Whether a value must not be logged: all values but quotas."""
    return key not in _QUOTAS


def problem_with(configs: Mapping[str, str]) -> str | None:
    """Kafka's error for a user's whole configuration; None if it is valid."""
    unknown = [key for key in configs if key not in _QUOTAS and key not in MECHANISMS.values()]
    if unknown:
        return f"Unknown Dynamic Configuration: {', '.join(unknown)}."
    try:
        for key, value in configs.items():
            if key in _QUOTAS:
                parse_value(key, value, _QUOTAS[key], anything)
    except InvalidConfiguration as problem:
        return str(problem)
    return None
