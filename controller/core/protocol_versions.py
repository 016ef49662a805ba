"""inter.broker.protocol.version (IBP): what each version enables (KB 0.4, 12.3)."""

from typing import Final

from controller.core.errors import ConfigurationError

_RELEASES: Final[tuple[str, ...]] = [
    "2.4-IV0",
    "2.4-IV1",
    "2.5-IV0",
    "2.6-IV0",
    "2.7-IV0",
    "2.7-IV1",
    "2.7-IV2",
    "2.8-IV0",
    "2.8-IV1",
    "3.0-IV0",
    "3.0-IV1",
    "3.1-IV0",
    "3.2-IV0",
    "3.3-IV0",
    "3.3-IV1",
    "3.3-IV2",
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
]  # type: ignore[assignment]

_ORDER: Final = {name: place for place, name in enumerate(_RELEASES)}

LATEST: Final = _RELEASES[-1]

_REGISTRATION_SINCE_2_7: Final = 5

_REQUEST_VERSIONS: Final = {
    "LeaderAndIsr": (
        ("3.4-IV0", 7),
        ("3.2-IV0", 6),
        ("2.8-IV1", 5),
        ("2.4-IV1", 4),
        ("2.4-IV0", 3),
    ),
    "UpdateMetadata": (("3.4-IV0", 8), ("2.8-IV1", 7), ("2.4-IV1", 6), ("2.4-IV0", 5)),
    "StopReplica": (("3.4-IV0", 4), ("2.6-IV0", 3), ("2.4-IV1", 2), ("2.4-IV0", 1)),
}


class ProtocolVersion:
    """One inter.broker.protocol.version, from 2.4-IV0 to 3.9-IV0.

    A short name such as "2.8" means the last version of that release, as in Kafka.
    """

    __slots__ = ("_place", "leader_and_isr", "name", "stop_replica", "update_metadata")

    def __init__(self, text: str) -> None:
        """Parse a version such as "2.7" or "2.7-IV2". Raises ConfigurationError for an unknown
        one."""
        self.name = _full_name(text)
        self._place = _ORDER[self.name]
        self.leader_and_isr = self._request_version("LeaderAndIsr")
        self.update_metadata = self._request_version("UpdateMetadata")
        self.stop_replica = self._request_version("StopReplica")

    def at_least(self, name: str) -> bool:
        """Whether this version is `name` (a full name such as "2.8-IV0") or a later one."""
        return self._place >= _ORDER[name]

    def contradicted_by(self, registration_version: int) -> str:
        """ "2.7 or later" or "below 2.7", if a broker's protocol version is on the other side of
        2.7-IV0 than this one; else empty. The version of the registration's JSON shows it
        (BrokerInfo.apply, KB 0.4)."""
        is_newer = registration_version >= _REGISTRATION_SINCE_2_7
        if is_newer == self.at_least("2.7-IV0"):
            return ""
        return "2.7 or later" if is_newer else "below 2.7"

    @property
    def has_feature_versioning(self) -> bool:
        """Whether /feature is enabled (MetadataVersion.isFeatureVersioningSupported)."""
        return self.at_least("2.7-IV0")

    @property
    def has_alter_partition(self) -> bool:
        """Whether leaders send ISR changes to the controller instead of ZooKeeper (KB 0.4)."""
        return self.at_least("2.7-IV2")

    @property
    def has_topic_ids(self) -> bool:
        """Whether the controller assigns topic ids (KafkaConfig.usesTopicId)."""
        return self.at_least("2.8-IV0")

    @property
    def has_leader_recovery_state(self) -> bool:
        """Whether an unclean leader is marked as recovering (KB 4.4.2)."""
        return self.at_least("3.2-IV0")

    def _request_version(self, api: str) -> int:
        return next(version for since, version in _REQUEST_VERSIONS[api] if self.at_least(since))


def _full_name(text: str) -> str:
    if text in _ORDER:
        return text
    # Kafka also accepts "2.8.1": only the first two parts count.
    release = ".".join(text.split("-", maxsplit=1)[0].split(".")[:2])
    matching = [name for name in _RELEASES if name.startswith(release + "-")]
    if not matching or "-" in text:
        raise ConfigurationError(
            f"inter.broker.protocol.version {text!r} is not supported: "
            f"use one of {_RELEASES[0]} to {LATEST}, the version that the brokers run with"
        )
    return matching[-1]
