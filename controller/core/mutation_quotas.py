"""Kafka's controller mutation quotas (KIP-599): how many partitions per second a client may create
and delete (ClientQuotaManager, ControllerMutationQuotaManager, TokenBucket).

All numbers are integers, so that a log folds to the same decisions everywhere: rates are millionths
of a mutation per second, tokens are billionths of a mutation.
"""

from decimal import Decimal
from math import isinf, isnan
from typing import Final, NamedTuple

from msgspec import Struct

from controller.core.config_types import LONG_MAX, double
from controller.core.configuration import QuotaWindow
from controller.core.znodes import sanitized

MUTATION_RATE: Final = "controller_mutation_rate"

DEFAULT: Final = "<default>"
"""The name of a default in paths. Other names cannot be equal to it: they are encoded."""
_ANY: Final = ""
_PER_SECOND: Final = 10**6
_PER_MUTATION: Final = 10**9
_MS_PER_SECOND: Final = 1000
_THROTTLE_MS_MAX: Final = 2**31 - 1
_FORGOTTEN_MS: Final = 3_600_000
"""An unused bucket is forgotten after this time (InactiveSensorExpirationTimeSeconds)."""


class QuotaEntity(NamedTuple):
    """A user, a client id, or both, as they are spelt in paths; an empty name means any."""

    user: str
    client_id: str


class TokenBucket(Struct):
    """The partition mutations that a client may still make at once; negative after more than
    that."""

    tokens: int
    updated_ms: int


def parse_rate(text: str) -> int | None:
    """The rate of a configuration; None: no limit. Raises ValueError."""
    value = double(text.strip())
    if isnan(value) or isinf(value) or value >= LONG_MAX:
        return None
    # Kafka accepts a negative rate, with which it would compute a negative time.
    return max(int(Decimal(repr(value)) * _PER_SECOND), 0)


class MutationQuotas:
    """The quotas in ZooKeeper, and the buckets of the clients that they apply to."""

    def __init__(self) -> None:
        self.rates: dict[QuotaEntity, int | None] = {}
        # The bucket that has been used last is the last one.
        self.buckets: dict[QuotaEntity, TokenBucket] = {}

    def set_rate(self, entity: QuotaEntity, rate: int | None, *, is_set: bool) -> None:
        """The configuration of an entity has this rate, or none."""
        if is_set:
            self.rates[entity] = rate
        else:
            self.rates.pop(entity, None)

    def owner(self, user: str, client_id: str) -> QuotaEntity:
        """The owner of the bucket that a request uses, by the most specific quota
        (DefaultQuotaCallback.quotaMetricTags)."""
        user = sanitized(user)
        client = sanitized(client_id)
        both, of_user = QuotaEntity(user, client_id), QuotaEntity(user, _ANY)
        owners = {
            QuotaEntity(user, client): both,
            QuotaEntity(user, DEFAULT): both,
            of_user: of_user,
            QuotaEntity(DEFAULT, client): both,
            QuotaEntity(DEFAULT, DEFAULT): both,
            QuotaEntity(DEFAULT, _ANY): of_user,
        }
        found = (owner for entity, owner in owners.items() if entity in self.rates)
        return next(found, QuotaEntity(_ANY, client_id))

    def rate_of(self, owner: QuotaEntity) -> int | None:
        """The rate that applies to a bucket; None: no limit (DefaultQuotaCallback.quotaLimit)."""
        user, client = owner.user, sanitized(owner.client_id)
        if user and client:
            entities = [(user, client), (user, DEFAULT), (DEFAULT, client), (DEFAULT, DEFAULT)]
        elif user:
            entities = [(user, _ANY), (DEFAULT, _ANY)]
        elif client:
            entities = [(_ANY, client), (_ANY, DEFAULT)]
        else:
            entities = []
        found = (QuotaEntity(*one) for one in entities if QuotaEntity(*one) in self.rates)
        entity = next(found, None)
        return None if entity is None else self.rates[entity]

    def record(
        self, owner: QuotaEntity, mutations: int, now_ms: int, window: QuotaWindow, *, strict: bool
    ) -> int | None:
        """Count mutations; returns for how many milliseconds the client is throttled, None if it is
        not.

        A strict quota counts nothing while the bucket is below zero, and does not throttle for what
        brings it below zero. A permissive quota counts everything, and throttles as soon as the
        bucket is below zero (Kafka's StrictControllerMutationQuota and its sibling).
        """
        rate = self.rate_of(owner)
        bucket = self.buckets.pop(owner, None)
        if rate is None:
            return None
        full = window.samples * window.seconds * _MS_PER_SECOND * rate
        bucket = bucket or TokenBucket(full, now_ms)
        passed_ms = max(now_ms - bucket.updated_ms, 0)
        before = min(full, bucket.tokens + rate * passed_ms)
        is_refused = strict and before < 0
        after = before if is_refused else min(full, before - mutations * _PER_MUTATION)
        self._forget(now_ms)
        self.buckets[owner] = TokenBucket(after, now_ms)
        decisive = before if strict else after
        return _milliseconds(-decisive, rate) if decisive < 0 else None

    def _forget(self, now_ms: int) -> None:
        for owner in list(self.buckets):
            if now_ms - self.buckets[owner].updated_ms < _FORGOTTEN_MS:
                return
            del self.buckets[owner]


def _milliseconds(missing: int, rate: int) -> int:
    """The time until tokens are there again, rounded as by Java's Math.round."""
    if not rate:
        return _THROTTLE_MS_MAX
    return min((2 * missing + rate) // (2 * rate), _THROTTLE_MS_MAX)
