"""docs/kafka-logs.md lists every line that can be rendered, and no other."""

from collections.abc import Callable

import pytest

from tests.controller.core.cluster import Cluster
from tests.replay.kafka_text.rendering import PAGE, lines_of, messages, row_of, rows_of_page
from tests.replay.kafka_text.scenes import SCENES, broker_bounces


@pytest.mark.parametrize("scene", SCENES, ids=lambda one: one.__name__)
def test_every_line_of_a_scene_is_listed(scene: Callable[[], Cluster]) -> None:
    for line in lines_of(scene()):
        row_of(line)


def test_every_line_that_is_listed_comes_up_in_a_scene() -> None:
    rendered = {row_of(line).text for scene in SCENES for line in lines_of(scene())}
    assert [row.text for row in rows_of_page() if row.text not in rendered] == []


def test_the_page_is_read_whole() -> None:
    listed = [
        text for text in PAGE.read_text().splitlines() if text.startswith(("| INFO", "| W", "| E"))
    ]
    assert len(rows_of_page()) == len(listed) == len({row.text for row in rows_of_page()})


def test_brokers_that_bounce_fail_first() -> None:
    """KB 3.3.7: what is done about brokers that came comes before what is done about others."""
    told = messages(broker_bounces())
    callbacks = [one for one in told if "callback" in one and "partition" not in one]
    assert callbacks == ["Broker failure callback for 2", "New broker startup callback for 2"]
