"""Kafka's log: its loggers, its lines, and the observers of the fold that write them.

Lines are in the format of Kafka's log4j settings: `[%d] %p %m (%c)`, with the time in UTC. Each of
Kafka's classes logs under its name and puts its identity before the message.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from controller.core.commands import Issued
from controller.core.controller import Controller
from controller.core.events import ChildrenRead, Event, ZnodesRead, ZnodesWritten
from controller.core.fold_observer import FoldObserver
from controller.core.state import ControllerContext
from controller.core.triggers import Trigger


class Logger(NamedTuple):
    """A logger, and how its messages begin. `{id}` in `identity` is the controller's broker id."""

    name: str
    identity: str


CONTROLLER: Final = Logger("kafka.controller.KafkaController", "[Controller id={id}] ")
DELETIONS: Final = Logger("kafka.controller.TopicDeletionManager", "[Topic Deletion Manager {id}] ")
PARTITIONS: Final = Logger(
    "kafka.controller.ZkPartitionStateMachine", "[PartitionStateMachine controllerId={id}] "
)
REPLICAS: Final = Logger(
    "kafka.controller.ZkReplicaStateMachine", "[ReplicaStateMachine controllerId={id}] "
)
SENDER: Final = Logger(
    "kafka.controller.RequestSendThread", "[RequestSendThread controllerId={id}] "
)
EVENTS: Final = Logger(
    "kafka.controller.ControllerEventManager$ControllerEventThread",
    "[ControllerEventThread controllerId={id}] ",
)
BATCH: Final = Logger("kafka.controller.ControllerBrokerRequestBatch", "")
ZOOKEEPER: Final = Logger("kafka.zk.KafkaZkClient", "")
STATE_CHANGE: Final = Logger("state.change.logger", "[Controller id={id} epoch={epoch}] ")
STATE_CHANGE_ANSWER: Final = Logger("state.change.logger", "[Controller id={id}] ")

BROKERS_0_8: Final = Logger(
    "kafka.controller.ReplicaStateMachine$BrokerChangeListener",
    "[BrokerChangeListener on Controller {id}]: ",
)
CONTROLLER_0_8: Final = Logger("kafka.controller.KafkaController", "[Controller {id}]: ")
SESSION_0_8: Final = Logger(
    "kafka.controller.KafkaController$SessionExpirationListener",
    "[SessionExpirationListener on {id}], ",
)
ZOOKEEPER_0_8: Final = Logger("kafka.utils.ZkUtils$", "")


class KafkaLogLine(NamedTuple):
    """One line, with the number and wall-clock time of its event.

    `exception` is what Kafka prints below the line, without the stack trace; usually "".
    """

    seq: int
    wall_ns: int
    level: str
    message: str
    logger: str
    exception: str = ""

    @property
    def body(self) -> str:
        """The line without its time and level."""
        return f"{self.message} ({self.logger})"

    @property
    def text(self) -> str:
        """The whole line, as in Kafka's file."""
        moment = datetime.fromtimestamp(self.wall_ns // 1_000_000_000, UTC)
        milliseconds = self.wall_ns // 1_000_000 % 1000
        first = f"[{moment:%Y-%m-%d %H:%M:%S},{milliseconds:03d}] {self.level} {self.body}"
        return f"{first}\n{self.exception}" if self.exception else first


ZooKeeperOutcome = ChildrenRead | ZnodesRead | ZnodesWritten


class KafkaLog:
    """The lines of the current event, and the state that the observers share.

    `trigger` is the controller event whose procedure runs (None: none does). `is_failing_over`:
    the controller has won the role and is loading the state of the cluster.
    """

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.id = controller.configuration.broker_id
        self.trigger: Trigger | None = None
        self.is_failing_over = False
        self.seq = 0
        self.wall_ns = 0
        self.lines: list[KafkaLogLine] = []
        self.lines_of_0_8: list[KafkaLogLine] = []

    @property
    def context(self) -> ControllerContext:
        """The current state of the controller."""
        return self.controller.context

    def info(self, logger: Logger, message: str, exception: str = "") -> None:
        """A line of level INFO."""
        self._add("INFO", logger, message, exception)

    def info_of_0_8(self, logger: Logger, message: str) -> None:
        """A line of Kafka 0.8; all that refold writes are of level INFO."""
        self.lines_of_0_8.append(self._line("INFO", logger, message))

    def warn(self, logger: Logger, message: str, exception: str = "") -> None:
        """A line of level WARN."""
        self._add("WARN", logger, message, exception)

    def error(self, logger: Logger, message: str, exception: str = "") -> None:
        """A line of level ERROR."""
        self._add("ERROR", logger, message, exception)

    def _add(self, level: str, logger: Logger, message: str, exception: str) -> None:
        self.lines.append(self._line(level, logger, message, exception))

    def _line(self, level: str, logger: Logger, message: str, exception: str = "") -> KafkaLogLine:
        identity = logger.identity.format(id=self.id, epoch=self.context.epoch)
        return KafkaLogLine(
            self.seq, self.wall_ns, level, identity + message, logger.name, exception
        )


class LogObserver(FoldObserver):
    """Observes the fold and logs the lines about one subject."""

    def __init__(self, log: KafkaLog) -> None:
        self.log = log

    def on_event(self, event: Event) -> None:
        """An event is about to be folded."""

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        """The outcome of a command of the current procedure is about to be folded."""
