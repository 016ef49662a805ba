"""The output of tools and admin clients, without parts that differ between runs."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from tests.controller.daemon.lab_cluster import OWN_ID
from tests.lab.stock_tools.harness import RACK_OF, Harness, as_json
from tools.lab.kafka_tools import ToolResult

RANDOM = "random"
"""Topics with this prefix have replicas that the controller chose at random: only the distribution
of replicas is compared."""

_STACK = re.compile(r"^\s+(at |\.\.\. \d+ more|Suppressed: )")
_VARIABLE: tuple[tuple[str, str], ...] = (
    (r"TopicId: \S{22}", "TopicId: (an id)"),
    (r"Cluster ID: \S{22}", "Cluster ID: (an id)"),
    (r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] ", ""),
    (r"clientId=[\w-]+", "clientId=(one)"),
    (r"Epoch: \d+", "Epoch: (a zxid)"),
    (r"__consumer_offsets-\d+", "__consumer_offsets-(one)"),
)
_RANDOM_LINE = re.compile(
    rf"^\tTopic: (?P<topic>{RANDOM}\S*)\tPartition: (?P<number>\d+)\s*\tLeader: (?P<leader>\S+)"
    r"\s*\tReplicas: (?P<replicas>\S+)\s*\tIsr: (?P<isr>\S*)"
)
_TOPIC_LINE = re.compile(r"^\t?Topic: (?P<topic>\S+)\t+(Partition: (?P<number>\d+))?")
_ELECTED = re.compile(r"(for partitions )(\S+, .*)")
_BROKERS = re.compile(r"((?:on|from) brokers )([\d,]+)$", re.MULTILINE)
_ISR = re.compile(r"(Isr: )([\d,]+)")
_OF_DAEMON = re.compile(rf"\bbroker {OWN_ID}\b")
# The broker that a client asks first, and the number of attempts, are not fixed. But no client may
# lose its connection to refold.
_NETWORK_WARNINGS = ("NetworkClient", "Metadata:", "could not be established", "disconnected")
_REFOLD, _PORT_OF_REFOLD = "(refold)", "(port of refold)"


def of_tool(result: ToolResult, harness: Harness) -> str:
    """The output of a tool in a form that is the same in every run."""
    lines = [f"exit status {result.status}"]
    lines += comparable_lines(_without_addresses(result.output, harness))
    lines += [
        f"stderr: {line}" for line in comparable_lines(_without_addresses(result.problems, harness))
    ]
    return "\n".join(lines)


def of_client(answer: object, harness: Harness) -> str:
    """The response of an admin client as JSON."""
    return _without_addresses(as_json(answer), harness)


def comparable_lines(text: str) -> list[str]:
    """The lines of a tool's output without ids, stack traces and orders that are not fixed."""
    for pattern, word in _VARIABLE:
        text = re.sub(pattern, word, text)
    for numbers in (_ISR, _BROKERS):
        text = numbers.sub(lambda found: found[1] + _sorted(found[2]), text)
    text = _ELECTED.sub(lambda found: found[1] + ", ".join(sorted(found[2].split(", "))), text)
    lines = [
        line.rstrip()
        for line in text.splitlines()
        if line.strip() and not _STACK.match(line) and not _is_ignored(line)
    ]
    return _in_order(_distributions(lines))


def _is_ignored(line: str) -> bool:
    """Whether a line is about the log library, or about a broker that does not answer. A line about
    a connection to refold is never ignored, because refold always answers."""
    return line.startswith("SLF4J: ") or (
        line.startswith("WARN")
        and any(one in line for one in _NETWORK_WARNINGS)
        and _REFOLD not in line
        and _PORT_OF_REFOLD not in line
    )


def _without_addresses(text: str, harness: Harness) -> str:
    for broker in harness.lab.brokers:
        text = text.replace(broker.connect, f"(broker {broker.broker_id})")
        text = re.sub(rf"\b{broker.port}\b", f"(port of {broker.broker_id})", text)
    text = re.sub(rf"\b{harness.lab_cluster.daemon_address}\b", _REFOLD, text)
    _, _, port = harness.lab_cluster.daemon_address.partition(":")
    text = re.sub(rf"\b{port}\b", _PORT_OF_REFOLD, text)
    return text.replace(str(harness.folder), "(files)").replace(str(harness.lab.folder), "(lab)")


