"""Decisions are compared by their content, and divergences are grouped by rule."""

from msgspec import structs

from replay.diff.grouping import (
    common_keys,
    divergences,
    first_difference,
    first_root,
    group_id,
    roots,
    signature,
)
from tests.replay.diff.samples import decision, request


def test_equal_decisions_at_different_turns_agree() -> None:
    base = [decision(1, seq=1, turn=1), decision(2, seq=2, turn=2)]
    head = [decision(1, seq=1, turn=5), decision(2, seq=2, turn=9)]
    assert divergences(base, head) == []


def test_equal_decisions_at_different_events_agree() -> None:
    base = [decision(1, seq=1), decision(2, seq=2)]
    head = [decision(1, seq=2), decision(2, seq=3), decision(3, seq=4)]
    [found] = divergences(base, head)
    assert found.what == "new"


def test_changed_decision_has_the_changed_part() -> None:
    base, head = decision({"leader": 1, "isr": [1, 2]}), decision({"leader": 2, "isr": [1, 2]})
    [found] = divergences([base], [head])
    assert found.what == "changed"
    [difference] = found.differences
    assert (difference.part, difference.base, difference.head) == ("leader", "1", "2")
    assert found.partitions == ("t-0",)


def test_empty_field_of_one_version_is_ignored() -> None:
    base = decision({"leader": 1})
    assert divergences([base], [decision({"leader": 1, "racks": []})]) == []
    assert divergences([decision({"leader": 1, "racks": []})], [base]) == []
    [found] = divergences([base], [decision({"leader": 1, "racks": ["a"]})])
    assert found.differences[0].base is None


def test_decisions_of_one_version_are_missing_or_new() -> None:
    one, other = decision(1, target="/a"), decision(1, target="/b")
    [missing, new] = divergences([one], [other])
    assert (missing.what, missing.target) == ("missing", "/a")
    assert (new.what, new.target) == ("new", "/b")


def test_requests_with_partitions_in_other_batches_agree() -> None:
    base = [request(1, ("t", 0, 1), ("t", 1, 2))]
    head = [request(1, ("t", 1, 2)), request(1, ("t", 0, 1))]
    assert divergences(base, head) == []


def test_request_that_differs_in_one_partition_has_that_partition() -> None:
    base = [request(1, ("t", 0, 1), ("t", 1, 2))]
    head = [request(1, ("t", 0, 1)), request(1, ("t", 1, 3))]
    [found] = divergences(base, head)
    assert found.partitions == ("t-1",)
    assert found.differences[0].part == "t-1.leader"


def test_missing_request_without_partitions_is_reported() -> None:
    [found] = divergences([request(1)], [])
    assert (found.what, found.kind) == ("missing", "leader_and_isr")


def test_reordering_within_a_channel_is_a_difference() -> None:
    one, other = request(1, ("t", 0, 1)), request(1, ("u", 0, 1))
    [found] = divergences([one, other], [other, one])
    assert (found.what, found.is_harmless) == ("reordered", False)
    assert "both on broker 1" in found.details[0]


def test_reordering_across_brokers_is_harmless() -> None:
    one, other = request(1, ("t", 0, 1)), request(2, ("t", 0, 1))
    [found] = divergences([one, other], [other, one])
    assert (found.what, found.is_harmless) == ("reordered", True)
    assert (
        "broker 1 and broker 2" in found.details[0] or "broker 2 and broker 1" in found.details[0]
    )


def test_request_before_a_write_instead_of_after_its_reply_is_a_difference() -> None:
    write, notified = decision(1, turn=1), request(1, ("t", 0, 1), seq=2)
    early = request(1, ("t", 0, 1), seq=1)
    [found] = divergences([write, notified], [early, write])
    assert not found.is_harmless


def test_reordering_of_a_request_and_a_write_of_one_turn_is_harmless() -> None:
    write, notified = decision(1), request(1, ("t", 0, 1))
    [found] = divergences([write, notified], [notified, write])
    assert found.is_harmless


def test_much_later_decision_is_a_difference() -> None:
    base, head = decision(1, time_ns=0), decision(1, time_ns=4_000_000_000)
    [found] = divergences([base], [head])
    assert found.details == ("head makes this decision 4.0 s later",)


