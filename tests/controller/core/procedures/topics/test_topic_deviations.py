"""Deviations in changes of topics: the outcomes by refold's rule and by Kafka's."""

import pytest

from controller.core import znodes
from controller.core.values import Assignment
from tests.controller.core.procedures.topics.deleting import cluster_with_topic

both_rules = pytest.mark.parametrize("rules", ["refold", "kafka"])


# topic-id-restored ------------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("topic-id-restored")
def test_topic_id_removed_by_an_old_tool_is_written_again(rules: str) -> None:
    cluster = cluster_with_topic(2, rules=rules)
    seen = cluster.seen()
    before = cluster.topic("t")
    old_tool = {**before.assignments, 1: Assignment((2, 1))}
    cluster.put(znodes.topic_path("t"), znodes.write_topic(znodes.TopicContent(old_tool)))
    after = cluster.topic("t")
    assert before.topic_id is not None
    assert set(after.assignments) == {0, 1}
    assert after.topic_id == (before.topic_id if rules == "refold" else None)
    assert len(seen.texts_of("topic_id_restored")) == (rules == "refold")
