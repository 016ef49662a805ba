"""Kafka's log lines about winning and losing the role, and about controller events in general
(KafkaController.process)."""

from typing import Final

from controller.core.commands import CloseChannel, Issued, Notice, ReadZnodes, Stop
from controller.core.events import (
    Event,
    SessionExpired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.operations import FENCED
from controller.core.triggers import (
    ApiCall,
    AutoPreferredReplicaLeaderElection,
    BrokerModifications,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    Startup,
    TopicUncleanLeaderElectionEnable,
    Trigger,
    UncleanLeaderElectionEnable,
)
from controller.core.znodes import CONTROLLER as CONTROLLER_PATH
from controller.core.znodes import read_controller
from replay.kafka_text.kafka_log import (
    CONTROLLER,
    EVENTS,
    PARTITIONS,
    REPLICAS,
    SESSION_0_8,
    ZOOKEEPER,
    ZOOKEEPER_0_8,
    KafkaLog,
    LogObserver,
    ZooKeeperOutcome,
)
from replay.kafka_text.state_machines import controller_moved

_NO_SESSION: Final = 0
"""Also the owner of a persistent znode."""


class RoleLines(LogObserver):
    """Logs when the broker wins and loses the role, and the failures of controller events."""

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._has_started = False
        self._is_resigning = False

    def on_event(self, event: Event) -> None:
        if isinstance(event, SessionExpired) and self.log.controller.is_active:
            self.log.info_of_0_8(
                SESSION_0_8,
                "ZK expired; shut down all controller components and try to re-elect",
            )

    def begins(self, trigger: Trigger) -> None:
        self._end_resignation()
        match trigger:
            case Startup() if not self._has_started:
                self._has_started = True
                self.log.info(EVENTS, "Starting")
            case _ if not self.log.controller.is_active:
                pass
            case AutoPreferredReplicaLeaderElection():
                self.log.info(CONTROLLER, "Processing automatic preferred replica leader election")
            case UncleanLeaderElectionEnable():
                text = "Unclean leader election has been enabled by default"
                self.log.info(CONTROLLER, text)
            case TopicUncleanLeaderElectionEnable(topic=topic):
                text = f"Unclean leader election has been enabled for topic {topic}"
                self.log.info(CONTROLLER, text)

    def ends(self) -> None:
        self._end_resignation()

    def issues(self, issued: Issued) -> None:
        if not isinstance(issued.command, CloseChannel):
            self._end_resignation()
        match issued.command:
            case Notice(code="elected"):
                context = self.log.context
                self.log.info(
                    CONTROLLER,
                    f"{self.log.id} successfully elected as the controller. Epoch incremented to "
                    f"{context.epoch} and epoch zk version is now {context.epoch_version}",
                )
            case Notice(code="resigned"):
                self._is_resigning = True
                self.log.info(PARTITIONS, "Stopped partition state machine")
                self.log.info(REPLICAS, "Stopped replica state machine")
            case Notice(code="failover_failed", text=text):
                self.log.error(
                    CONTROLLER,
                    f"Error while electing or becoming controller on broker {self.log.id}. "
                    "Trigger controller movement immediately",
                    f"org.apache.kafka.common.KafkaException: {text}",
                )
            case Notice(code="procedure_failed", text=text):
                self.log.error(
                    CONTROLLER,
                    f"Error processing event {_spell(self.log.trigger)}",
                    f"org.apache.kafka.common.KafkaException: {text}",
                )
            case Stop():
                for text in ("Shutting down", "Stopped", "Shutdown completed"):
                    self.log.info(EVENTS, text)

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        if isinstance(outcome, ZnodesRead) and isinstance(issued.command, ReadZnodes):
            self._find_conflict(issued.command, outcome)
        is_fenced = isinstance(outcome, ZnodesWritten) and FENCED in outcome.errors
        if is_fenced and not self.log.is_failing_over:
            event = _spell(self.log.trigger)
            self.log.info(
                CONTROLLER,
                f"Controller moved to another broker when processing {event}.",
                controller_moved(self.log.context.epoch_version),
            )

    def _find_conflict(self, command: ReadZnodes, read: ZnodesRead) -> None:
        """/controller belongs to an earlier session of the same broker.

        The id of a standby is that of other daemons as well: only its own last session counts."""
        if CONTROLLER_PATH not in command.paths:
            return
        place = command.paths.index(CONTROLLER_PATH)
        controller = self.log.controller
        data, owner, own = read.data[place], read.owners[place], controller.session_id
        holder = read_controller(data) if data is not None else None
        if data is None or holder is None or holder.brokerid != self.log.id:
            return
        if owner in (own, _NO_SESSION):
            return
        if controller.configuration.standby and owner != controller.candidate_session:
            return
        self._log_conflict(data, owner, own)

    def _log_conflict(self, data: bytes, owner: int, own: int) -> None:
        """Kafka's lines when a broker finds its own registration of an earlier session
        (KafkaZkClient.CheckedEphemeral; ZOOKEEPER-1740)."""
        self.log.error(
            ZOOKEEPER,
            f"Error while creating ephemeral at {CONTROLLER_PATH}, node already exists and owner "
            f"'{owner}' does not match current session '{own}'",
        )
        self.log.info_of_0_8(
            ZOOKEEPER_0_8,
            f"I wrote this conflicted ephemeral node [{data.decode(errors='replace')}] at "
            f"{CONTROLLER_PATH} a while back in a different session, hence I will backoff for this "
            "node to be deleted by Zookeeper and retry",
        )

    def _end_resignation(self) -> None:
        if self._is_resigning:
            self._is_resigning = False
            self.log.info(CONTROLLER, "Resigned")


def _spell(trigger: Trigger | None) -> str:
    """A controller event as Kafka names it. If it carries a request or a response, only the
    name."""
    name = type(trigger).__name__
    match trigger:
        case ApiCall(request=request):
            return request.CONTROLLER_EVENT or type(request).__name__.removesuffix("Received")
        case BrokerModifications(broker=broker):
            return f"{name}({broker})"
        case PartitionModifications(topic=topic) | TopicUncleanLeaderElectionEnable(topic=topic):
            return f"{name}({topic})"
        case PartitionReassignmentIsrChange(topic=topic, partition=number):
            return f"{name}({topic}-{number})"
        case _:
            return name
