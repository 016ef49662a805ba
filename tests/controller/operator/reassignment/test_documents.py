from pathlib import Path

import pytest

from controller.operator.reassignment.documents import (
    read_brokers,
    read_targets,
    read_topics,
    write_targets,
)
from controller.operator.reassignment.errors import BadInput


def given(folder: Path, text: str) -> Path:
    file = folder / "moves.json"
    file.write_text(text)
    return file


def entry(topic: str = "t", partition: str = "0", replicas: str = "[1,2]", more: str = "") -> str:
    return f'{{"topic":"{topic}","partition":{partition},"replicas":{replicas}{more}}}'


def document(*entries: str, version: str = "1") -> str:
    return f'{{"version":{version},"partitions":[{",".join(entries)}]}}'


def test_written_document_has_kafkas_format_and_can_be_read(tmp_path: Path) -> None:
    text = write_targets({("t", 10): (3,), ("t", 2): (1, 2)})
    assert text == (
        '{"version":1,"partitions":['
        '{"topic":"t","partition":2,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"t","partition":10,"replicas":[3],"log_dirs":["any"]}]}'
    )
    assert read_targets(given(tmp_path, text)) == {("t", 2): (1, 2), ("t", 10): (3,)}


def test_file_without_version_and_with_unknown_keys_is_read(tmp_path: Path) -> None:
    text = '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"original_replicas":[2]}]}'
    assert read_targets(given(tmp_path, text)) == {("t", 0): (1,)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        (document(entry(replicas='["1"]')), "replicas"),
        (document(entry(partition="-1")), "partition"),
        (document(entry(replicas="[-1]")), "replicas"),
        (document(), "Partition reassignment list cannot be empty"),
        ("{}", "Partition reassignment list cannot be empty"),
        (document(entry(), version="2"), "Not supported version field value 2"),
        (document(entry(replicas="[]")), "Partition replica list cannot be empty: t-0"),
        (document(entry(), entry()), "contains duplicate topic partitions: t-0"),
        (document(entry(replicas="[1,2,1]")), "t-0 contains multiple entries for 1"),
        (document(entry(more=',"log_dirs":["/a","any"]')), "t-0 names log directories"),
        (document(entry(more=',"log_dirs":["any"]')), "2 replicas and 1 log_dirs"),
    ],
)
def test_invalid_document_is_reported_with_its_file(
    tmp_path: Path, text: str, expected: str
) -> None:
    file = given(tmp_path, text)
    with pytest.raises(BadInput, match=str(file)) as fault:
        read_targets(file)
    assert expected in str(fault.value)


def test_all_errors_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    file = given(tmp_path, document(entry(replicas="[]"), entry("u", replicas="[3,3]")))
    with pytest.raises(BadInput) as fault:
        read_targets(file)
    assert len(str(fault.value).splitlines()) == 2


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read_targets(tmp_path / "absent.json")


def test_topics_to_move_are_read(tmp_path: Path) -> None:
    file = given(tmp_path, '{"topics":[{"topic":"a"},{"topic":"b"}],"version":1}')
    assert read_topics(file) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version":1}', "cannot be empty"),
        ('{"topics":[{"topic":"a"},{"topic":"a"}]}', "duplicate entries: a"),
        ('{"topics":["a"]}', "Expected `object`"),
    ],
)
def test_invalid_topics_to_move_are_reported(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        read_topics(given(tmp_path, text))


def test_list_of_brokers_is_read_or_rejected() -> None:
    assert read_brokers("3, 1,2") == [3, 1, 2]
    with pytest.raises(BadInput, match="contains duplicate entries: 1"):
        read_brokers("1,2,1")
    with pytest.raises(BadInput, match="'x' is not a broker id"):
        read_brokers("1,x")
