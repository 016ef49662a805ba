"""Producers and consumers, as processes that talk to brokers.

They find the leader of each partition in the metadata of any broker, as Kafka's Java clients do:
after an error they ask again, and they ignore a response with a leader epoch that is older than
what they know.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from controller.core.values import NO_EPOCH, NO_LEADER
from replay.names import broker_name
from replay.world.broker import messages
from replay.world.broker.messages import (
    CONSUMER,
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    Metadata,
    MetadataResponse,
    Produce,
    ProduceResponse,
)
from replay.world.broker.peer import Peer
from replay.world.network import Message, Network
from replay.world.observer import AcknowledgedRecord, Name, Observer
from replay.world.processes import consumer_name, producer_name
from replay.world.scheduler import MS, SECOND, Clock

REQUEST_TIMEOUT_US: Final = 30 * SECOND
"""Kafka's default of request.timeout.ms."""
DELIVERY_TIMEOUT_US: Final = 120 * SECOND
"""Kafka's default of delivery.timeout.ms."""
BACKOFF_US: Final = 100 * MS
"""Kafka's default of retry.backoff.ms."""
BACKOFF_US_MAX: Final = SECOND
"""Kafka's default of retry.backoff.max.ms."""
RECORDS_MAX: Final = 100
"""The most records in one request."""
RECORDS_OF_A_PRODUCER: Final = 1 << 32
"""Record n of producer p has the id p * RECORDS_OF_A_PRODUCER + n."""


class KnownLeader(NamedTuple):
    """A partition as a client knows it."""

    broker: int
    leader_epoch: int
    topic_id: bytes | None


class _Client:
    """The common base of producers and consumers: the leaders that they know, and connections."""

    def __init__(
        self,
        process: str,
        clock: Clock,
        network: Network,
        observer: Observer,
        brokers: Sequence[int],
        partitions: Sequence[Name],
    ) -> None:
        self.process = process
        self._clock = clock
        self._network = network
        self._observer = observer
        self._brokers = tuple(brokers)
        self._names = tuple(partitions)
        self._known: dict[Name, KnownLeader] = {}
        self._is_refreshing = False
        self._refreshes = 0
        self._backoff_us = BACKOFF_US

    def _leader(self, name: Name) -> KnownLeader | None:
        """The leader of a partition; None if there is none."""
        known = self._known.get(name)
        return known if known is not None and known.broker != NO_LEADER else None

    def _connect(
        self, broker: int, on_response: Callable[[Message], None], on_failure: Callable[[], None]
    ) -> Peer:
        return Peer(
            self._clock,
            self._network,
            self.process,
            broker_name(broker),
            on_response,
            on_failure,
            REQUEST_TIMEOUT_US,
        )

    def _refresh(self) -> None:
        """Ask the next broker for the leaders, after a pause."""
        if not self._is_refreshing:
            self._is_refreshing = True
            self._clock.after(self._backoff_us, self._ask)
            self._backoff_us = min(2 * self._backoff_us, BACKOFF_US_MAX)

    def _ask(self) -> None:
        broker = self._brokers[self._refreshes % len(self._brokers)]
        self._refreshes += 1

        def failed() -> None:
            self._is_refreshing = False
            self._refresh()

        def received(message: Message) -> None:
            assert isinstance(message, MetadataResponse), message
            peer.close()
            self._is_refreshing = False
            self._update(message)
            if self._leaders_changed():
                self._backoff_us = BACKOFF_US

        peer = self._connect(broker, received, failed)
        names = self._names
        peer.send(lambda number: Metadata(number, names))

    def _update(self, response: MetadataResponse) -> None:
        for one in response.leaders:
            known = self._known.get(one.name)
            if (
                known is None
                or known.topic_id != one.topic_id
                or known.leader_epoch <= one.leader_epoch
            ):
                self._known[one.name] = KnownLeader(one.leader, one.leader_epoch, one.topic_id)

    def _leaders_changed(self) -> bool:
        """Use what a refresh has found. Whether no partition needs another one, so that the next
        refresh begins with a short pause again."""
        raise NotImplementedError


class _Outbox:
    """The records of one partition that are not acknowledged. The first `in_flight` were sent.

    After an error nothing is sent until the leaders are known again (`waits`).
    """

    __slots__ = ("in_flight", "name", "records", "waits")

    def __init__(self, name: Name) -> None:
        self.name = name
        self.records: deque[tuple[int, int]] = deque()
        """Ids, each with the time after which the record is given up."""
        self.in_flight = 0
        self.waits = False


class _Link:
    """The connection of a producer to one broker, and what it sent there without a response."""

    __slots__ = ("broker", "peer", "sent")

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.peer: Peer
        self.sent: dict[int, _Outbox] = {}


