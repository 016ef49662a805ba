"""Dynamic configuration that explains a state: throttles, min.insync.replicas, elections."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from controller.core import znodes
from controller.core.znodes.config import broker_config_path, topic_config_path
from replay.agreement.znode_view import ZnodeView
from replay.cluster_view.from_znodes import config_of
from replay.cluster_view.views import PartitionView
from replay.description.phrases import joined

_SIDES: Final = ("leader", "follower")
_UNCLEAN: Final = "unclean.leader.election.enable"
_MIN_ISR: Final = "min.insync.replicas"


class ConfigOverrides(Struct, frozen=True):
    """The overrides of one topic and of the brokers. `default` are those of all brokers."""

    topic: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)


def configuration_in(view: ZnodeView, topic: str | None) -> ConfigOverrides:
    """The overrides that ZooKeeper has, without znodes that cannot be parsed."""
    ids = [one for one in view.children(znodes.BROKER_CONFIGS) if znodes.is_broker_id(one)]
    return ConfigOverrides(
        {} if topic is None else config_of(view, topic_config_path(topic)),
        {int(one): config_of(view, broker_config_path(int(one))) for one in ids},
        config_of(view, broker_config_path(None)),
    )


def throttles(configuration: ConfigOverrides, partition: PartitionView) -> str:
    """A sentence about the throttles of a partition's replication; "" for none."""
    limits = [
        f"{_in_bytes(rate)} on broker {broker} ({key})"
        for side in _SIDES
        for broker in _throttled(configuration, partition, side)
        for key in [f"{side}.replication.throttled.rate"]
        if (rate := configuration.brokers.get(broker, configuration.default).get(key))
    ]
    return f" Its replication is throttled to {joined(limits)}." if limits else ""


def _throttled(
    configuration: ConfigOverrides, partition: PartitionView, side: str
) -> Sequence[int]:
    """The replicas of a partition that the topic's configuration throttles on one side."""
    named = configuration.topic.get(f"{side}.replication.throttled.replicas", "")
    entries = {one.strip() for one in named.split(",")}
    number = partition.partition
    return [one for one in sorted(partition.replicas) if entries & {"*", f"{number}:{one}"}]


def _in_bytes(rate: str) -> str:
    return f"{int(rate):,} B/s" if rate.isdecimal() else rate


def too_few_in_sync(configuration: ConfigOverrides, partition: PartitionView) -> str:
    """A sentence about an ISR below min.insync.replicas; "" if the topic sets none, or it is
    reached."""
    wanted = configuration.topic.get(_MIN_ISR, configuration.default.get(_MIN_ISR, ""))
    if not wanted.isdecimal() or len(partition.isr) >= int(wanted):
        return ""
    return (
        f" Producers with acks=all are refused: {_MIN_ISR} is {wanted}, and the ISR has "
        f"{len(partition.isr)}."
    )


def unclean_setting(configuration: ConfigOverrides) -> str:
    """A sentence about the setting of unclean elections; "" if it has no override."""
    if _UNCLEAN in configuration.topic:
        return f" The topic sets {_UNCLEAN} to {configuration.topic[_UNCLEAN]}."
    if _UNCLEAN in configuration.default:
        return f" {_UNCLEAN} is {configuration.default[_UNCLEAN]} for all brokers."
    return ""
