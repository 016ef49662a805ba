"""What tools and admin clients say, without what no two runs have alike."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from tests.controller.daemon.scene import OWN_ID
from tests.lab.stock_tools.stage import RACK_OF, Stage, as_json
from tools.lab.kafka_tools import ToolResult

DICED = "diced"
"""Topics with this prefix have replicas that the controller chose by dice: only how they are spread
is compared."""

_STACK = re.compile(r"^\s+(at |\.\.\. \d+ more|Suppressed: )")
_OPEN: tuple[tuple[str, str], ...] = (
    (r"TopicId: \S{22}", "TopicId: (an id)"),
    (r"Cluster ID: \S{22}", "Cluster ID: (an id)"),
    (r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] ", ""),
    (r"clientId=[\w-]+", "clientId=(one)"),
    (r"Epoch: \d+", "Epoch: (a zxid)"),
    (r"__consumer_offsets-\d+", "__consumer_offsets-(one)"),
)
_DICED_LINE = re.compile(
    rf"^\tTopic: (?P<topic>{DICED}\S*)\tPartition: (?P<number>\d+)\s*\tLeader: (?P<leader>\S+)"
    r"\s*\tReplicas: (?P<replicas>\S+)\s*\tIsr: (?P<isr>\S*)"
)
_TOPIC_LINE = re.compile(r"^\t?Topic: (?P<topic>\S+)\t+(Partition: (?P<number>\d+))?")
_ELECTED = re.compile(r"(for partitions )(\S+, .*)")
_BROKERS = re.compile(r"((?:on|from) brokers )([\d,]+)$", re.MULTILINE)
_ISR = re.compile(r"(Isr: )([\d,]+)")
_OF_DAEMON = re.compile(rf"\bbroker {OWN_ID}\b")
# Which broker a client asks first, and how often it tries, is open; but no tool loses refold.
_OF_THE_NETWORK = ("NetworkClient", "Metadata:", "could not be established", "disconnected")
_REFOLD, _PORT_OF_REFOLD = "(refold)", "(port of refold)"


def of_tool(said: ToolResult, stage: Stage) -> str:
    """What a tool said, in words that another run has alike."""
    lines = [f"exit status {said.status}"]
    lines += plain_lines(_without_addresses(said.output, stage))
    lines += [f"stderr: {line}" for line in plain_lines(_without_addresses(said.problems, stage))]
    return "\n".join(lines)


def of_client(answer: object, stage: Stage) -> str:
    """What an admin client answered, as JSON."""
    return _without_addresses(as_json(answer), stage)


def plain_lines(text: str) -> list[str]:
    """The lines of a tool's output without ids, stack traces and orders that Kafka leaves open."""
    for pattern, word in _OPEN:
        text = re.sub(pattern, word, text)
    for numbers in (_ISR, _BROKERS):
        text = numbers.sub(lambda found: found[1] + _sorted(found[2]), text)
    text = _ELECTED.sub(lambda found: found[1] + ", ".join(sorted(found[2].split(", "))), text)
    lines = [
        line.rstrip()
        for line in text.splitlines()
        if line.strip() and not _STACK.match(line) and not _is_of_no_interest(line)
    ]
    return _in_order(_spreads(lines))


def _is_of_no_interest(line: str) -> bool:
    """What a tool tells of its log library, and of its search for a broker that answers; never of a
    connection to refold, which answers all the time."""
    return line.startswith("SLF4J: ") or (
        line.startswith("WARN")
        and any(one in line for one in _OF_THE_NETWORK)
        and _REFOLD not in line
        and _PORT_OF_REFOLD not in line
    )


def _without_addresses(text: str, stage: Stage) -> str:
    for broker in stage.lab.brokers:
        text = text.replace(broker.connect, f"(broker {broker.broker_id})")
        text = re.sub(rf"\b{broker.port}\b", f"(port of {broker.broker_id})", text)
    text = re.sub(rf"\b{stage.scene.own_address}\b", _REFOLD, text)
    _, _, port = stage.scene.own_address.partition(":")
    text = re.sub(rf"\b{port}\b", _PORT_OF_REFOLD, text)
    return text.replace(str(stage.folder), "(files)").replace(str(stage.lab.folder), "(lab)")


def _sorted(numbers: str) -> str:
    return ",".join(map(str, sorted(map(int, numbers.split(",")))))


def _spreads(lines: Iterable[str]) -> list[str]:
    """The partitions of a diced topic as one line that tells how they are spread."""
    kept: list[str] = []
    diced: dict[str, dict[str, list[int]]] = {}
    leaders: dict[str, list[str]] = {}
    for line in lines:
        found = _DICED_LINE.match(line)
        if found is None:
            kept.append(line)
        else:
            replicas = list(map(int, found["replicas"].split(",")))
            diced.setdefault(found["topic"], {})[found["number"]] = replicas
            leaders.setdefault(found["topic"], []).append(found["leader"])
    return kept + [f"{topic}: {spread(one)}" for topic, one in sorted(diced.items())]


def spread(assignment: Mapping[str, list[int]]) -> str:
    """How the replicas of partitions are spread over brokers and racks."""
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
    """Lines of topics in order, each topic before its partitions: Kafka leaves it open."""
    found = [(_TOPIC_LINE.match(line), line) for line in lines]
    rest = [line for match, line in found if match is None]
    of_topics = [
        (match["topic"], int(match["number"] or -1), line) for match, line in found if match
    ]
    return rest + [line for _, _, line in sorted(of_topics)]


def proposal(text: str) -> str:
    """The output of --generate. Of what the tool proposes by dice: brokers, sizes and racks."""
    before, title, after = text.partition("Proposed partition reassignment configuration")
    if not title:
        return text
    proposed, end = json.JSONDecoder().raw_decode(after.lstrip())
    assignment = {
        f"{one['topic']}-{one['partition']}": one["replicas"] for one in proposed["partitions"]
    }
    brokers = sorted({broker for replicas in assignment.values() for broker in replicas})
    told = f"{sorted(assignment)} on {brokers}: {_shape(assignment)}"
    return f"{before}{title}\n{told}{after.lstrip()[end:]}"


def without_daemon(text: str) -> str:
    """What is left when the daemon's node is not looked at."""
    lines = []
    for line in text.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            if "brokers" in found:
                found["brokers"] = [one for one in found["brokers"] if one["broker"] != OWN_ID]
            line = json.dumps(found)
        lines.append(_BROKERS.sub(lambda found: found[1] + _without_own(found[2]), line))
    return "\n".join(line for line in lines if not _OF_DAEMON.search(line))


def _without_own(numbers: str) -> str:
    return ",".join(one for one in numbers.split(",") if one != str(OWN_ID))


def outcome(text: str) -> str:
    """How something ended: a tool's exit status and the errors that it names, a client's answer
    without configurations."""
    if text.startswith("exit status"):
        return "\n".join([text.partition("\n")[0], *re.findall(r"[\w.]+Exception\b", text)])
    found = json.loads(text)
    for topic in found["topics"]:
        topic.pop("configs", None)
    return as_json(found)
