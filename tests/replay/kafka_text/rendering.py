"""Lines rendered from a simulated cluster, and the page that lists every line."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from controller.core.fold import Fold
from replay.kafka_text.kafka_log import KafkaLogLine
from replay.kafka_text.rendering import Rendering
from tests.controller.core.cluster import Cluster

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/kafka-logs.md"

_LINE = re.compile(r"\[[^]]*\] (?P<level>[A-Z]+) +(?P<message>.*) \((?P<logger>[\w.$]+)\)")
_SECTION = re.compile(r"### `(?P<logger>[^`]+)`, (?:`(?P<identity>[^`]+)`|without a prefix)")
_ROW = re.compile(r"\| (?P<level>INFO|WARN|ERROR) \| `(?P<message>[^`]+)` \|")


def lines_of(cluster: Cluster, after: int = 0, *, of_0_8: bool = False) -> list[KafkaLogLine]:
    """The lines for the events after the event number `after`."""
    rendering = Rendering(Fold(cluster.fold.controller.configuration), of_0_8=of_0_8)
    lines = [line for event, _ in cluster.history for line in rendering.lines(event)]
    return [line for line in lines if line.seq > after]


def messages(cluster: Cluster, after: int = 0) -> list[str]:
    """The lines without time, level, logger and prefix."""
    return [re.sub(r"^\[[^]]*\] ", "", line.message) for line in lines_of(cluster, after)]


def parsed(text: str) -> KafkaLogLine:
    """A line of Kafka's log files, without its time."""
    found = _LINE.fullmatch(text)
    assert found is not None, text
    return KafkaLogLine(0, 0, found["level"], found["message"], found["logger"])


class Row(NamedTuple):
    """A listed line: its level and body, and a pattern that matches all lines of its kind."""

    text: str
    pattern: re.Pattern[str]

    def fits(self, line: KafkaLogLine) -> bool:
        """Whether a line is of this kind."""
        return self.pattern.fullmatch(f"{line.level} {line.body}") is not None


@cache
def rows_of_page() -> tuple[Row, ...]:
    """The lines that the page lists."""
    rows = []
    logger = identity = ""
    for text in PAGE.read_text(encoding="utf-8").splitlines():
        if section := _SECTION.fullmatch(text):
            logger, identity = section["logger"], section["identity"] or ""
        elif found := _ROW.fullmatch(text):
            before = f"{identity} " if identity else ""
            rows.append(_row(f"{found['level']} {before}{found['message']} ({logger})"))
    return tuple(rows)


def _row(text: str) -> Row:
    return Row(text, re.compile(re.escape(text).replace("…", ".*?"), re.DOTALL))


def row_of(line: KafkaLogLine) -> Row:
    """The row of the page that lists a line."""
    [row] = [one for one in rows_of_page() if one.fits(line)] or [None]
    assert row is not None, f"{PAGE.name} does not list: {line.text}"
    return row
