"""Setting a throttle, and clearing it."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import anyio

from controller.operator.reassignment.access import Access, Cluster
from controller.operator.reassignment.documents import Targets, listed, spelt_all, write_targets
from controller.operator.reassignment.errors import KafkaUnavailable, Refused
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.steps import Configure, clearing_steps
from controller.operator.reassignment.throttles import BROKER_KEYS, TOPIC_KEYS, UNTIL_VERIFY
from controller.operator.reassignment.view import Role, View

ROLLBACK_SECONDS: Final = 2.0
"""How long --cancel waits for a rollback, to clear the throttles itself."""

_POLL_SECONDS: Final = 0.1


async def limit(cluster: Cluster, report: Report, limits: Sequence[Configure]) -> None:
    """Set the throttle, if there is one to set."""
    if not limits:
        return
    report.say(UNTIL_VERIFY)
    for step in limits:
        try:
            await cluster.access.configure(step)
        except KafkaUnavailable as fault:
            report.warn(f"no throttle for {step.entity}: {fault}")
    rate = limits[-1].given[BROKER_KEYS[0]]
    report.data["throttle"] = int(rate)
    report.say(f"The inter-broker throttle limit was set to {rate} B/s")


async def clear_throttles(access: Access, report: Report, view: View, targets: Targets) -> None:
    """Of all brokers and of the topics named (clearAllThrottles): which brokers took part in what
    came before, nobody knows any more."""
    brokers = throttled_before(view, targets)
    topics = sorted({topic for topic, _ in targets})
    text = f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'}"
    report.say(f"{text} {listed(brokers)}")
    text = f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'}"
    report.say(f"{text} {','.join(topics)}")
    for step in clearing(view, targets):
        try:
            await access.configure(step)
        except KafkaUnavailable as fault:
            report.warn(f"the throttle of {step.entity} stays: {fault}")
    report.data["throttles_cleared"] = True


def throttled_before(view: View, targets: Targets) -> list[int]:
    """Every broker that may have a throttle."""
    return sorted({*view.brokers, *(one for replicas in targets.values() for one in replicas)})


def clearing(view: View, targets: Targets) -> list[Configure]:
    """The steps; a topic that does not exist has no configuration."""
    known = {topic for topic, _ in view.assignments}
    existing = {one: replicas for one, replicas in targets.items() if one[0] in known}
    return clearing_steps(throttled_before(view, targets), existing)


async def is_anything_under_way(cluster: Cluster, report: Report, view: View) -> bool:
    """A broker's limit is everybody's: it goes when nothing at all is under way, or may be."""
    if view.moving:
        return True
    whole = await cluster.access.look(None)
    if whole.unreadable_topics and not whole.moving:
        names = ",".join(sorted(whole.unreadable_topics))
        report.warn(
            f"the throttles are left: topics cannot be read, and may be on their way: {names}"
        )
    return bool(whole.moving or whole.unreadable_topics)


async def settle_throttles(cluster: Cluster, report: Report, origins: Targets) -> None:
    """After a cancellation that goes back to `origins`: clear the throttles if the rollback is over
    within moments, else say which remain and what clears them."""
    if not origins:
        return
    deadline = time.monotonic() + ROLLBACK_SECONDS
    view = await cluster.access.look({topic for topic, _ in origins})
    left = await _throttles_left(cluster, report, view, origins)
    if not left:
        return
    while _rolls_back(view, origins) and time.monotonic() < deadline:
        await anyio.sleep(_POLL_SECONDS)
        view = await cluster.access.look({topic for topic, _ in origins})
    if not await is_anything_under_way(cluster, report, view):
        await clear_throttles(cluster.access, report, view, origins)
        return
    command = _clearing_command(cluster, origins)
    report.data |= {"throttles_left": left, "clear_throttles_with": command}
    report.warn(f"throttles remain{_reason(view, origins)}: {_spelt_throttles(left)}")
    report.say(f"Clear them when nothing is being reassigned any more, with:\n{command}")


def _rolls_back(view: View, origins: Targets) -> bool:
    """Whether a controller is at work on any of these."""
    is_waiting = view.controller.role is Role.NOBODY
    return not is_waiting and any(view.is_cancelled(one) for one in origins)


def _reason(view: View, origins: Targets) -> str:
    if any(view.is_cancelled(one) for one in origins):
        return ", because the rollback is not over"
    if view.moving:
        return f", because partitions are being reassigned: {spelt_all(view.moving)}"
    return ""


async def _throttles_left(
    cluster: Cluster, report: Report, view: View, targets: Targets
) -> dict[str, list[str]]:
    """The throttles that are set, of every entity that may have one."""
    left: dict[str, list[str]] = {}
    for step in clearing(view, targets):
        try:
            current = await cluster.zookeeper.configuration(step.entity)
        except Refused as fault:
            report.warn(f"whether {step.entity} has a throttle is unknown: {fault}")
            continue
        keys: list[str] = [one for one in (*BROKER_KEYS, *TOPIC_KEYS) if one in current]
        if keys:
            left[step.entity] = keys
    return left


def _spelt_throttles(left: Mapping[str, Sequence[str]]) -> str:
    """Entities that have the same throttles in one text."""
    by_keys: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for entity, keys in left.items():
        kind, _, name = entity.partition("/")
        by_keys.setdefault((kind, tuple(keys)), []).append(name)
    return "; ".join(
        f"{', '.join(keys)} of {kind} {','.join(names)}" for (kind, keys), names in by_keys.items()
    )


def _clearing_command(cluster: Cluster, origins: Targets) -> str:
    """A --verify of the originals. It reads them from a pipe: nobody has a file of them."""
    verify = cluster.command("--verify", "--wait", "--reassignment-json-file", "/dev/stdin")
    return f"echo '{write_targets(origins)}' | {verify}"
