"""Decisions compared by what they say, put together by the rule that differs."""

from msgspec import structs

from replay.diff.grouping import common_keys, divergences, group_id, roots, signature
from tests.replay.diff.samples import decision, request


def test_same_decisions_at_other_turns_are_the_same() -> None:
    base = [decision(1, seq=1, turn=1), decision(2, seq=2, turn=2)]
    head = [decision(1, seq=1, turn=5), decision(2, seq=2, turn=9)]
    assert divergences(base, head) == []


def test_same_decisions_at_another_event_are_the_same() -> None:
    base = [decision(1, seq=1), decision(2, seq=2)]
    head = [decision(1, seq=2), decision(2, seq=3), decision(3, seq=4)]
    [found] = divergences(base, head)
    assert found.what == "new"


def test_changed_decision_names_the_part() -> None:
    base, head = decision({"leader": 1, "isr": [1, 2]}), decision({"leader": 2, "isr": [1, 2]})
    [found] = divergences([base], [head])
    assert found.what == "changed"
    [difference] = found.differences
    assert (difference.part, difference.base, difference.head) == ("leader", "1", "2")
    assert found.partitions == ("t-0",)


def test_field_that_only_one_version_knows_says_nothing_while_it_is_empty() -> None:
    base = decision({"leader": 1})
    assert divergences([base], [decision({"leader": 1, "racks": []})]) == []
    [found] = divergences([base], [decision({"leader": 1, "racks": ["a"]})])
    assert found.differences[0].base is None


def test_missing_and_new() -> None:
    one, other = decision(1, target="/a"), decision(1, target="/b")
    [missing, new] = divergences([one], [other])
    assert (missing.what, missing.target) == ("missing", "/a")
    assert (new.what, new.target) == ("new", "/b")


def test_requests_in_other_portions_are_the_same() -> None:
    base = [request(1, ("t", 0, 1), ("t", 1, 2))]
    head = [request(1, ("t", 1, 2)), request(1, ("t", 0, 1))]
    assert divergences(base, head) == []


def test_request_that_differs_in_one_partition_names_it() -> None:
    base = [request(1, ("t", 0, 1), ("t", 1, 2))]
    head = [request(1, ("t", 0, 1)), request(1, ("t", 1, 3))]
    [found] = divergences(base, head)
    assert found.partitions == ("t-1",)
    assert found.differences[0].part == "t-1.leader"


def test_request_without_partitions_is_missed_too() -> None:
    [found] = divergences([request(1)], [])
    assert (found.what, found.kind) == ("missing", "leader_and_isr")


def test_another_order_within_a_channel_is_a_difference() -> None:
    one, other = request(1, ("t", 0, 1)), request(1, ("u", 0, 1))
    [found] = divergences([one, other], [other, one])
    assert (found.what, found.is_harmless) == ("reordered", False)
    assert "both on broker 1" in found.details[0]


def test_another_order_across_brokers_is_harmless() -> None:
    one, other = request(1, ("t", 0, 1)), request(2, ("t", 0, 1))
    [found] = divergences([one, other], [other, one])
    assert (found.what, found.is_harmless) == ("reordered", True)
    assert (
        "broker 1 and broker 2" in found.details[0] or "broker 2 and broker 1" in found.details[0]
    )


def test_a_request_before_a_write_instead_of_after_its_answer_is_a_difference() -> None:
    write, told = decision(1, turn=1), request(1, ("t", 0, 1), seq=2)
    early = request(1, ("t", 0, 1), seq=1)
    [found] = divergences([write, told], [early, write])
    assert not found.is_harmless


def test_a_request_beside_a_write_of_the_same_turn_is_harmless() -> None:
    write, told = decision(1), request(1, ("t", 0, 1))
    [found] = divergences([write, told], [told, write])
    assert found.is_harmless


def test_what_comes_much_later_is_a_difference() -> None:
    base, head = decision(1, time_ns=0), decision(1, time_ns=4_000_000_000)
    [found] = divergences([base], [head])
    assert found.details == ("head makes this decision 4.0 s later",)


def test_first_cause_has_what_follows_on_its_partitions_and_in_its_event() -> None:
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


def test_nothing_follows_on_a_partition_from_another_order() -> None:
    told, early = request(1, ("t", 0, 1), seq=1), request(1, ("t", 0, 2), seq=1)
    base = [told, early, decision({"leader": 1}, seq=5)]
    head = [early, told, decision({"leader": 2}, seq=5)]
    moved, changed = roots(divergences(base, head))
    assert (moved.first.what, moved.partitions, moved.may_matter) == ("reordered", ["t-0"], False)
    assert (changed.first.what, changed.may_matter) == ("changed", True)


def test_partitions_of_an_answer_by_topic_id_are_left_out() -> None:
    content = {"partitions": [{"topic": "", "partition": 3, "error": 0}]}
    [found] = divergences([], [decision(content, kind="answer_alter_partition", target="7")])
    assert found.partitions == ()


def test_write_of_assignments_is_about_the_partitions_that_were_chosen_for() -> None:
    content = {"data": {"partitions": {"0": [1], "1": [2]}}}
    write = decision(content, target="/brokers/topics/t")
    choices = [{"topic": name, "partition": 1, "chosen": 2} for name in ("t", "u")]
    [found] = divergences([], [structs.replace(write, choices=choices)])
    assert found.partitions == ("t-1",)


def test_content_is_needed_of_all_but_what_is_alike() -> None:
    same, again, late = decision(1), decision(2), decision(3, time_ns=0)
    first, second = decision(4, channel="broker 1"), decision(5, channel="broker 1")
    base = [same, again, late, first, second]
    head = [same, again, again, decision(3, time_ns=5_000_000_000), second, first]
    assert same.key in common_keys(base, head)
    assert not common_keys(base, head) & {again.key, late.key}
    assert len(common_keys(base, head) & {first.key, second.key}) == 1


def test_one_group_for_the_same_rule_and_parts_whatever_the_partition() -> None:
    state = "/brokers/topics/u/partitions/7/state"
    [one] = divergences([decision({"leader": 1})], [decision({"leader": 2})])
    [same] = divergences(
        [decision({"leader": 5}, target=state)], [decision({"leader": 6}, target=state)]
    )
    [other] = divergences([decision({"isr": 1})], [decision({"isr": 2})])
    assert signature(one) == signature(same) != signature(other)
    assert len(group_id(signature(one))) == 8