class Producer(_Client):
    """Sends records to its partitions in turn, without idempotence: a record that is sent again may
    be in the log twice."""

    def __init__(
        self,
        number: int,
        clock: Clock,
        network: Network,
        observer: Observer,
        brokers: Sequence[int],
        partitions: Sequence[Name],
        acks: int = messages.ALL,
        records_per_second: int = 10,
    ) -> None:
        super().__init__(producer_name(number), clock, network, observer, brokers, partitions)
        self._acks = acks
        self._period_us = SECOND // records_per_second
        self._first = number * RECORDS_OF_A_PRODUCER
        self._count = 0
        self._is_stopped = False
        self._outboxes = {name: _Outbox(name) for name in partitions}
        self._links: dict[int, _Link] = {}

    def start(self) -> None:
        """Begin to produce."""
        self._refresh()
        self._clock.after(self._period_us, self._produce)

    def stop(self) -> None:
        """Produce no new records. Those without an acknowledgement are still sent."""
        self._is_stopped = True

    def add_partition(self, name: Name) -> None:
        """Also send to this partition from now on."""
        if name not in self._outboxes:
            self._outboxes[name] = _Outbox(name)
            self._names = (*self._names, name)

    def _produce(self) -> None:
        if self._is_stopped:
            return
        self._clock.after(self._period_us, self._produce)
        if not self._names:
            return
        name = self._names[self._count % len(self._names)]
        record = self._first + self._count
        self._count += 1
        outbox = self._outboxes[name]
        outbox.records.append((record, self._clock.now_us + DELIVERY_TIMEOUT_US))
        self._observer.produced(self.process, name, record)
        self._send(outbox)

    def _leaders_changed(self) -> bool:
        failed = [one for one in self._outboxes.values() if one.waits]
        for outbox in failed:
            outbox.waits = False
            self._send(outbox)
        return not failed

    def _wait(self, outbox: _Outbox) -> None:
        outbox.waits = True
        self._refresh()

    def _send(self, outbox: _Outbox) -> None:
        if outbox.waits or outbox.in_flight or not outbox.records:
            return
        now_us, name = self._clock.now_us, outbox.name
        while outbox.records and outbox.records[0][1] <= now_us:
            self._observer.given_up(self.process, name, outbox.records.popleft()[0])
        if not outbox.records:
            return
        leader = self._leader(name)
        if leader is None:
            self._wait(outbox)
            return
        link = self._link(leader.broker)
        records = tuple(record for record, _ in islice(outbox.records, RECORDS_MAX))
        acks = self._acks
        number = link.peer.send(
            lambda number: Produce(number, name, acks, records), has_response=bool(acks)
        )
        if acks:
            outbox.in_flight = len(records)
            link.sent[number] = outbox
            return
        for record in records:
            outbox.records.popleft()
            acknowledged = AcknowledgedRecord(name, -1, record, (), leader.leader_epoch, acks)
            self._observer.acknowledged(self.process, acknowledged)

    def _link(self, broker: int) -> _Link:
        link = self._links.get(broker)
        if link is None:
            link = self._links[broker] = _Link(broker)
            link.peer = self._connect(
                broker, partial(self._receive_response, link), partial(self._drop_link, link)
            )
        return link

    def _receive_response(self, link: _Link, message: Message) -> None:
        assert isinstance(message, ProduceResponse), message
        outbox = link.sent.pop(message.number)
        count, outbox.in_flight = outbox.in_flight, 0
        if message.error:
            self._wait(outbox)
            return
        for place in range(count):
            offset, record = message.offset + place, outbox.records.popleft()[0]
            isr, epoch = tuple(message.isr), message.leader_epoch
            acknowledged = AcknowledgedRecord(outbox.name, offset, record, isr, epoch, self._acks)
            self._observer.acknowledged(self.process, acknowledged)
        self._send(outbox)

    def _drop_link(self, link: _Link) -> None:
        del self._links[link.broker]
        for outbox in link.sent.values():
            outbox.in_flight = 0
            self._wait(outbox)


class _Reading:
    """One partition of a consumer: its position, the epoch of the record before, its leader, and
    what the leader's session has."""

    __slots__ = ("epoch", "leader", "name", "offset", "sent", "topic_id")

    def __init__(self, name: Name) -> None:
        self.name = name
        self.offset = 0
        self.epoch = NO_EPOCH
        self.topic_id: bytes | None = None
        self.leader: KnownLeader | None = None
        self.sent: FetchPartition | None = None


class _Fetching:
    """The fetch session of a consumer at one broker."""

    __slots__ = ("broker", "changed", "forgotten", "is_busy", "peer", "readings")

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.peer: Peer
        self.readings: dict[Name, _Reading] = {}
        self.changed: dict[Name, _Reading] = {}
        self.forgotten: dict[Name, None] = {}
        self.is_busy = False


