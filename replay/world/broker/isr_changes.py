"""The two ways in which a leader changes the ISR: by its controller, or in ZooKeeper.

From inter.broker.protocol.version 2.7-IV2 on it asks the controller (AlterPartition). Before, it
writes the partition's state znode, and reports the partition to the controller afterwards.
"""

from typing import Final, NamedTuple

import msgspec

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiResponse
from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.core.operations import BAD_VERSION, OK, CreateSequential, SetData
from controller.core.values import LeaderAndIsr
from replay.parsed_znodes import parsed_state
from replay.world.broker.context import BrokerContext
from replay.world.broker.controller_channel import RETRY_US, ControllerChannel
from replay.world.broker.partition import Partition, PendingIsr
from replay.world.broker.zookeeper_requests import ZooKeeperRequests
from replay.world.observer import Name
from replay.world.requests import GetData, OperationResult
from replay.world.scheduler import MS, SECOND, ScheduledAction

_FIRST_BY_TOPIC_ID: Final = 2
_LATEST_VERSION: Final = 3
_CHECK_US: Final = 2500 * MS
_LINGER_US: Final = 5 * SECOND
_DELAY_US_MAX: Final = 60 * SECOND

_NEVER_APPLIED: Final = (codes.OPERATION_NOT_ATTEMPTED, codes.INELIGIBLE_REPLICA)
_NOT_RETRIED: Final = (
    codes.UNKNOWN_TOPIC_OR_PARTITION,
    codes.UNKNOWN_TOPIC_ID,
    codes.FENCED_LEADER_EPOCH,
    codes.INVALID_UPDATE_VERSION,
    codes.INVALID_REQUEST,
)
"""The leader waits for a LeaderAndIsr request (Partition.handleAlterPartitionError)."""


class _Proposal(NamedTuple):
    """A change that is to be sent, or that was sent and is not answered."""

    partition: Partition
    pending: PendingIsr
    topic_id: bytes | None
    state: ProposedState


class AlterPartitions:
    """Changes by AlterPartition requests, one in flight (DefaultAlterPartitionManager)."""

    def __init__(self, context: BrokerContext, channel: ControllerChannel) -> None:
        self._context = context
        self._channel = channel
        self._proposals: dict[Name, _Proposal] = {}
        self._in_flight: dict[Name, _Proposal] = {}
        self._is_delayed = False

    def submit(self, partition: Partition, pending: PendingIsr) -> None:
        """Propose a change, unless another one of the partition is not answered yet."""
        name = partition.name
        if name in self._proposals:
            partition.isr_refused(pending, is_over=True)
            return
        topic_id = partition.log.topic_id
        self._proposals[name] = _Proposal(
            partition,
            pending,
            topic_id,
            ProposedState(
                topic_id.hex() if topic_id else name[0],
                name[1],
                partition.leader_epoch,
                pending.isr,
                partition.recovery_state,
                partition.partition_epoch,
            ),
        )
        self._send()

    def _send(self) -> None:
        if self._in_flight or not self._proposals:
            return
        self._in_flight = dict(self._proposals)
        by_id = all(one.topic_id is not None for one in self._in_flight.values())
        states = [
            one.state if by_id else msgspec.structs.replace(one.state, topic=name[0])
            for name, one in self._in_flight.items()
        ]
        context = self._context
        request = AlterPartitionReceived(
            request=0,
            version=_LATEST_VERSION if by_id else _FIRST_BY_TOPIC_ID - 1,
            broker=context.id,
            broker_epoch=context.epoch,
            partitions=states,
        )
        self._channel.send(request, self._settle_proposals)

    def _settle_proposals(self, response: ApiResponse) -> None:
        """Apply the responses. Then send the proposals without a response again, and those that
        were made meanwhile."""
        assert isinstance(response, AlterPartitionResponse), response
        is_delayed = bool(response.error)
        if not is_delayed:
            answers = {_key(one): one for one in response.partitions}
            for name, proposal in self._in_flight.items():
                answer = answers.get((proposal.topic_id or name[0], name[1])) or answers.get(name)
                if answer is not None:
                    del self._proposals[name]
                    if self._apply_answer(proposal, answer):
                        # Kafka tries again at once; the pause keeps the simulation fast.
                        is_delayed = True
                        self.submit(proposal.partition, proposal.pending)
        self._in_flight = {}
        if not is_delayed:
            self._send()
        elif not self._is_delayed:
            self._is_delayed = True
            self._context.clock.after(RETRY_US, self._retry)

    def _apply_answer(self, proposal: _Proposal, answer: AlteredPartition) -> bool:
        """Commit or refuse a proposed ISR, as the controller answers. Returns whether the broker
        proposes it again."""
        partition, pending = proposal.partition, proposal.pending
        if partition.pending is not pending:
            return False
        if answer.error == codes.NONE:
            committed = LeaderAndIsr(
                answer.leader,
                answer.leader_epoch,
                answer.isr,
                answer.partition_epoch,
                partition.controller_epoch,
                answer.recovery_state,
            )
            partition.isr_committed(pending, committed)
            return False
        is_over = answer.error in _NEVER_APPLIED
        partition.isr_refused(pending, is_over=is_over)
        return not is_over and answer.error not in _NOT_RETRIED

    def _retry(self) -> None:
        self._is_delayed = False
        self._send()


