"""What refold answers is what a stock controller answers, and the page says the same."""

from pathlib import Path

import pytest

from tests.default_clusters.comparison import (
    PAGE,
    answers_of_refold,
    answers_of_stock,
    differences,
    report,
    table,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]


@pytest.mark.ci
async def test_refold_answers_as_a_stock_controller_does(tmp_path: Path) -> None:
    for name in ("stock", "refold"):
        (tmp_path / name).mkdir()
    stock = await answers_of_stock(tmp_path / "stock")
    refold = await answers_of_refold(tmp_path / "refold")
    found = [one for one in differences(stock, refold) if one.deviation is None]
    assert not found, report(found)
    assert table(refold) in PAGE.read_text(), (
        "write docs/endpoint.md anew: python -m tests.default_clusters.comparison"
    )
