"""Calls of the background loop that are interrupted."""

import asyncio
import os
import signal

import pytest

from traincrew.local.background import BackgroundLoop


def test_an_interrupted_call_cleans_up_before_the_loop_ends() -> None:
    cleaned = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            ended = asyncio.Event()
            asyncio.get_running_loop().call_later(0.1, ended.set)
            await ended.wait()
            cleaned.append("all of it")

    loop = BackgroundLoop("test")
    with pytest.raises(KeyboardInterrupt):
        loop.call(work())
    loop.close()
    assert cleaned == ["all of it"]
