"""The topics that a failover has read, by the lines of its controller.log."""

from replay.agreement.logs.logged_reads import TopicsRead
from replay.stock_clusters.imported_log.events import ControllerLogged

BEGINS = "[Controller id=4] Initializing controller context"


def line(*topics: str, kind: str = "HashSet") -> str:
    return f"[Controller id=4] Current list of topics in the cluster: {kind}({', '.join(topics)})"


def topics_read(*lines: str, broker: int = 4) -> TopicsRead:
    """The log of these lines, at records 10, 20, ..."""
    found = TopicsRead()
    for place, text in enumerate(lines, 1):
        found.note(10 * place, ControllerLogged(broker, "failover", text))
    return found


def test_later_line_has_the_topics() -> None:
    assert topics_read(BEGINS, line("u", "t")).listed(4, 12) == ("t", "u")
    assert topics_read(BEGINS, line("t.1-a_b", kind="Set")).listed(4, 12) == ("t.1-a_b",)


def test_cluster_without_topics_lists_none() -> None:
    assert topics_read(BEGINS, line(kind="Set")).listed(4, 12) == ()


def test_failover_that_ends_before_its_line_has_no_topics() -> None:
    found = topics_read(BEGINS, BEGINS, line("t"))
    assert found.listed(4, 12) is None
    assert found.listed(4, 22) == ("t",)


def test_line_without_topics_or_of_another_controller_is_ignored() -> None:
    assert topics_read(BEGINS, line("t"), broker=3).listed(4, 12) is None
    assert topics_read(BEGINS, "[Controller id=4] Currently active brokers").listed(4, 12) is None
    assert topics_read(BEGINS, line("t")).listed(4, 20) is None
