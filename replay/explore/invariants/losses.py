"""Which losses of records Kafka does not prevent: the exceptions of the invariants about records.

A record is lost when a replica leads that has lost it. Four ways to that leadership are Kafka's:

- The election was unclean.
- All other members of the ISR have failed as well (KIP-966 describes the gap). So has a member
  whose broker registers again after it joined: refold's failover removes it.
- The broker registered again, and no controller noticed it. A new controller knows only the current
  registrations. With Kafka's rules, it does not compare them with the states of the partitions.
  refold does (RESTARTS_SEEN_AT_FAILOVER). It cannot see the restart if the state was written later.
- The replica joined the ISR although it had restarted since the leader's proposal (KAFKA-14617).

In each case but the first, the replica must have been in the ISR from its loss on: a controller
that has removed it knows of the failure, and the replica catches up before it joins again.

After a registration that no controller noticed, the leader also writes other records at the offsets
of those that it has lost, in the same leader epoch. Followers keep the earlier ones.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import NamedTuple

from controller.core.znodes import Name


class _Isr(NamedTuple):
    """An ISR in ZooKeeper. `is_shrunk_by_controller`: the write removed members for a failure."""

    at: int
    leader_epoch: int
    isr: tuple[int, ...]
    is_shrunk_by_controller: bool


class _Loss(NamedTuple):
    at: int
    broker: int
    offset: int
    records: tuple[int, ...]

    def has(self, offset: int, record: int) -> bool:
        """Whether a record was lost at an offset."""
        place = offset - self.offset
        return 0 <= place < len(self.records) and self.records[place] == record


class _Term:
    """A controller's term, and when its failover ended."""

    __slots__ = ("begun", "is_kafka", "loaded")

    def __init__(self, begun: int, *, is_kafka: bool) -> None:
        self.begun = begun
        self.is_kafka = is_kafka
        self.loaded: int | None = None


