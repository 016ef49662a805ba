"""Elects the first leader of a partition (KB 4.3) and later leaders (KB 4.4).

election.py chooses the leaders. These procedures read and write the state znodes, update the
context, and add the requests that inform the brokers to the caller's batch.
"""

from typing import NamedTuple

from controller.core import znodes
from controller.core.batch import RequestBatch
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.deviations import ISR_WITHIN_REPLICAS, STATE_ADOPTED
from controller.core.election import (
    FIRST_LEADER,
    FIRST_LIVE,
    UNCLEAN_LEADER,
    Elected,
    ElectionInput,
    Ineligible,
    Strategy,
    Unclean,
    first_leader,
    first_state,
    isr_within_replicas,
    next_state,
    online_test,
)
from controller.core.errors import ZnodeError
from controller.core.failures import Failures, listed
from controller.core.operations import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    SetData,
    WriteOperation,
)
from controller.core.outcomes import SLICE, suspend
from controller.core.pauses import SLICE_SIZE
from controller.core.procedures.reassignment_znodes.cancel_znode import (
    current_cancel,
    retry_waiting_rollbacks,
)
from controller.core.procedures.reassignment_znodes.entries import replaced_by_entries
from controller.core.state import Partition
from controller.core.topic_configs import UNCLEAN, is_true
from controller.core.values import NO_LEADER, LeaderAndIsr
from controller.core.zookeeper_io import read_state_znodes, read_znodes, write

Results = dict[Partition, LeaderAndIsr]
"""The new leadership of each partition whose election has succeeded."""

_NO_CHILD = b""
_REASONS_MAX = 5
"""At most this many partitions are named with the reasons of an unclean election."""


class CreatedPartitions(NamedTuple):
    """New partitions that got their first leader, and those that already had a state."""

    led: list[Partition]
    existing: list[Partition]


async def initialize_leader_and_isr(
    controller: Controller, partitions: list[Partition], batch: RequestBatch
) -> CreatedPartitions:
    """Create the first leader and ISR of new partitions (initializeLeaderAndIsrForPartitions, KB
    4.3).

    Partitions without an online replica are reported and not changed. Partitions that already have
    a state are also reported, unless STATE_ADOPTED applies.
    """
    context = controller.context
    failures = Failures(controller, "no_leader_created", context.leaderless)
    states: dict[Partition, LeaderAndIsr] = {}
    choices: list[Choice] = []
    for partition in partitions:
        elected = first_leader(partition.replicas, online_test(context, partition))
        choice = Choice(*partition.key, elected.leader, FIRST_LIVE, elected.passed_over)
        if elected.leader == NO_LEADER:
            failures.add(partition, "no replica is online", choice)
            continue
        states[partition] = first_state(elected, context.epoch)
        choices.append(choice)
    creates = _creates(states)
    writes = await write(controller, creates, Reason(FIRST_LEADER, tuple(choices)))
    created = CreatedPartitions([], [])
    adopts = STATE_ADOPTED.applies(controller.configuration)
    for (partition, state), error in zip(
        states.items(), writes.errors[len(creates) - len(states) :], strict=True
    ):
        if error == OK:
            partition.leadership = state
            failures.recovered(partition)
            batch.add_leader_and_isr(state.isr, partition, is_new=True)
            created.led.append(partition)
        elif error == NODE_EXISTS and adopts:
            created.existing.append(partition)
            controller.observer.deviates(STATE_ADOPTED, repr(partition))
        else:
            failures.add(partition, f"its state znode cannot be created (ZooKeeper code {error})")
    failures.report()
    return created


def _creates(states: dict[Partition, LeaderAndIsr]) -> list[WriteOperation]:
    """Parents first; they may exist, so their results do not matter (KB 4.3.3)."""
    topics = dict.fromkeys(partition.topic.name for partition in states)
    creates: list[WriteOperation] = []
    creates += [Create(znodes.partitions_path(name), _NO_CHILD) for name in topics]
    creates += [
        Create(znodes.partition_path(one.topic.name, one.number), _NO_CHILD) for one in states
    ]
    creates += [
        Create(znodes.state_path(one.topic.name, one.number), znodes.write_state(state))
        for one, state in states.items()
    ]
    return creates


async def elect_leaders(
    controller: Controller, partitions: list[Partition], strategy: Strategy, batch: RequestBatch
) -> Results:
    """Elect leaders (electLeaderForPartitions, KB 4.4), until each election has succeeded or
    failed.

    If a write finds another version, the election is repeated with the state in ZooKeeper.
    """
    results: Results = {}
    failures = Failures(controller, "no_leader_elected", controller.context.leaderless)
    unclean: dict[Partition, Elected] = {}
    remaining = partitions
    while remaining:
        remaining = await _elect_once(
            controller, remaining, strategy, batch, results, failures, unclean
        )
    failures.report()
    elected = [one for one in partitions if one in results]
    if elected:
        names = listed(elected)
        text = f"elected leaders for {names} ({strategy.name})"
        controller.notice("info", "leaders_elected", names, text)
    if any(one in controller.context.rollback_waiting for one in elected):
        retry_waiting_rollbacks(controller)
    if lost := {one: unclean[one].passed_over for one in elected if one in unclean}:
        names = listed(list(lost))
        text = f"{strategy.name}: the new leader of {names} was not in sync: records may be lost"
        controller.notice("warning", "unclean_leader", names, f"{text}{_passed_over_text(lost)}")
    return results


