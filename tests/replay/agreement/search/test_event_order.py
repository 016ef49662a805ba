"""Another order of pending events or reads explains a divergence only if it leads to what Kafka
did."""

import json
from collections.abc import Callable, Mapping

import pytest
from msgspec import structs

from controller.core import znodes
from controller.core.configuration import Configuration
from eventstore.records import EventRecord
from replay.agreement.assumptions import (
    Choices,
    ControllerStep,
    OpenChoice,
)
from replay.agreement.cause import NO_CAUSE, FoldCause
from replay.agreement.conformance import ConformanceChecker
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.results import AgreementResult, Divergence, result_of
from replay.agreement.search.event_order import RUNS_MAX, EventOrder
from replay.agreement.search.search import search
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    DecisionObserved,
    ImportedEvent,
)
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    Check,
    CloseSession,
    Create,
    Delete,
    Error,
    Operation,
    SetData,
)
from replay.znode_view import ZnodeView
from tests.replay.agreement.view import (
    STATE,
    TOPIC,
    Written,
    create,
    state_json,
    transaction,
)

GUARD = Check(znodes.CONTROLLER_EPOCH, 1)
CONTROLLER, LEAVING, STAYING = 1, 2, 3
"""Broker ids; the sessions have the same numbers."""
AUTOMATIC = "AutoPreferredReplicaLeaderElection"


class Incident:
    """t-0 on brokers 2 and 3, led by 3, in sync; broker 1 is elected. No broker has a log."""

    def __init__(self) -> None:
        self._records: list[tuple[EventRecord, ImportedEvent]] = []
        self._zxid = 0
        self._time_ms = 1_000_000
        for path in ("/admin", "/brokers", znodes.BROKER_IDS, znodes.TOPICS):
            self.write(create(path))
        self.write(create(znodes.FEATURE, b'{"version":1,"status":0,"features":{}}'))
        for broker in (CONTROLLER, LEAVING, STAYING):
            content = {"version": 4, "host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"]}
            path = f"{znodes.BROKER_IDS}/{broker}"
            content["listener_security_protocol_map"] = {"PLAINTEXT": "PLAINTEXT"}
            data = json.dumps(content).encode()
            self.write(
                Create(path, data, OPEN_ACL, True, 1), SetData(path, data, 1), session=broker
            )
        self.write(create(TOPIC, b'{"version":1,"partitions":{"0":[2,3]}}'))
        for path in (f"{TOPIC}/partitions", f"{TOPIC}/partitions/0"):
            self.write(create(path))
        self.write(create(STATE, state_json(STAYING, 0, STAYING, LEAVING)))
        self.write(create(znodes.CONTROLLER_EPOCH, b"0"))
        content = b'{"version":1,"brokerid":1,"timestamp":"1"}'
        elected = Create(znodes.CONTROLLER, content, OPEN_ACL, True, 1)
        self.write(elected, SetData(znodes.CONTROLLER_EPOCH, b"1", 1), session=CONTROLLER)
        self._add(DecisionObserved(self._zxid, "election", CONTROLLER, 1, 0, False))
        self._end_failover()

    def _end_failover(self) -> None:
        """The last write of the failover is refused, because no election is requested."""
        self.wait(100)
        self.write(GUARD, Error(-101), session=CONTROLLER)
        self._add(DecisionObserved(self._zxid, "refused", CONTROLLER, 1, -101, False))
        self.wait(1000)
        self.write(create("/config"))

    def wait(self, milliseconds: int) -> None:
        self._time_ms += milliseconds

    def request_election(self) -> None:
        content = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
        self.write(create(znodes.PREFERRED_ELECTION, content))

    def log(self, text: str, event: str = "") -> None:
        """Adds a line to broker 1's controller.log."""
        self._add(ControllerLogged(CONTROLLER, event, f"[Controller id=1] {text}"))

    def lose_broker(self) -> None:
        self.write(CloseSession((f"{znodes.BROKER_IDS}/{LEAVING}",)), session=LEAVING)

    def decide(self, written: Operation, what: str) -> None:
        self.wait(5)
        self.write(GUARD, written, session=CONTROLLER)
        self._add(DecisionObserved(self._zxid, what, CONTROLLER, 1, 0, False))

    def write(self, *written: Written, session: int = 9) -> None:
        self._zxid += 1
        self._add(transaction(self._zxid, *written, session=session, time_ms=self._time_ms))

    def _add(self, event: ImportedEvent) -> None:
        seq, wall_ns = len(self._records) + 1, self._time_ms * 1_000_000
        record = EventRecord(seq, wall_ns, wall_ns, 1, "", 1, "", "exogenous", None, b"")
        self._records.append((record, event))

    def compared(self) -> AgreementResult:
        return search(self.compare, (EventOrder(),), len(self._records)).result

    def compare(self, choices: Choices) -> AgreementResult:
        index = BrokerLogIndex(iter(self._records), "", ZnodeView(ZooKeeperState().tree, ""))
        configuration = Configuration(broker_id=1, rules="kafka")
        checker = ConformanceChecker(
            ZooKeeperState(), "", configuration, index, {}, choices=choices
        )
        return result_of(checker.run(iter(self._records)), "")


