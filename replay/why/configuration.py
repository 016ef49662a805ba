"""Dynamic configuration that explains a state: throttles, min.insync.replicas, elections."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from controller.core import znodes
from controller.core.znodes.config import broker_config_path, topic_config_path
from replay.cluster_view.from_znodes import config_of
from replay.cluster_view.views import PartitionView
from replay.description.phrases import broker_list, enumeration
from replay.znode_view import ZnodeView

_SIDES: Final = ("leader", "follower")
_UNCLEAN: Final = "unclean.leader.election.enable"
_MIN_ISR: Final = "min.insync.replicas"


class ConfigOverrides(Struct, frozen=True):
    """The overrides of topics and of the brokers. `default` are those of all brokers."""

    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)

    def of_topic(self, name: str) -> Mapping[str, str]:
        """The overrides of a topic."""
        return self.topics.get(name, {})


def configuration_in(view: ZnodeView, topic: str | None) -> ConfigOverrides:
    """The overrides that ZooKeeper has for a topic (None: for all) and the brokers, without znodes
    that cannot be parsed."""
    topics = view.children(znodes.TOPICS) if topic is None else [topic]
    ids = [one for one in view.children(znodes.BROKER_CONFIGS) if znodes.is_broker_id(one)]
    return ConfigOverrides(
        {one: config_of(view, topic_config_path(one)) for one in topics},
        {int(one): config_of(view, broker_config_path(int(one))) for one in ids},
        config_of(view, broker_config_path(None)),
    )


def throttles(configuration: ConfigOverrides, partition: PartitionView) -> str:
    """A sentence about the throttles of a partition's replication; "" for none."""
    limits = limits_of(configuration, partition)
    return f" Its replication is throttled to {limits}." if limits else ""


def throttles_of_topic(configuration: ConfigOverrides, partitions: Sequence[PartitionView]) -> str:
    """Sentences about the throttles of a topic's partitions that are not in sync."""
    names: dict[str, list[str]] = {}
    for one in partitions:
        if is_behind(one) and (limits := limits_of(configuration, one)):
            names.setdefault(limits, []).append(one.name)
    return "".join(
        f" The replication of {enumeration(some)} is throttled to {limits}."
        for limits, some in names.items()
    )


def is_behind(partition: PartitionView) -> bool:
    """Whether a replica of an online partition is not in sync, or is yet to be added."""
    return partition.status == "online" and not set(partition.replicas) <= set(partition.isr)


def limits_of(configuration: ConfigOverrides, partition: PartitionView) -> str:
    """The throttles of a partition's replication; "" for none."""
    brokers: dict[tuple[str, str], list[int]] = {}
    for side in _SIDES:
        for broker in _throttled_replicas(configuration, partition, side):
            if rate := _rate(configuration, broker, side):
                brokers.setdefault((side, rate), []).append(broker)
    return enumeration(
        f"{rate} on {'broker' if len(several) == 1 else 'brokers'} {broker_list(several)}"
        f" ({_key(side)})"
        for (side, rate), several in brokers.items()
    )


def limit_towards(configuration: ConfigOverrides, partition: PartitionView, broker: int) -> str:
    """The throttle of what a replica copies: its own, or else its leader's; "" for none."""
    for side, one in (("follower", broker), ("leader", partition.leader)):
        rate = _rate(configuration, one, side)
        if rate and one in _throttled_replicas(configuration, partition, side):
            return f"{rate} on broker {one} ({_key(side)})"
    return ""


def _key(side: str) -> str:
    return f"{side}.replication.throttled.rate"


def _rate(configuration: ConfigOverrides, broker: int, side: str) -> str:
    """The limit of a broker; "" for none."""
    settings = configuration.brokers.get(broker, configuration.default)
    rate = settings.get(_key(side), configuration.default.get(_key(side), ""))
    return _in_bytes(rate) if rate else ""


def _throttled_replicas(
    configuration: ConfigOverrides, partition: PartitionView, side: str
) -> Sequence[int]:
    """The replicas of a partition that the topic's configuration throttles on one side."""
    settings = configuration.of_topic(partition.topic)
    named = settings.get(f"{side}.replication.throttled.replicas", "")
    entries = {one.strip() for one in named.split(",")}
    number = partition.partition
    return [one for one in sorted(partition.replicas) if entries & {"*", f"{number}:{one}"}]


def _in_bytes(rate: str) -> str:
    return f"{int(rate):,} B/s" if rate.isdecimal() else rate


def too_few_in_sync(configuration: ConfigOverrides, partition: PartitionView) -> str:
    """A sentence about an ISR below min.insync.replicas; "" if the topic sets none, or it is
    reached."""
    settings = configuration.of_topic(partition.topic)
    wanted = settings.get(_MIN_ISR, configuration.default.get(_MIN_ISR, ""))
    if not wanted.isdecimal() or len(partition.isr) >= int(wanted):
        return ""
    return (
        f" Producers with acks=all are refused: {_MIN_ISR} is {wanted}, and the ISR has "
        f"{len(partition.isr)}."
    )


def unclean_setting(configuration: ConfigOverrides, topic: str) -> str:
    """A sentence about the setting of unclean elections; "" if it has no override."""
    settings = configuration.of_topic(topic)
    if _UNCLEAN in settings:
        return f" The topic sets {_UNCLEAN} to {settings[_UNCLEAN]}."
    if _UNCLEAN in configuration.default:
        return f" {_UNCLEAN} is {configuration.default[_UNCLEAN]} for all brokers."
    return ""
