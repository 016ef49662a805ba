"""A comparison does not call a consequence none if it depends on the reaction of brokers."""

import json
from pathlib import Path

import pytest

from replay.diff.comparing import Comparison
from replay.diff.reports import sentences
from replay.diff.reports.as_json import as_json
from replay.diff.reports.github import github
from replay.diff.reports.junit import junit
from replay.diff.reports.markdown import markdown
from replay.diff.reports.text import text
from tests.replay.diff import versions
from tests.replay.diff.test_comparing import diff
from tests.replay.diff.versions import CRASH, INCIDENTS, Edit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

NOT_SIMULATED = "brokers' reaction not simulated: "


def outcomes(found: Comparison) -> list[str]:
    assert not found.errors
    every = [one for group in found.groups for one in group.instances]
    return [line for one in every for line in sentences.outcome(one)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("edit", "kinds"),
    [
        (versions.NO_METADATA_TO_STARTED, "update_metadata"),
        pytest.param(versions.NEVER_NEW, "leader_and_isr", marks=pytest.mark.long),
        pytest.param(
            versions.EPOCH_NOT_RAISED,
            "answer_alter_partition, leader_and_isr, set, update_metadata",
            marks=pytest.mark.long,
        ),
        (versions.DEAD_IN_ISR, "answer_alter_partition, leader_and_isr, set, update_metadata"),
    ],
)
def test_reaction_of_brokers_is_not_simulated(tmp_path: Path, edit: Edit, kinds: str) -> None:
    found = diff(tmp_path, (edit,), CRASH)
    assert {*outcomes(found)} == {NOT_SIMULATED + kinds}
    for report in (text(found), github(found, found.groups), junit(found, found.groups, [])):
        assert NOT_SIMULATED + kinds in report.replace("&apos;", "'")
    assert NOT_SIMULATED in markdown(found)
    [shown, *_] = [one["instances"][0] for one in json.loads(as_json(found, []))["groups"]]
    assert shown["not_simulated"] == kinds.split(", ")
    assert shown["consequences"] == []


@pytest.mark.long
def test_reordered_requests_to_a_broker_are_not_simulated(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.METADATA_FIRST,), INCIDENTS / "unclean-election")
    [group] = [one for one in found.groups if "by request" in sentences.title(one)]
    assert sentences.outcome(group.first) == [NOT_SIMULATED + "leader_and_isr"]
    harmless = [one.first for one in found.groups if one.is_harmless]
    assert not any(map(sentences.outcome, harmless))


@pytest.mark.long
def test_refused_request_and_the_topic_that_remains_are_consequences(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.REFUSES_DELETION,), INCIDENTS / "topics")
    texts = outcomes(found)
    verdict = "head refuses what base accepts: delete_topics (INVALID_REQUEST)"
    assert verdict in texts
    assert "clients' reaction not simulated: answer_delete_topics" in texts
    assert "second-0, second-1, second-2, second-3: topic not deleted with head" in texts
    assert not any(one.endswith("instead of ") or "offline" in one for one in texts)
    instances = [
        one for group in json.loads(as_json(found, []))["groups"] for one in group["instances"]
    ]
    assert [one["verdicts"] for one in instances if one["verdicts"]] == [[verdict]]


@pytest.mark.long
def test_deletion_that_times_out_is_a_consequence(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.DELETES_NOTHING,), INCIDENTS / "topics")
    assert sentences.outcome(found.groups[0].first) == [
        "head does not complete what base does: delete_topics second (REQUEST_TIMED_OUT)",
        "second-0, second-1, second-2, second-3: topic not deleted with head",
    ]
