"""Requests to brokers in a controller's state-change.log, of Kafka 2.6 and later.

At TRACE the partitions of LeaderAndIsr and StopReplica stand in lines of their own, before the one
that sums the request up; at INFO there is only that one. Of UpdateMetadata there is one line for
all brokers, with the number of partitions (ControllerChannelManager.sendLeaderAndIsrRequest,
sendUpdateMetadataRequests, sendStopReplicaRequests).
"""

import re
from collections import Counter
from typing import Final

import msgspec

from replay.stock_clusters.agreement.broker_requests.partition_state import partition_state
from replay.stock_clusters.agreement.broker_requests.told import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    Told,
    ToldPartition,
    in_order,
)
from replay.stock_clusters.imported_log.events import StateChangeLogged

_Key = tuple[int, int, str, int]

_PARTITION_LINES: Final = frozenset(("leader_and_isr_partition", "stop_replica_partition"))

_PARTITION: Final = re.compile(r"request \w+\((.*)\) to broker -?\d+ for partition (.*)-\d+")
_LEADER_AND_ISR: Final = re.compile(r"with (\d+) become-leader and (\d+) become-follower")
_STOP_REPLICA: Final = re.compile(r"request (?:\(delete = (true|false)\) )?for (\d+) replicas")
_UPDATE_METADATA: Final = re.compile(r"for (\d+) partitions")


class SentRequests:
    """Makes requests of the lines of state-change.log, of any number of controllers.

    `unfit` counts, by controller, lines that are not as Kafka writes them. Of requests with another
    number of partitions than lines only the number is told; where a term begins with lines of
    partitions, others of that request may stand before the log.
    """

    def __init__(self) -> None:
        self.unfit: Counter[int] = Counter()
        self._has_begun: set[tuple[int, int]] = set()
        self._at_trace: set[tuple[int, int]] = set()
        self._partitions: dict[_Key, list[ToldPartition]] = {}

    def take(self, line: StateChangeLogged, seq: int) -> tuple[Told, ...]:
        """The requests that the line, the log's record `seq`, sums up."""
        told = self._take(line, seq)
        if line.what not in _PARTITION_LINES:
            self._has_begun.add((line.broker, line.epoch))
        return told

    def _take(self, line: StateChangeLogged, seq: int) -> tuple[Told, ...]:
        try:
            match line.what:
                case "leader_and_isr_partition":
                    self._add_partition(line, LEADER_AND_ISR)
                case "stop_replica_partition":
                    self._add_partition(line, STOP_REPLICA)
                case "leader_and_isr":
                    return (self._leader_and_isr(line, seq),)
                case "stop_replica":
                    return (self._stop_replica(line, seq),)
                case "update_metadata":
                    return _update_metadata(line, seq)
        except (_UnfitError, msgspec.ValidationError):
            self.unfit[line.broker] += 1
        return ()

    def _add_partition(self, line: StateChangeLogged, kind: str) -> None:
        fields, topic = _parts(_PARTITION, line)
        told = partition_state(fields).told(topic)
        self._partitions.setdefault(_key(line, kind), []).append(told)
        self._at_trace.add((line.broker, line.epoch))

    def _leader_and_isr(self, line: StateChangeLogged, seq: int) -> Told:
        leading, following = map(int, _parts(_LEADER_AND_ISR, line))
        partitions = self._partitions.pop(_key(line, LEADER_AND_ISR), [])
        told = self._told(line, seq, LEADER_AND_ISR, leading + following, partitions)
        return msgspec.structs.replace(told, leading=leading)

    def _stop_replica(self, line: StateChangeLogged, seq: int) -> Told:
        """Below version 3 there are two requests, with and without deletion (KB 12.3.3)."""
        delete, size = _parts(_STOP_REPLICA, line)
        key = _key(line, STOP_REPLICA)
        partitions = self._partitions.pop(key, [])
        if delete:
            is_delete = delete == "true"
            self._partitions[key] = [one for one in partitions if one.delete is not is_delete]
            partitions = [one for one in partitions if one.delete is is_delete]
        return self._told(line, seq, STOP_REPLICA, int(size), partitions)

    def _told(
        self,
        line: StateChangeLogged,
        seq: int,
        kind: str,
        size: int,
        partitions: list[ToldPartition],
    ) -> Told:
        is_whole = len(partitions) == size
        term = line.broker, line.epoch
        are_lines_known = term in self._has_begun and term in self._at_trace
        return Told(
            seq,
            kind,
            line.broker,
            line.epoch,
            line.brokers[0],
            size,
            partitions=in_order(partitions) if is_whole else None,
            lines=len(partitions) if are_lines_known and not is_whole else None,
        )


class _UnfitError(Exception):
    """The line is none that Kafka writes."""


def _update_metadata(line: StateChangeLogged, seq: int) -> tuple[Told, ...]:
    size = int(_parts(_UPDATE_METADATA, line)[0])
    return tuple(
        Told(seq, UPDATE_METADATA, line.broker, line.epoch, broker, size)
        for broker in sorted(line.brokers)
    )


def _parts(form: re.Pattern[str], line: StateChangeLogged) -> tuple[str, ...]:
    found = form.search(line.text)
    if found is None:
        raise _UnfitError
    return found.groups("")


def _key(line: StateChangeLogged, kind: str) -> _Key:
    if len(line.brokers) != 1:
        raise _UnfitError
    return line.broker, line.epoch, kind, line.brokers[0]
