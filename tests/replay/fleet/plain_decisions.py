"""The expected results of replaying one log, calculated without Spark."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from controller.core.canonical import decode_command
from eventstore.reader import LogReader
from replay.diff.comparing import compare
from replay.diff.logs import NamedLog
from replay.diff.messages import FoldLog
from replay.diff.processes import VersionProcess
from replay.diff.references import Version
from replay.diff.version.decisions import parts_of
from replay.diff.version.recorded_history import decoded_body
from replay.stock_clusters.imported_log import events as imported_events
from tests.replay.fleet.plain_count import PlainCount, Row

OFFLINE: Final = "offline partition leader election"
_NO_DECISIONS: Final = frozenset(
    (
        "read_znodes", "read_stats", "read_children", "sync_znodes", "draw_topic_ids",
        "draw_numbers", "notice", "answer_later",
    )
)  # fmt: skip
_SHUTS_DOWN: Final = re.compile(r"Shutting down broker (\d+)")
_AGREE: Final = """
import json, sys
from pathlib import Path
from replay.agreement.comparison import agree
for name in sys.argv[1:]:
    found = agree(Path(name))
    sides = found, found.requests
    counts = [sum(getattr(one, what) for one in sides) for what in ("decisions", "agreed")]
    rules = [(one.subject, one.cause, one.seq) for one in found.divergences if not one.explained]
    print(json.dumps([name, *counts, rules]))
"""

Divergences = Counter[tuple[str, str, str, int]]
"""Counted by the rule of the first divergence, what, kind and event."""


def decisions_of(count: PlainCount) -> int:
    """The number of decisions in a daemon's log; each write of a batch counts."""
    found = 0
    for one in count.issued.values():
        if one.kind == "write_znodes":
            assert one.body is not None
            body: Any = decode_command(one.body)
            found += len(body.operations)
        elif one.kind not in _NO_DECISIONS:
            found += 1
    return found


def elections_of(count: PlainCount) -> set[tuple[int, str]]:
    """Elections of an offline partition that the last replica in sync could have won instead of the
    first: event and partition."""
    return {
        (row.write.decided_seq, "{}-{}".format(*row.partition))
        for row in count.rows
        if row.write.decided_seq is not None and _is_open(count, row)
    }


def _is_open(count: PlainCount, row: Row) -> bool:
    before, _ = row.before
    if before is None or row.assigned is None or row.leader == before or row.leader == -1:
        return False
    if row.write.rule == "partition_state":
        # For a stock controller: the leader left the ISR without a controlled shutdown.
        is_offline = before not in row.isr
        if before in row.there and _was_to_stop(count, before, row.write.seq):
            return False
    else:
        is_offline = row.write.rule == OFFLINE
    fit = [one for one in row.assigned[0] if one in row.isr]
    return is_offline and len(fit) > 1 and fit[0] == row.leader


def _was_to_stop(count: PlainCount, broker: int, seq: int) -> bool:
    since = max(
        (one.seq for one in count.brokers.changes if one.broker == broker and one.seq < seq),
        default=0,
    )
    return any(
        int(found[1]) == broker
        for record, event in count.records
        if since < record.seq < seq and isinstance(event, imported_events.ControllerLogged)
        if (found := _SHUTS_DOWN.search(event.text)) is not None
    )


def agreed_by(tree: Path, logs: Iterable[Path]) -> dict[Path, tuple[int, int, Counter[str]]]:
    """The results of `refold agree` of the code in `tree` on imported logs: the number of Kafka's
    decisions and requests, how many agree, and the others by rule."""
    actual = subprocess.run(
        [sys.executable, "-c", _AGREE, *map(str, logs)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for line in actual.stdout.splitlines():
        name, decisions, agreed, rules = json.loads(line)
        by_rule = Counter(cause.partition(": ")[2] for _, cause, _ in rules)
        found[Path(name)] = decisions, agreed, by_rule
    return found


def diverging(logs: Sequence[Path], versions: Sequence[Version]) -> dict[str, Divergences]:
    """The divergences that `refold diff` of two versions reports for daemons' logs, by the log's
    path."""
    actual = compare([NamedLog(str(one), one) for one in logs], *versions, {}, lambda *_: None)
    found: dict[str, Divergences] = {str(one): Counter() for one in logs}
    for group in actual.groups:
        for instance in group.instances:
            root = instance.root
            for one in (root.first, *root.followers):
                found[instance.log][root.first.rule, one.what, one.kind, one.seq] += 1
    return found


def decisions_not_made(logs: Sequence[Path], version: Version) -> dict[str, int]:
    """How many decisions in daemons' logs a version does not make at all, by the log's path."""
    found = {}
    with VersionProcess(version) as process:
        for log in logs:
            mine = Counter(
                (one.key, one.channel) for one in process.fold(FoldLog(str(log))).decisions
            )
            with LogReader(log) as reader:
                actual = [
                    body for one in reader.commands() if (body := decoded_body(one)) is not None
                ]
            recorded = Counter(
                (key, channel) for one in actual for key, channel, *_ in parts_of(one)
            )
            found[str(log)] = (recorded - mine).total()
    return found