def _key(answer: AlteredPartition) -> tuple[str | bytes, int]:
    return answer.topic_id or answer.topic, answer.partition


class ZooKeeperIsrChanges:
    """Changes by a conditional write of the state znode (ZkAlterPartitionManager of Kafka 3.x, with
    the behaviour of 2.x if the write fails: "Cached zkVersion not equal to that in zookeeper, skip
    updating ISR", and the next fetch or check tries again).
    """

    def __init__(self, context: BrokerContext, requests: ZooKeeperRequests) -> None:
        self._context = context
        self._requests = requests
        self._unreported: dict[Name, None] = {}
        self._changed_us = self._reported_us = context.clock.now_us
        self._timer: ScheduledAction | None = None

    def submit(self, partition: Partition, pending: PendingIsr) -> None:
        """Write the proposed ISR (ReplicationUtils.updateLeaderAndIsr)."""
        state = LeaderAndIsr(
            self._context.id,
            partition.leader_epoch,
            pending.isr,
            partition.partition_epoch,
            partition.controller_epoch,
            partition.recovery_state,
        )
        path = znodes.state_path(*partition.name)

        def written(results: tuple[OperationResult, ...]) -> None:
            (result,) = results
            if result.error == OK:
                assert result.stat is not None
                self._commit_isr(partition, pending, state, result.stat.version)
            elif result.error == BAD_VERSION:
                self._requests.submit(GetData(path), read)
            else:
                partition.isr_refused(pending, is_over=True)

        def read(results: tuple[OperationResult, ...]) -> None:
            (result,) = results
            version = _version_if_written(path, state, result)
            if version is None:
                partition.isr_refused(pending, is_over=True)
            else:
                self._commit_isr(partition, pending, state, version)

        data = znodes.write_state(state)
        self._requests.submit(SetData(path, data, state.partition_epoch), written)

    def _commit_isr(
        self, partition: Partition, pending: PendingIsr, state: LeaderAndIsr, version: int
    ) -> None:
        self._unreported[partition.name] = None
        self._changed_us = self._context.clock.now_us
        if self._timer is None:
            self._timer = self._context.clock.after(_CHECK_US, self._check)
        partition.isr_committed(pending, msgspec.structs.replace(state, partition_epoch=version))

    def _check(self) -> None:
        """Report the changed partitions to the controller when there were no changes for some time,
        or none was reported for a long time (maybePropagateIsrChanges)."""
        now_us = self._context.clock.now_us
        self._timer = None
        if now_us > min(self._changed_us + _LINGER_US, self._reported_us + _DELAY_US_MAX):
            names = [{"topic": one, "partition": number} for one, number in self._unreported]
            data = msgspec.json.encode({"version": 1, "partitions": names})
            path = f"{znodes.ISR_CHANGES}/isr_change_"
            self._requests.submit(CreateSequential(path, data), lambda results: None)
            self._unreported.clear()
            self._reported_us = now_us
        else:
            self._timer = self._context.clock.after(_CHECK_US, self._check)


def _version_if_written(path: str, state: LeaderAndIsr, result: OperationResult) -> int | None:
    """The version of the znode if it has this state: an earlier attempt wrote it
    (checkLeaderAndIsrZkData)."""
    if result.error != OK or result.stat is None:
        return None
    version = result.stat.version
    written = parsed_state(path, result.data, version)
    if written is None:
        return None
    return version if written == msgspec.structs.replace(state, partition_epoch=version) else None
