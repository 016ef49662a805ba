"""Adapts requests and writes of brokers to what the version sent them, instead of the log's
controller."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import structs

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.errors import ZnodeError
from controller.core.state import ControllerContext, Partition
from controller.core.values import LeaderAndIsr
from replay.diff.version import assumptions
from replay.diff.version.recorded_history import WHOLE_REQUEST, znode_of
from replay.znode_tree.tree import Znode

_ADDED: Final = 1 << 32
"""The first number of requests that are not in the log."""


class AdaptedRequests(NamedTuple):
    """The requests that brokers send instead of a request of the log, with the assumptions."""

    requests: list[AlterPartitionReceived]
    assumed: Counter[str]


def adapt_request(
    request: AlterPartitionReceived,
    context: ControllerContext,
    accepted: Mapping[tuple[int, str, int], bool],
) -> AdaptedRequests:
    """Adapt a request to the current epochs and leaders of its partitions.

    A partition with another leader moves to a request of that leader. Proposals and requests that
    the log's controller did not accept (`accepted`) are not changed.
    """
    if not accepted.get((request.request, *WHOLE_REQUEST), True):
        return AdaptedRequests([request], Counter())
    same: list[ProposedState] = []
    others: dict[int, list[ProposedState]] = defaultdict(list)
    assumed: Counter[str] = Counter()
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
            assumed[assumptions.ALTER_PARTITION] += now != one
            same.append(now)
        else:
            assumed[assumptions.OTHER_LEADER] += 1
            others[state.leader].append(now)
    requests = [structs.replace(request, partitions=same)] if same or not others else []
    for leader, partitions in sorted(others.items()):
        number = request.request + _ADDED * (leader + 1)
        epoch = context.brokers[leader].epoch
        requests.append(
            structs.replace(
                request, request=number, broker=leader, broker_epoch=epoch, partitions=partitions
            )
        )
    return AdaptedRequests(requests, assumed)


def adapt_state(path: str, own: Znode | None, logged: Znode | None) -> Znode | None:
    """Adapt a leader's write of the ISR (`logged`) to the leader of the znode `own`; None if that
    leader would not write it."""
    if own is None or logged is None:
        return None
    try:
        own_state = znodes.read_state(path, own.data, own.version)
        logged_state = znodes.read_state(path, logged.data, logged.version)
    except ZnodeError:
        return None
    if own_state.leader not in logged_state.isr:
        return None
    data = znodes.write_state(structs.replace(own_state, isr=logged_state.isr))
    return znode_of(data, version=own.version + 1, czxid=own.czxid)


def _is_led(state: LeaderAndIsr, one: ProposedState, context: ControllerContext) -> bool:
    return state.leader in one.isr and state.leader in context.brokers


def _partition(context: ControllerContext, named: ProposedState) -> Partition | None:
    """The partition of a proposal, which names the topic or its id in hex."""
    found = context.find(named.topic, named.partition)
    if found is not None:
        return found
    try:
        topic = context.topics_by_id.get(bytes.fromhex(named.topic))
    except ValueError:
        return None
    return topic.partitions.get(named.partition) if topic is not None else None
