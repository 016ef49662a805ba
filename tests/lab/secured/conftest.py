"""A secured cluster with refold as its controller."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.lab.secured.secured_endpoint import SecuredEndpoint, running_endpoint


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[SecuredEndpoint]:
    """The cluster and the daemon, without further settings."""
    async with running_endpoint(tmp_path) as made:
        yield made
