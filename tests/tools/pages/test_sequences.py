"""The sequence diagrams in docs/kip-236-design.md have the controller's commands in the order of a
recorded incident."""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from tools.pages import ROOT

PAGE = ROOT / "docs/kip-236-design.md"
TRANSCRIPT = ROOT / "tests/incidents/legacy-request/transcript.txt"
ROLLBACK_BEGINS = "rollback: leader among the originals"

RECORDED: Final = {
    r"set /brokers/topics/\S+/partitions/\d+/state ": "partition state",
    r"set /brokers/topics/[^/ ]+ ": "topic znode",
    r"write_atomically \S+ /brokers/topics/[^/ ]+ ": "topic znode",
    r"(set|delete) /admin/reassign_partitions ": "entry",
    r"create_sequential /admin/reassignment_requests/": "request",
    r"delete /admin/reassignment_requests/": "request",
    r"delete /admin/reassignments/": "record is deleted",
    r"create /admin/replica_deletions/": "deletions",
    r"leader_and_isr ": "LeaderAndIsr",
    r"update_metadata ": "UpdateMetadata",
    r"stop_replica ": "StopReplica",
}
"""A command in the transcript, and how the diagrams name it."""
DELETE = "StopReplica with delete"
DRAWN = re.compile(
    rf"refold->>\w+: (?!AlterPartition).*?\b({DELETE}|{'|'.join(RECORDED.values())})"
)


def in_order(commands: Iterable[str]) -> list[str]:
    """Without repetitions, and without the UpdateMetadata that every LeaderAndIsr causes."""
    found: list[str] = []
    for command, _ in groupby(commands):
        if found and found[-1] == "LeaderAndIsr" and command in ("LeaderAndIsr", "UpdateMetadata"):
            continue
        found.append(command)
    return found


def recorded() -> list[tuple[str, str]]:
    """Each command of the incident for a reassignment or a rollback, with its rule."""
    found = []
    for line in TRANSCRIPT.read_text(encoding="utf-8").splitlines():
        rule = re.search(r"\[(re\w+|rollback).*?\]", line)
        names = [name for kind, name in RECORDED.items() if re.match(rf" +{kind}", line)]
        if rule and names:
            found.append((names[0], rule[0][1:-1]))
        elif "delete=true" in line:
            found[-1] = (DELETE, found[-1][1])
    return found


def drawn(section: str) -> list[str]:
    """The commands in the diagram of a section, in their order."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2]
    return in_order(DRAWN.findall(text.partition("\n## ")[0]))


def test_steps_of_a_reassignment_are_drawn_in_the_recorded_order() -> None:
    commands = [name for name, _ in recorded()]
    first = commands.index("request")
    last = commands.index("record is deleted")
    end = commands.index("UpdateMetadata", last) + 1
    assert drawn("A reassignment, step by step") == in_order(commands[first:end])


def test_steps_of_a_rollback_are_drawn_in_the_recorded_order() -> None:
    rules = [rule for _, rule in recorded()]
    first, end = rules.index(ROLLBACK_BEGINS), len(rules) - rules[::-1].index("rollback")
    commands = [name for name, _ in recorded()]
    assert drawn("A rollback, step by step") == in_order(commands[first:end])
