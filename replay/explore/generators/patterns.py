"""Patterns: a few inputs that belong together, because races are made of them.

- a handover: a controller loses the role while it is slow, and its successor has trouble
- trouble of sessions: a process loses its session and a reply, and its ephemeral znodes stay
- a change while the controller is slow: brokers restart and topics change before it looks
- an outage: the replicas of a partition fail one after the other, often while it is reassigned
- an unclean election: the last replica of an ISR stays down, and one of the others returns
- an unfinished reassignment: some new replicas join, another is late; it is replaced or cancelled
- an interrupted rollback: the controller loses the role while a reassignment is cancelled
- a returning replica: it lags, and the one that led meanwhile fails
- old answers: all servers lag, and each controller loses the reply to a write
- late requests: a broker asks the controller, restarts, and the request arrives afterwards
- failed logs: a notification arrives while the controller handles another one
- two writers: a client writes a znode of reassignments while the controller writes it, too
- a replaced entry: a client writes another one while the controller removes one that is cancelled
- the same again: administrators act by the same znodes several times in one term
- an interrupted deletion: the controller loses the role while brokers delete a topic's replicas
- a slow shutdown: brokers fail and partitions change while a broker still serves
- a shutdown of a follower: its leader proposes it for the ISR, and the proposal arrives late

They aim at the kinds of races that were found in production (docs/races.md#three-kinds).
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from controller.core.topic_configs import UNCLEAN
from replay.explore.generators.acts import OUTAGE_MS, ActMaker
from replay.explore.generators.faults import (
    SURVIVES_PERCENT,
    ZOOKEEPER,
    FaultMaker,
    closes_after_ms,
)
from replay.explore.generators.scenarios import OLD_ZOOKEEPER
from replay.explore.numbers import Numbers
from replay.world.inputs import (
    ChangeTopicConfig,
    ChangeZooKeeperLeader,
    CrashBroker,
    CutConnection,
    DelayEphemeralDeletion,
    DeleteControllerZnode,
    ElectLeaders,
    ExpireSession,
    FailLogDirectory,
    HoldLink,
    Input,
    KillController,
    LagZooKeeper,
    LoseReply,
    PauseProcess,
    Reassign,
    ShutDownController,
    SlowDisk,
    StopBroker,
    Target,
)
from replay.world.scenario import Scenario

_SLOW_MS: Final = (30, 100, 300, 1_000, 3_000)
_LATENCY_MS: Final = (10, 50, 200, 700, 1_500)
_LAG_MS: Final = (3, 6, 12, 50, 300)
_SERVERS: Final = 3
_CLOSES_MS: Final = (500, 2_000, 5_000)
_AGAIN_MS: Final = (200, 1_000, 1_500, 4_000)
_FETCHES_AFTER_MS: Final = 1_630
"""About so long after its start a broker of the world begins to fetch, if nothing delays it."""


class Patterns:
    """Makes patterns of one scenario."""

    def __init__(self, scenario: Scenario, numbers: Numbers) -> None:
        self._numbers = numbers
        self._faults = FaultMaker(scenario, numbers)
        self._acts = ActMaker(scenario, numbers)
        self._controllers = [one.process for one in scenario.controllers if one.runs]
        self._brokers = [one.id for one in scenario.brokers]
        self._watches_fire_once = scenario.zookeeper == OLD_ZOOKEEPER

    def make(self, at_ms: int) -> list[Input]:
        """A random pattern around a moment."""
        patterns: tuple[tuple[Callable[[int], list[Input]], int], ...] = (
            (self._handover, 3),
            (self._sessions, 6),
            (self._change, 3),
            (self._outage, 5),
            (self._unclean, 2),
            (self._unfinished, 5),
            (self._interrupted_rollback, 5),
            (self._return, 3),
            (self._old_answers, 3),
            (self._late_requests, 2),
            (self._failed_logs, 2),
            (self._two_writers, 4),
            (self._replaced_entry, 2),
            (self._again, 14 if self._watches_fire_once else 2),
            (self._interrupted_deletion, 1),
            (self._slow_shutdown, 2),
            (self._shutdown_of_follower, 4),
        )
        pattern = self._numbers.weighted(patterns)
        return pattern(at_ms)

    def _near(self, at_ms: int) -> int:
        return max(0, at_ms + self._numbers.choice((-100, -20, -5, 0, 1, 2, 5, 10, 20, 100, 1_000)))

    def _slow(self, process: str, at_ms: int) -> Input:
        """A process is slow for some time, but keeps its session."""
        numbers = self._numbers
        ms = numbers.choice(_SLOW_MS)
        kind = numbers.below(6)
        if kind == 0:
            return PauseProcess(at_ms, process, ms)
        if kind == 1:
            return HoldLink(at_ms, ZOOKEEPER, process, ms)
        if kind == 2:
            return HoldLink(at_ms, process, ZOOKEEPER, ms)
        if kind == 3:
            return LagZooKeeper(at_ms, process, 0, 5_000, numbers.choice(_LAG_MS))
        if kind == 4:
            # The watches of the lost connection are set again.
            return CutConnection(at_ms, process, ZOOKEEPER, ms)
        return SlowDisk(at_ms, process, numbers.choice(_LATENCY_MS), 5_000)

    def _lose(self, at_ms: int, process: str, written_percent: int = 50) -> Input:
        """A process loses the reply to a write; sometimes the write is lost, too."""
        return LoseReply(at_ms, process, self._numbers.chance(written_percent))

    def _depose(self, process: str, at_ms: int) -> Input:
        """A controller loses the role, if it has it."""
        numbers = self._numbers
        depose: tuple[Input, ...] = (
            DeleteControllerZnode(at_ms),
            DeleteControllerZnode(at_ms),
            KillController(at_ms, process, restart_after_ms=numbers.choice(_SLOW_MS)),
            ExpireSession(at_ms, process),
            ShutDownController(at_ms, process, numbers.choice(_SLOW_MS)),
        )
        return numbers.choice(depose)

    def _handover(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        if not self._controllers:
            return self._change(at_ms)
        process = numbers.choice(self._controllers)
        made = [self._depose(process, at_ms)]
        if numbers.chance(70):
            made.append(self._slow(process, self._near(at_ms)))
        if numbers.chance(30):
            made.append(self._lose(at_ms, numbers.choice(self._controllers)))
        if numbers.chance(40):
            # The next controller is elected meanwhile.
            made.append(DeleteControllerZnode(at_ms + numbers.below(24)))
        if numbers.chance(30):
            lagging = f"broker {numbers.choice(self._brokers)}"
            made.append(LagZooKeeper(self._near(at_ms), lagging, 0, 9_000, numbers.choice(_LAG_MS)))
        for _ in range(numbers.below(3)):
            made += self._acts.make(self._near(at_ms))
        return made

    def _sessions(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        process = f"broker {numbers.choice(self._brokers)}"
        if self._controllers and numbers.chance(40):
            process = numbers.choice(self._controllers)
        ends = [at_ms]
        if numbers.chance(65):
            # After about a second, a process has connected again and has read what it lost.
            soon_ms = numbers.between(500, 1_300) if numbers.chance(70) else numbers.below(500)
            ends.append(at_ms + soon_ms)
        made: list[Input] = [ExpireSession(one, process) for one in ends]
        if numbers.chance(90):
            # The ephemeral znodes of the first session stay, or only those of the second one.
            end_ms = ends[-1] if numbers.chance(70) else ends[0]
            begin_ms = max(0, end_ms - numbers.choice((0, 10, 100)))
            late_ms = numbers.choice((100, 3_000, 30_000, 30_000, 30_000))
            made.insert(0, DelayEphemeralDeletion(begin_ms, process, late_ms, 30_000))
        if numbers.chance(90):
            # Mostly the write succeeds: the next session finds what the one before has created.
            made.append(self._lose(at_ms, process, 75))
        if numbers.chance(20):
            made.append(ChangeZooKeeperLeader(self._near(at_ms), numbers.choice((100, 2_000))))
        return made

    def _change(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        made: list[Input] = [self._slow(one, self._near(at_ms)) for one in self._controllers]
        kind = numbers.choice(("brokers", "topics", "any"))
        if kind == "brokers" and numbers.chance(50):
            # The controller finds it gone, and others registered again, in one look.
            gone = numbers.choice(self._brokers)
            made += self._acts.crash(self._near(at_ms), gone, numbers.choice(OUTAGE_MS))
        for _ in range(numbers.between(1, 4)):
            # Later ones often come while the controller still works on the first.
            later_ms = at_ms + numbers.below(1_000) if numbers.chance(50) else self._near(at_ms)
            if kind == "brokers" or (kind == "any" and numbers.chance(60)):
                made += self._restart(later_ms)
            elif kind == "topics":
                made += self._acts.create_topic(later_ms)
            else:
                made += self._acts.make(later_ms)
        return made

    def _restart(self, at_ms: int) -> list[Input]:
        """A broker registers again: in a new session, or as a new process."""
        numbers = self._numbers
        broker = numbers.choice(self._brokers)
        ends: tuple[list[Input], ...] = (
            [ExpireSession(at_ms, f"broker {broker}")],
            [StopBroker(at_ms, broker, 0, closes_after_ms(numbers))],
            [
                CrashBroker(at_ms, broker, False, 0),
                ExpireSession(at_ms, f"broker {broker}"),
            ],
        )
        return numbers.choice(ends)

    def _outage(self, at_ms: int) -> list[Input]:
        return self._with_handover(self._acts.outage(at_ms), at_ms)

    def _unclean(self, at_ms: int) -> list[Input]:
        """The configuration of the topic allows the election, or an administrator requests it."""
        numbers = self._numbers
        partition = self._acts.partition()
        if partition is None or len(partition[2]) == 1:
            return self._outage(at_ms)
        topic, number, replicas = partition
        made: list[Input] = []
        is_allowed = numbers.chance(60)
        if is_allowed:
            made.append(ChangeTopicConfig(max(0, at_ms - 500), topic, {UNCLEAN: "true"}))
        *others, last = numbers.sample(replicas, len(replicas))
        last_ms = at_ms + 400 * len(others)
        returned_ms = last_ms + numbers.choice((100, 500, 2_000))
        for place, broker in enumerate(others):
            failed_ms = at_ms + 400 * place
            made += self._acts.crash(failed_ms, broker, returned_ms - failed_ms)
        made += self._acts.crash(last_ms, last, numbers.choice((5_000, 9_000)))
        if not is_allowed:
            requested_ms = returned_ms + numbers.choice((1_000, 2_000))
            made.append(ElectLeaders(requested_ms, ((topic, number),), "unclean"))
        return made

    def _unfinished(self, at_ms: int) -> list[Input]:
        return self._with_handover(self._acts.unfinished(at_ms), at_ms)

    def _interrupted_rollback(self, at_ms: int) -> list[Input]:
        made, cancelled_ms = self._acts.cancelled(at_ms)
        if self._controllers:
            process = self._numbers.choice(self._controllers)
            made.append(self._depose(process, cancelled_ms + self._numbers.below(60)))
        return made

    def _with_handover(self, made: list[Input], at_ms: int) -> list[Input]:
        """Sometimes a controller loses the role at about that time."""
        if self._numbers.chance(20) and self._controllers:
            made.append(self._depose(self._numbers.choice(self._controllers), self._near(at_ms)))
        return made

    def _old_answers(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        lag_ms = numbers.choice(_LAG_MS)
        # Most likely, these brokers are connected to different servers.
        made: list[Input] = [
            LagZooKeeper(max(0, at_ms - 50), f"broker {one}", 0, 9_000, lag_ms)
            for one in self._brokers[:_SERVERS]
        ]
        if self._controllers:
            made += [self._lose(at_ms, one) for one in self._controllers]
            if numbers.chance(70):
                made.append(self._depose(numbers.choice(self._controllers), self._near(at_ms)))
        for _ in range(numbers.below(3)):
            made += self._acts.make(self._near(at_ms))
        return made

    def _return(self, at_ms: int) -> list[Input]:
        """The preferred replica of a partition fails and returns, and the one that led meanwhile
        fails before it has caught up: its disk is slow, or it receives records late."""
        numbers = self._numbers
        partition = self._acts.partition()
        if partition is None or len(partition[2]) == 1:
            return self._restart(at_ms)
        returning, leading = partition[2][:2]
        follower = f"broker {returning}"
        down_ms = numbers.choice((500, 2_000, 4_000))
        start_ms = at_ms + down_ms
        if numbers.chance(70):
            late: Input = SlowDisk(start_ms, follower, numbers.choice((50, 200, 800)), 9_000)
        else:
            held_ms = start_ms + _FETCHES_AFTER_MS - numbers.choice((0, 1, 2, 5, 30))
            late_ms = numbers.choice((50, 300, 1_500))
            late = HoldLink(held_ms, f"broker {leading}", follower, late_ms, accepts=True)
        lost_ms = start_ms + _FETCHES_AFTER_MS + numbers.choice((5, 10, 20, 60, 200))
        ends = self._acts.crash(at_ms, returning, down_ms)
        if numbers.chance(50):
            ends = [StopBroker(at_ms, returning, down_ms)]
        return [*ends, late, *self._acts.crash(lost_ms, leading, numbers.choice(OUTAGE_MS))]

    def _failed_logs(self, at_ms: int) -> list[Input]:
        """Logs of several leaders fail one after the other, while the controller still handles the
        notification of the first."""
        numbers = self._numbers
        made: list[Input] = []
        for _ in range(numbers.between(2, 4)):
            partition = self._acts.partition()
            if partition is None:
                return self._restart(at_ms)
            topic, number, (leader, *_) = partition
            # A repaired broker starts again, so that its notification no longer matters.
            repaired_ms = None if numbers.chance(80) else numbers.choice(OUTAGE_MS)
            survives = numbers.chance(SURVIVES_PERCENT)
            names = ((topic, number),)
            made.append(FailLogDirectory(at_ms, leader, names, repaired_ms, survives))
            at_ms += numbers.between(1, 7)
        return made

    def _two_writers(self, at_ms: int) -> list[Input]:
        """A client writes /admin/reassign_partitions while the controller writes it, too: it moves
        the entries of the extra znode there, or removes those that have ended."""
        numbers = self._numbers
        latency_ms = numbers.choice((0, 10, 10, 30, 30, 100))
        first: Literal["extra", "znode"] = "extra" if numbers.chance(15) else "znode"
        if latency_ms:
            # The entries are moved or removed after so many of the controller's appends.
            appends = (2, 8) if first == "extra" else (40, 49)
            later_ms = numbers.between(*(one * latency_ms for one in appends))
        else:
            later_ms = numbers.between(6, 13) if first == "extra" else numbers.between(40, 90)
        made = self._slow_disks(at_ms, latency_ms) if latency_ms else []
        routes: tuple[tuple[Literal["extra", "znode"], int], ...] = (
            (first, 0),
            ("znode", later_ms),
        )
        for route, after_ms in routes:
            targets = self._acts.targets()
            if targets:
                made.append(Reassign(at_ms + after_ms, targets, route))
        if self._controllers and numbers.chance(20):
            made.append(self._depose(numbers.choice(self._controllers), self._near(at_ms)))
        return made

    def _replaced_entry(self, at_ms: int) -> list[Input]:
        """Entries are cancelled before they have begun. A client writes others for the same
        partitions while the controller, whose disk is slow, removes them."""
        numbers = self._numbers
        latency_ms = numbers.choice((10, 30, 100))
        targets = self._acts.targets()
        others = tuple(self._acts.target(one.topic, one.partition) for one in targets)
        if not targets:
            return self._two_writers(at_ms)
        cancel_ms = at_ms + numbers.between(1, 3 * latency_ms)
        # The entries are removed after so many of the controller's appends.
        again_ms = cancel_ms + numbers.between(6 * latency_ms, 13 * latency_ms)
        return [
            *self._slow_disks(at_ms, latency_ms),
            Reassign(at_ms, targets, "znode"),
            *self._acts.cancel(cancel_ms),
            Reassign(again_ms, others, "znode"),
        ]

    def _slow_disks(self, at_ms: int, latency_ms: int) -> list[Input]:
        """Those of the controllers."""
        return [SlowDisk(at_ms - 100, one, latency_ms, 9_000) for one in self._controllers]

    def _again(self, at_ms: int) -> list[Input]:
        """Administrators act several times by the same znodes, in one term: a watch that fires once
        must be set again."""
        numbers, acts = self._numbers, self._acts
        kinds: tuple[tuple[Callable[[int], list[Input]], int], ...] = (
            (partial(acts.elect, by_znode=True), 5),
            (partial(acts.reassign, by=numbers.choice(("znode", "extra", "request"))), 2),
            (acts.cancel_now, 1),
            (acts.create_topic, 1),
            (acts.delete_topic, 1),
            (acts.change_topic_config, 1),
        )
        kind = numbers.weighted(kinds)
        made: list[Input] = []
        for _ in range(numbers.between(2, 3)):
            made += kind(at_ms)
            at_ms += numbers.choice(_AGAIN_MS)
        return made

    def _interrupted_deletion(self, at_ms: int) -> list[Input]:
        """The controller takes the role again at once, and a broker receives its requests late."""
        numbers = self._numbers
        made = self._acts.delete_topic(at_ms)
        if not self._controllers:
            return made
        made.append(DeleteControllerZnode(at_ms + numbers.below(20)))
        held_ms = at_ms + numbers.between(40, 100)
        broker = f"broker {numbers.choice(self._brokers)}"
        made += [
            HoldLink(held_ms, one, broker, numbers.choice((50, 200, 1_000)))
            for one in self._controllers
        ]
        return made

    def _slow_shutdown(self, at_ms: int) -> list[Input]:
        """A broker is registered and serves for some time after its shutdown was granted; meanwhile
        other brokers fail, and administrators act."""
        numbers = self._numbers
        broker = numbers.choice(self._brokers)
        closes_ms = numbers.choice(_CLOSES_MS)
        made: list[Input] = [StopBroker(at_ms, broker, numbers.choice(_SLOW_MS), closes_ms)]
        for _ in range(numbers.between(1, 3)):
            later_ms = at_ms + numbers.between(1, closes_ms)
            kind = numbers.below(10)
            if kind < 4:
                made += self._acts.create_topic(later_ms)
            elif kind < 7:
                made += self._acts.make(later_ms)
            else:
                made += self._restart(later_ms)
        return made

    def _shutdown_of_follower(self, at_ms: int) -> list[Input]:
        """A follower that has returned, or that a reassignment adds, shuts down and serves for some
        time. Its leader's proposal of an ISR with it arrives late."""
        numbers = self._numbers
        partition = self._acts.partition()
        if partition is None:
            return self._restart(at_ms)
        topic, number, replicas = partition
        leader, followers = replicas[0], list(replicas[1:])
        others = [one for one in self._brokers if one not in replicas]
        joins: Input
        if others and (not followers or numbers.chance(50)):
            follower = numbers.choice(others)
            joins = Reassign(at_ms, (Target(topic, number, (*replicas, follower)),))
            joined_ms = at_ms + numbers.choice((100, 300, 600))
        elif followers:
            follower = numbers.choice(followers)
            joins = StopBroker(at_ms, follower, 0)
            joined_ms = at_ms + _FETCHES_AFTER_MS + numbers.choice((20, 100, 300, 600))
        else:
            return self._restart(at_ms)
        stop = StopBroker(joined_ms, follower, numbers.choice(_SLOW_MS), numbers.choice(_CLOSES_MS))
        held_ms = joined_ms - at_ms + numbers.choice((100, 500, 1_000))
        held = [
            HoldLink(at_ms, f"broker {leader}", one, held_ms, True) for one in self._controllers
        ]
        return [joins, *held, stop]

    def _late_requests(self, at_ms: int) -> list[Input]:
        """What a broker sends to controllers arrives when the broker has restarted, and the
        controller has noticed that: a request for its controlled shutdown, or for an ISR."""
        numbers = self._numbers
        broker = numbers.choice(self._brokers)
        others = [one for one in self._brokers if one != broker]
        crash_ms = at_ms + numbers.choice((3, 20, 100))
        asks: Input = StopBroker(at_ms, broker, 0)
        if others and numbers.chance(40):
            # A follower returns, and its leader asks for an ISR that has it.
            asks = StopBroker(max(0, at_ms - 1_500), numbers.choice(others), 0)
            crash_ms += numbers.choice((0, 500, 1_000))
        held_ms = crash_ms - at_ms + numbers.choice((1_500, 3_000, 6_000))
        made: list[Input] = [
            HoldLink(at_ms, f"broker {broker}", one, held_ms, True) for one in self._controllers
        ]
        made += [asks, CrashBroker(crash_ms, broker, numbers.chance(20), 0)]
        if numbers.chance(80):
            made.append(ExpireSession(crash_ms + 1, f"broker {broker}"))
        return made
