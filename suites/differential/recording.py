"""``python -m suites.differential.recording``: write down what a kube-apiserver answers.

The cases are in `tests/local/apiserver/recorded`; a new one is written there without its answer.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from hack.cluster import binaries

from local.apiserver import recordings
from local.apiserver.recordings import Document, Reply, Send

from .reference import reference_server
from .servers import Server, serve_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def sender(server: Server) -> Send:
    """Return what sends the requests of cases to a server."""

    async def send(method: str, path: str, body: Document | None, accept: str) -> Reply:
        data = None if body is None else json.dumps(body).encode()
        answer = await server.send(method, path, data, "application/json", accept=accept)
        return Reply(answer.code, json.loads(answer.text), list(answer.warnings))

    return send


async def answers(send: Send, recording: Document) -> AsyncIterator[tuple[Document, Document]]:
    """Yield each case with what a server answers."""
    for case in recording["cases"]:
        yield case, await recordings.ask(send, case)


async def _record(kubeconfig: Path) -> None:
    async with serve_pair(kubeconfig) as pair:
        send = sender(pair.real)
        await recordings.prepare(send)
        for file in recordings.files():
            recording = recordings.read(file)
            changed = False
            async for case, answer in answers(send, recording):
                changed |= case.get("answer") != answer
                case["answer"] = answer
            if changed:
                recording["kubernetes"] = binaries.version("kubernetes")
                recording["recorded"] = datetime.now(UTC).date().isoformat()
                recordings.write(file, recording)
                click.echo(file.stem)


@click.command()
def main() -> None:
    """Ask a kube-apiserver all cases, and write its answers into the files of recordings."""
    with (
        tempfile.TemporaryDirectory(prefix="traincrew-recording-") as directory,
        reference_server(Path(directory)) as kubeconfig,
    ):
        asyncio.run(_record(kubeconfig))


if __name__ == "__main__":
    main()