class Losses:
    """Records the failures of brokers and lost records, and decides which losses they excuse. `at`
    counts all facts, so it orders them."""

    def __init__(self) -> None:
        self.at = 0
        self._isrs: dict[Name, list[_Isr]] = {}
        self._proposals: dict[Name, list[tuple[int, tuple[int, ...]]]] = {}
        self._losses: dict[Name, list[_Loss]] = {}
        self._leaders: dict[Name, list[tuple[int, int, int]]] = {}
        self._unclean: dict[Name, tuple[int, int]] = {}
        self._failures: dict[int, list[int]] = {}
        self._registrations: dict[int, list[int]] = {}
        self._states: dict[Name, list[int]] = {}
        self._terms: list[_Term] = []

    def next(self) -> int:
        """The number of a fact that happens now."""
        self.at += 1
        return self.at

    # Facts

    def failed(self, broker: int) -> None:
        """The process, the machine or a log directory of a broker failed, or its znode was deleted.
        A controller elects none of its replicas."""
        self._failures.setdefault(broker, []).append(self.next())

    def registered(self, broker: int) -> None:
        """The znode of a broker was created. Controllers take that for a failure, too."""
        self.failed(broker)
        self._registrations.setdefault(broker, []).append(self.at)

    def lost(self, broker: int, name: Name, offset: int, records: Sequence[int]) -> None:
        """A replica lost its records from `offset` on."""
        self.failed(broker)
        self._losses.setdefault(name, []).append(_Loss(self.at, broker, offset, tuple(records)))

    def isr_proposed(self, name: Name, isr: tuple[int, ...]) -> None:
        """A leader proposed an ISR. It counts on its new members from then on."""
        self._proposals.setdefault(name, []).append((self.next(), isr))

    def isr_stored(
        self,
        name: Name,
        leader_epoch: int,
        isr: tuple[int, ...],
        kept: Collection[int],
        *,
        by_controller: bool,
    ) -> None:
        """The ISR of a partition was written. `kept`: the replicas that are to stay, unless their
        brokers have failed."""
        self._states.setdefault(name, []).append(self.next())
        stored = self._isrs.setdefault(name, [])
        before = stored[-1].isr if stored else ()
        if before == isr:
            return
        is_shrunk = by_controller and any(one in kept and one not in isr for one in before)
        stored.append(_Isr(self.next(), leader_epoch, isr, is_shrunk))

    def leadership_begun(self, name: Name, broker: int, leader_epoch: int) -> None:
        """A broker begins to lead."""
        self._leaders.setdefault(name, []).append((self.next(), broker, leader_epoch))

    def unclean(self, name: Name, leader_epoch: int) -> None:
        """A leader outside of the ISR was elected."""
        self._unclean[name] = self.next(), leader_epoch

    def controller_elected(self, *, is_kafka: bool) -> None:
        """A controller raised the controller epoch; `is_kafka`: it has Kafka's rules."""
        self._terms.append(_Term(self.next(), is_kafka=is_kafka))

    def controller_loaded(self) -> None:
        """The last controller has ended its failover."""
        if self._terms and self._terms[-1].loaded is None:
            self._terms[-1].loaded = self.next()

    def forget(self, name: Name) -> None:
        """Forget all facts about a partition, because its topic was deleted."""
        for facts in (
            self._isrs,
            self._states,
            self._proposals,
            self._losses,
            self._leaders,
            self._unclean,
        ):
            facts.pop(name, None)

    # Exceptions

    def has_led_since(self, name: Name, broker: int, at: int) -> bool:
        """Whether a broker has begun to lead a partition since `at`."""
        return any(led > at and one == broker for led, one, _ in self._leaders.get(name, ()))

    def leader_in(self, name: Name, leader_epoch: int) -> int | None:
        """The broker that leads a partition in a leader epoch; None: none yet, or it has lost
        records since it began. Such a broker leads again only after another request."""
        led = self._leaders.get(name, ())
        begun = next((one for one in reversed(led) if one[2] == leader_epoch), None)
        if begun is None:
            return None
        at, broker, _ = begun
        lost = any(one.broker == broker and one.at > at for one in self._losses.get(name, ()))
        return None if lost else broker

    def may_be_lost(self, name: Name, offset: int, record: int, at: int, leader_epoch: int) -> bool:
        """Whether a record that the ISR had at `at`, in a leader epoch, may be lost."""
        unclean_at, unclean_epoch = self._unclean.get(name, (0, 0))
        # The earlier leader acknowledges records until it knows of the election.
        if unclean_at > at or unclean_epoch > leader_epoch:
            return True
        if self._is_in_place_of_a_lost_one(name, offset, at, leader_epoch):
            return True
        return any(
            self._may_lead(name, loss, led, epoch)
            for loss in self._losses.get(name, ())
            if loss.has(offset, record)
            for led, broker, epoch in self._leaders.get(name, ())
            if broker == loss.broker and led > loss.at
        )

    def _is_in_place_of_a_lost_one(
        self, name: Name, offset: int, at: int, leader_epoch: int
    ) -> bool:
        """Whether the leader restarted unseen, and wrote a record at an offset at which it had lost
        one in the same leader epoch. Members of the ISR that have the lost one do not truncate."""
        return any(
            self._is_unseen(name, loss, led)
            for loss in self._losses.get(name, ())
            if loss.offset <= offset < loss.offset + len(loss.records)
            for led, broker, epoch in self._leaders.get(name, ())
            if broker == loss.broker and epoch == leader_epoch and loss.at < led < at
        )

    def _may_lead(self, name: Name, loss: _Loss, led: int, leader_epoch: int) -> bool:
        """Whether a replica may lead at `led` after a loss. The request that makes it leader may be
        late: the ISRs of later leader epochs do not matter then."""
        stored = [
            one
            for one in self._isrs.get(name, ())
            if one.at < led and one.leader_epoch <= leader_epoch
        ]
        now = bisect_right(stored, loss.at, key=lambda one: one.at)
        # The ISR at the time of the loss, and the later ones.
        since = stored[max(now - 1, 0) :]
        if not since:
            return False
        if loss.broker not in since[0].isr:
            return self._has_joined_late(name, loss, since)
        if any(loss.broker not in one.isr for one in since):
            return False
        return self._is_unseen(name, loss, led) or any(
            self._have_others_failed(stored, one, loss.broker, led)
            for one in since
            if one is since[0] or not one.is_shrunk_by_controller
        )

    def _has_joined_late(self, name: Name, loss: _Loss, since: list[_Isr]) -> bool:
        """Whether a proposal from before the loss made the replica a member after the loss."""
        joined = next((one for one, at in enumerate(since) if loss.broker in at.isr), None)
        if joined is None or any(loss.broker not in one.isr for one in since[joined:]):
            return False
        before = [isr for at, isr in self._proposals.get(name, ()) if at < loss.at]
        return bool(before) and sorted(before[-1]) == sorted(since[joined].isr)

    def _is_unseen(self, name: Name, loss: _Loss, led: int) -> bool:
        """Whether the broker has registered again before a later controller has read that, and the
        controller did not see from it that the broker had restarted."""
        since = self._registrations.get(loss.broker, ())
        registered = next((one for one in since if one > loss.at), led)
        for term in self._terms:
            if not loss.at < term.begun < led or registered >= (term.loaded or led):
                continue
            written = any(registered < one < term.begun for one in self._states.get(name, ()))
            if term.is_kafka or written:
                return True
        return False

    def _have_others_failed(
        self, stored: list[_Isr], current: _Isr, broker: int, until: int
    ) -> bool:
        """Whether all other members of an ISR have failed since they joined."""
        joined: dict[int, int] = {}
        for one in stored:
            # The leader learns late that a member has failed, so what counts is when it joined.
            joined = {member: joined.get(member, one.at) for member in one.isr}
            if one is current:
                break
        return all(
            any(joined[one] < failure < until for failure in self._failures.get(one, ()))
            for one in current.isr
            if one != broker
        )
