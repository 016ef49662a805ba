"""Under any events, marked topics are deleted in the end, and no others."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.controller.core.eventful import RandomEventsCluster, Step, steps


@settings(max_examples=100)
@given(protocol=st.sampled_from(("2.5", "3.9")), steps=steps)
def test_marked_topics_are_deleted_in_the_end_and_no_others(
    protocol: str, steps: list[Step]
) -> None:
    cluster = RandomEventsCluster(protocol)
    for step in steps:
        cluster.step(step)
        cluster.check_always()
    cluster.settle()
    cluster.check_always()
    cluster.check_settled()