def _sorted(numbers: str) -> str:
    return ",".join(map(str, sorted(map(int, numbers.split(",")))))


def _distributions(lines: Iterable[str]) -> list[str]:
    """The partitions of a random topic as one line with the distribution of their replicas."""
    kept: list[str] = []
    random_topics: dict[str, dict[str, list[int]]] = {}
    leaders: dict[str, list[str]] = {}
    for line in lines:
        found = _RANDOM_LINE.match(line)
        if found is None:
            kept.append(line)
        else:
            replicas = list(map(int, found["replicas"].split(",")))
            random_topics.setdefault(found["topic"], {})[found["number"]] = replicas
            leaders.setdefault(found["topic"], []).append(found["leader"])
    return kept + [f"{topic}: {distribution(one)}" for topic, one in sorted(random_topics.items())]


def distribution(assignment: Mapping[str, list[int]]) -> str:
    """The distribution of replicas over brokers and racks."""
    firsts = Counter(replicas[0] for replicas in assignment.values())
    held = Counter(broker for replicas in assignment.values() for broker in replicas)
    return f"{_shape(assignment)}, first {_counts(firsts)}, held {_counts(held)}"


def _shape(assignment: Mapping[str, list[int]]) -> str:
    racks = {len({RACK_OF.get(one) for one in replicas}) for replicas in assignment.values()}
    sizes = {len(set(replicas)) for replicas in assignment.values()}
    return f"{len(assignment)} partitions of {sorted(sizes)} replicas in {sorted(racks)} racks each"


def _counts(counts: Mapping[int, int]) -> str:
    return " ".join(f"{broker}:{count}" for broker, count in sorted(counts.items()))


def _in_order(lines: list[str]) -> list[str]:
    """Sorts the lines of topics, each topic before its partitions, because Kafka's order varies."""
    found = [(_TOPIC_LINE.match(line), line) for line in lines]
    rest = [line for match, line in found if match is None]
    of_topics = [
        (match["topic"], int(match["number"] or -1), line) for match, line in found if match
    ]
    return rest + [line for _, _, line in sorted(of_topics)]


def proposal(text: str) -> str:
    """The output of --generate, with the random proposal reduced to brokers, sizes and racks."""
    before, title, after = text.partition("Proposed partition reassignment configuration")
    if not title:
        return text
    proposed, end = json.JSONDecoder().raw_decode(after.lstrip())
    assignment = {
        f"{one['topic']}-{one['partition']}": one["replicas"] for one in proposed["partitions"]
    }
    brokers = sorted({broker for replicas in assignment.values() for broker in replicas})
    summary = f"{sorted(assignment)} on {brokers}: {_shape(assignment)}"
    return f"{before}{title}\n{summary}{after.lstrip()[end:]}"


def without_daemon(text: str) -> str:
    """The output without the daemon's node."""
    lines = []
    for line in text.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            if "brokers" in found:
                found["brokers"] = [one for one in found["brokers"] if one["broker"] != OWN_ID]
            line = json.dumps(found)
        lines.append(_BROKERS.sub(lambda found: found[1] + _without_daemons_id(found[2]), line))
    return "\n".join(line for line in lines if not _OF_DAEMON.search(line))


def _without_daemons_id(numbers: str) -> str:
    return ",".join(one for one in numbers.split(",") if one != str(OWN_ID))


def outcome(text: str) -> str:
    """How a call ended: a tool's exit status and the names of its errors, or a client's answer
    without configurations."""
    if text.startswith("exit status"):
        return "\n".join([text.partition("\n")[0], *re.findall(r"[\w.]+Exception\b", text)])
    found = json.loads(text)
    for topic in found["topics"]:
        topic.pop("configs", None)
    return as_json(found)