def test_later_writes_of_a_rule_are_not_late() -> None:
    second = 1_000_000_000
    base = [decision(1, time_ns=0)]
    head = [structs.replace(decision(1, time_ns=4 * second), begun_ns=second // 2)]
    assert divergences(base, head) == []
    assert first_difference(base, head) is None
    late = [structs.replace(decision(1, time_ns=9 * second), begun_ns=4 * second)]
    [found] = divergences(base, late)
    assert found.details == ("head makes this decision 9.0 s later",)


def test_first_divergence_includes_later_ones_of_its_partitions_and_event() -> None:
    base = [
        decision({"leader": 1}, seq=1),
        request(1, ("t", 0, 1), seq=2),
        decision({"leader": 1}, seq=9, target="/brokers/topics/u/partitions/0/state"),
    ]
    head = [
        decision({"leader": 2}, seq=1),
        request(1, ("t", 0, 2), seq=2),
        decision({"leader": 2}, seq=9, target="/brokers/topics/u/partitions/0/state"),
    ]
    first, second = roots(divergences(base, head))
    assert [one.kind for one in first.followers] == ["leader_and_isr"]
    assert first.partitions == ["t-0"]
    assert second.partitions == ["u-0"]


def test_reordering_has_no_followers() -> None:
    late, early = request(1, ("t", 0, 1), seq=1), request(1, ("t", 0, 2), seq=1)
    base = [late, early, decision({"leader": 1}, seq=5)]
    head = [early, late, decision({"leader": 2}, seq=5)]
    moved, changed = roots(divergences(base, head))
    assert (moved.first.what, moved.partitions, moved.may_matter) == ("reordered", ["t-0"], False)
    assert (changed.first.what, changed.may_matter) == ("changed", True)


def test_partitions_of_an_answer_by_topic_id_are_ignored() -> None:
    content = {"partitions": [{"topic": "", "partition": 3, "error": 0}]}
    [found] = divergences([], [decision(content, kind="answer_alter_partition", target="7")])
    assert found.partitions == ()


def test_write_of_assignments_concerns_the_partitions_of_its_choices() -> None:
    content = {"data": {"partitions": {"0": [1], "1": [2]}}}
    write = decision(content, target="/brokers/topics/t")
    choices = [{"topic": name, "partition": 1, "chosen": 2} for name in ("t", "u")]
    [found] = divergences([], [structs.replace(write, choices=choices)])
    assert found.partitions == ("t-1",)


def test_content_is_needed_only_of_differing_decisions() -> None:
    same, again, late = decision(1), decision(2), decision(3, time_ns=0)
    first, second = decision(4, channel="broker 1"), decision(5, channel="broker 1")
    base = [same, again, late, first, second]
    head = [same, again, again, decision(3, time_ns=5_000_000_000), second, first]
    assert same.key in common_keys(base, head)
    assert not common_keys(base, head) & {again.key, late.key}
    assert len(common_keys(base, head) & {first.key, second.key}) == 1


def test_divergences_with_equal_rule_and_parts_are_one_group() -> None:
    state = "/brokers/topics/u/partitions/7/state"
    [one] = divergences([decision({"leader": 1})], [decision({"leader": 2})])
    [same] = divergences(
        [decision({"leader": 5}, target=state)], [decision({"leader": 6}, target=state)]
    )
    [other] = divergences([decision({"isr": 1})], [decision({"isr": 2})])
    assert signature(one) == signature(same) != signature(other)
    assert len(group_id(signature(one))) == 8


def test_rules_that_differ_in_the_broker_only_are_one_group() -> None:
    found = []
    for broker in (3, 12):
        rule = f"remove {broker} from ISR"
        base, head = decision({"isr": [1]}, rule=rule), decision({"isr": [2]}, rule=rule)
        found += divergences([base], [head])
    assert {one.rule for one in found} == {"remove 3 from ISR", "remove 12 from ISR"}
    assert {one.general_rule for one in found} == {"remove N from ISR"}
    assert len({group_id(signature(one)) for one in found}) == 1


def test_number_of_a_document_is_part_of_a_rule() -> None:
    groups = set()
    for rule in ("KIP-236 rollback", "KIP-455 rollback"):
        base, head = decision({"isr": [1]}, rule=rule), decision({"isr": [2]}, rule=rule)
        groups |= {signature(one) for one in divergences([base], [head])}
    assert len(groups) == 2


def test_timer_is_not_the_first_cause_of_a_write_at_the_same_event() -> None:
    timers = [
        decision(ms, kind="start_timer", target="rebalance", channel="timers", seq=4)
        for ms in (1, 2)
    ]
    found = divergences(
        [timers[0], decision({"isr": [1]}, seq=4)], [timers[1], decision({"isr": [2]}, seq=4)]
    )
    [root] = roots(sorted(found, key=lambda one: one.kind != "start_timer"))
    assert root.first.kind == "set"
    assert {one.kind for one in root.followers} == {"start_timer"}


def test_timer_that_nothing_follows_is_a_first_cause() -> None:
    timer = decision(1, kind="start_timer", target="rebalance", channel="timers")
    [root] = roots(divergences([timer], []))
    assert root.first.kind == "start_timer"


def test_delay_is_not_the_first_cause_of_a_decision_with_other_content() -> None:
    second = 1_000_000_000
    late = decision({"isr": [1]}, seq=2, time_ns=0)
    base = [late, decision({"isr": [3]}, seq=9, time_ns=20 * second)]
    head = [
        structs.replace(late, seq=5, turn=5, time_ns=5 * second),
        decision({"isr": [4]}, seq=9, time_ns=20 * second),
    ]
    [root] = roots(divergences(base, head))
    assert [one.part for one in root.first.differences] != ["time"]
    assert [[part.part for part in one.differences] for one in root.followers] == [["time"]]


def test_first_root_differs_first_by_content() -> None:
    base = [decision("a", target="/a", seq=2, time_ns=2), decision(1, target="/b", seq=3)]
    timer = decision({}, kind="start_timer", target="a timer", seq=1, cause="Startup")
    late = decision("c", target="/c", seq=4, cause="TopicChange")
    found = roots(divergences([*base, late], [timer, structs.replace(late, time_ns=10**10)]))
    first = first_root(found)
    assert first is not None
    assert first.first.target == "/a"


def test_without_a_difference_in_content_the_earliest_root_is_first() -> None:
    timers = [decision({}, kind="start_timer", target=f"timer {one}", seq=one) for one in (1, 2)]
    found = roots(divergences([], [structs.replace(timers[1], cause="x"), timers[0]]))
    first = first_root(found)
    assert first is not None
    assert first.first.target == "timer 1"
    assert first_root([]) is None
