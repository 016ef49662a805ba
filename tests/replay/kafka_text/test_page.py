"""docs/kafka-logs.md lists exactly the lines that can be rendered."""

from collections.abc import Callable

import pytest

from tests.controller.core.cluster import Cluster
from tests.replay.kafka_text.rendering import PAGE, lines_of, messages, row_of, rows_of_page
from tests.replay.kafka_text.scenes import SCENES, broker_bounces


@pytest.mark.parametrize("scene", SCENES, ids=lambda one: one.__name__)
def test_every_line_of_a_scene_is_listed(scene: Callable[[], Cluster]) -> None:
    for line in lines_of(scene()):
        row_of(line)


def test_every_listed_line_occurs_in_a_scene() -> None:
    rendered = {row_of(line).text for scene in SCENES for line in lines_of(scene())}
    assert [row.text for row in rows_of_page() if row.text not in rendered] == []


def test_every_row_of_the_page_is_read() -> None:
    listed = [
        text for text in PAGE.read_text().splitlines() if text.startswith(("| INFO", "| W", "| E"))
    ]
    assert len(rows_of_page()) == len(listed) == len({row.text for row in rows_of_page()})


def test_bounced_broker_fails_before_it_starts() -> None:
    """KB 3.3.7: the controller processes started brokers before deleted ones."""
    lines = messages(broker_bounces())
    callbacks = [one for one in lines if "callback" in one and "partition" not in one]
    assert callbacks == ["Broker failure callback for 2", "New broker startup callback for 2"]
