"""A controller as a process of the simulation: "refold N", a daemon, or "stock N", inside of broker
N.

A supervisor starts a refold again after it has exited with an error, as docs/operation.md advises.
An input can end the process before or after any of its acts: a write that reaches ZooKeeper, or a
request that is sent to a broker.
"""

from collections.abc import Callable
from typing import Final

from replay.world.controller_run import ControllerRun, History, RunSettings
from replay.world.draws import Draws
from replay.world.network import ConnectionSide, Network
from replay.world.observer import Observer
from replay.world.processes import ZOOKEEPER
from replay.world.scheduler import MS, SECOND, ScheduledAction, Scheduler

RESTART_US: Final = 2 * SECOND
"""The pause of the supervisor."""

_POLL_US: Final = 500 * MS
"""How often a daemon looks whether the session of its previous run has expired."""


class _CrashPoint:
    """Ends the process before or after one of its acts."""

    def __init__(self, act: int, crash: Callable[[], None], *, is_before: bool) -> None:
        self.act = act
        self.crash = crash
        self.is_before = is_before


class ControllerProcess:
    """All runs of one controller. `acts` counts over all of them.

    `holds_role` says whether /controller has the id of this controller: a daemon waits, at most for
    its session timeout, until the session of its previous run has expired.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        settings: RunSettings,
        seed: int,
        observer: Observer,
        *,
        restarts: bool,
        holds_role: Callable[[], bool],
    ) -> None:
        self.process = settings.process
        self.settings = settings
        self.run: ControllerRun | None = None
        self.histories: list[History] = []
        self.acts = 0
        self._scheduler = scheduler
        self._network = network
        self._draws = Draws(seed, settings.process)
        self._observer = observer
        self._restarts = restarts
        self._holds_role = holds_role
        self._crash_points: list[_CrashPoint] = []
        self._append_us = MS
        self._starting: ScheduledAction | None = None
        self._on_exit: Callable[[], None] | None = None
        self._what = ""

    @property
    def is_running(self) -> bool:
        """Whether the process runs, paused or not."""
        return self.run is not None

    @property
    def is_stock(self) -> bool:
        """Whether it is part of a broker."""
        return self.settings.configuration.is_broker

    def start(self, after_us: int = 0) -> None:
        """Start the process, unless it runs."""
        if self.run is None:
            self._cancel_start()
            self._starting = self._scheduler.after(after_us, self._wait_for_last_run)

    def shut_down(self, exited: Callable[[], None] | None = None) -> None:
        """Ask the process to exit (SIGTERM), and call `exited` then: at once if it does not run."""
        if self.run is not None:
            self._on_exit = exited
            self.run.shut_down()
        elif exited is not None:
            exited()

    def kill(self, why: str = "kill") -> None:
        """End the process (SIGKILL). It stays down until `start`."""
        self._cancel_start()
        self._on_exit = None
        run = self.run
        if run is not None:
            self.run = None
            run.kill()
            self._network.end_process(self.process)
            self._observer.run_ended(self.process, why)

    def pause(self) -> None:
        """The process does nothing (SIGSTOP)."""
        if self.run is not None:
            self._network.pause(self.process)
            self.run.pause()

    def resume(self) -> None:
        """The process runs again (SIGCONT): it reads what has arrived, then looks at the clock."""
        if self.run is not None:
            self._network.resume(self.process)
        if self.run is not None:
            self.run.resume()

    def set_append_ms(self, latency_ms: int) -> None:
        """From now on, an append to the log takes this time."""
        self._append_us = latency_ms * MS
        if self.run is not None:
            self.run.append_us = self._append_us

    def crash_at(self, act: int, crash: Callable[[], None], *, is_before: bool) -> None:
        """Call `crash`, which ends the process, before or after the `act`-th act from now on."""
        self._crash_points.append(_CrashPoint(self.acts + act, crash, is_before=is_before))

    def end_faults(self) -> None:
        """Crash at no act any more."""
        self._crash_points.clear()

    # Acts

    def begin_act(self, what: str) -> bool:
        """Count an act. False: the process has ended, and the act must not happen."""
        if self.run is None:
            return False
        self._what = what
        if self._crash_points and not self._pass_crash_points(self.acts + 1, is_before=True):
            return False
        self.acts += 1
        return True

    def end_act(self) -> None:
        """Report the act, and crash if a crash point follows it."""
        self._observer.controller_acted(self.process, self.acts, self._what)
        if self._crash_points:
            self._pass_crash_points(self.acts, is_before=False)

    def _pass_crash_points(self, act: int, *, is_before: bool) -> bool:
        """Returns whether the process is still alive."""
        for point in self._crash_points:
            if point.act == act and point.is_before is is_before:
                self._crash_points.remove(point)
                # Writes that are on their way are lost: they were never sent.
                run = self.run
                assert run is not None
                when = "before" if is_before else "after"
                self._observer.crashes(self.process, self._what, when)
                run.kill()
                self._network.reset(self.process, ZOOKEEPER)
                self.kill("crash")
                point.crash()
                return False
        return True

    # Runs

    def _wait_for_last_run(self, waited_us: int = 0) -> None:
        self._starting = None
        if not self.is_stock and self._holds_role():
            is_in_time = waited_us < self.settings.session_timeout_ms * MS
            pause_us = _POLL_US if is_in_time else RESTART_US
            waited_us = waited_us + pause_us if is_in_time else 0
            self._starting = self._scheduler.after(
                pause_us, lambda: self._wait_for_last_run(waited_us)
            )
            return
        run = self.run = ControllerRun(
            self._scheduler,
            self._network,
            self.settings,
            self._draws,
            self,
            self._observer,
            self._end_run,
        )
        run.append_us = self._append_us
        self.histories.append(run.history)
        self._network.listen(self.process, self._accept)
        self._observer.run_started(self.process)
        run.start()

    def _accept(self, _: str) -> ConnectionSide | None:
        return self.run.endpoint.accept() if self.run is not None else None

    def _end_run(self, reason: str) -> None:
        self.run = None
        self._network.end_process(self.process)
        self._observer.run_ended(self.process, reason)
        on_exit, self._on_exit = self._on_exit, None
        if on_exit is not None:
            on_exit()
        elif reason and self._restarts:
            self.start(RESTART_US)

    def _cancel_start(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