def _passed_over_text(lost: dict[Partition, Ineligible]) -> str:
    """Why replicas were passed over in unclean elections, in parentheses. The new leader itself is
    one of them: it was not in sync."""
    reasons = [(one, _in_words(why)) for one, why in lost.items()]
    if len(lost) == 1:
        return f" (passed over: {reasons[0][1]})"
    some = "; ".join(f"{one}: {why}" for one, why in reasons[:_REASONS_MAX])
    others = len(reasons) - _REASONS_MAX
    return f" (passed over: {some}{f'; and of {others} more' if others > 0 else ''})"


async def _elect_once(
    controller: Controller,
    partitions: list[Partition],
    strategy: Strategy,
    batch: RequestBatch,
    results: Results,
    failures: Failures,
    unclean: dict[Partition, Elected],
) -> list[Partition]:
    """One round. Returns the partitions whose version did not match. `unclean` collects those whose
    new leader was not in sync."""
    states = await read_states(controller, partitions, strategy.name, failures)
    originals = await _originals_of_cancelled(controller, partitions)
    permitted = await with_unclean_permission(controller, states, strategy, failures)
    unclean_ones = [one.partition for one in permitted if one.allow_unclean]
    originals |= await _originals_of_replaced(
        controller, [one for one in unclean_ones if one not in originals]
    )
    inputs = permitted
    if originals:
        inputs = [one._replace(originals=originals.get(one.partition, ())) for one in permitted]
    chosen: list[tuple[Partition, LeaderAndIsr]] = []
    choices: list[Choice] = []
    for place, given in enumerate(inputs):
        if place and place % SLICE_SIZE == 0:
            await suspend(SLICE)
        partition, elected = given.partition, strategy.choose(controller.context, given)
        controller.observer.elects(partition, strategy.name, given.current, elected)
        if elected.leader == NO_LEADER:
            if not strategy.is_rollback:
                choice = Choice(*partition.key, NO_LEADER, strategy.name, elected.passed_over)
                reasons = _in_words(elected.passed_over) or "it has none"
                failures.add(partition, f"no replica can lead: {reasons}", choice)
            continue
        isr = isr_within_replicas(controller.configuration, partition, elected.isr)
        if isr != elected.isr:
            controller.observer.deviates(ISR_WITHIN_REPLICAS, repr(partition))
        state = next_state(
            given.current,
            elected if isr == elected.isr else elected._replace(isr=isr),
            controller.context.epoch,
            has_recovery_state=controller.protocol.has_leader_recovery_state,
        )
        chosen.append((partition, state))
        code = UNCLEAN_LEADER if elected.unclean else strategy.name
        choices.append(Choice(*partition.key, elected.leader, code, elected.passed_over))
        unclean.pop(partition, None)
        if elected.unclean:
            unclean[partition] = elected
    reason = Reason(strategy.name, tuple(choices))
    again = []
    for partition, state, error in await write_states(controller, chosen, reason):
        if error == OK:
            before = partition.leadership
            partition.leadership = results[partition] = state
            failures.recovered(partition)
            recipients = strategy.recipients(controller.context, partition)
            batch.add_leader_and_isr(recipients, partition, is_new=False)
            if strategy.is_rollback and before is not None:
                batch.add_former_leader(before.leader, partition)
        elif error == BAD_VERSION:
            again.append(partition)
        else:
            failures.add(partition, f"its state cannot be written (ZooKeeper code {error})")
    return again


async def _originals_of_cancelled(
    controller: Controller, partitions: list[Partition]
) -> dict[Partition, tuple[int, ...]]:
    """The originals of the partitions whose reassignment /admin/reassign_cancel cancels.

    A reassignment that a stock controller began has no record at first. It is cancelled if its
    entry is older than the cancellation.
    """
    context = controller.context
    records = context.reassignments
    legacy = [one for one in partitions if one in records and records[one].legacy]
    unrecorded = {
        one: entry
        for one in (partitions if context.entries_seen else ())
        if one.assignment.is_being_reassigned
        and (entry := context.unrecorded_entry(one)) is not None
    }
    if not (legacy or unrecorded) or not (cancel := await current_cancel(controller)):
        return {}
    cancelled = {one: records[one].original_replicas for one in legacy}
    older = [one for one, entry in unrecorded.items() if entry.mzxid < cancel]
    return cancelled | {one: one.assignment.origin for one in older}


