"""What brokers would have asked and written, had they been told what this version told them."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from msgspec import structs

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.errors import ZnodeError
from controller.core.state import ControllerContext, Partition
from controller.core.values import LeaderAndIsr
from replay.diff.version.recorded_history import znode_of
from replay.world.tree import Znode

_OTHERS: Final = 1 << 32
"""Requests that the log does not have get numbers from here on."""


def as_it_would_be(
    request: AlterPartitionReceived,
    context: ControllerContext,
    accepted: Mapping[tuple[int, str, int], bool],
) -> tuple[list[AlterPartitionReceived], int, int]:
    """The request with the epochs that its partitions have here, and those of other leaders for
    what they lead here; how many partitions got other epochs, how many another leader. That is for
    what the log grants (`accepted`): the rest is asked as in the log."""
    same: list[ProposedState] = []
    others: dict[int, list[ProposedState]] = defaultdict(list)
    adapted = moved = 0
    for one in request.partitions:
        state = None
        if accepted.get((request.request, one.topic, one.partition), True):
            partition = _partition(context, one)
            state = partition.leadership if partition is not None else None
        if state is None or (state.leader != request.broker and not _is_led(state, one, context)):
            same.append(one)
            continue
        now = structs.replace(
            one, leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch
        )
        if state.leader == request.broker:
            adapted += now != one
            same.append(now)
        else:
            moved += 1
            others[state.leader].append(now)
    requests = [structs.replace(request, partitions=same)] if same or not others else []
    for leader, partitions in sorted(others.items()):
        number = request.request + _OTHERS * (leader + 1)
        epoch = context.brokers[leader].epoch
        requests.append(
            structs.replace(
                request, request=number, broker=leader, broker_epoch=epoch, partitions=partitions
            )
        )
    return requests, adapted, moved


def state_as_it_would_be(path: str, own: Znode | None, logged: Znode | None) -> Znode | None:
    """A state znode after a leader's own write of the ISR, written by the leader that it has here;
    None where that one would not have."""
    if own is None or logged is None:
        return None
    try:
        ours = znodes.read_state(path, own.data, own.version)
        theirs = znodes.read_state(path, logged.data, logged.version)
    except ZnodeError:
        return None
    if ours.leader not in theirs.isr:
        return None
    data = znodes.write_state(structs.replace(ours, isr=theirs.isr))
    return znode_of(data, version=own.version + 1, czxid=own.czxid)


def _is_led(state: LeaderAndIsr, one: ProposedState, context: ControllerContext) -> bool:
    return state.leader in one.isr and state.leader in context.brokers


def _partition(context: ControllerContext, named: ProposedState) -> Partition | None:
    """The request names the topic, or its id in hex."""
    found = context.find(named.topic, named.partition)
    if found is not None:
        return found
    try:
        topic = context.topics_by_id.get(bytes.fromhex(named.topic))
    except ValueError:
        return None
    return topic.partitions.get(named.partition) if topic is not None else None
