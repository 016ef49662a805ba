"""Random requests about no topic: producer ids, SCRAM credentials, finalized features."""

from collections.abc import Sequence
from typing import Final, Literal

from controller.core import znodes
from replay.explore.numbers import RandomNumbers
from replay.world.inputs import (
    MECHANISMS,
    UPGRADE_KINDS,
    AllocateProducerIds,
    AlterUserScramCredentials,
    CredentialChange,
    FeatureChange,
    Input,
    UpdateFeatures,
)

_FEATURES: Final = {"group.version": 1, "transaction.version": 2}
"""Features that may be finalized at the start, with their levels."""

_USERS: Final = ("alice", "bob")
"""There are few, so that several requests change the same credential."""
_MECHANISMS: Final = tuple(MECHANISMS.values())
_KINDS: Final = tuple(UPGRADE_KINDS.values())
_ROUTES: Final[tuple[Literal["api", "znode"], ...]] = ("api", "znode")
_APART_MS: Final = (0, 1, 3, 10, 50, 1_000)
_BETWEEN_MS: Final = (1, 2, 3, 4)
"""A controller writes a block of producer ids this time after the request of the broker."""
_WRITERS_PERCENT: Final = 60
"""How often another broker writes a block itself between the read and the write of a controller."""
_FINALIZED_PERCENT: Final = 50
_STARTED_PERCENT: Final = 90
"""Brokers create the znode of blocks when they start, except those before 0.11."""


def producer_ids(numbers: RandomNumbers, brokers: Sequence[int], at_ms: int) -> list[Input]:
    """Some brokers need producer ids at almost the same time, by either route."""
    made: list[Input] = [AllocateProducerIds(at_ms, numbers.choice(brokers))]
    if numbers.chance(_WRITERS_PERCENT):
        later_ms = at_ms + numbers.choice(_BETWEEN_MS)
        made.append(AllocateProducerIds(later_ms, numbers.choice(brokers), "znode"))
    for _ in range(numbers.below(3)):
        at_ms += numbers.choice(_APART_MS)
        route = numbers.choice(_ROUTES)
        made.append(AllocateProducerIds(at_ms, numbers.choice(brokers), route))
    return made


def credentials(numbers: RandomNumbers, at_ms: int) -> list[Input]:
    """A credential is set, and soon after another one or the same one is set or deleted."""
    made: list[Input] = []
    for deleted_percent in (0, 50, 50)[: numbers.between(1, 3)]:
        changes: dict[tuple[str, str], CredentialChange] = {}
        for _ in range(numbers.between(1, 2)):
            user, mechanism = numbers.choice(_USERS), numbers.choice(_MECHANISMS)
            is_deleted = numbers.chance(deleted_percent)
            credential = None if is_deleted else f"secret-{numbers.below(1_000)}"
            changes[user, mechanism] = CredentialChange(user, mechanism, credential)
        made.append(AlterUserScramCredentials(at_ms, tuple(changes.values())))
        at_ms += numbers.choice(_APART_MS)
    return made


def features(numbers: RandomNumbers, at_ms: int) -> list[Input]:
    """Mostly, a finalized feature is deleted: a broker with ZooKeeper supports none."""
    name = numbers.choice(list(_FEATURES))
    change = FeatureChange(name, 0, "safe_downgrade")
    if numbers.chance(25):
        change = FeatureChange(name, numbers.below(3), numbers.choice(_KINDS))
    return [UpdateFeatures(at_ms, (change,), numbers.chance(15))]


def start_znodes(numbers: RandomNumbers) -> dict[str, str]:
    """The znodes of these requests at the start: no block of producer ids yet, and features of
    either format."""
    made: dict[str, str] = {}
    if numbers.chance(_STARTED_PERCENT):
        made[znodes.PRODUCER_IDS] = ""
    if numbers.chance(_FINALIZED_PERCENT):
        levels = znodes.Features(True, _FEATURES, numbers.between(1, 2))
        made[znodes.FEATURE] = znodes.write_features(levels).decode()
    return made
