from collections.abc import AsyncIterator

import pytest

from local.apiserver.support import Api, running_server


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """A fresh API server in memory and a thin HTTP client for it."""
    async with running_server() as client:
        yield client
