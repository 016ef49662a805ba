"""The producers and consumers of a cluster."""

from replay.world.clients import Consumer, Producer
from replay.world.network import Network
from replay.world.observer import Name, Observer
from replay.world.scenario import Load, Scenario
from replay.world.scheduler import ProcessClock, Scheduler


class _PausableClient:
    """A client that can be paused."""

    def __init__(self, process: str, clock: ProcessClock, network: Network) -> None:
        self._process = process
        self._clock = clock
        self._network = network

    def pause(self) -> None:
        """The process does nothing until `resume`."""
        self._network.pause(self._process)
        self._clock.pause()

    def resume(self) -> None:
        """The process runs again."""
        self._network.resume(self._process)
        self._clock.resume()


class Clients:
    """All producers and consumers of a run. They use every partition, also new ones."""

    def __init__(
        self, scenario: Scenario, scheduler: Scheduler, network: Network, observer: Observer
    ) -> None:
        load = scenario.load or Load((), 0, 0)
        brokers = [one.id for one in scenario.brokers]
        names: list[Name] = [
            (topic.name, number)
            for topic in scenario.topics
            for number in range(len(topic.assignment))
        ]
        self._counts = {topic.name: len(topic.assignment) for topic in scenario.topics}
        self._scheduler = scheduler
        self._network = network
        self._pausable: dict[str, _PausableClient] = {}
        rate = max(1, load.records_per_second // max(1, len(load.acks)))
        shared = (network, observer, brokers, names)
        self.producers = [
            Producer(number, self._clock("producer", number), *shared, acks, rate)
            for number, acks in enumerate(load.acks)
        ]
        self.consumers = [
            Consumer(number, self._clock("consumer", number), *shared)
            for number in range(load.consumers)
        ]

    def start(self) -> None:
        """Begin to produce and to read."""
        for producer in self.producers:
            producer.start()
        for consumer in self.consumers:
            consumer.start()

    def add_partitions(self, topic: str, count: int) -> None:
        """`count` partitions of a topic are about to be created."""
        first = self._counts.get(topic, 0)
        self._counts[topic] = first + count
        for number in range(first, first + count):
            for producer in self.producers:
                producer.add_partition((topic, number))
            for consumer in self.consumers:
                consumer.add_partition((topic, number))

    def pausable(self, process: str) -> _PausableClient | None:
        """A client by the name of its process."""
        return self._pausable.get(process)

    def _clock(self, kind: str, number: int) -> ProcessClock:
        process = f"{kind} {number}"
        clock = ProcessClock(self._scheduler)
        self._pausable[process] = _PausableClient(process, clock, self._network)
        return clock
