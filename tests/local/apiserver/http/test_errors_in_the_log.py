"""A client that finds a bug cannot fill the disk with it."""

import logging
import time
from typing import Any

import pytest

from local.apiserver.support import Api
from traincrew.engine.serving import serverlog


async def test_internal_errors_are_logged_at_a_limited_rate(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 50_000.0 + time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)

    async def fail(*_: Any, **__: Any) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(api.server._dispatcher, "respond", fail)

    def errors() -> list[logging.LogRecord]:
        return [each for each in caplog.records if each.levelno == logging.ERROR]

    for _ in range(serverlog.LINES + 20):
        answer = await api.get("/api/v1/pods")
        assert answer.code == 500
        assert "LookupError: a bug" in str(answer.body)
    assert len(errors()) == serverlog.LINES
    assert all(each.exc_info for each in errors())
    now += serverlog.SECONDS
    await api.get("/api/v1/pods")
    assert errors()[-1].getMessage() == "GET /api/v1/pods (lines left out: 20)"
