"""Replication throttles of reassignments: which replicas and brokers to limit (Kafka's
calculateProposedMoveMap, calculateLeaderThrottles, calculateFollowerThrottles), and setting and
clearing the limits."""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import anyio

from controller.core.values import Assignment, format_brokers
from controller.operator.reassignment.cluster import ClusterAdmin, ClusterConnection
from controller.operator.reassignment.cluster_state import ClusterState, ControllerKind
from controller.operator.reassignment.documents import (
    Partition,
    Targets,
    format_partitions,
    write_targets,
)
from controller.operator.reassignment.errors import KafkaUnavailable, ReassignmentRefused
from controller.operator.reassignment.report import ProgressReport
from controller.operator.reassignment.steps import Configure
from controller.operator.reassignment.throttle_configs import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    TOPIC_KEYS,
)

ROLLBACK_SECONDS: Final = 2.0
"""How long --cancel waits for a rollback before it clears the throttles."""

_POLL_SECONDS: Final = 0.1

BROKER_KEYS: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
BROKER_KEYS_CLEARED: Final = (*BROKER_KEYS, "replica.alter.log.dirs.io.max.bytes.per.second")
"""--verify also clears the third key, as Kafka's tool does."""

UNTIL_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)


class MovedPartition(NamedTuple):
    """The brokers that a partition moves from, and the new ones that it moves to."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def planned_moves(
    targets: Targets, assignments: Mapping[Partition, Assignment]
) -> dict[Partition, MovedPartition]:
    """The moves of the targets and of all reassignments in progress."""
    found = {
        partition: MovedPartition(one.origin, one.adding)
        for partition, one in assignments.items()
        if one.is_being_reassigned
    }
    for partition, replicas in targets.items():
        sources = assignments[partition].origin
        new = tuple(one for one in replicas if one not in sources)
        found[partition] = MovedPartition(sources, new)
    return found


def topic_throttles(moving: Mapping[Partition, MovedPartition]) -> dict[str, dict[str, str]]:
    """The throttled replicas of each topic, by key: "0:1,0:2", sorted as text."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for (topic, number), move in moving.items():
        leaders.setdefault(topic, set()).update(f"{number}:{one}" for one in move.sources)
        followers.setdefault(topic, set()).update(f"{number}:{one}" for one in move.destinations)
    return {
        topic: {
            LEADER_REPLICAS: ",".join(sorted(leaders[topic])),
            FOLLOWER_REPLICAS: ",".join(sorted(followers[topic])),
        }
        for topic in sorted(leaders)
    }


def throttled_brokers(moving: Iterable[MovedPartition]) -> list[int]:
    """All brokers that take part in moves."""
    return sorted({one for move in moving for one in (*move.sources, *move.destinations)})


def rates(bytes_per_second: int) -> dict[str, str]:
    """The throttle configuration of a broker."""
    return dict.fromkeys(BROKER_KEYS, str(bytes_per_second))


def throttle_steps(
    moving: Mapping[Partition, MovedPartition], bytes_per_second: int
) -> list[Configure]:
    """Topics first, then brokers, as Kafka's tool does (modifyReassignmentThrottle)."""
    topics = topic_throttles(moving).items()
    limits = rates(bytes_per_second)
    return [
        *(Configure(f"topics/{topic}", given) for topic, given in topics),
        *(Configure(f"brokers/{one}", limits) for one in throttled_brokers(moving.values())),
    ]


def clearing_steps(brokers: Iterable[int], targets: Targets) -> list[Configure]:
    """Brokers first, then topics (clearAllThrottles)."""
    topics = sorted({topic for topic, _ in targets})
    return [
        *(Configure(f"brokers/{one}", removed=BROKER_KEYS_CLEARED) for one in brokers),
        *(Configure(f"topics/{topic}", removed=TOPIC_KEYS) for topic in topics),
    ]


async def set_throttle(
    cluster: ClusterConnection, report: ProgressReport, limits: Sequence[Configure]
) -> None:
    """Set the throttle, if there is one."""
    if not limits:
        return
    report.print_line(UNTIL_VERIFY)
    for step in limits:
        try:
            await cluster.admin.configure(step)
        except KafkaUnavailable as fault:
            report.warn(f"no throttle for {step.entity}: {fault}")
    rate = limits[-1].given[BROKER_KEYS[0]]
    report.data["throttle"] = int(rate)
    report.print_line(f"The inter-broker throttle limit was set to {rate} B/s")


