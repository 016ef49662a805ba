"""A request that only one version accepts is named in the consequences."""

from typing import Any

import pytest

from controller.core import error_codes
from replay.diff.verdicts import verdicts
from tests.replay.diff.samples import decision

EXISTS = error_codes.TOPIC_ALREADY_EXISTS


def found(api: str, base: dict[str, Any], head: dict[str, Any]) -> list[str]:
    answers = [
        decision(one, kind=f"answer_{api}", target="request 1", channel="request 1")
        for one in (base, head)
    ]
    return list(verdicts(*answers))


def topics(**errors: int) -> dict[str, Any]:
    return {"topics": [{"name": name, "error": error} for name, error in errors.items()]}


def test_topic_that_only_one_version_accepts_is_named() -> None:
    accepted, refused = topics(a=0, b=0), topics(a=0, b=EXISTS)
    assert found("create_topics", refused, accepted) == [
        "head accepts what base refuses: create_topics b (TOPIC_ALREADY_EXISTS)"
    ]
    assert found("create_topics", accepted, refused) == [
        "head refuses what base accepts: create_topics b (TOPIC_ALREADY_EXISTS)"
    ]


def test_partitions_with_the_same_error_are_one_sentence() -> None:
    def answer(error: int) -> dict[str, Any]:
        parts = [{"topic": "t", "partition": number, "error": error} for number in (0, 1)]
        return {"error": 0, "partitions": parts}

    assert found("alter_partition", answer(error_codes.INELIGIBLE_REPLICA), answer(0)) == [
        "head accepts what base refuses: alter_partition t-0, t-1 (INELIGIBLE_REPLICA)"
    ]


def test_refusal_of_the_whole_request_has_no_parts() -> None:
    accepted = {"error": 0, **topics(a=0)}
    for refused in (
        {"error": error_codes.INVALID_REQUEST, "topics": []},
        {"error": error_codes.INVALID_REQUEST, **topics(a=error_codes.INVALID_REQUEST)},
    ):
        assert found("delete_topics", accepted, refused) == [
            "head refuses what base accepts: delete_topics (INVALID_REQUEST)"
        ]


def test_part_without_an_error_has_that_of_the_whole_request() -> None:
    failed = {"topic": "t", "partition": 0, "error": error_codes.PREFERRED_LEADER_NOT_AVAILABLE}
    all_elected, not_elected = ({"error": 0, "partitions": one} for one in ([], [failed]))
    assert found("elect_leaders", not_elected, all_elected) == [
        "head accepts what base refuses: elect_leaders t-0 (PREFERRED_LEADER_NOT_AVAILABLE)"
    ]
    assert found("elect_leaders", all_elected, not_elected) == [
        "head refuses what base accepts: elect_leaders t-0 (PREFERRED_LEADER_NOT_AVAILABLE)"
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"user": "a"},
        {"name": "a"},
        {"name": None, "topic_id": "a"},
    ],
)
def test_user_or_topic_is_named(part: dict[str, Any]) -> None:
    refused, accepted = (
        {"results": [{**part, "error": error}]} for error in (error_codes.INVALID_REQUEST, 0)
    )
    assert found("api", refused, accepted) == [
        "head accepts what base refuses: api a (INVALID_REQUEST)"
    ]


def test_part_without_a_name_has_that_of_the_part_around_it() -> None:
    refused, accepted = (
        {"topics": [{"name": "a", "partitions": [{"partition": 0, "error": error}]}]}
        for error in (error_codes.INVALID_REQUEST, 0)
    )
    assert found("api", refused, accepted) == [
        "head accepts what base refuses: api a (INVALID_REQUEST)"
    ]


def test_write_of_an_error_is_no_answer() -> None:
    assert list(verdicts(decision({"error": 0}), decision({"error": EXISTS}))) == []


def test_request_that_times_out_is_not_refused() -> None:
    in_time, late = topics(a=0), topics(a=error_codes.REQUEST_TIMED_OUT)
    assert found("delete_topics", in_time, late) == [
        "head does not complete what base does: delete_topics a (REQUEST_TIMED_OUT)"
    ]
    assert found("delete_topics", late, in_time) == [
        "head completes what base does not: delete_topics a (REQUEST_TIMED_OUT)"
    ]


@pytest.mark.parametrize(
    ("base", "head"),
    [
        (topics(a=0), topics(a=0)),
        (topics(a=EXISTS), topics(a=error_codes.INVALID_CONFIG)),
        (topics(a=0), topics(b=EXISTS)),
        (topics(a=EXISTS), topics(b=0)),
    ],
)
def test_answers_with_equal_acceptance_have_no_sentence(
    base: dict[str, Any], head: dict[str, Any]
) -> None:
    assert found("create_topics", base, head) == []
