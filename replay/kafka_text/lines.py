"""Lines as Kafka's log4j writes them: `[%d] %p %m (%c)`, the time in UTC.

Each of Kafka's classes logs under its name and puts its identity before the message.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple


class Source(NamedTuple):
    """A logger, and how its messages begin. `id` stands in for the controller's broker id."""

    logger: str
    identity: str


CONTROLLER: Final = Source("kafka.controller.KafkaController", "[Controller id={id}] ")
DELETIONS: Final = Source("kafka.controller.TopicDeletionManager", "[Topic Deletion Manager {id}] ")
PARTITIONS: Final = Source(
    "kafka.controller.ZkPartitionStateMachine", "[PartitionStateMachine controllerId={id}] "
)
REPLICAS: Final = Source(
    "kafka.controller.ZkReplicaStateMachine", "[ReplicaStateMachine controllerId={id}] "
)
SENDER: Final = Source(
    "kafka.controller.RequestSendThread", "[RequestSendThread controllerId={id}] "
)
EVENTS: Final = Source(
    "kafka.controller.ControllerEventManager$ControllerEventThread",
    "[ControllerEventThread controllerId={id}] ",
)
BATCH: Final = Source("kafka.controller.ControllerBrokerRequestBatch", "")
STATE_CHANGE: Final = Source("state.change.logger", "[Controller id={id} epoch={epoch}] ")
STATE_CHANGE_ANSWER: Final = Source("state.change.logger", "[Controller id={id}] ")


class Line(NamedTuple):
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
