"""The subject of a znode, from its path."""

import re

import pytest

from controller.core.commands import ReadZnodes
from replay.subjects import (
    PATTERNS,
    ZnodeSubject,
    subject_in_any_chroot,
    subject_of,
    subjects_of_command,
)


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("/brokers/ids/7", ZnodeSubject("broker", 7)),
        ("/config/brokers/7", ZnodeSubject("broker config", 7)),
        ("/brokers/topics/t", ZnodeSubject("topic", topic="t")),
        ("/config/topics/t", ZnodeSubject("topic config", topic="t")),
        ("/admin/delete_topics/t", ZnodeSubject("topic deletion", topic="t")),
        ("/brokers/topics/t/partitions", ZnodeSubject("partitions", topic="t")),
        ("/brokers/topics/t/partitions/3", ZnodeSubject("partition", topic="t", partition=3)),
        ("/brokers/topics/t/partitions/3/state", ZnodeSubject("state", topic="t", partition=3)),
        ("/admin/reassignments/t/3", ZnodeSubject("reassignment", topic="t", partition=3)),
        ("/admin/reassign_partitions", ZnodeSubject("entries")),
        ("/admin/reassign_partitions_extra", ZnodeSubject("extra entries")),
        ("/admin/reassignment_requests", ZnodeSubject("requests")),
        ("/admin/reassignment_requests/request_0000000007", ZnodeSubject("requests")),
        ("/admin/reassign_cancel", ZnodeSubject("cancellation")),
    ],
)
def test_path_of_a_znode_names_its_subject(path: str, subject: ZnodeSubject) -> None:
    assert subject_of(path) == subject
    assert subject_in_any_chroot(f"/kafka/one{path}") == subject


PATHS_OUTSIDE_OF_KAFKAS_TREE = [
    "/controller",
    "/brokers/ids",
    "/brokers/ids/seven",
    "/brokers/ids/7/more",
    "/config/brokers/<default>",
    "/brokers/topics",
    "/brokers/topics/t/partitions/three/state",
    "/admin/reassignments/t",
    "/kafka/brokers/topics/t",
]


@pytest.mark.parametrize("path", PATHS_OUTSIDE_OF_KAFKAS_TREE)
def test_paths_outside_of_kafkas_tree_name_no_subject(path: str) -> None:
    assert subject_of(path) == ZnodeSubject()


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/ids/7",
        "/brokers/topics/t",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/3",
        "/brokers/topics/t/partitions/3/state",
        "/admin/delete_topics/t",
        "/admin/reassignments/t/3",
        "/admin/reassign_partitions",
        "/admin/reassign_partitions_extra",
        "/admin/reassignment_requests",
        "/admin/reassignment_requests/request_0000000007",
        "/admin/reassign_cancel",
        *PATHS_OUTSIDE_OF_KAFKAS_TREE,
    ],
)
def test_patterns_for_sql_name_the_same_subject(path: str) -> None:
    found = subject_in_any_chroot(path)
    for kind, pattern in PATTERNS.items():
        match = re.search(pattern, path)
        assert (match is not None) == (kind == found.kind)
        if match:
            values = (found.broker, found.topic, found.partition)
            assert match.groups() == tuple(str(one) for one in values if one is not None)


def test_command_is_about_the_topics_and_partitions_of_its_znodes() -> None:
    paths = ("/brokers/topics/t/partitions/3/state", "/brokers/ids/7", "/controller")
    assert list(subjects_of_command(ReadZnodes(paths, False))) == ["t", "t-3", "broker 7"]
