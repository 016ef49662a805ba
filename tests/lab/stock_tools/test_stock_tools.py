"""Kafka's own tools say with refold what they say with a stock controller, and leave the same."""

from pathlib import Path

import pytest

from tests.lab.stock_tools.comparison import (
    PAGE,
    VERSIONS,
    cells,
    cells_of,
    compared,
    shown,
    unexplained,
)
from tests.lab.stock_tools.script import SCRIPT, SHORT

pytestmark = pytest.mark.lab


@pytest.mark.ci
@pytest.mark.timeout(300)
async def test_the_tools_of_every_day(tmp_path: Path) -> None:
    stock, refold = await compared(tmp_path, VERSIONS["3.9.1-at-3.9"], SHORT)
    assert not unexplained(stock, refold), unexplained(stock, refold)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", VERSIONS)
async def test_the_whole_script(tmp_path: Path, name: str) -> None:
    stock, refold = await compared(tmp_path, VERSIONS[name], SCRIPT)
    assert not unexplained(stock, refold), unexplained(stock, refold)
    assert shown(cells(stock, refold)) == cells_of(PAGE.read_text(), name), (
        "write docs/stock-tools.md again: python -m tests.lab.stock_tools.comparison"
    )
