"""`traincrew verify`: check an installation with a small job; `helm test` runs it."""

from __future__ import annotations

import click

from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.options import Duration


@click.command("verify")
@click.option("--kubeconfig", metavar="FILE",
              help="Which cluster.  [default: KUBECONFIG, in-cluster, ~/.kube/config]")  # fmt: skip
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option(
    "-n", "--namespace", metavar="NAME", help="Where to run it.  [default: the context's]"
)
@click.option("--image", metavar="IMAGE",
              help="Image of its pods, with a shell.  [default: the helper image]")  # fmt: skip
@click.option("--timeout", type=Duration(), default="3m", show_default=True,
              help="Time for the job to succeed, and again for its deletion.")  # fmt: skip
def verify_command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    image: str | None,
    timeout: float,
) -> None:
    """Run a small MxJob on a cluster, wait for its success, and delete it.

    Its four pods check the variables that the operator gives them. Exit code 0 if everything
    worked, 1 with the reason if not.
    """
    import asyncio
    import signal

    from traincrew.engine.client import Client
    from traincrew.engine.config import load_config
    from traincrew.engine.errors import ConfigError
    from traincrew.operator.options import HELPER_IMAGE
    from traincrew.predecessors.verification import VerificationError, verify

    try:
        config = load_config(kubeconfig, context)
    except ConfigError as error:
        raise BadInput(plain(str(error))) from error

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        # The job is deleted on the way out, also when a deadline of Helm ends the pod.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with Client(config, user_agent="traincrew-verify") as client:
            await verify(
                client,
                namespace or config.namespace,
                image or HELPER_IMAGE,
                timeout,
                lambda line: click.echo(plain(line)),
            )

    try:
        asyncio.run(run())
    except VerificationError as error:
        raise CommandFailed(plain(f"{config.server}: {error}")) from error
    except asyncio.CancelledError as error:
        raise CommandFailed("ended by SIGTERM before the job had ended") from error
    click.echo("the operator works")
