"""`traincrew operator`: our operator, for any Kubernetes cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import click

from traincrew.cli.main import BadInput, CommandFailed

if TYPE_CHECKING:
    import asyncio

# The flags of upstream's operator and of the log library it uses, written with a single dash.
_GO_FLAGS = re.compile(
    r"--?(kubeconfig|master|v|vmodule|stderrthreshold|log_dir|log_backtrace_at)(?:=(.*))?"
)
_GO_SWITCHES = re.compile(r"--?(logtostderr|alsologtostderr)(?:=(.*))?")
_IGNORED = {"vmodule", "log_dir", "log_backtrace_at"}
_THRESHOLDS = {"info": "info", "0": "info", "warning": "warning", "1": "warning",
               "error": "error", "2": "error", "fatal": "critical", "3": "critical"}  # fmt: skip


def from_go_flags(args: list[str]) -> list[str]:
    """Rewrite the flags of the Go operators this one replaces, so old Deployments keep working.

    ``-kubeconfig F``, ``-kubeconfig=F`` and ``-v 4`` become ours; what only makes sense for Go's
    logging is dropped. Everything else is passed on as it is.
    """
    rewritten: list[str] = []
    rest = iter(args)
    for argument in rest:
        if argument == "--":
            return [*rewritten, argument, *rest]
        if _GO_SWITCHES.fullmatch(argument):
            continue
        match = _GO_FLAGS.fullmatch(argument)
        if match is None:
            rewritten.append(argument)
            continue
        name, value = match[1], match[2]
        if name == "v" and value is None:
            following = next(rest, None)
            if following is not None and following.isdecimal():
                value = following
            else:
                rewritten.append("--verbose")
                if following is not None:
                    rewritten += from_go_flags([following, *rest])
                return rewritten
        if value is None:
            value = next(rest, None)
            if value is None:
                raise click.UsageError(f"{argument} needs a value")
        if name == "v":
            rewritten += ["--verbose"] if int(value or 0) > 4 else []
        elif name == "stderrthreshold":
            rewritten.append(f"--log-level={_THRESHOLDS.get(value.lower(), value)}")
        elif name not in _IGNORED:
            rewritten.append(f"--{name}={value}")
    return rewritten


class _Command(click.Command):
    """Accepts the flags of the operators this one replaces."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, from_go_flags(args))


@click.command("operator", cls=_Command)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Which cluster.  [default: KUBECONFIG, in-cluster, ~/.kube/config]",
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("--master", metavar="URL", help="Address of the API server, over the kubeconfig's.")
@click.option("--namespace", metavar="NAME", help="Serve jobs of one namespace only.")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Take part in the election for a Lease before acting.",
)
@click.option("--lease-namespace", metavar="NAME", help="Where the Lease is.")
@click.option("--workers", type=click.IntRange(1, 64), default=4, show_default=True,
              help="Jobs looked at at the same time.")  # fmt: skip
@click.option(
    "--helper-image", metavar="IMAGE", help="Image of the init steps of distributed jobs."
)
@click.option("--metrics-address", metavar="HOST:PORT", help="Serve /metrics, /healthz, /readyz.")
@click.option("--health-port", type=click.IntRange(1, 65535), metavar="PORT",
              help="The same on every address: --metrics-address=:PORT.")  # fmt: skip
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"]),
    default="info",
    show_default=True,
)
@click.option("-v", "--verbose", is_flag=True, help="Log everything: --log-level=debug.")
def operator_command(  # noqa: PLR0917 - click passes by name
    kubeconfig: str | None,
    context: str | None,
    master: str | None,
    namespace: str | None,
    leader_elect: bool,
    lease_namespace: str | None,
    workers: int,
    helper_image: str | None,
    metrics_address: str | None,
    health_port: int | None,
    log_format: Literal["text", "json"],
    log_level: str,
    verbose: bool,
) -> None:
    """Run the operator until SIGTERM or Ctrl-C.

    The flags of the operators it replaces are understood too, so old Deployments keep working:
    -kubeconfig, -master, -v 4, -stderrthreshold INFO, -logtostderr and the like.
    """
    import asyncio

    from traincrew.engine.config import load_config
    from traincrew.engine.errors import ApiError, ConfigError
    from traincrew.engine.lease import LeadershipLost
    from traincrew.engine.logs import configure_logging
    from traincrew.operator.options import OperatorOptions

    configure_logging(log_format, "debug" if verbose else log_level)
    if health_port is not None:
        metrics_address = metrics_address or f":{health_port}"
    try:
        config = load_config(kubeconfig, context)
    except ConfigError as error:
        raise BadInput(str(error)) from error
    if master:
        config.server = master.rstrip("/")
    options = OperatorOptions(
        namespace=namespace,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        workers=workers,
        metrics_address=metrics_address,
        **({"helper_image": helper_image} if helper_image else {}),
    )

    async def serve() -> None:
        from traincrew.operator.app import run_operator

        await run_operator(config, options, _stop_signal())

    try:
        asyncio.run(serve())
    except LeadershipLost as error:
        raise CommandFailed(f"no longer the leader: {error}") from error
    except ApiError as error:
        raise CommandFailed(f"{config.server}: {error.message}") from error


def _stop_signal() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    import asyncio
    import signal

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