async def clear_throttles(
    admin: ClusterAdmin, report: ProgressReport, state: ClusterState, targets: Targets
) -> None:
    """Clear the throttles of brokers and of these topics (clearAllThrottles). It is unknown which
    live brokers took part in earlier reassignments: all of them are cleared.
    """
    brokers = throttled_before(state, targets, report.brokers)
    topics = sorted({topic for topic, _ in targets})
    text = f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'}"
    report.print_line(f"{text} {format_brokers(brokers)}")
    text = f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'}"
    report.print_line(f"{text} {','.join(topics)}")
    left: dict[str, list[str]] = {}
    for step in steps_to_clear(state, targets, report.brokers):
        try:
            await admin.configure(step)
        except KafkaUnavailable as fault:
            left[step.entity] = list(step.removed)
            why = str(fault).rstrip(".")
            report.warn(
                f"the throttle of {step.entity} may remain: {why}. Clear it with "
                "--verify and --zookeeper, or with --verify when the broker is alive"
            )
    report.data |= {"throttles_left": left} if left else {"throttles_cleared": True}


def throttled_before(
    state: ClusterState, targets: Targets, brokers: Iterable[int] = ()
) -> list[int]:
    """All brokers that may have a throttle: the live ones, and also dead ones that the targets,
    the throttled replicas of their topics or `brokers` name."""
    named = [*targets.values(), *(state.throttled.get(topic, ()) for topic, _ in targets)]
    return sorted({*state.brokers, *brokers, *chain.from_iterable(named)})


def steps_to_clear(
    state: ClusterState, targets: Targets, brokers: Iterable[int] = ()
) -> list[Configure]:
    """The steps that clear throttles. A topic that does not exist has no configuration."""
    known = {topic for topic, _ in state.assignments}
    existing = {one: replicas for one, replicas in targets.items() if one[0] in known}
    return clearing_steps(throttled_before(state, targets, brokers), existing)


async def why_throttles_remain(cluster: ClusterConnection, state: ClusterState) -> str:
    """The pending or possible reassignments, in words; "" for none. A broker's limit applies to all
    reassignments, so it is cleared only when there is none."""
    whole = state if state.moving else await cluster.admin.describe(None)
    if whole.moving:
        return f"partitions are being reassigned: {format_partitions(whole.moving)}"
    if whole.unreadable_topics:
        names = ",".join(sorted(whole.unreadable_topics))
        return f"these topics cannot be read and may be in reassignment: {names}"
    return ""


async def clear_throttles_after_rollback(
    cluster: ClusterConnection, report: ProgressReport, origins: Targets
) -> None:
    """Clear the throttles after a cancellation that restores `origins`, if the rollback ends within
    ROLLBACK_SECONDS. Otherwise print the remaining throttles and the command that clears them.
    """
    if not origins:
        return
    deadline = time.monotonic() + ROLLBACK_SECONDS
    state = await cluster.admin.describe({topic for topic, _ in origins})
    left = await _throttles_left(cluster, report, state, origins)
    if not left:
        return
    while _rolls_back(state, origins) and time.monotonic() < deadline:
        await anyio.sleep(_POLL_SECONDS)
        state = await cluster.admin.describe({topic for topic, _ in origins})
    why = await why_throttles_remain(cluster, state)
    if not why:
        await clear_throttles(cluster.admin, report, state, origins)
        return
    if any(state.is_cancelled(one) for one in origins):
        why = "the rollback has not ended"
    command = _clearing_command(cluster, origins)
    report.data |= {"throttles_left": left, "clear_throttles_with": command}
    report.warn(f"throttles remain, because {why}: {_format_throttles(left)}")
    report.print_line(f"Clear the throttles when no reassignment is in progress, with:\n{command}")


def _rolls_back(state: ClusterState, origins: Targets) -> bool:
    """Whether a controller is rolling back any of these."""
    is_waiting = state.controller.kind is ControllerKind.NONE
    return not is_waiting and any(state.is_cancelled(one) for one in origins)


async def _throttles_left(
    cluster: ClusterConnection, report: ProgressReport, state: ClusterState, targets: Targets
) -> dict[str, list[str]]:
    """The throttles that are set, by entity."""
    left: dict[str, list[str]] = {}
    for step in steps_to_clear(state, targets, report.brokers):
        try:
            current = await cluster.zookeeper.configuration(step.entity)
        except ReassignmentRefused as fault:
            report.warn(f"whether {step.entity} has a throttle is unknown: {fault}")
            continue
        keys: list[str] = [one for one in (*BROKER_KEYS, *TOPIC_KEYS) if one in current]
        if keys:
            left[step.entity] = keys
    return left


def _format_throttles(left: Mapping[str, Sequence[str]]) -> str:
    """Throttles as text; entities with the same throttles are listed together."""
    by_keys: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for entity, keys in left.items():
        kind, _, name = entity.partition("/")
        by_keys.setdefault((kind, tuple(keys)), []).append(name)
    return "; ".join(
        f"{', '.join(keys)} of {kind} {','.join(names)}" for (kind, keys), names in by_keys.items()
    )


def _clearing_command(cluster: ClusterConnection, origins: Targets) -> str:
    """A --verify of the originals, which are piped in because there is no file of them."""
    verify = cluster.command("--verify", "--wait", "--reassignment-json-file", "/dev/stdin")
    return f"echo '{write_targets(origins)}' | {verify}"
