"""The next leader epoch if /brokers/epoch does not exist, is unreadable, or was set back (E-09).

An administrator may have deleted or written the znode. An epoch that was used before would let
followers take two leaderships for one (D-06). The ISR of a partition has the epoch of its last
leader (E-06).
"""

from typing import Final

from controller.core.errors import ZnodeError
from controller.core.operations import NO_AUTH, OK
from controller.core.outcomes import ZnodeColumns
from controller.core.znodes.schema import INT_MAX, parse_natural
from controller.core.zookeeper_io import denied_text
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.procedures.reading import children_of, children_of_each, read_znodes
from controller.kafka_0_8.state import NO_EPOCH

_RESTORED: Final = "epoch_restored"
_UNKNOWN: Final = "epoch_unknown"
"""Codes of notices."""


async def epoch_after_all(broker: Broker, what: str, *, warn: bool = False) -> int | None:
    """The epoch after those of all partitions, and after those that this broker has known. None if
    a znode cannot be read, which is reported. `what`: what is wrong with the znode; `warn`: also if
    no partition has had a leader."""
    rule = rules.RESTORE_EPOCH
    try:
        epoch = await _highest(broker)
    except ZnodeError as error:
        text = (
            f"{znodes.EPOCH} {what}, and the highest leader epoch is unknown: {error}; no "
            f"leader is elected until that is corrected, or until {znodes.EPOCH} is set to an "
            "epoch that is not lower than that of any leader"
        )
        broker.notice_once("error", _UNKNOWN, znodes.EPOCH, text, rule, str(error).encode())
        return None
    broker.forget(znodes.EPOCH, _UNKNOWN)
    if warn or epoch > NO_EPOCH:
        text = (
            f"{znodes.EPOCH} {what}; the next one is {epoch + 1}, because the highest leader "
            f"epoch of the partitions is {epoch}"
        )
        broker.notice_once("warning", _RESTORED, znodes.EPOCH, text, rule, text.encode())
    return epoch + 1


async def _highest(broker: Broker) -> int:
    """The highest epoch of a partition. Raises ZnodeError if it is unknown, or cannot be
    incremented."""
    epoch = max(
        [await _read_highest_epoch(broker), *(one.epoch for one in broker.partitions.values())]
    )
    if epoch == INT_MAX:
        raise ZnodeError(f"a partition has leader epoch {epoch}, which has no next one")
    return epoch


async def _read_highest_epoch(broker: Broker) -> int:
    """The highest epoch in ZooKeeper. Raises ZnodeError if a znode cannot be read."""
    rule = rules.RESTORE_EPOCH
    topics = await children_of(broker, znodes.TOPICS, rule)
    paths = list(map(znodes.topic_path, topics))
    children = await children_of_each(broker, paths, rule)
    for path in (znodes.TOPICS, *paths):
        if broker.is_denied(path):
            raise ZnodeError(denied_text(path))
    names = [
        (topic, number)
        for topic, path in zip(topics, paths, strict=True)
        for number in map(parse_natural, children[path])
        if number is not None
    ]
    isrs = [znodes.isr_path(*name) for name in names]
    leaders = [znodes.leader_path(*name) for name in names]
    found = await read_znodes(broker, [*isrs, *leaders], rule)
    epochs = [NO_EPOCH]
    for place, path in enumerate(isrs):
        if (data := _data(found, place, path)) is not None:
            epochs.append(znodes.read_isr(path, data).epoch)
    for place, path in enumerate(leaders, len(isrs)):
        if (data := _data(found, place, path)) is not None:
            epochs.append(znodes.read_leader(path, data).epoch)
    return max(epochs)


def _data(found: ZnodeColumns, place: int, path: str) -> bytes | None:
    """The content of a znode; None if it does not exist. Raises ZnodeError if it is denied."""
    if found.errors[place] == NO_AUTH:
        raise ZnodeError(denied_text(path))
    return (found.data[place] or b"") if found.errors[place] == OK else None
