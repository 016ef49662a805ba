"""The lab's command line, as far as it goes without servers."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools.lab.cli import app


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--kafka", "there is no Kafka 9.9 for the lab; there is 3.9.1, 3.3.2, 2.8.2"),
        ("--zookeeper", "there is no ZooKeeper 9.9 for the lab; there is 3.9.5, 3.5.9"),
    ],
)
def test_an_unknown_version_is_refused_before_anything_is_made(
    tmp_path: Path, option: str, told: str
) -> None:
    folder = tmp_path / "lab"
    result = CliRunner().invoke(app, ["up", option, "9.9", "--dir", str(folder)])
    assert result.exit_code == 1
    assert told in result.output
    assert not folder.exists()
