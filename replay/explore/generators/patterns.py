"""Patterns: a few inputs that belong together, because races are made of them.

- a handover: a controller loses the role while it is slow, and its successor has trouble
- a late write: what a controller writes arrives when it has lost the role
- an unseen restart: a leader registers again while there is no controller
- trouble of sessions: a process loses its session and a reply, and its ephemeral znodes stay
- a change while the controller is slow: brokers restart and topics change before it looks
- an outage: the replicas of a partition fail one after the other, often while it is reassigned
- an unclean election: the last replica of an ISR stays down, and one of the others returns
- an unfinished reassignment: some new replicas join, another is late; it is replaced or cancelled
- an interrupted rollback: the controller loses the role while a reassignment is cancelled
- a returning replica: it lags, and the one that led meanwhile fails
- a late growth: a follower joins the ISR, its leader learns that late, and the others fail
- a late shrink: a follower falls behind, and what its leader writes about that arrives late
- a change during an election: a leader changes its ISR while the controller elects another leader
- an outdated standby: it is cut off while something changes, and then gets the role
- a kept cancellation: a reassignment waits for it, and the controller loses the role
- blocks of producer ids: a broker writes one while the controller writes another
- old replies: all servers lag, and each controller loses the reply to a write
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

from controller.core.protocol_versions import ProtocolVersion
from replay.explore.generators.acts import OUTAGE_MS, ActMaker
from replay.explore.generators.faults import (
    FaultMaker,
    closes_after_ms,
)
from replay.explore.generators.replication_patterns import ReplicationPatterns
from replay.explore.generators.scenarios import OLD_ZOOKEEPER
from replay.explore.numbers import RandomNumbers
from replay.names import broker_name
from replay.world.inputs import (
    SAME,
    AllocateProducerIds,
    CancelReassignment,
    ChangeZooKeeperLeader,
    CrashBroker,
    CrashController,
    CutConnection,
    DelayEphemeralDeletion,
    DeleteControllerZnode,
    EndCancellation,
    ExpireSession,
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
)
from replay.world.processes import ZOOKEEPER
from replay.world.scenario import Scenario

_SLOW_MS: Final = (30, 100, 300, 1_000, 3_000)
_LATENCY_MS: Final = (10, 50, 200, 700, 1_500)
_LAG_MS: Final = (3, 6, 12, 50, 300)
_SERVERS: Final = 3
_CLOSES_MS: Final = (500, 2_000, 5_000)
_AGAIN_MS: Final = (200, 1_000, 1_500, 4_000)


class Patterns:
    """Makes patterns of one scenario."""

    def __init__(self, scenario: Scenario, numbers: RandomNumbers) -> None:
        self._numbers = numbers
        self._faults = FaultMaker(scenario, numbers)
        self._acts = ActMaker(scenario, numbers)
        self._controllers = [one.process for one in scenario.controllers if one.runs]
        self._standbys = [
            one.process for one in scenario.controllers if one.runs and one.configuration.standby
        ]
        self._brokers = [one.id for one in scenario.brokers]
        self._replication = ReplicationPatterns(scenario, numbers, self._acts)
        self._active_ms = scenario.active_ms
        self._watches_fire_once = scenario.zookeeper == OLD_ZOOKEEPER
        self._leaders_write = not ProtocolVersion(scenario.protocol).has_alter_partition

    def make(self, at_ms: int) -> list[Input]:
        """A random pattern around a moment."""
        patterns: tuple[tuple[Callable[[int], list[Input]], int], ...] = (
            (self._handover, 3),
            (self._replication.late_write, 5),
            (self._unseen_restart, 2),
            (self._sessions, 8),
            (self._change, 3),
            (self._outage, 5),
            (self._replication.unclean, 2),
            (self._unfinished_reassignment, 5),
            (self._interrupted_rollback, 5),
            (self._replication.returning, 3),
            (self._replication.late_shrink, 3),
            (self._replication.late_growth, 3),
            (self._outdated_standby, 3 if self._standbys else 0),
            (self._replication.change_during_election, 6 if self._leaders_write else 1),
            (self._old_answers, 3),
            (self._late_requests, 2),
            (self._replication.failed_logs, 4),
            (self._two_writers, 5),
            (self._replaced_entry, 2),
            (self._repeated_znode_acts, 14 if self._watches_fire_once else 2),
            (self._interrupted_deletion, 1),
            (self._slow_shutdown, 2),
            (self._replication.shutdown_of_follower, 4),
            (self._kept_cancellation, 3),
            (self._blocks, 2),
        )
        pattern = self._numbers.weighted(patterns)
        return pattern(at_ms) or self._restart(at_ms)

    def _time_near(self, at_ms: int) -> int:
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
            made.append(self._slow(process, self._time_near(at_ms)))
        if numbers.chance(30):
            made.append(self._lose(at_ms, numbers.choice(self._controllers)))
        if numbers.chance(40):
            # The next controller is elected meanwhile.
            made.append(DeleteControllerZnode(at_ms + numbers.below(24)))
        if numbers.chance(30):
            lagging = broker_name(numbers.choice(self._brokers))
            made.append(
                LagZooKeeper(self._time_near(at_ms), lagging, 0, 9_000, numbers.choice(_LAG_MS))
            )
        for _ in range(numbers.below(3)):
            made += self._acts.make(self._time_near(at_ms))
        return made

    def _outdated_standby(self, at_ms: int) -> list[Input]:
        """A standby is cut off from ZooKeeper, mostly for less than its session timeout. Meanwhile
        leaders move, and administrators act. Then it gets the role."""
        numbers = self._numbers
        standby = numbers.choice(self._standbys)
        cut_ms = numbers.choice((300, 900, 900, 2_000, 9_000))
        made: list[Input] = [CutConnection(at_ms, standby, ZOOKEEPER, cut_ms)]
        for _ in range(numbers.between(1, 3)):
            changed_ms = at_ms + numbers.between(1, cut_ms)
            if numbers.chance(60):
                broker = numbers.choice(self._brokers)
                made.append(StopBroker(changed_ms, broker, numbers.choice(OUTAGE_MS)))
            else:
                made += self._acts.make(changed_ms)
        lost_ms = at_ms + cut_ms + numbers.choice((-100, 10, 500, 2_000))
        made += [
            KillController(lost_ms, one, restart_after_ms=9_000)
            for one in self._controllers
            if one != standby
        ]
        return made

    def _unseen_restart(self, at_ms: int) -> list[Input]:
        """A leader registers again as a new process, perhaps without its last records, while there
        is no controller."""
        numbers = self._numbers
        partition = self._acts.partition()
        if partition is None:
            return []
        leader = partition[2][0]
        absent_ms = numbers.choice((3_000, 12_000))
        lost_ms = at_ms + numbers.choice((1, 200, 1_500))
        return [
            *(KillController(at_ms, one, restart_after_ms=absent_ms) for one in self._controllers),
            CrashBroker(lost_ms, leader, numbers.chance(70), numbers.choice((0, 50, 500))),
            ExpireSession(lost_ms + 1, broker_name(leader)),
        ]

    def _sessions(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        process = broker_name(numbers.choice(self._brokers))
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
            made.append(ChangeZooKeeperLeader(self._time_near(at_ms), numbers.choice((100, 2_000))))
        return made

    def _change(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        made: list[Input] = [self._slow(one, self._time_near(at_ms)) for one in self._controllers]
        kind = numbers.choice(("brokers", "topics", "any"))
        if kind == "brokers" and numbers.chance(50):
            # One read of the controller shows that it is gone and that others are registered again.
            gone = numbers.choice(self._brokers)
            made += self._acts.crash(self._time_near(at_ms), gone, numbers.choice(OUTAGE_MS))
        for _ in range(numbers.between(1, 4)):
            # Later ones often come while the controller still works on the first.
            later_ms = (
                at_ms + numbers.below(1_000) if numbers.chance(50) else self._time_near(at_ms)
            )
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
            [ExpireSession(at_ms, broker_name(broker))],
            [StopBroker(at_ms, broker, 0, closes_after_ms(numbers))],
            [
                CrashBroker(at_ms, broker, numbers.chance(50), numbers.choice((0, 50, 500))),
                ExpireSession(at_ms, broker_name(broker)),
            ],
        )
        return numbers.choice(ends)

    def _outage(self, at_ms: int) -> list[Input]:
        return self._with_handover(self._acts.outage(at_ms), at_ms)

    def _unfinished_reassignment(self, at_ms: int) -> list[Input]:
        return self._with_handover(self._acts.unfinished(at_ms), at_ms)

    def _interrupted_rollback(self, at_ms: int) -> list[Input]:
        """The controller loses the role while a reassignment is cancelled, or crashes between two
        steps of the rollback."""
        numbers = self._numbers
        made, cancelled_ms = self._acts.cancelled(at_ms)
        if not self._controllers:
            return made
        if numbers.chance(50):
            # Only the active controller acts; the next one may crash, too. The first steps take
            # few acts.
            act = numbers.between(1, 4 if numbers.chance(40) else 12)
            restart_ms = numbers.choice((50, 500, 2_000))
            made += [
                CrashController(cancelled_ms, one, act, "after", SAME, restart_ms)
                for one in self._controllers
            ]
            if numbers.chance(40):
                # The next controller finds an unfinished rollback that nothing asks for any more.
                end_ms = cancelled_ms + numbers.choice((30, 300, 1_500))
                made.append(EndCancellation(min(end_ms, self._active_ms - 1)))
        else:
            process = numbers.choice(self._controllers)
            made.append(self._depose(process, cancelled_ms + numbers.below(60)))
        return made

    def _kept_cancellation(self, at_ms: int) -> list[Input]:
        """The controller loses the role while it begins a reassignment. The next one finds
        /admin/reassign_cancel, which is deleted late."""
        numbers = self._numbers
        targets = self._acts.targets()
        if not targets or not self._controllers:
            return []
        routes: tuple[tuple[Literal["api", "znode"], int], ...] = (("api", 3), ("znode", 1))
        process, restart_ms = numbers.choice(self._controllers), numbers.choice((500, 2_000))
        lost = self._depose(process, at_ms + numbers.choice((1, 3, 5, 10, 30)))
        if numbers.chance(70):
            act = numbers.between(1, 6)
            lost = CrashController(at_ms, process, act, "after", SAME, restart_ms)
        cancel_ms = at_ms + numbers.choice((5, 20, 50, 300))
        end_ms = cancel_ms + numbers.choice((3_000, 6_000, 12_000))
        return [
            Reassign(at_ms, targets, numbers.weighted(routes)),
            lost,
            CancelReassignment(cancel_ms, (), "znode"),
            EndCancellation(max(cancel_ms + 1, min(end_ms, self._active_ms - 1))),
        ]

    def _blocks(self, at_ms: int) -> list[Input]:
        """A broker writes a block of producer ids itself between a controller's read and write."""
        numbers = self._numbers
        ms = numbers.choice((100, 300, 1_000))
        first, second = numbers.choice(self._brokers), numbers.choice(self._brokers)
        return [
            *(HoldLink(at_ms, ZOOKEEPER, one, ms, True) for one in self._controllers),
            AllocateProducerIds(at_ms, first),
            AllocateProducerIds(at_ms + numbers.between(1, ms), second, "znode"),
        ]

    def _with_handover(self, made: list[Input], at_ms: int) -> list[Input]:
        """Sometimes a controller loses the role at about that time."""
        if self._numbers.chance(20) and self._controllers:
            made.append(
                self._depose(self._numbers.choice(self._controllers), self._time_near(at_ms))
            )
        return made

    def _old_answers(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        lag_ms = numbers.choice(_LAG_MS)
        # Most likely, these brokers are connected to different servers.
        made: list[Input] = [
            LagZooKeeper(max(0, at_ms - 50), broker_name(one), 0, 9_000, lag_ms)
            for one in self._brokers[:_SERVERS]
        ]
        if self._controllers:
            made += [self._lose(at_ms, one) for one in self._controllers]
            if numbers.chance(70):
                made.append(self._depose(numbers.choice(self._controllers), self._time_near(at_ms)))
        for _ in range(numbers.below(3)):
            made += self._acts.make(self._time_near(at_ms))
        return made

    def _two_writers(self, at_ms: int) -> list[Input]:
        """A client writes /admin/reassign_partitions while the controller writes it, too: it moves
        the entries of the extra znode there, or removes those that have ended."""
        numbers = self._numbers
        latency_ms = numbers.choice((0, 10, 10, 30, 30, 100))
        first: Literal["extra", "znode"] = "extra" if numbers.chance(15) else "znode"
        if latency_ms:
            # Moves or removes the entries after this number of the controller's appends.
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
            made.append(self._depose(numbers.choice(self._controllers), self._time_near(at_ms)))
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
        # Removes the entries after 6 to 13 of the controller's appends.
        again_ms = cancel_ms + numbers.between(6 * latency_ms, 13 * latency_ms)
        return [
            *self._slow_disks(at_ms, latency_ms),
            Reassign(at_ms, targets, "znode"),
            *self._acts.cancel(cancel_ms),
            Reassign(again_ms, others, "znode"),
        ]

    def _slow_disks(self, at_ms: int, latency_ms: int) -> list[Input]:
        """Slow disks of all controllers."""
        return [SlowDisk(at_ms - 100, one, latency_ms, 9_000) for one in self._controllers]

    def _repeated_znode_acts(self, at_ms: int) -> list[Input]:
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
        broker = broker_name(numbers.choice(self._brokers))
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

    def _late_requests(self, at_ms: int) -> list[Input]:
        """A broker's message to controllers arrives after the controller has noticed that the
        broker restarted: a request for its controlled shutdown, or for an ISR."""
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
            HoldLink(at_ms, broker_name(broker), one, held_ms, True) for one in self._controllers
        ]
        made += [asks, CrashBroker(crash_ms, broker, numbers.chance(20), 0)]
        if numbers.chance(80):
            made.append(ExpireSession(crash_ms + 1, broker_name(broker)))
        return made
