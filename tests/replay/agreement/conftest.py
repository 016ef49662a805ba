"""The recordings with which agreement is tested."""

import pytest

NAMES = ("broker-crash-2", "chaos-5", "reassign-cancel-6", "topics-1")


@pytest.fixture(params=NAMES)
def recording(request: pytest.FixtureRequest) -> str:
    """The name of each recording."""
    name: str = request.param
    return name
