"""The invariants of the 0.8 design, and those that the design itself breaks."""

from typing import Final, NamedTuple

from controller.core.error_codes import NONE
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.commands import RespondProduce
from controller.kafka_0_8.state import Name, Partition
from replay.world.kafka_0_8.broker_process import BrokerProcess
from replay.world.kafka_0_8.cluster import Cluster08

COMMITTED_RECORDS_KEPT: Final = "committed-records-kept"
INVARIANTS: Final = (
    "ar-is-isr-and-cur",
    "one-leader-in-an-epoch",
    "high-watermark-rises",
    "isr-has-committed-records",
    "queues-are-drained",
    "partitions-have-leaders",
    "replicas-catch-up",
    "replicas-are-equal",
    COMMITTED_RECORDS_KEPT,
)
KNOWN_FLAWS: Final = {
    COMMITTED_RECORDS_KEPT: "truncation to the high watermark (docs/design-0.8.md#flaws)"
}
"""The invariants that the design breaks, with the reason. A search counts these violations."""


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str) -> None:
        assert invariant in INVARIANTS
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text


class _Sent(NamedTuple):
    """A record that was sent with acks -1 to an incarnation of a partition."""

    name: Name
    record: str
    czxid: int


class Monitor:
    """Observes a cluster; raises Violation after the event that breaks an invariant."""

    def __init__(self, cluster: Cluster08) -> None:
        self._cluster = cluster
        self._leaders: dict[int, tuple[int, int, Name]] = {}
        self._hws: dict[tuple[int, int, Name, int], int] = {}
        self._sent: dict[int, _Sent] = {}
        cluster.after_event = self._check

    def sends(self, request: int, name: Name, record: str) -> None:
        """A record is sent with acks -1, to a partition that may have been deleted meanwhile."""
        self._sent[request] = _Sent(name, record, self._czxid(name))

    def _czxid(self, name: Name) -> int:
        found = self._cluster.zookeeper.find(znodes.replicas_path(*name))
        return found.czxid if found is not None else 0

    def _check(self, process: BrokerProcess) -> None:
        for partition in process.fold.broker.partitions.values():
            if partition.is_leader:
                _check_sets(process, partition)
                self._check_leadership(process, partition)

    def _check_leadership(self, process: BrokerProcess, partition: Partition) -> None:
        leader = (process.id, len(process.runs), partition.name)
        if self._leaders.setdefault(partition.epoch, leader) != leader:
            text = f"epoch {partition.epoch}: {self._leaders[partition.epoch]} and {leader}"
            raise Violation("one-leader-in-an-epoch", text)
        key = (*leader, partition.epoch)
        hw, before = partition.local.hw, self._hws.get(key, 0)
        self._hws[key] = hw
        if hw < before:
            raise Violation("high-watermark-rises", f"{key}: from {before} to {hw}")
        members = (*partition.isr, *partition.joining)
        if hw > before > 0 and hw > min(partition.ar[one].leo for one in members):
            raise Violation("isr-has-committed-records", f"{key}: {hw}")

    def check_end(self) -> None:
        """The cluster has settled: no fault is left."""
        for topic in self._cluster.children(znodes.TOPICS):
            self._check_settled((topic, 0))
        for broker in self._cluster.brokers:
            if left := self._cluster.children(znodes.state_path(broker)):
                raise Violation("queues-are-drained", f"broker {broker}: {left}")
        for request, sent in self._sent.items():
            response, _ = self._cluster.responses.get(request, (None, []))
            is_committed = isinstance(response, RespondProduce) and response.error == NONE
            if is_committed and sent.czxid and self._czxid(sent.name) == sent.czxid:
                self._check_kept(sent)

    def _check_settled(self, name: Name) -> None:
        leader = self._leader(name)
        if leader is None:
            raise Violation("partitions-have-leaders", f"{name[0]}-0 has none")
        isr = self._cluster.data(znodes.isr_path(*name)) or ""
        replicas = self._cluster.data(znodes.replicas_path(*name)) or ""
        in_sync = isr.partition(";")[0].split(",")
        if sorted(in_sync) != sorted(replicas.split(",")):
            raise Violation("replicas-catch-up", f"{name[0]}-0: ISR {isr}, replicas {replicas}")
        logs = {one: self._cluster.brokers[int(one)].logs.get(name) for one in in_sync}
        if any(one != logs[str(leader.id)] for one in logs.values()):
            raise Violation("replicas-are-equal", f"{name[0]}-0: {logs}")

    def _leader(self, name: Name) -> BrokerProcess | None:
        content = self._cluster.data(znodes.leader_path(*name))
        if content is None:
            return None
        process = self._cluster.brokers[int(content.partition(";")[0])]
        partition = process.fold.broker.partitions.get(name)
        return process if partition is not None and partition.is_leader else None

    def _check_kept(self, sent: _Sent) -> None:
        leader = self._leader(sent.name)
        if leader is None or sent.record not in leader.logs[sent.name]:
            text = f"record {sent.record} of {sent.name[0]}-0 was acknowledged with acks -1"
            raise Violation(COMMITTED_RECORDS_KEPT, f"{text} and is lost")


def _check_sets(process: BrokerProcess, partition: Partition) -> None:
    ar, isr, cur = set(partition.ar), set(partition.isr), set(partition.cur)
    is_right = ar == isr | cur and not isr & cur and process.id in isr
    if not is_right or not set(partition.joining) <= cur:
        text = f"broker {process.id}: AR {ar}, ISR {isr}, CUR {cur}, joining {partition.joining}"
        raise Violation("ar-is-isr-and-cur", text)