class Consumer(_Client):
    """Reads its partitions from the beginning, up to the high watermark, from their leaders.

    Each fetch has the leader epoch of the last record that was read, so that the leader reports
    where its log diverges. Kafka's consumer asks for that separately, after a leader change
    (KIP-320).
    """

    def __init__(
        self,
        number: int,
        clock: Clock,
        network: Network,
        observer: Observer,
        brokers: Sequence[int],
        partitions: Sequence[Name],
    ) -> None:
        super().__init__(consumer_name(number), clock, network, observer, brokers, partitions)
        self._readings = {name: _Reading(name) for name in partitions}
        self._sessions: dict[int, _Fetching] = {}

    def start(self) -> None:
        """Begin to read."""
        self._refresh()

    def add_partition(self, name: Name) -> None:
        """Also read this partition from now on."""
        if name not in self._readings:
            self._readings[name] = _Reading(name)
            self._names = (*self._names, name)
            self._refresh()

    def _leaders_changed(self) -> bool:
        is_complete = True
        for reading in self._readings.values():
            leader = self._leader(reading.name)
            if leader != reading.leader:
                self._leave(reading)
                if leader is not None:
                    self._join(reading, leader)
            is_complete = is_complete and leader is not None
        for session in list(self._sessions.values()):
            self._fetch(session)
        if not is_complete:
            self._refresh()
        return is_complete and not self._is_refreshing

    def _join(self, reading: _Reading, leader: KnownLeader) -> None:
        session = self._sessions.get(leader.broker)
        if session is None:
            session = self._sessions[leader.broker] = _Fetching(leader.broker)
            session.peer = self._connect(
                leader.broker,
                partial(self._receive_response, session),
                partial(self._drop_session, session),
            )
        if reading.topic_id != leader.topic_id:
            # A topic that was created again is read from its beginning.
            if reading.topic_id is not None:
                reading.offset, reading.epoch = 0, NO_EPOCH
            reading.topic_id = leader.topic_id
        reading.leader = leader
        session.readings[reading.name] = session.changed[reading.name] = reading

    def _leave(self, reading: _Reading) -> None:
        leader, reading.leader = reading.leader, None
        session = self._sessions.get(leader.broker) if leader is not None else None
        if session is None:
            return
        session.readings.pop(reading.name, None)
        session.changed.pop(reading.name, None)
        if reading.sent is not None:
            session.forgotten[reading.name] = None
            reading.sent = None

    def _fetch(self, session: _Fetching) -> None:
        if session.is_busy or not (session.readings or session.forgotten):
            return
        asked = []
        for name, one in session.changed.items():
            assert one.leader is not None
            session.forgotten.pop(name, None)
            one.sent = FetchPartition(
                name, one.leader.topic_id, one.offset, one.leader.leader_epoch, one.epoch
            )
            asked.append(one.sent)
        partitions, forgotten = tuple(asked), tuple(session.forgotten)
        session.changed, session.forgotten = {}, {}
        session.is_busy = True
        session.peer.send(lambda number: Fetch(number, CONSUMER, partitions, forgotten))

    def _receive_response(self, session: _Fetching, message: Message) -> None:
        assert isinstance(message, FetchResponse), message
        session.is_busy = False
        for fetched in message.partitions:
            reading = session.readings.get(fetched.name)
            if reading is None or reading.sent is None:
                continue
            if reading.sent.offset == reading.offset:
                self._consume_partition(session, reading, fetched)
        self._fetch(session)

    def _consume_partition(
        self, session: _Fetching, reading: _Reading, fetched: FetchedPartition
    ) -> None:
        name = reading.name
        if fetched.error == messages.OFFSET_OUT_OF_RANGE:
            self._go_back(reading, min(fetched.leader_end, reading.offset))
            session.changed[name] = reading
        elif fetched.error:
            self._leave(reading)
            self._refresh()
        elif fetched.diverging is not None:
            self._go_back(reading, min(fetched.diverging[1], reading.offset))
            reading.epoch = fetched.diverging[0]
            session.changed[name] = reading
        elif fetched.batches:
            for batch in fetched.batches:
                self._observer.read(
                    self.process, name, batch.offset, batch.leader_epoch, batch.records
                )
                reading.offset = batch.offset + len(batch.records)
                reading.epoch = batch.leader_epoch
            session.changed[name] = reading

    def _go_back(self, reading: _Reading, end: int) -> None:
        self._observer.went_back(self.process, reading.name, reading.offset, end)
        reading.offset, reading.epoch = end, NO_EPOCH

    def _drop_session(self, session: _Fetching) -> None:
        del self._sessions[session.broker]
        for reading in session.readings.values():
            reading.leader = reading.sent = None
        self._refresh()
