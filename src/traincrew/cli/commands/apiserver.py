"""`traincrew apiserver`: the Kubernetes API alone, for tests of other programs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traincrew.cli.cluster.selection import print_export
from traincrew.cli.display.folding import say
from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from traincrew.local.standalone import StandaloneServer


class User(click.ParamType[tuple[str, tuple[str, ...]]]):
    """A user with groups, written ``NAME`` or ``NAME@GROUP,GROUP``."""

    name = "user"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, tuple[str, ...]]:
        """Split it; the name is that of a file as well."""
        name, _, groups = str(value).partition("@")
        if not name or "/" in name or name.startswith(".") or not name.isprintable():
            self.fail(f"{value!r}: the name cannot be that of a file", param, ctx)
        return name, tuple(each for each in groups.split(",") if each)


@click.command("apiserver")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; a free one if 0.")
@click.option(
    "--data-directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep objects, port and credentials there; else everything ends with the command.",
)
@click.option("--controllers", is_flag=True, help="Run Kubernetes' controllers, too; no pods run.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the administrator's kubeconfig there as well.",
)
@click.option(
    "--user",
    "users",
    type=User(),
    multiple=True,
    metavar="NAME[@GROUP,...]",
    help="Write a kubeconfig with a client certificate of this user, too (repeatable).",
)
@click.option(
    "--client-ca-file",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="CAs of your own client certificates (PEM): CN is the user, O the groups.",
)
def apiserver_command(  # noqa: PLR0917 - click passes by name
    port: int,
    data_directory: Path | None,
    controllers: bool,
    kubeconfig: Path | None,
    users: tuple[tuple[str, tuple[str, ...]], ...],
    client_ca_file: Path | None,
) -> None:
    """Serve the Kubernetes API until Ctrl-C, for tests: no nodes, no pods.

    Prints one line for your shell when it is ready, with the path of the administrator's
    kubeconfig. Roles decide what other users may do; /healthz, /readyz, /livez and /version need no
    credentials. Members of system:masters may do anything.
    """
    # Over 60 lines: its parameters are the options of the command.
    if users and client_ca_file is not None:
        raise BadInput("--user needs the CA of this server; leave --client-ca-file out")
    import ssl

    from traincrew.cli.testserver.programs import until_asked_to_end
    from traincrew.engine.limits import raise_file_limit
    from traincrew.local.apiserver.http.kubeconfig import write_kubeconfig
    from traincrew.local.apiserver.http.listening import PortInUseError
    from traincrew.local.apiserver.storage import StorageError
    from traincrew.local.standalone import StandaloneOptions, StandaloneServer
    from traincrew.local.statelock import StateInUseError

    def write(server: StandaloneServer) -> Path:
        """Write the kubeconfigs; return the path of the administrator's."""
        for name, groups in users:
            try:
                document = server.kubeconfig_of(name, groups)
            except ValueError as error:
                raise BadInput(f"--user: {error}") from error
            path = server.directory / f"{name}.kubeconfig"
            write_kubeconfig(path, document)
            say(f"user {name}: {path}")
        if kubeconfig is None:
            return Path(server.kubeconfig_path)
        write_kubeconfig(kubeconfig.absolute(), server.server.kubeconfig())
        return kubeconfig.absolute()

    async def serve() -> None:
        options = StandaloneOptions(
            directory=directory,
            port=port,
            controllers=controllers,
            client_authority=client_ca_file,
        )
        async with StandaloneServer(options) as server:
            target = write(server)
            say(f"the API is served at {server.server.url}; Ctrl-C ends it")
            print_export(target)
            ended = asyncio.create_task(until_asked_to_end())
            serving = asyncio.create_task(server.run())
            done, waiting = await asyncio.wait(
                {ended, serving}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in waiting:
                task.cancel()
            await asyncio.gather(*done)

    directory = data_directory.absolute() if data_directory is not None else None
    raise_file_limit()
    try:
        asyncio.run(serve())
    except (PortInUseError, StateInUseError, StorageError) as error:
        raise CommandFailed(str(error)) from error
    except ssl.SSLError as error:
        raise BadInput(f"--client-ca-file: {client_ca_file} has no certificate (PEM)") from error
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        raise CommandFailed(f"cannot serve: {what}{error.strerror or error}") from error
