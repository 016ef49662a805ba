"""Carries out the inputs of a run at their times.

A fault that has a duration ends at the latest when the quiet part of the run begins, and a process
that is to start again does so by then. Two overlapping faults of one kind at one place end with the
later one.

A stock controller and its broker are one process in reality: a fault of "broker N" as a whole is
also one of "stock N".
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, assert_never

from replay.names import is_broker
from replay.world.ensemble.ensemble import Ensemble
from replay.world.inputs import (
    NONE,
    SAME,
    AdminAct,
    AllocateProducerIds,
    BrokerFault,
    ChangeZooKeeperLeader,
    ControllerFault,
    CrashBroker,
    CrashController,
    CreatePartitions,
    CreateTopic,
    CutConnection,
    Delay,
    DelayEphemeralDeletion,
    ExpireSession,
    FailLogDirectory,
    HangZooKeeper,
    HoldLink,
    Input,
    KillController,
    LagZooKeeper,
    LoseReply,
    PauseProcess,
    ProcessFault,
    ShutDownController,
    SlowDisk,
    StartController,
    StopBroker,
    StopZooKeeperMember,
    ZooKeeperFault,
)
from replay.world.processes import id_in, stock_name
from replay.world.scheduler import MS, SECOND
from replay.world.simulated_cluster import SimulatedBroker, SimulatedCluster

_REPLACED_US: Final = 2 * SECOND
"""How long a broker is down while its disk is replaced."""


class Faults:
    """The inputs of one cluster."""

    def __init__(self, cluster: SimulatedCluster[Any]) -> None:
        self._cluster = cluster
        self._quiet_us = cluster.scenario.active_ms * MS
        self._depths: dict[Hashable, int] = {}

    def schedule(self) -> None:
        """Schedule all inputs of the run. Inputs at the same time take effect in their order."""
        cluster = self._cluster
        for one in cluster.inputs:
            if isinstance(one, Delay):
                name = (one.link, one.number)
                delays = cluster.network.delays
                delays[name] = delays.get(name, 0) + one.ms * MS
            elif one.at_ms * MS < self._quiet_us:
                self._schedule_input(one)

    def _schedule_input(self, one: Input) -> None:
        self._cluster.scheduler.call_at(one.at_ms * MS, lambda: self.apply(one))

    def apply(self, one: Input) -> None:
        """An input takes effect now."""
        cluster = self._cluster
        cluster.observer.input_applied(one)
        if isinstance(one, BrokerFault):
            self._apply_to_broker(one)
        elif isinstance(one, ProcessFault):
            self._apply_to_process(one)
        elif isinstance(one, ZooKeeperFault):
            self._apply_to_zookeeper(one)
        elif isinstance(one, ControllerFault):
            self._apply_to_controller(one)
        elif isinstance(one, AllocateProducerIds):
            broker = cluster.brokers.get(one.broker)
            if broker is not None:
                broker.allocate_producer_ids(one.route)
        elif isinstance(one, AdminAct):
            cluster.admin.carry_out(one)
            if isinstance(one, CreateTopic):
                cluster.clients.add_partitions(one.topic, len(one.assignment))
            elif isinstance(one, CreatePartitions):
                cluster.clients.add_partitions(one.topic, len(one.added))

    # Kinds

    def _apply_to_broker(self, one: BrokerFault) -> None:
        broker = self._cluster.brokers.get(one.broker)
        if broker is None:
            return
        match one:
            case CrashBroker(loses_unflushed=loses_unflushed, restart_after_ms=restart_after_ms):
                broker.crash(loses_unflushed=loses_unflushed)
                if restart_after_ms is not None:
                    self._after(restart_after_ms, broker.start)
            case StopBroker(restart_after_ms=restart_after_ms, closes_after_ms=closes_after_ms):
                broker.shut_down(
                    restart_after_us=self._clamped_us(restart_after_ms),
                    closes_after_us=self._clamped_ms(closes_after_ms) * MS,
                    lasts_us=self._clamped_ms(one.lasts_ms) * MS,
                )
            case FailLogDirectory(partitions=partitions, repaired_after_ms=repaired_after_ms):
                names = partitions or None
                broker.fail_log_directory(names, survives_restart=one.survives_restart)
                if repaired_after_ms is not None:
                    self._after(repaired_after_ms, partial(_repair, broker))
            case unknown:
                assert_never(unknown)

    def _apply_to_process(self, one: ProcessFault) -> None:
        network, zookeeper = self._cluster.network, self._cluster.zookeeper
        match one:
            case PauseProcess(process=process, ms=ms):
                for name in self._parts(process):
                    self._pause(name, ms)
            case SlowDisk(process=process, latency_ms=latency_ms, ms=ms):
                self._slow_disk(process, latency_ms, ms)
            case ExpireSession(process=process):
                for name in self._parts(process):
                    zookeeper.expire(name)
            case LoseReply(process=process, is_carried_out=is_carried_out):
                zookeeper.lose_reply(process, is_carried_out=is_carried_out)
            case CutConnection(one=first, other=second, ms=ms):
                for left in self._parts(first):
                    for right in self._parts(second):
                        network.cut(left, right)
                        self._end_after(
                            ("cut", left, right), ms, partial(network.heal, left, right)
                        )
            case HoldLink(sender=sender, receiver=receiver, ms=ms, accepts=accepts):
                for left in self._parts(sender):
                    for right in self._parts(receiver):
                        network.hold_messages(left, right, accepts=accepts)
                        end = partial(network.release, left, right)
                        self._end_after(("hold", left, right), ms, end)
            case unknown:
                assert_never(unknown)

    def _apply_to_zookeeper(self, one: ZooKeeperFault) -> None:
        zookeeper = self._cluster.zookeeper
        match one:
            case LagZooKeeper(process=process, transactions=transactions, ms=ms, lag_ms=lag_ms):
                member = zookeeper.lag(process, transactions=transactions, ms=lag_ms)
                self._end_after(("lag", member), ms, partial(_end_lag, zookeeper, member))
            case HangZooKeeper(ms=ms):
                zookeeper.hang(self._clamped_ms(ms))
            case ChangeZooKeeperLeader(ms=ms):
                zookeeper.change_leader(self._clamped_ms(ms))
            case StopZooKeeperMember(member=member, ms=ms):
                number = member % self._cluster.scenario.zookeeper_members
                zookeeper.kill(number)
                self._end_after(("member", number), ms, lambda: zookeeper.restart(number))
            case DelayEphemeralDeletion(process=process, delay_ms=delay_ms, ms=ms):
                zookeeper.delay_ephemerals(process, delay_ms)
                end = partial(zookeeper.delay_ephemerals, process, 0)
                self._end_after(("late", process), ms, end)
            case unknown:
                assert_never(unknown)

    def _apply_to_controller(self, one: ControllerFault) -> None:
        process = self._cluster.controllers.get(one.process)
        if process is None:
            return
        match one:
            case CrashController(act=act, when=when):
                process.crash_at(
                    act, partial(self._start_successor, one), is_before=when == "before"
                )
            case KillController():
                process.kill()
                self._start_successor(one)
            case StartController():
                self._cluster.start_controller(one.process)
            case ShutDownController(restart_after_ms=restart_after_ms):
                exited = None
                if restart_after_ms is not None:
                    exited = partial(self._after, restart_after_ms, partial(process.start, 0))
                process.shut_down(exited)
            case unknown:
                assert_never(unknown)

    def _start_successor(self, one: CrashController | KillController) -> None:
        """A controller has ended, a stock one with its broker: its successor starts."""
        cluster = self._cluster
        process = cluster.controllers[one.process]
        start: Callable[[], None] = partial(cluster.start_controller, one.process)
        if process.is_stock:
            broker = cluster.brokers[process.settings.configuration.broker_id]
            broker.crash(loses_unflushed=False)
            start = broker.start
        if one.successor == SAME:
            self._after(one.restart_after_ms, start)
        elif one.successor != NONE:
            cluster.start_controller(one.successor)

    # Parts

    def _parts(self, process: str) -> list[str]:
        """A process, and the controller in it."""
        stock = stock_name(id_in(process)) if is_broker(process) else ""
        return [process, stock] if stock in self._cluster.controllers else [process]

    def _pause(self, process: str, ms: int) -> None:
        paused = self._cluster.pausable(process)
        if paused is not None:
            paused.pause()
            self._end_after(("pause", process), ms, paused.resume)

    def _slow_disk(self, process: str, latency_ms: int, ms: int) -> None:
        controller = self._cluster.controllers.get(process)
        if controller is not None:
            controller.set_append_ms(latency_ms)
            self._end_after(("disk", process), ms, lambda: controller.set_append_ms(1))
            return
        broker = self._cluster.broker_of(process)
        if broker is not None:
            broker.slow_disk(latency_ms * MS)
            self._end_after(("disk", process), ms, lambda: broker.slow_disk(0))

    def _after(self, ms: int, action: Callable[[], None]) -> None:
        self._cluster.scheduler.after(self._clamped_ms(ms) * MS, action)

    def _end_after(self, key: Hashable, ms: int, end: Callable[[], None]) -> None:
        """A fault has begun, which ends after `ms`."""
        depths = self._depths
        depths[key] = depths.get(key, 0) + 1

        def finish() -> None:
            depths[key] -= 1
            if not depths[key]:
                end()

        self._after(ms, finish)

    def _clamped_us(self, ms: int | None) -> int | None:
        return None if ms is None else self._clamped_ms(ms) * MS

    def _clamped_ms(self, ms: int) -> int:
        return max(0, min(ms, (self._quiet_us - self._cluster.scheduler.now_us) // MS))


def _end_lag(zookeeper: Ensemble, member: int) -> None:
    zookeeper.lag(member)


def _repair(broker: SimulatedBroker) -> None:
    broker.repair_log_directories()
    broker.shut_down(restart_after_us=_REPLACED_US)
