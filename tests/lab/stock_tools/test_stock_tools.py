"""Kafka's tools have the same output and the same effect with refold as with a stock controller."""

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
async def test_common_tools_work_as_with_a_stock_controller(tmp_path: Path) -> None:
    stock, refold = await compared(tmp_path, VERSIONS["3.9.1-at-3.9"], SHORT)
    assert not unexplained(stock, refold), unexplained(stock, refold)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", VERSIONS)
async def test_whole_script_works_as_with_a_stock_controller(tmp_path: Path, name: str) -> None:
    stock, refold = await compared(tmp_path, VERSIONS[name], SCRIPT)
    assert not unexplained(stock, refold), unexplained(stock, refold)
    assert shown(cells(stock, refold)) == cells_of(PAGE.read_text(), name), (
        "write docs/stock-tools.md again: python -m tests.lab.stock_tools.comparison"
    )
