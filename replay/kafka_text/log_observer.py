"""The base class of the observers that write Kafka's log lines, and the log that they write to."""

from controller.core.commands import Issued
from controller.core.controller import Controller
from controller.core.events import ChildrenRead, Event, ZnodesRead, ZnodesWritten
from controller.core.fold_observer import FoldObserver
from controller.core.state import ControllerContext
from controller.core.triggers import Trigger
from replay.kafka_text.lines import Line, Source

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
        self.lines: list[Line] = []

    @property
    def context(self) -> ControllerContext:
        """The current state of the controller."""
        return self.controller.context

    def info(self, source: Source, message: str, exception: str = "") -> None:
        """A line of level INFO."""
        self._add("INFO", source, message, exception)

    def warn(self, source: Source, message: str, exception: str = "") -> None:
        """A line of level WARN."""
        self._add("WARN", source, message, exception)

    def error(self, source: Source, message: str, exception: str = "") -> None:
        """A line of level ERROR."""
        self._add("ERROR", source, message, exception)

    def _add(self, level: str, source: Source, message: str, exception: str) -> None:
        identity = source.identity.format(id=self.id, epoch=self.context.epoch)
        self.lines.append(
            Line(self.seq, self.wall_ns, level, identity + message, source.logger, exception)
        )


class LogObserver(FoldObserver):
    """Observes the fold and logs the lines about one subject."""

    def __init__(self, log: KafkaLog) -> None:
        self.log = log

    def on_event(self, event: Event) -> None:
        """An event is about to be folded."""

    def on_outcome(self, asked: Issued, outcome: ZooKeeperOutcome) -> None:
        """The outcome of a command of the current procedure is about to be folded."""
