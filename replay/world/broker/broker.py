"""A broker over all its runs, and what can happen to it."""

from collections.abc import Callable, Iterable

from replay.names import broker_name
from replay.world.broker.control_requests import Replicas
from replay.world.broker.disk import Disk
from replay.world.broker.producer_ids import Route
from replay.world.broker.run import BrokerEnvironment, BrokerRun
from replay.world.observer import Name
from replay.world.scenario import BrokerSpec
from replay.world.scheduler import ScheduledAction


class Broker:
    """The broker with one id. Its disk survives the end of a run.

    A supervisor starts it again if it exits with an error. After a crash or a shutdown it starts
    again only if the caller says when, or calls `start`.
    """

    def __init__(self, spec: BrokerSpec, environment: BrokerEnvironment) -> None:
        self.id = spec.id
        self.process = broker_name(spec.id)
        self.disk = Disk()
        self._spec = spec
        self._environment = environment
        self._run: BrokerRun | None = None
        self._restart: ScheduledAction | None = None
        self._restart_after_us: int | None = None
        self._is_paused = False
        self.on_end: Callable[[], None] = lambda: None
        """Called after the process has ended."""

    @property
    def is_running(self) -> bool:
        """Whether its process exists, paused or not."""
        return self._run is not None

    @property
    def replicas(self) -> Replicas | None:
        """The replicas of the current run."""
        return self._run.replicas if self._run else None

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of the last registration of this run, -1 if there is none."""
        return self._run.context.epoch if self._run else -1

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None
        if self._run is None:
            self._restart_after_us = None
            self._run = BrokerRun(self._spec, self.disk, self._environment, self._end_run)

    def crash(self, *, loses_unflushed: bool = False, restart_after_us: int | None = None) -> None:
        """The process ends without closing its session. `loses_unflushed`: its machine fails, too,
        and records that are not on the disk are lost."""
        if self._run is None:
            return
        self._run.crash()
        if loses_unflushed:
            self.disk.lose_unflushed(self.process, self._environment.observer)
        self._clean_up(restart_after_us)

    def shut_down(
        self,
        *,
        restart_after_us: int | None = None,
        closes_after_us: int = 0,
        lasts_us: int = 0,
    ) -> None:
        """A controlled shutdown begins. Once it has been granted, the broker closes its session
        after `closes_after_us`, but not before `lasts_us` have passed since it began."""
        if self._run is not None:
            self._restart_after_us = restart_after_us
            self._run.shut_down(closes_after_us, lasts_us)

    def _end_run(self, cause: str) -> None:
        is_error = cause == "exit"
        self._clean_up(
            self._environment.settings.restart_us if is_error else self._restart_after_us
        )

    def _clean_up(self, restart_after_us: int | None) -> None:
        """Forget the process, which has ended. It starts again after a delay; None: never."""
        self._run = None
        self._is_paused = False
        self.on_end()
        if restart_after_us is not None:
            self._restart = self._environment.scheduler.after(restart_after_us, self.start)

    def pause(self) -> None:
        """The process does nothing until `resume`: it becomes a zombie if its session expires."""
        if self._run is not None and not self._is_paused:
            self._is_paused = True
            self._run.pause()

    def resume(self) -> None:
        """The process continues."""
        if self._run is not None and self._is_paused:
            self._is_paused = False
            self._run.resume()

    def slow_disk(self, write_us: int) -> None:
        """Each write takes so much longer from now on, until the process ends or this is set to
        0."""
        if self._run is not None:
            self._run.context.write_us = write_us

    def allocate_producer_ids(self, route: Route) -> None:
        """Called when the broker needs a block of producer ids."""
        if self._run is not None:
            self._run.allocate_producer_ids(route)

    def slow_replica(self, name: Name, *, is_slow: bool) -> None:
        """A follower copies nothing of a partition from now on, or does so again."""
        if is_slow:
            self.disk.slow[name] = None
        else:
            self.disk.slow.pop(name, None)
        if self._run is not None:
            self._run.slow_changed(name)

    def fail_log_directory(
        self, names: Iterable[Name] | None = None, *, survives_restart: bool = False
    ) -> None:
        """The log directories of some partitions fail, or of all partitions. The broker has another
        one for new partitions. They are repaired before the next run, without loss, unless the
        failure `survives_restart`: then before the run after `repair_log_directories`."""
        if self._run is not None:
            failed = self._run.fail_log_directories(names)
            if survives_restart:
                self.disk.broken.update(dict.fromkeys(failed))

    def repair_log_directories(self) -> None:
        """The next run has all its log directories."""
        self.disk.broken.clear()
