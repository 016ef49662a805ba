"""Requests to brokers in a controller's state-change.log, of Kafka 2.6 and later.

At level TRACE, LeaderAndIsr and StopReplica have a line for each partition before the summary line;
at level INFO they have only the summary line. UpdateMetadata has one line for all brokers, with the
number of partitions (ControllerChannelManager.sendLeaderAndIsrRequest, sendUpdateMetadataRequests,
sendStopReplicaRequests).
"""

import re
from collections import Counter
from typing import Final

import msgspec

from replay.agreement.broker_requests.partition_state import partition_state
from replay.agreement.broker_requests.sent_request import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    SentPartition,
    SentRequest,
    in_order,
)
from replay.stock_clusters.imported_log.events import StateChangeLogged

_Key = tuple[int, int, str, int]

_PARTITION_LINES: Final = frozenset(("leader_and_isr_partition", "stop_replica_partition"))

_PARTITION: Final = re.compile(r"request \w+\((.*)\) to broker -?\d+ for partition (.*)-\d+")
_LEADER_AND_ISR: Final = re.compile(r"with (\d+) become-leader and (\d+) become-follower")
_STOP_REPLICA: Final = re.compile(r"request (?:\(delete = (true|false)\) )?for (\d+) replicas")
_UPDATE_METADATA: Final = re.compile(r"for (\d+) partitions")


class StateChangeRequests:
    """Assembles requests from the lines of state-change.log, of any number of controllers.

    `malformed` counts the lines that are not in Kafka's form, by controller. If a request has more
    or fewer lines than partitions, only the numbers are known. If a term's log begins with
    partition lines, other lines of that request may precede the log.
    """

    def __init__(self) -> None:
        self.malformed: Counter[int] = Counter()
        self._has_begun: set[tuple[int, int]] = set()
        self._at_trace: set[tuple[int, int]] = set()
        self._partitions: dict[_Key, list[SentPartition]] = {}

    def add(self, line: StateChangeLogged, seq: int) -> tuple[SentRequest, ...]:
        """The requests that a line (record `seq`) completes."""
        requests = self._add(line, seq)
        if line.what not in _PARTITION_LINES:
            self._has_begun.add((line.broker, line.epoch))
        return requests

    def _add(self, line: StateChangeLogged, seq: int) -> tuple[SentRequest, ...]:
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
        except (_MalformedLineError, msgspec.ValidationError):
            self.malformed[line.broker] += 1
        return ()

    def _add_partition(self, line: StateChangeLogged, kind: str) -> None:
        fields, topic = _parts(_PARTITION, line)
        partition = partition_state(fields).sent_partition(topic)
        self._partitions.setdefault(_key(line, kind), []).append(partition)
        self._at_trace.add((line.broker, line.epoch))

    def _leader_and_isr(self, line: StateChangeLogged, seq: int) -> SentRequest:
        leading, following = map(int, _parts(_LEADER_AND_ISR, line))
        partitions = self._partitions.pop(_key(line, LEADER_AND_ISR), [])
        request = self._request(line, seq, LEADER_AND_ISR, leading + following, partitions)
        return msgspec.structs.replace(request, leading=leading)

    def _stop_replica(self, line: StateChangeLogged, seq: int) -> SentRequest:
        """Below version 3 Kafka sends two requests, with and without deletion (KB 12.3.3)."""
        delete, size = _parts(_STOP_REPLICA, line)
        key = _key(line, STOP_REPLICA)
        partitions = self._partitions.pop(key, [])
        if delete:
            is_delete = delete == "true"
            self._partitions[key] = [one for one in partitions if one.delete is not is_delete]
            partitions = [one for one in partitions if one.delete is is_delete]
        return self._request(line, seq, STOP_REPLICA, int(size), partitions)

    def _request(
        self,
        line: StateChangeLogged,
        seq: int,
        kind: str,
        size: int,
        partitions: list[SentPartition],
    ) -> SentRequest:
        is_whole = len(partitions) == size
        term = line.broker, line.epoch
        are_lines_known = term in self._has_begun and term in self._at_trace
        return SentRequest(
            seq=seq,
            kind=kind,
            controller=line.broker,
            controller_epoch=line.epoch,
            broker=line.brokers[0],
            size=size,
            partitions=in_order(partitions) if is_whole else None,
            lines=len(partitions) if are_lines_known and not is_whole else None,
        )


class _MalformedLineError(Exception):
    """The line is not in Kafka's form."""


def _update_metadata(line: StateChangeLogged, seq: int) -> tuple[SentRequest, ...]:
    size = int(_parts(_UPDATE_METADATA, line)[0])
    return tuple(
        SentRequest(
            seq=seq,
            kind=UPDATE_METADATA,
            controller=line.broker,
            controller_epoch=line.epoch,
            broker=broker,
            size=size,
        )
        for broker in sorted(line.brokers)
    )


def _parts(form: re.Pattern[str], line: StateChangeLogged) -> tuple[str, ...]:
    found = form.search(line.text)
    if found is None:
        raise _MalformedLineError
    return found.groups("")


def _key(line: StateChangeLogged, kind: str) -> _Key:
    if len(line.brokers) != 1:
        raise _MalformedLineError
    return line.broker, line.epoch, kind, line.brokers[0]
