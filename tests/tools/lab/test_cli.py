"""The lab's command line, without servers."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools.lab.cli import app


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--kafka", "the lab has no Kafka 9.9; use one of 3.9.1, 3.3.2, 2.8.2"),
        ("--zookeeper", "the lab has no ZooKeeper 9.9; use one of 3.9.5, 3.5.9"),
    ],
)
def test_unknown_version_is_rejected_before_the_folder_is_created(
    tmp_path: Path, option: str, message: str
) -> None:
    folder = tmp_path / "lab"
    result = CliRunner().invoke(app, ["up", option, "9.9", "--dir", str(folder)])
    assert result.exit_code == 1
    assert message in result.output
    assert not folder.exists()