def diverging(result: AgreementResult) -> list[tuple[str, str]]:
    """The verdicts and explanations of the divergences about the partition's state."""
    found = [one for one in result.divergences if STATE in one.paths]
    return [(one.verdict, one.explained) for one in found]


def election_and_lost_broker() -> Incident:
    """By the order of zxids the election is first: broker 2 becomes leader, and then leaves."""
    incident = Incident()
    incident.request_election()
    incident.lose_broker()
    return incident


def process_lost_broker_first(incident: Incident, leader_epoch: int = 1) -> None:
    """Kafka removes broker 2, and does not elect it."""
    state = SetData(STATE, state_json(STAYING, leader_epoch, STAYING), 1)
    incident.decide(state, "partition_state")
    incident.decide(Delete(znodes.PREFERRED_ELECTION), "preferred_election")


def test_order_of_watches_explains_nothing() -> None:
    """The watch of the election fired first."""
    incident = election_and_lost_broker()
    incident.wait(10)
    incident.write(create("/config/topics"))
    process_lost_broker_first(incident)
    result = incident.compared()
    [found] = result.divergences
    assert any("leader 2, Kafka 3" in one for one in found.differences)
    assert diverging(result) == [("differs", "")]
    assert not result.agrees


def test_later_event_explains_nothing() -> None:
    incident = Incident()
    incident.request_election()
    process_lost_broker_first(incident)
    incident.wait(1000)
    incident.lose_broker()
    incident.wait(1000)
    incident.write(create("/admin/done"))
    assert ("differs", "") in diverging(incident.compared())


def test_agreeing_order_leaves_nothing_to_explain() -> None:
    incident = election_and_lost_broker()
    incident.decide(SetData(STATE, state_json(LEAVING, 1, STAYING, LEAVING), 1), "partition_state")
    incident.decide(Delete(znodes.PREFERRED_ELECTION), "preferred_election")
    incident.decide(SetData(STATE, state_json(STAYING, 2, STAYING), 2), "partition_state")
    result = incident.compared()
    assert (result.divergences, result.explained) == ([], [])


TAKEN, READ = ControllerStep(9, "BrokerChange", 5), ControllerStep(9, "BrokerChange", 5, 1)
READ_NEXT = READ._replace(read=2)
"""A controller event caused by record 5, and its reads."""
IDS = (znodes.BROKER_IDS,)


def divergence(seq: int, broker: int = 2, subject: str = "request") -> Divergence:
    kind = "UpdateMetadata" if subject == "request" else "partition_state"
    cause = FoldCause("BrokerChange", "broker failure")
    return Divergence(
        subject, "missing", kind, seq, 6, seq, broker, 1, IDS, (), cause, "", CONTROLLER
    )


def searched(
    left: Callable[[Mapping[ControllerStep, int]], list[Divergence]],
    records: int = 100,
    *,
    is_failover: bool = False,
    is_logged: bool = False,
    orders: int = RUNS_MAX,
    then_read: str = "",
    read: int = 7,
    changed: int = 8,
) -> tuple[AgreementResult, list[Mapping[ControllerStep, int]]]:
    """The result of a search, and the orders that it tried. In each order the comparison leaves
    the divergences that `left` returns. Broker ids were read at `read`, followed by `then_read`;
    they change at record `changed`."""
    tried: list[Mapping[ControllerStep, int]] = []

    def compare(choices: Choices) -> AgreementResult:
        moments = choices.assumptions.moments
        tried.append(moments)
        choices.record(OpenChoice(TAKEN, CONTROLLER, 5, 6))
        read_at = moments.get(READ, read)
        choices.record(OpenChoice(READ, CONTROLLER, 6, read_at, IDS, is_failover, is_logged))
        if then_read:
            choices.record(
                OpenChoice(READ_NEXT, CONTROLLER, 6, read, (then_read,), is_failover, is_logged)
            )
        choices.record_changes(changed, [(znodes.BROKER_IDS, "children")])
        result = AgreementResult()
        result.requests.count("UpdateMetadata", NO_CAUSE, "agreed", 10)
        result.divergences = left(moments)
        for one in result.divergences:
            result.requests.diverge(one.kind, one.cause, one.verdict)
        return result

    return search(compare, (EventOrder(orders),), records).result, tried


def test_later_read_explains_a_divergence() -> None:
    """The order explains all divergences of its time, and later decisions agree in it."""
    divergences = [divergence(9, 2), divergence(10, 3)]
    later = structs.replace(divergence(20), since=15)
    result, _ = searched(lambda order: [] if order.get(READ) == 9 else [*divergences, later])
    assert [(one.seq, one.explained) for one in result.divergences] == [
        (9, "either-order"),
        (10, "either-order"),
    ]
    requests = result.requests
    assert (requests.decisions, requests.agreed, requests.missing) == (10, 8, 2)
    assert [one.kafka_method for one in requests.explained] == ["ControllerEventManager.put"]
    assert result.agrees


