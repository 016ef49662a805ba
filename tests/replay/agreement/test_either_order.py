"""Two events that waited at the same time: where the other order leads to what Kafka decided, that
explains the divergence; nothing else does."""

import json
from types import SimpleNamespace
from typing import Any, cast

from controller.core import znodes
from controller.core.configuration import Configuration
from eventstore.records import EventRecord
from replay.agreement.agreeing import Agreeing
from replay.agreement.index import Index
from replay.agreement.verdicts import Judgement
from replay.agreement.znode_view import ZnodeView
from replay.world_log.events import Observed, WorldEvent
from replay.zookeeper_log.restoring import State
from replay.zookeeper_log.transactions import (
    OPEN_ACL,
    Check,
    CloseSession,
    Create,
    Delete,
    Error,
    Operation,
    SetData,
)
from tests.replay.agreement.view import STATE, TOPIC, Written, create, state_json, transaction

GUARD = Check(znodes.CONTROLLER_EPOCH, 1)
CONTROLLER, LEAVING, STAYING = 1, 2, 3
"""Brokers; their sessions have the same numbers."""


class Incident:
    """t-0 on brokers 2 and 3, led by 3, in sync; broker 1 is elected. No broker has a log."""

    def __init__(self) -> None:
        self._records: list[tuple[EventRecord, WorldEvent]] = []
        self._zxid = 0
        self._time_ms = 1_000_000
        for path in ("/admin", "/brokers", znodes.BROKER_IDS, znodes.TOPICS):
            self.write(create(path))
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
        self._add(Observed(self._zxid, "election", CONTROLLER, 1, 0, False))
        self._end_failover()

    def _end_failover(self) -> None:
        """Its last write is refused: there is no request for an election."""
        self.wait(100)
        self.write(GUARD, Error(-101), session=CONTROLLER)
        self._add(Observed(self._zxid, "refused", CONTROLLER, 1, -101, False))
        self.wait(1000)
        self.write(create("/config"))

    def wait(self, milliseconds: int) -> None:
        self._time_ms += milliseconds

    def ask_for_election(self) -> None:
        content = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
        self.write(create(znodes.PREFERRED_ELECTION, content))

    def lose_broker(self) -> None:
        self.write(CloseSession((f"{znodes.BROKER_IDS}/{LEAVING}",)), session=LEAVING)

    def decide(self, written: Operation, what: str) -> None:
        self.wait(5)
        self.write(GUARD, written, session=CONTROLLER)
        self._add(Observed(self._zxid, what, CONTROLLER, 1, 0, False))

    def write(self, *written: Written, session: int = 9) -> None:
        self._zxid += 1
        self._add(transaction(self._zxid, *written, session=session, time_ms=self._time_ms))

    def _add(self, event: WorldEvent) -> None:
        seq, wall_ns = len(self._records) + 1, self._time_ms * 1_000_000
        record = EventRecord(seq, wall_ns, wall_ns, 1, "", 1, "", "exogenous", None, b"")
        self._records.append((record, event))

    def judged(self) -> list[Judgement]:
        """What is about the partition's state, behind the election."""
        world: Any = SimpleNamespace(state=State(), begun=SimpleNamespace(chroot=""))
        index = Index(iter(self._records), "", ZnodeView(State().tree, ""))
        configuration = Configuration(broker_id=1, rules="kafka")
        agreeing = Agreeing(cast(Any, world), configuration, index, {})
        judgements = agreeing.run(iter(self._records)).judgements
        return [one for one in judgements if STATE in one.paths]


def both_at_once() -> Incident:
    """By the order of zxids the election comes first: broker 2 is made leader, and leaves."""
    incident = Incident()
    incident.ask_for_election()
    incident.lose_broker()
    return incident


def kafka_took_the_other_first(incident: Incident, leader_epoch: int = 1) -> None:
    """Broker 2 is gone, and not elected."""
    state = SetData(STATE, state_json(STAYING, leader_epoch, STAYING), 1)
    incident.decide(state, "partition_state")
    incident.decide(Delete(znodes.PREFERRED_ELECTION), "preferred_election")


def test_other_order_explains_what_kafka_decided() -> None:
    incident = both_at_once()
    kafka_took_the_other_first(incident)
    [found] = incident.judged()
    assert found.verdict == "differs"
    assert any("leader 2, Kafka 3" in one for one in found.differences)
    assert found.rule == "either-order"


def test_it_does_not_where_neither_order_leads_to_it() -> None:
    incident = both_at_once()
    kafka_took_the_other_first(incident, leader_epoch=7)
    assert [(one.verdict, one.rule) for one in incident.judged()] == [("differs", "")]


def test_it_does_not_where_the_other_event_comes_later() -> None:
    incident = Incident()
    incident.ask_for_election()
    kafka_took_the_other_first(incident)
    incident.wait(1000)
    incident.lose_broker()
    incident.wait(1000)
    incident.write(create("/admin/done"))
    [found, *_] = incident.judged()
    assert (found.verdict, found.rule) == ("differs", "")


def test_nothing_is_to_be_explained_where_the_chosen_order_fits() -> None:
    incident = both_at_once()
    incident.decide(SetData(STATE, state_json(LEAVING, 1, STAYING, LEAVING), 1), "partition_state")
    incident.decide(Delete(znodes.PREFERRED_ELECTION), "preferred_election")
    incident.decide(SetData(STATE, state_json(STAYING, 2, STAYING), 2), "partition_state")
    assert [(one.verdict, one.rule) for one in incident.judged()] == [("agreed", "")] * 2
