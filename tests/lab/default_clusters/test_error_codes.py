"""refold answers as a stock controller does, and as docs/endpoint-responses.md says."""

import asyncio
from pathlib import Path

import pytest

from tests.lab.default_clusters.comparison import (
    PAGE,
    Answers,
    answers_of_refold,
    answers_of_stock,
    report,
    table,
    unexplained,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return asyncio.run(answers_of_stock(tmp_path_factory.mktemp("stock")))


@pytest.mark.ci
async def test_refold_answers_as_a_stock_controller_does(stock: Answers, tmp_path: Path) -> None:
    refold = await answers_of_refold(tmp_path, "kafka")
    found = unexplained(stock, refold, "kafka")
    assert not found, report(found)


@pytest.mark.ci
async def test_page_lists_the_answers_that_deviations_change(
    stock: Answers, tmp_path: Path
) -> None:
    refold = await answers_of_refold(tmp_path, "refold")
    found = unexplained(stock, refold, "refold")
    assert not found, report(found)
    assert table(stock, refold) in PAGE.read_text(), (
        "write docs/endpoint-responses.md again: python -m tests.lab.default_clusters.comparison"
    )