def test_later_read_explains_a_divergence_of_a_logged_event() -> None:
    """The log does not show when the event read: before the leader of t-0 added broker 2 to the
    ISR."""
    incident = Incident()
    incident.log("1 successfully elected as the controller. Epoch incremented to 1 and", "Elected")
    incident.log("Register BrokerModifications handler for Set(1, 2, 3)")
    incident.write(SetData(STATE, state_json(STAYING, 0, STAYING), 1), session=STAYING)
    incident.log("Shutting down broker 2", "ControlledShutdown")
    incident.wait(5)
    incident.write(SetData(STATE, state_json(STAYING, 0, STAYING, LEAVING), 2), session=STAYING)
    incident.wait(5)
    incident.log("Processing automatic preferred replica leader election", AUTOMATIC)
    incident.write(create("/config/topics"))
    assert diverging(incident.compare(Choices())) == [("extra", "")]
    assert diverging(incident.compared()) == [("extra", "either-order")]


def test_session_without_lines_counts_as_without_a_log() -> None:
    """Its controller.log begins after its election, so its lines belong to a later session."""
    incident = Incident()
    incident.log("Register BrokerModifications handler for Set(1, 2, 3)")
    incident.log("Processing automatic preferred replica leader election", AUTOMATIC)
    incident.lose_broker()
    incident.decide(SetData(STATE, state_json(STAYING, 1, STAYING), 1), "partition_state")
    choices = Choices(is_recorded=True)
    incident.compare(choices)
    assert {one.is_logged for one in choices.made.values()} == {False}


def test_only_reads_of_the_diverging_znodes_are_tried_for_a_logged_event() -> None:
    other = structs.replace(divergence(9), paths=(STATE,))
    _, tried = searched(lambda order: [other], is_logged=True)
    assert not any(READ in one for one in tried)
    _, tried = searched(lambda order: [divergence(9)], is_logged=True)
    assert any(READ in one for one in tried)


def test_later_read_of_a_failover_is_not_tried() -> None:
    """A failover has written because of what it read."""
    result, tried = searched(lambda order: [divergence(9)] * (READ not in order), is_failover=True)
    assert [one.explained for one in result.divergences] == [""]
    assert not any(READ in one for one in tried)


def test_znode_listed_earlier_was_read_at_the_same_time() -> None:
    """By record 7 a broker had left: a failover had listed it before, and read its registration."""
    broker = f"{znodes.BROKER_IDS}/2"

    def left(order: Mapping[ControllerStep, int]) -> list[Divergence]:
        return [] if order.get(READ) == order.get(READ_NEXT) == 7 else [divergence(9)]

    result, _ = searched(left, is_failover=True, then_read=broker, read=8, changed=7)
    assert [one.explained for one in result.divergences] == ["either-order"]
    _, tried = searched(left, is_failover=True, then_read=znodes.TOPICS, read=8, changed=7)
    assert {READ: 7} in tried
    assert {READ: 7, READ_NEXT: 7} not in tried


def test_divergence_without_a_fitting_order_is_not_explained() -> None:
    result, tried = searched(lambda _: [divergence(9)])
    assert [one.explained for one in result.divergences] == [""]
    assert not result.agrees
    assert {READ: 9} in tried


def test_order_that_only_moves_a_divergence_explains_nothing() -> None:
    result, _ = searched(lambda order: [divergence(12 if READ in order else 9)])
    assert [(one.seq, one.explained) for one in result.divergences] == [(9, "")]


def test_order_explains_only_the_divergences_that_it_removes() -> None:
    later = structs.replace(divergence(20), since=15)
    result, _ = searched(lambda order: [divergence(9), *([later] * (READ not in order))])
    assert [(one.seq, one.explained) for one in result.divergences] == [
        (9, ""),
        (20, "either-order"),
    ]


def test_divergence_may_need_two_choices() -> None:
    """The event was processed before another one, and had read before that."""

    def left(order: Mapping[ControllerStep, int]) -> list[Divergence]:
        if READ not in order:
            return [divergence(9)]
        return [] if TAKEN in order else [divergence(12), divergence(13)]

    result, _ = searched(left)
    assert [(one.seq, one.explained) for one in result.divergences] == [(9, "either-order")]


def test_search_gives_up_if_no_order_explains_many_divergences() -> None:
    many = [structs.replace(divergence(9 + one), since=6 + one) for one in range(50)]
    _, tried = searched(lambda _: many)
    assert len(tried) < 30


@pytest.mark.parametrize("orders", [0, 1, 2])
def test_number_of_tried_orders_is_limited(orders: int) -> None:
    _, tried = searched(lambda _: [divergence(9)], orders=orders)
    assert len(tried) == 1 + orders


def test_large_log_is_compared_once() -> None:
    result, tried = searched(lambda order: [] if READ in order else [divergence(9)], 1_000_000)
    assert [one.explained for one in result.divergences] == [""]
    assert len(tried) == 1
