"""What containers make the fork server write does not fill the disk."""

from pathlib import Path

from traincrew.local.node.runtime.forkserver import ForkServer


async def test_a_long_log_is_emptied_while_the_server_runs(tmp_path: Path) -> None:
    server = ForkServer(tmp_path, together=True)
    server.start()
    log = tmp_path / "forkserver.log"
    with log.open("ab") as file:
        file.truncate(2 * 1024 * 1024)
    await server.check(tmp_path)
    assert log.stat().st_size == 0
    server.close()
