"""Decisions are compared by their content, and divergences are grouped by rule."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from controller.core.error_codes import TOPIC_ALREADY_EXISTS
from replay.diff.grouping import (
    common_keys,
    divergences,
    first_difference,
    first_root,
    group_id,
    roots,
    signature,
)
from replay.diff.messages import Decision
from replay.diff.version.decisions import FAILED
from tests.replay.diff.samples import decision, request

SECOND = 1_000_000_000


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


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ("bca", "head makes this decision after set /b (both on zookeeper)"),
        ("cab", "head makes this decision before set /a (both on zookeeper)"),
    ],
)
def test_reordering_says_which_decision_is_passed(order: str, text: str) -> None:
    base = [decision(1, target=f"/{name}") for name in "abc"]
    head = [decision(1, target=f"/{name}") for name in order]
    [found] = divergences(base, head)
    assert found.details == (text,)


def test_late_decision_in_another_order_is_one_difference_unless_the_order_is_harmless() -> None:
    def differences(one: Decision, other: Decision) -> list[str]:
        late = structs.replace(one, time_ns=5 * SECOND)
        return [found.what for found in divergences([one, other], [other, late])]

    assert differences(request(1, ("t", 0, 1)), request(1, ("u", 0, 1))) == ["reordered"]
    assert differences(request(1, ("t", 0, 1)), request(2, ("t", 0, 1))) == ["reordered", "changed"]


@pytest.mark.parametrize(
    ("base_ns", "head_ns", "text"),
    [
        (3 * SECOND, 7 * SECOND, "head makes this decision 4.0 s later"),
        (7 * SECOND, 3 * SECOND, "head makes this decision 4.0 s earlier"),
        (3 * SECOND, 4 * SECOND, "head makes this decision 1.0 s later"),
    ],
)
def test_decision_at_another_time_is_a_difference_at_the_earlier_one(
    base_ns: int, head_ns: int, text: str
) -> None:
    base, head = (
        decision(1, seq=time_ns // SECOND, time_ns=time_ns) for time_ns in (base_ns, head_ns)
    )
    [found] = divergences([base], [head])
    assert found.details == (text,)
    assert (found.seq, found.time_ns) == (3, 3 * SECOND)


def test_late_decision_at_another_position_is_the_one_that_differs() -> None:
    base = [decision(1, target="/a"), decision(1, target="/b")]
    head = [decision(1, target="/b", time_ns=5 * SECOND)]
    found = divergences(base, head)
    assert [(one.what, one.target) for one in found] == [("missing", "/a"), ("changed", "/b")]


def test_later_writes_of_a_rule_are_not_late() -> None:
    def write(time_ns: int, begun_ns: int = 0) -> list[Decision]:
        return [structs.replace(decision(1, time_ns=time_ns), begun_ns=begun_ns)]

    base, begun = write(10 * SECOND), 10 * SECOND + SECOND // 2
    for one, other in (
        (base, write(14 * SECOND, begun)),
        (write(13 * SECOND, 10 * SECOND), write(20 * SECOND, begun)),
    ):
        assert divergences(one, other) == []
        assert first_difference(one, other) is None
    [found] = divergences(base, write(19 * SECOND, 14 * SECOND))
    assert found.details == ("head makes this decision 9.0 s later",)


@pytest.mark.parametrize(
    ("base", "head", "seq"),
    [
        ([decision(1)], [decision(1), decision(2, seq=4)], 4),
        ([decision(1), decision(2, seq=4)], [decision(1)], 4),
        ([decision(1, seq=3)], [decision(2, seq=5)], 3),
        ([decision(1, seq=5)], [decision(2, seq=3)], 3),
        ([decision(1, seq=3)], [decision(1, seq=5, time_ns=5 * SECOND)], 3),
    ],
)
def test_first_difference_is_at_the_first_event_of_either_version(
    base: Sequence[Decision], head: Sequence[Decision], seq: int
) -> None:
    assert first_difference(base, head) == seq


def test_rules_of_both_versions_are_named_only_if_they_differ() -> None:
    one, other = decision(1, rule="one rule"), decision(2, rule="another rule")
    same = structs.replace(other, rule=one.rule)
    pairs = [([one], []), ([], [other]), ([one], [same]), ([one], [other])]
    assert [found.rule for pair in pairs for found in divergences(*pair)] == [
        "one rule",
        "another rule",
        "one rule",
        "one rule / another rule",
    ]


def test_request_that_only_one_version_accepts_has_a_verdict() -> None:
    accepted, refused = (
        decision(
            {"topics": [{"name": "t", "error": error}]},
            kind="answer_create_topics",
            target="request 7",
            channel="request 7",
        )
        for error in (0, TOPIC_ALREADY_EXISTS)
    )
    verdict = "head refuses what base accepts: create_topics t (TOPIC_ALREADY_EXISTS)"
    [changed] = roots(divergences([accepted], [refused]))
    assert changed.verdicts == [verdict]
    [missing] = roots(divergences([accepted], []))
    assert missing.verdicts == []


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


def test_root_has_the_partitions_of_its_followers() -> None:
    base, head = (
        [
            decision({"leader": leader}, target=f"/brokers/topics/{topic}/partitions/0/state")
            for topic in "tu"
        ]
        for leader in (1, 2)
    )
    [root] = roots(divergences(base, head))
    assert root.partitions == ["t-0", "u-0"]


def test_harmless_reordering_at_the_event_of_another_difference_is_separate() -> None:
    late, early = request(1, ("t", 0, 1)), request(2, ("t", 0, 1))
    base = [decision({"leader": 1}), late, early]
    head = [decision({"leader": 2}), early, late]
    found = roots(divergences(base, head))
    assert [(one.first.what, one.followers) for one in found] == [
        ("changed", []),
        ("reordered", []),
    ]


def test_harmful_reordering_is_not_the_first_cause_of_a_change_at_the_same_event() -> None:
    late, early = request(1, ("t", 0, 1)), request(1, ("u", 0, 1))
    moved = divergences([late, early], [early, late])
    changed = divergences([decision({"leader": 1})], [decision({"leader": 2})])
    [root] = roots([*moved, *changed])
    assert root.first.what == "changed"
    assert [one.what for one in root.followers] == ["reordered"]
    assert root.may_matter


def test_timers_and_answers_follow_from_the_last_difference_of_their_controller_event() -> None:
    first, second = (
        decision(1, target=f"/brokers/topics/{topic}/partitions/0/state", seq=seq)
        for topic, seq in (("t", 1), ("u", 2))
    )
    timer = decision(1, kind="start_timer", target="a timer", channel="timers", seq=3)
    answer = decision(1, kind="answer_create_topics", target="7", channel="request 7", seq=4)
    write = decision(1, target="/brokers/topics/v/partitions/0/state", seq=5)
    unrelated = structs.replace(timer, seq=6, turn=6, time_ns=6, cause="TopicChange")
    found = roots(divergences([], [first, second, timer, answer, write, unrelated]))
    assert [[root.first.seq, *(one.seq for one in root.followers)] for root in found] == [
        [1],
        [2, 3, 4],
        [5],
        [6],
    ]


def test_reactions_of_brokers_and_clients_are_distinguished() -> None:
    kinds = (
        "update_metadata",
        "start_timer",
        "answer_create_topics",
        "answer_alter_partition",
        "set",
        FAILED,
    )
    [root] = roots(divergences([], [decision(1, kind=kind) for kind in kinds]))
    assert root.to_brokers == ["answer_alter_partition", "set", "update_metadata"]
    assert root.to_clients == ["answer_create_topics"]


def test_harmless_reordering_has_no_reaction_of_brokers() -> None:
    one, other = request(1, ("t", 0, 1)), request(2, ("t", 0, 1))
    [root] = roots(divergences([one, other], [other, one]))
    assert root.to_brokers == []


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


def test_partitions_that_differ_in_the_same_field_are_one_group() -> None:
    groups = set()
    for topic in ("t", "a.topic"):
        [found] = divergences([request(1, (topic, 0, 1))], [request(1, (topic, 0, 2))])
        groups.add(signature(found))
    assert len(groups) == 1
    [found] = divergences([request(1, epoch=1)], [request(1, epoch=2)])
    assert signature(found) not in groups


def test_harmless_reordering_is_another_group_than_a_harmful_one() -> None:
    groups = []
    for broker in (1, 2):
        one, other = request(1, ("t", 0, 1)), request(broker, ("u", 0, 1))
        [found] = divergences([one, other], [other, one])
        groups.append(signature(found))
    harmful, harmless = groups
    assert harmful != harmless


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
    late = decision({"isr": [1]}, seq=2, time_ns=0)
    base = [late, decision({"isr": [3]}, seq=9, time_ns=20 * SECOND)]
    head = [
        structs.replace(late, seq=5, turn=5, time_ns=5 * SECOND),
        decision({"isr": [4]}, seq=9, time_ns=20 * SECOND),
    ]
    [root] = roots(divergences(base, head))
    assert [one.part for one in root.first.differences] != ["time"]
    assert [[part.part for part in one.differences] for one in root.followers] == [["time"]]


def test_timer_and_delay_follow_in_order_from_a_decision_with_other_content() -> None:
    timer = decision(1, kind="start_timer", target="rebalance", channel="timers")
    late = decision(1, target="/late")
    [root] = roots(
        [
            *divergences([], [timer]),
            *divergences([late], [structs.replace(late, seq=5, time_ns=5 * SECOND)]),
            *divergences([decision({"isr": [1]})], [decision({"isr": [2]})]),
        ]
    )
    assert root.first.partitions == ("t-0",)
    assert [one.target for one in root.followers] == ["rebalance", "/late"]


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


def test_harmless_reordering_is_not_the_first_root() -> None:
    one, other = request(1, ("t", 0, 1), seq=1), request(2, ("t", 0, 1), seq=1)
    timer = decision({}, kind="start_timer", target="a timer", seq=2)
    first = first_root(roots(divergences([one, other], [other, one, timer])))
    assert first is not None
    assert first.first.target == "a timer"
    assert first_root(roots(divergences([one, other], [other, one]))) is None