async def _originals_of_replaced(
    controller: Controller, partitions: list[Partition]
) -> dict[Partition, tuple[int, ...]]:
    """The originals of the partitions that are rolled back because an entry of
    /admin/reassign_partitions_extra requests another target. Read only for unclean elections: the
    members of the ISR may lead while the rollback waits."""
    names = await replaced_by_entries(controller, partitions)
    records = controller.context.reassignments
    return {one: records[one].original_replicas for one in partitions if one.key in names}


def _in_words(passed_over: Ineligible) -> str:
    return ", ".join(f"{replica} {why}" for replica, why in passed_over)


async def read_states(
    controller: Controller,
    partitions: list[Partition],
    rule: str,
    failures: Failures,
    missing: list[Partition] | None = None,
    unreadable: list[Partition] | None = None,
) -> list[tuple[Partition, LeaderAndIsr]]:
    """The state znodes of partitions, of those that this controller may change.

    The others are added to `failures`: states that are missing, that cannot be read, or that a
    later controller has written (KB 4.4). The first two are added to `missing` and `unreadable`.
    """
    missing = [] if missing is None else missing
    unreadable = [] if unreadable is None else unreadable
    epoch = controller.context.epoch
    paths = [znodes.state_path(one.topic.name, one.number) for one in partitions]
    found = await read_state_znodes(controller, paths, rule, may_be_denied=True)
    states = []
    for place, partition in enumerate(partitions):
        if place and place % SLICE_SIZE == 0:
            await suspend(SLICE)
        error, state = found.errors[place], found.parsed[place]
        if error == NO_NODE:
            failures.add(partition, "the partition has no state znode")
            missing.append(partition)
            continue
        if error != OK:
            failures.add(partition, f"the state cannot be read (ZooKeeper code {error})")
            continue
        if not isinstance(state, LeaderAndIsr):
            failures.add_unreadable(paths[place], str(state))
            unreadable.append(partition)
            continue
        if state.controller_epoch > epoch:
            failures.add(
                partition,
                f"controller epoch {state.controller_epoch} wrote it, this controller has {epoch}",
            )
            continue
        states.append((partition, state))
    return states


async def write_states(
    controller: Controller, states: list[tuple[Partition, LeaderAndIsr]], reason: Reason
) -> list[tuple[Partition, LeaderAndIsr, int]]:
    """Write state znodes, each at the version in its value.

    Returns each state with its new version and ZooKeeper's code.
    """
    writes = await write(
        controller,
        [
            SetData(
                znodes.state_path(partition.topic.name, partition.number),
                znodes.write_state(state),
                state.partition_epoch,
            )
            for partition, state in states
        ],
        reason,
    )
    return [
        (
            partition,
            LeaderAndIsr(
                state.leader,
                state.leader_epoch,
                state.isr,
                version,
                state.controller_epoch,
                state.recovery_state,
            ),
            error,
        )
        for (partition, state), error, version in zip(
            states, writes.errors, writes.versions, strict=True
        )
    ]


async def with_unclean_permission(
    controller: Controller,
    states: list[tuple[Partition, LeaderAndIsr]],
    strategy: Strategy,
    failures: Failures,
) -> list[ElectionInput]:
    """The partitions that may get an unclean leader (collectUncleanLeaderElectionState, KB 4.4.1).

    Only those without an online ISR member can need one. For them the topic's configuration is
    read, with the controller's setting as the default.
    """
    if strategy.unclean is Unclean.NEVER:
        return [ElectionInput(partition, state, False) for partition, state in states]
    context = controller.context
    needing = [
        partition
        for partition, state in states
        if not any(map(online_test(context, partition), state.isr))
    ]
    topics = sorted({partition.topic.name for partition in needing})
    if strategy.unclean is Unclean.ALWAYS:
        allowed = dict.fromkeys(topics, True)
    else:
        allowed = await _unclean_topics(controller, topics, failures)
    permitted = {partition for partition in needing if allowed.get(partition.topic.name) is True}
    refused = {partition for partition in needing if partition.topic.name not in allowed}
    for partition, _ in states:
        if partition in refused:
            failures.add(partition, "the configuration of its topic cannot be read")
    if refused:
        states = [(one, state) for one, state in states if one not in refused]
    return [ElectionInput(partition, state, partition in permitted) for partition, state in states]


async def _unclean_topics(
    controller: Controller, topics: list[str], failures: Failures
) -> dict[str, bool]:
    """Whether each topic allows unclean leaders, without topics whose configuration cannot be
    read."""
    paths = [znodes.topic_config_path(topic) for topic in topics]
    found = await read_znodes(
        controller, paths, "unclean leader election of the topics", may_be_denied=True
    )
    allowed: dict[str, bool] = {}
    for topic, path, error, data in zip(topics, paths, found.errors, found.data, strict=True):
        if error not in (OK, NO_NODE):
            continue
        try:
            overrides = znodes.read_config(path, data)
        except ZnodeError as unreadable:
            failures.add_unreadable(path, str(unreadable))
            continue
        setting = overrides.get(UNCLEAN)
        default = controller.context.unclean_default
        allowed[topic] = default if setting is None else is_true(setting)
    return allowed
