"""Kafka's log lines about brokers that start, stop, change and shut down (KB 3.3, 3.4, 9)."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.commands import BrokerRequest, Issued, Notice
from controller.core.events import ChildrenRead, ZnodesRead
from controller.core.operations import CONNECTION_LOSS, SESSION_EXPIRED
from controller.core.procedures.znode_changes.broker_change import FAILURE, STARTUP
from controller.core.state import Partition
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.triggers import ApiCall, BrokerChange, BrokerModifications, Trigger
from controller.core.values import UNKNOWN_BROKER_EPOCH, Broker, format_brokers
from replay.kafka_text.failover import broker_epochs
from replay.kafka_text.kafka_log import (
    BROKERS_0_8,
    CONTROLLER,
    CONTROLLER_0_8,
    KafkaLog,
    LogObserver,
    ZooKeeperOutcome,
)
from replay.kafka_text.scala_text import mk_string, registration, replica
from replay.names import broker_named

_LOST = (CONNECTION_LOSS, SESSION_EXPIRED)


class _Callback(NamedTuple):
    """A step that the procedure will take for some brokers, and its rule."""

    rule: str
    brokers: list[int]


class BrokerLines(LogObserver):
    """Logs a change when it is known, and each step that follows from it."""

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._known: dict[int, Broker] = {}
        self._shutting_down: dict[int, None] = {}
        self._changed: dict[str, list[int]] = {}
        """By the code of their notices: brokers that started, bounced or failed."""
        self._is_read = self._is_logged = False
        self._callbacks: deque[_Callback] = deque()
        self._started: list[int] = []

    def begins(self, trigger: Trigger) -> None:
        self._known, self._shutting_down = {}, {}
        self._is_read = self._is_logged = False
        self._changed, self._started = {}, []
        self._callbacks.clear()
        match trigger:
            case _ if not self.log.controller.is_active:
                pass
            case BrokerChange():
                self._known = dict(self.log.context.brokers)
                self._shutting_down = dict(self.log.context.shutting_down)
            case BrokerModifications(broker=broker) if broker in self.log.context.brokers:
                self._known = {broker: self.log.context.brokers[broker]}
            case ApiCall(request=ControlledShutdownReceived() as asked):
                self._log_shutdown(asked)

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        if not isinstance(self.log.trigger, BrokerChange):
            return
        match outcome:
            case ChildrenRead(error=error, children=[]):
                self._is_read |= error not in _LOST
            case ZnodesRead(errors=errors):
                self._is_read |= not any(one in _LOST for one in errors)

    def issues(self, issued: Issued) -> None:
        match issued.command:
            case Notice(code="broker_started" | "broker_bounced" | "broker_failed" as code):
                self._changed.setdefault(code, []).append(broker_named(issued.command.subject))
            case Notice():
                pass
            case _:
                self._log_change()

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        self._go_on(rule)

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        self._go_on(rule)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        self._go_on(rule)
        if isinstance(self.log.trigger, BrokerModifications):
            self._log_modification(self.log.trigger.broker)

    def resumes_deletions(self) -> None:
        started, self._started = self._started, []
        context = self.log.context
        of_topics = [
            replica(*one.key, broker)
            for broker, partitions in context.replicas_on(started).items()
            for one in partitions
            if context.is_queued(one)
        ]
        if of_topics:
            self.log.info(
                CONTROLLER,
                f"Some replicas {mk_string(of_topics)} for topics scheduled for deletion "
                f"{mk_string(context.queued_for_deletion)} are on the newly restarted brokers "
                f"{mk_string(started)}. Signaling restart of topic deletion for these topics",
            )

    def ends(self) -> None:
        self._log_change()
        if self._changed:
            self.log.info(CONTROLLER, f"Updated broker epochs cache: {broker_epochs(self.log)}")

    def _log_change(self) -> None:
        """Log the change once it is read, and plan the callbacks that follow, in their order."""
        if self._is_logged or not self._is_read:
            return
        self._is_logged = True
        new, bounced, dead = (
            self._changed.get(code, [])
            for code in ("broker_started", "broker_bounced", "broker_failed")
        )
        live = sorted({*self._known, *new} - {*dead})
        self.log.info(
            CONTROLLER,
            f"Newly added brokers: {mk_string(new)}, deleted brokers: {mk_string(dead)}, "
            f"bounced brokers: {mk_string(bounced)}, all live brokers: {mk_string(live)}",
        )
        self._log_change_of_0_8(sorted({*new, *bounced}), sorted({*dead, *bounced}), live)
        plan = [(STARTUP, new), (FAILURE, bounced), (STARTUP, bounced), (FAILURE, dead)]
        self._callbacks.extend(_Callback(*one) for one in plan if one[1])

    def _log_change_of_0_8(self, new: list[int], dead: list[int], live: list[int]) -> None:
        """Kafka 0.8 does not know bounced brokers: here they are both new and deleted."""
        added, deleted, alive = map(format_brokers, (new, dead, live))
        self.log.info_of_0_8(
            BROKERS_0_8,
            f"Newly added brokers: {added}, deleted brokers: {deleted}, all live brokers: {alive}",
        )

    def _go_on(self, rule: str) -> None:
        if not self._callbacks or self._callbacks[0].rule != rule:
            return
        brokers = self._callbacks.popleft().brokers
        if rule == STARTUP:
            self._started = brokers
            self.log.info(CONTROLLER, f"New broker startup callback for {mk_string(brokers)}")
            self.log.info_of_0_8(
                CONTROLLER_0_8, f"New broker startup callback for {format_brokers(brokers)}"
            )
            return
        self._started = []
        self.log.info(CONTROLLER, f"Broker failure callback for {mk_string(brokers)}")
        self.log.info_of_0_8(
            CONTROLLER_0_8, f"Broker failure callback for {format_brokers(brokers)}"
        )
        stopping = [one for one in brokers if one in self._shutting_down]
        if stopping:
            text = f"Removed {mk_string(stopping)} from list of shutting down brokers."
            self.log.info(CONTROLLER, text)

    def _log_modification(self, id: int) -> None:
        before, now = self._known[id], self.log.context.brokers[id]
        change = f"{registration(before)} -> {registration(now)}"
        self.log.info(CONTROLLER, f"Updated broker metadata: {change}")
        self.log.info(CONTROLLER, f"Broker info update callback for {id}")

    def _log_shutdown(self, request: ControlledShutdownReceived) -> None:
        broker = self.log.context.brokers.get(request.broker)
        if request.broker_epoch != UNKNOWN_BROKER_EPOCH:
            if broker is None:
                return
            if request.broker_epoch < broker.epoch:
                self.log.info(
                    CONTROLLER,
                    f"Received controlled shutdown request from an old broker epoch "
                    f"{request.broker_epoch} for broker {request.broker}. Current broker epoch is "
                    f"{broker.epoch}.",
                )
                return
        self.log.info(CONTROLLER, f"Shutting down broker {request.broker}")
