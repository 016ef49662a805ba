"""Setting a throttle, and clearing it."""

from collections.abc import Sequence

from controller.operator.reassignment.access import Access, Cluster
from controller.operator.reassignment.documents import Targets, listed
from controller.operator.reassignment.errors import KafkaUnavailable
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.steps import Configure, clearing_steps
from controller.operator.reassignment.throttles import BROKER_KEYS, UNTIL_VERIFY
from controller.operator.reassignment.view import View


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
