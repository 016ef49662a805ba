"""Paths relative to a root znode."""

import pytest

from replay.znode_tree.paths import below


@pytest.mark.parametrize(
    ("path", "root", "known"),
    [
        ("/kafka/brokers/ids", "/kafka", "/brokers/ids"),
        ("/prod/k1/controller", "/prod/k1", "/controller"),
        ("/kafka", "/kafka", "/"),
        ("/kafka2/brokers/ids", "/kafka", None),
        ("/kafka2", "/kafka", None),
        ("/brokers/ids", "/kafka", None),
        ("/", "/kafka", None),
        ("", "/kafka", None),
        ("/brokers/ids", "", "/brokers/ids"),
        ("/", "", "/"),
        ("", "", None),
    ],
)
def test_path_is_relative_to_its_root(path: str, root: str, known: str | None) -> None:
    assert below(path, root) == known
