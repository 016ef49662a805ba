"""The option that writes the golden transcripts again."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-broker-transcripts",
        action="store_true",
        help="write tests/transcripts/kafka_0_8/*.txt again",
    )
