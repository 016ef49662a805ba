"""One run of a broker: from the start of its process to its end."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from controller.core import znodes
from controller.core.events import WatchFired
from controller.core.operations import CreateSequential
from replay.world.broker.context import BrokerContext, MinIsr
from replay.world.broker.control_requests import Replicas
from replay.world.broker.controlled_shutdown import ControlledShutdown
from replay.world.broker.controller_channel import ControllerChannel, ProcessOfController
from replay.world.broker.disk import Disk
from replay.world.broker.fetcher import Fetchers
from replay.world.broker.isr_changes import AlterPartitions, ZooKeeperIsrChanges
from replay.world.broker.partition import IsrChanges
from replay.world.broker.producer_ids import ProducerIdBlocks, Route
from replay.world.broker.registration import Registration, registration_of
from replay.world.broker.serving import ServedConnection
from replay.world.broker.settings import BrokerSettings
from replay.world.broker.zookeeper_requests import ZooKeeperRequests
from replay.world.network import ConnectionSide, Network
from replay.world.observer import Name, Observer
from replay.world.scenario import BrokerSpec
from replay.world.scheduler import MS, WALL_START_MS, ProcessClock, Scheduler
from replay.world.zookeeper_client import ProcessSession

_FAILURE: Final = 1


class BrokerEnvironment(NamedTuple):
    """The shared parts of all simulated brokers."""

    scheduler: Scheduler
    network: Network
    settings: BrokerSettings
    observer: Observer
    process_of_controller: ProcessOfController
    """The process of a controller by its broker id."""
    min_isr: MinIsr = lambda topic: None
    on_start: Callable[[int], None] = lambda broker: None
    """Called once a run of a broker has registered: its controller starts then."""


class BrokerRun:
    """`on_end` gets the cause: "shutdown", or "exit" if the broker could not register."""

    def __init__(
        self,
        spec: BrokerSpec,
        disk: Disk,
        environment: BrokerEnvironment,
        on_end: Callable[[str], None],
    ) -> None:
        self._environment = environment
        self._spec = spec
        self._disk = disk
        self._on_end = on_end
        self._clock = ProcessClock(environment.scheduler)
        self._is_registered = self._is_listening = False
        self._expirations = 0
        self.context = context = BrokerContext(
            spec.id,
            self._clock,
            environment.network,
            environment.settings,
            environment.observer,
            environment.min_isr,
        )
        self._requests = ZooKeeperRequests()
        self._channel = ControllerChannel(context, environment.process_of_controller)
        changes: IsrChanges
        if environment.settings.protocol.has_alter_partition:
            changes = AlterPartitions(context, self._channel)
        else:
            changes = ZooKeeperIsrChanges(context, self._requests)
        # Kafka's broker has a separate channel for changes of the ISR.
        self._other_channel = ControllerChannel(context, environment.process_of_controller)
        self._producer_ids = ProducerIdBlocks(context, self._other_channel, self._requests)
        self._fetchers = Fetchers(context, disk.slow)
        self.replicas = Replicas(context, disk, changes, self._fetchers)
        self._zookeeper = ProcessSession(
            self._clock,
            environment.network,
            context.process,
            self,
            environment.settings.session_timeout_ms,
        )
        self._requests.set_client(self._zookeeper)
        self._registration = Registration(
            self._requests, spec.id, self._make_data, self._on_registered, self._exit_if_starting
        )
        self._shutdown: ControlledShutdown | None = None
        disk.start()
        self._clock.after(environment.settings.start_us, self._begin)
        self._repeat(environment.settings.lag_us // 2, self._shrink_isrs)
        self._repeat(environment.settings.checkpoint_us, disk.checkpoint)
        self._repeat(environment.settings.flush_us, self._write_back)

    def _begin(self) -> None:
        self._environment.observer.started(self.context.process)
        if self._disk.failed:
            self._environment.observer.log_directory_failed(
                self.context.process, list(self._disk.failed)
            )
        self._zookeeper.start()

    def _make_data(self) -> bytes:
        now_ms = WALL_START_MS + self._clock.now_us // MS
        return registration_of(
            self.context.id, self._spec.rack, self._environment.settings.protocol, now_ms
        )

    def _repeat(self, period_us: int, action: Callable[[], None]) -> None:
        def act() -> None:
            action()
            self._repeat(period_us, action)

        self._clock.after(period_us, act)

    def _shrink_isrs(self) -> None:
        for partition in list(self.replicas.hosted.values()):
            partition.shrink_isr()

    def _write_back(self) -> None:
        """A slow disk is late."""
        write_back = self._disk.write_back
        process, observer = self.context.process, self._environment.observer
        if self.context.write_us:
            self._clock.after(self.context.write_us, lambda: write_back(process, observer))
        else:
            write_back(process, observer)

    # The session

    def session_started(self, session: int) -> None:
        """Register, for the first time or after an expiry."""
        self._registration.begin(session)
        self._requests.reconnected()

    def session_resumed(self) -> None:
        """Repeat the requests that were not answered."""
        self._requests.reconnected()

    def connection_lost(self) -> None:
        """The client reconnects by itself."""

    def session_expired(self) -> None:
        """The broker continues, and registers again in the next session. If it cannot, it is of no
        use until it is started again."""
        self._is_registered = False
        self._expirations += 1
        expirations = self._expirations
        self._clock.after(
            self._environment.settings.unregistered_us, lambda: self._give_up(expirations)
        )

    def watch_fired(self, event: WatchFired) -> None:
        """A simulated broker watches nothing."""

    def _give_up(self, expirations: int) -> None:
        if not self._is_registered and self._expirations == expirations:
            self.crash("exit")
            self._on_end("exit")

    def _on_registered(self, broker_epoch: int) -> None:
        self._is_registered = True
        self.context.epoch = broker_epoch
        self._environment.observer.registered(self.context.process, broker_epoch)
        if not self._is_listening:
            self._is_listening = True
            self._environment.on_start(self.context.id)
            self._clock.after(self._spec.accepts_after_ms * MS, self._listen)

    def _exit_if_starting(self) -> None:
        """React to another registration with this id. At the start Kafka exits; later it stays
        unregistered (KAFKA-14845)."""
        if not self._is_listening:
            self.crash("exit")
            self._on_end("exit")

    def _listen(self) -> None:
        if self._shutdown is None:
            self._environment.network.listen(self.context.process, self._accept)
            self._registration.rewrite()

    def _accept(self, process: str) -> ConnectionSide:
        return ServedConnection(self.context, self.replicas)

    def allocate_producer_ids(self, route: Route) -> None:
        """A producer needs an id, and the broker has none left."""
        if self._is_listening:
            # A process that is paused is asked when it continues.
            self._clock.after(0, lambda: self._producer_ids.allocate(route))

    # Faults and the end

    def pause(self) -> None:
        """The process does nothing; what arrives waits."""
        self._clock.pause()
        self._environment.network.pause(self.context.process)
        self._environment.observer.paused(self.context.process)

    def resume(self) -> None:
        """The process continues."""
        self._environment.observer.resumed(self.context.process)
        self._environment.network.resume(self.context.process)
        self._clock.resume()

    def fail_log_directories(self, names: Iterable[Name] | None) -> Sequence[Name]:
        """The log directories of some partitions, or of all, fail; report it to the controller
        (handleLogDirFailure)."""
        failed = self.replicas.fail(list(self._disk.logs) if names is None else names)
        if failed:
            self._environment.observer.log_directory_failed(self.context.process, failed)
            for name in failed:
                self._fetchers.stop(name)
            event = {"version": 1, "broker": self.context.id, "event": _FAILURE}
            path = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"
            self._requests.submit(
                CreateSequential(path, msgspec.json.encode(event)), lambda results: None
            )
        return failed

    def slow_changed(self, name: Name) -> None:
        """A replica is slow from now on, or no longer."""
        self._fetchers.slow_changed(name)

    def shut_down(self, closes_after_us: int, lasts_us: int) -> None:
        """Stop after the controller has moved the leaders, or has not answered in time. Until
        `closes_after_us` later, and `lasts_us` from now, the broker serves as before and stays
        registered."""
        # A process that is paused gets the signal when it continues.
        self._clock.after(0, lambda: self._ask_to_stop(closes_after_us, lasts_us))

    def _ask_to_stop(self, closes_after_us: int, lasts_us: int) -> None:
        earliest_us = self._clock.now_us + lasts_us

        def stop() -> None:
            after_us = max(closes_after_us, earliest_us - self._clock.now_us)
            if after_us > 0:
                self._clock.after(after_us, self._stop)
            else:
                self._stop()

        if self._shutdown is None:
            self.context.is_shutting_down = True
            self._shutdown = ControlledShutdown(
                self.context, self._environment.process_of_controller, stop
            )

    def _stop(self) -> None:
        self._disk.checkpoint()
        self._disk.write_back(self.context.process, self._environment.observer)
        # The request to close the session arrives before the end of the connection.
        self._zookeeper.close()
        self._end("shutdown")
        self._on_end("shutdown")

    def crash(self, cause: str = "crash") -> None:
        """The process ends. Its session stays until it expires."""
        self._zookeeper.crash()
        self._end(cause)

    def _end(self, cause: str) -> None:
        self._clock.end()
        self._requests.forget()
        self._fetchers.close()
        self._channel.close()
        self._other_channel.close()
        if self._shutdown is not None:
            self._shutdown.close()
        self._environment.network.end_process(self.context.process)
        self._environment.observer.ended(self.context.process, cause)
