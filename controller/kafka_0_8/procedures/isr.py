"""Changes of the ISR by the leader (I-01 to I-05)."""

from typing import Final

from controller.core.commands import Reason
from controller.core.operations import BAD_VERSION, NO_AUTH, NO_NODE, OK, Check, SetData
from controller.core.zookeeper_io import write
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import ISR_TIMER, Broker
from controller.kafka_0_8.configuration import FIRST_RULES, SECOND_RULES, THIRD_RULES
from controller.kafka_0_8.procedures.leader_writes import UnmetCondition, set_as_leader
from controller.kafka_0_8.procedures.leadership import step_down
from controller.kafka_0_8.procedures.reassignment import complete_if_caught_up
from controller.kafka_0_8.records import commit, has_caught_up
from controller.kafka_0_8.state import UNKNOWN_LEO, Partition
from controller.kafka_0_8.triggers import IsrChange, LeaderChanged

_REFUSED: Final = "isr_refused"
_DOES_NOT_JOIN: Final = "does_not_join"
"""Codes of notices."""


def check_lag(broker: Broker) -> None:
    """The timer fired: have the ISRs without lagging followers written; continue while leader."""
    broker.timers.pop(ISR_TIMER, None)
    led = broker.led_partitions()
    for partition in led:
        if lagging(broker, partition):
            broker.enqueue(IsrChange(*partition.name))
    if led:
        interval_ms = max(1, broker.configuration.keep_in_sync_time_ms // 2)
        broker.start_periodic(ISR_TIMER, interval_ms, rules.KEEP_IN_SYNC)


def lagging(broker: Broker, partition: Partition) -> tuple[int, ...]:
    """The followers of the ISR that have lacked records for longer than KeepInSyncTime (I-01)."""
    limit_ms = broker.configuration.keep_in_sync_time_ms
    return tuple(
        one
        for one in partition.isr
        if not partition.ar[one].is_local
        and partition.ar[one].leo < partition.local.leo
        and broker.now_ms - partition.ar[one].caught_up_ms > limit_ms
    )


async def change_isr(broker: Broker, partition: Partition) -> None:
    """Write the ISR with the replicas that have caught up and without those that lag."""
    joining = tuple(one for one in partition.cur if has_caught_up(partition, one))
    leaving = lagging(broker, partition)
    if joining or leaving:
        stays = (*partition.isr, *joining)
        isr = tuple(one for one in partition.ar if one in stays and one not in leaving)
        partition.joining = joining
        await _write(broker, partition, isr, rules.CAUGHT_UP if joining else rules.KEEP_IN_SYNC)
    if partition.is_leader:
        await complete_if_caught_up(broker, partition)


def _not_started_again(broker: Broker, partition: Partition) -> dict[int, Check]:
    """For each joining replica, that its broker was not started again since its last fetch (I-05).
    After a start, its log may end before the offset of that fetch (F-01)."""
    if broker.configuration.rules <= SECOND_RULES:
        return {}
    joining = partition.joining
    return {one: Check(znodes.state_path(one), partition.ar[one].run) for one in joining}


async def _write(broker: Broker, partition: Partition, isr: tuple[int, ...], rule: str) -> None:
    path = znodes.isr_path(*partition.name)
    content = znodes.write_isr(znodes.Isr(isr, partition.epoch))
    change = SetData(path, content, partition.isr_version)
    if broker.configuration.rules == FIRST_RULES:
        written = (await write(broker, [change], Reason(rule))).errors[0]
        error: int | UnmetCondition = OK if written == OK else BAD_VERSION
    else:
        checks = _not_started_again(broker, partition)
        error = await set_as_leader(broker, partition, change, Reason(rule), [*checks.values()])
        if isinstance(error, UnmetCondition):
            (one,) = (one for one, check in checks.items() if check == error.condition)
            _keep_out(broker, partition, one, error)
            return
    partition.joining = ()
    if error == NO_AUTH:
        text = (
            f"the ACL of {path} or of {znodes.EPOCH} does not allow the leader to write the ISR "
            f"{list(isr)} (NoAuth): correct the ACL; the leader tries it again"
        )
        broker.notice_once("error", _REFUSED, path, text, rules.ISR_DENIED, content)
        return
    broker.forget(path, _REFUSED)
    if error != OK:
        # Only another leader, or the deletion of the partition, changes the znode.
        step_down(broker, partition, "another leader has written the ISR", rules.ISR_REFUSED)
        broker.enqueue(LeaderChanged(*partition.name))
        return
    partition.isr, partition.isr_version = isr, partition.isr_version + 1
    commit(broker, partition)


def _keep_out(broker: Broker, partition: Partition, replica: int, unmet: UnmetCondition) -> None:
    """The replica does not join: the leader waits for its next fetch."""
    topic, number = partition.name
    path = unmet.condition.path
    partition.joining = ()
    is_earlier = broker.configuration.rules <= THIRD_RULES
    # The leadership may have ended.
    if replica in partition.ar:
        partition.ar[replica].leo = UNKNOWN_LEO
        if not is_earlier and unmet.code in (BAD_VERSION, NO_NODE):
            partition.ar[replica].stale_run = unmet.condition.version
    what = f"replica {replica} of {topic}-{number} does not join the ISR"
    why, level = "its broker was started again since its last fetch", "info"
    if not is_earlier:
        why = f"since its last fetch, its broker was started again, or a client has written {path}"
    if unmet.code != BAD_VERSION:
        code = "NoAuth" if unmet.code == NO_AUTH else "NoNode"
        why, level = f"{path} cannot be checked ({code}): correct the znode or its ACL", "error"
    rule, content = rules.STARTED_AGAIN, why.encode()
    broker.notice_once(level, _DOES_NOT_JOIN, f"{topic}-{number}", f"{what}: {why}", rule, content)
    # Other replicas may join or leave.
    broker.enqueue(IsrChange(topic, number))
