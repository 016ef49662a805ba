"""The option that writes the screens again."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-screens", action="store_true", help="write tests/replay/cli/debug/screens again"
    )
