"""The calls and actions of a script, and the reasons for which outputs may differ."""

import json
import re
from collections.abc import Sequence

from tests.controller.daemon.lab_cluster import OWN_ID
from tests.lab.stock_tools.comparable_output import without_daemon
from tests.lab.stock_tools.harness import STOCK, Harness
from tests.lab.stock_tools.steps import (
    OLDEST,
    WORDS_OF_39,
    Action,
    Call,
    Reason,
    Row,
    Shape,
)

NODE = Reason(
    "one more node",
    "The daemon is a node of the cluster without replicas, so it gets each request that a tool "
    "sends to every node. Without the daemon's lines the output is the same.",
    without_daemon,
)
_LOGGERS_ALTERED = (
    f"exit status 0\nCompleted updating config for broker-logger {STOCK}.",
    "exit status 1\nstderr: Invalid broker logger(s): kafka.controller.KafkaController",
)
NO_LOGGERS = Reason(
    "no loggers",
    "The daemon has none of a broker's loggers. The tool asks for them first and finds none with "
    "that name. A stock controller is a broker and has them.",
    lambda output: "(of a controller's loggers)" if output in _LOGGERS_ALTERED else output,
)
FEWER_EPOCHS = Reason(
    "fewer leader epochs",
    "A reassignment ends with one new leader epoch: refold removes the old replicas from the ISR "
    "in the same write (isr-within-replicas). A stock controller increases it for each of them.",
    lambda output: re.sub(r'"leader_epoch": \d+', '"leader_epoch": (number)', output),
)
REASONS = (NODE, NO_LOGGERS, WORDS_OF_39, FEWER_EPOCHS)


def topics(arguments: str, *, via: str = "brokers", alike_since: tuple[int, int] = OLDEST) -> Call:
    """A call of kafka-topics."""
    return Call(
        "kafka-topics", f"--bootstrap-server {{{via}}} {arguments}", alike_since=alike_since
    )


def configs(arguments: str, *, reason: Reason | None = None, shape: Shape = str) -> Call:
    """A call of kafka-configs."""
    return Call(
        "kafka-configs",
        f"--bootstrap-server {{brokers}} {arguments}",
        reason=reason,
        shape=shape,
    )


def reassign(arguments: str, *, reason: Reason | None = None, shape: Shape = str) -> Call:
    """A call of kafka-reassign-partitions."""
    return Call(
        "kafka-reassign-partitions",
        f"--bootstrap-server {{brokers}} {arguments}",
        reason=reason,
        shape=shape,
    )


def elect(arguments: str) -> Call:
    """A call of kafka-leader-election."""
    return Call("kafka-leader-election", f"--bootstrap-server {{brokers}} {arguments}")


def controller_by_name(output: str) -> str:
    """The controller's id by what it is."""
    return re.sub(rf"\bbroker ({STOCK}|{OWN_ID})\b", "broker (the controller)", output)


def log_dirs(arguments: str, *, reason: Reason | None = None) -> Call:
    """Replaces the controller's id by a description."""
    return Call(
        "kafka-log-dirs",
        f"--bootstrap-server {{brokers}} --describe {arguments}",
        reason=reason,
        shape=_log_dirs,
    )


"""A call of kafka-log-dirs; sizes are ignored, because they depend on the followers."""


def targets(*moves: tuple[str, int, list[int]], log_dirs: Sequence[str] = ()) -> str:
    """The file of a reassignment: topics, partitions, their replicas and in which directories."""
    where = {"log_dirs": log_dirs} if log_dirs else {}
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas, **where}
        for topic, number, replicas in moves
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def _log_dirs(output: str) -> str:
    lines = []
    for line in output.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            found["brokers"].sort(key=lambda one: one["broker"])
            for broker in found["brokers"]:
                for log_dir in broker["logDirs"]:
                    # Directories differ between a broker and the daemon.
                    log_dir["logDir"] = log_dir["logDir"].rpartition("/")[2]
                    log_dir["partitions"].sort(key=lambda one: str(one["partition"]))
                    for partition in log_dir["partitions"]:
                        del partition["size"], partition["offsetLag"]
            line = json.dumps(found)
        lines.append(line)
    return "\n".join(lines)


def kill(broker: int) -> Action:
    """Kills a broker by SIGKILL."""

    async def execute(harness: Harness) -> list[Row]:
        harness.broker(broker).kill()
        return []

    return Action(f"broker {broker} is killed", execute)


def stop(broker: int) -> Action:
    """Stops a broker by SIGTERM."""

    async def execute(harness: Harness) -> list[Row]:
        await harness.broker(broker).stop()
        return []

    return Action(f"broker {broker} is stopped", execute)


def start(broker: int) -> Action:
    """Starts a broker."""

    async def execute(harness: Harness) -> list[Row]:
        await harness.broker(broker).start()
        return []

    return Action(f"broker {broker} is started", execute)
