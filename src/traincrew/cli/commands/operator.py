"""`traincrew operator`: our operator, for any Kubernetes cluster."""

from __future__ import annotations

# Over 400 lines: the options of one command, which are most of it.
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from traincrew.cli import options
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.options import Duration
from traincrew.operator.options import WORKERS
from traincrew.plan.shared.schedulers import MODES

if TYPE_CHECKING:
    import asyncio

    from traincrew.operator.options import ProgressOptions
    from traincrew.plan.shared.schedulers import Mode
    from traincrew.plan.shared.templates.accelerators import Accelerators

# Flags of the operators this one replaces and of the log library they use (glog), which are written
# with one dash or two: those with a value, and switches.
_VALUES = re.compile(
    r"--?(kubeconfig|master|v|vmodule|stderrthreshold|log_dir|log_backtrace_at"
    r"|controller_config_file|gc-interval|chaos-level)(?:=(.*))?",
    re.DOTALL,
)
_SWITCHES = re.compile(r"--?(logtostderr|alsologtostderr|version)(?:=(.*))?")
_IGNORED = {"vmodule", "log_dir", "log_backtrace_at"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}
_THRESHOLDS = {"info": "info", "0": "info", "warning": "warning", "1": "warning",
               "error": "error", "2": "error", "fatal": "critical", "3": "critical"}  # fmt: skip
WITHOUT_EFFECT = {
    "--gc-interval": (
        "objects of jobs have owner references, so the API server deletes them with their job;"
        " `traincrew orphans` finds what an older mxnet-operator left behind"
    ),
    "--chaos-level": "mxnet-operator never implemented it either",
}
"""Flags that are accepted for the sake of old Deployments, and why they have no effect."""


def from_go_flags(args: list[str]) -> list[str]:
    """Rewrite the flags of the Go operators this one replaces, so old Deployments keep working.

    ``-kubeconfig F``, ``-kubeconfig=F`` and ``-v 4`` become ours; flags that only apply to Go's
    logging are dropped. Everything else is passed on unchanged.

    Raises:
        click.UsageError: A flag has no value, or one that is not a number where it must be.
    """
    rewritten: list[str] = []
    rest = iter(args)
    for argument in rest:
        if argument == "--":
            return [*rewritten, argument, *rest]
        if switch := _SWITCHES.fullmatch(argument):
            if switch[1] == "version" and switch[2] not in _FALSE:
                rewritten.append("--version")
            continue
        match = _VALUES.fullmatch(argument)
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
        rewritten += _ours(name, value)
    return rewritten


def _ours(name: str, value: str) -> list[str]:
    """Return our options for a Go flag with a value."""
    if name == "v":
        try:
            return ["--verbose"] if int(value) > 4 else []
        except ValueError:
            raise click.UsageError(f"-v={value}: write a number, such as -v=1") from None
    if name == "stderrthreshold":
        return [f"--log-level={_THRESHOLDS.get(value.lower(), value)}"]
    return [] if name in _IGNORED else [f"--{name}={value}"]


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
@click.option("--master", metavar="URL", help="API server address; overrides the kubeconfig.")
@click.option("--namespace", metavar="NAME", help="Serve jobs of one namespace only.")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Use leader election.",
)
@click.option("--lease-namespace", metavar="NAME", help="Where the Lease is.")
@click.option(
    "--leader-elect-lease-duration",
    type=Duration(),
    default="5s",
    show_default=True,
    help="Time without a renewal after which another operator takes over.",
)
@click.option(
    "--leader-elect-renew-deadline",
    type=Duration(),
    default="4s",
    show_default=True,
    help="Time without a renewal after which the leader gives up; less than the duration.",
)
@click.option(
    "--leader-elect-retry-period",
    type=Duration(),
    default="1s",
    show_default=True,
    help="Time between renewals; less than the renew deadline.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=WORKERS, show_default=True,
              help="Jobs reconciled at the same time.")  # fmt: skip
@click.option(
    "--helper-image", metavar="IMAGE", help="Image of the init containers of distributed jobs."
)
@click.option("--git-image", metavar="IMAGE", help="Image of the init containers that fetch code.")
@options.controller_config_file
@click.option(
    "--gang-scheduling",
    type=click.Choice(MODES),
    default="auto",
    show_default=True,
    help="Scheduler that places the pods of a job together; auto takes one that the cluster has.",
)
@click.option(
    "--kinds",
    metavar="NAMES",
    multiple=True,
    help="Serve kinds of other projects, too, where their own operator does not run.",
)
@click.option("--metrics-address", metavar="HOST:PORT", help="Serve /metrics, /healthz, /readyz.")
@click.option(
    "--metrics-secure-address",
    metavar="HOST:PORT",
    help="Serve /metrics over HTTPS at this address, to clients authorized to GET it.",
)
@click.option("--health-port", type=click.IntRange(1, 65535), metavar="PORT",
              help="The same on every address: --metrics-address=:PORT.")  # fmt: skip
@click.option(
    "--progress-address",
    metavar="ADDRESS:PORT",
    help="Let training programs report their progress here, by HTTPS.",
)
@click.option(
    "--progress-service",
    metavar="NAME",
    help="Service in the operator's namespace by which pods reach that address.",
)
@click.option(
    "--progress-metrics",
    metavar="NAMES",
    help="Show these metrics of the reports at /metrics, too, such as loss,accuracy.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"]),
    default="info",
    show_default=True,
)
@click.option("--gc-interval", metavar="DURATION", hidden=True)
@click.option("--chaos-level", metavar="N", hidden=True)
@click.version_option(package_name="traincrew", message="traincrew operator %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Log everything: --log-level=debug.")
def operator_command(  # noqa: PLR0917 - click passes by name
    kubeconfig: str | None,
    context: str | None,
    master: str | None,
    namespace: str | None,
    leader_elect: bool,
    lease_namespace: str | None,
    leader_elect_lease_duration: float,
    leader_elect_renew_deadline: float,
    leader_elect_retry_period: float,
    workers: int,
    helper_image: str | None,
    git_image: str | None,
    controller_config_file: Path | None,
    gang_scheduling: Mode,
    kinds: tuple[str, ...],
    gc_interval: str | None,
    chaos_level: str | None,
    metrics_address: str | None,
    metrics_secure_address: str | None,
    health_port: int | None,
    progress_address: str | None,
    progress_service: str | None,
    progress_metrics: str | None,
    log_format: Literal["text", "json"],
    log_level: str,
    verbose: bool,
) -> None:
    """Run the operator until SIGTERM or Ctrl-C.

    The flags of the operators it replaces are accepted too, so old Deployments keep working:
    -kubeconfig, -master, -v 4, -stderrthreshold INFO, -logtostderr and the like; so are the
    variables MY_POD_NAMESPACE (where the Lease is) and MY_POD_NAME (who holds it).
    """
    # Over 60 lines: its parameters are the options of the command.
    import asyncio

    from traincrew.engine.config import load_config
    from traincrew.engine.errors import ApiError, ConfigError
    from traincrew.engine.observability import configure_logging
    from traincrew.operator.options import GIT_IMAGE, HELPER_IMAGE, OperatorOptions, identity

    times = (
        leader_elect_lease_duration,
        leader_elect_renew_deadline,
        leader_elect_retry_period,
    )
    if sorted(times, reverse=True) != list(times) or len(set(times)) < 3 or times[0] < 1:
        raise BadInput(
            "--leader-elect-lease-duration must be at least 1s and longer than "
            "--leader-elect-renew-deadline, and that longer than --leader-elect-retry-period; "
            "these are {:g}s, {:g}s and {:g}s; client-go's are 15s, 10s and 2s".format(*times)
        )
    configure_logging(log_format, "debug" if verbose else log_level)
    if health_port is not None:
        metrics_address = metrics_address or f":{health_port}"
    accelerators = _accelerators(controller_config_file)
    _explain({"--gc-interval": gc_interval, "--chaos-level": chaos_level})
    try:
        config = load_config(kubeconfig or _named_by_environment(), context)
    except ConfigError as error:
        raise BadInput(str(error)) from error
    if master:
        config.server = master.rstrip("/")
    chosen = OperatorOptions(
        namespace=namespace,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace or os.environ.get("MY_POD_NAMESPACE") or None,
        lease_duration=leader_elect_lease_duration,
        renew_deadline=leader_elect_renew_deadline,
        retry_period=leader_elect_retry_period,
        gang_scheduling=gang_scheduling,
        kinds=_kinds(kinds),
        workers=workers,
        identity=identity(os.environ.get("MY_POD_NAME")),
        accelerators=accelerators,
        metrics_address=metrics_address,
        metrics_secure_address=metrics_secure_address,
        progress=_progress(
            progress_address, progress_service, progress_metrics, namespace=config.namespace
        ),
        helper_image=helper_image or HELPER_IMAGE,
        git_image=git_image or GIT_IMAGE,
    )

    async def serve() -> None:
        from traincrew.engine.limits import raise_file_limit
        from traincrew.operator.app import run_operator

        raise_file_limit()

        await run_operator(config, chosen, _stop_signal())

    try:
        asyncio.run(serve())
    except ApiError as error:
        raise CommandFailed(f"{config.server}: {error.message}") from error


def _progress(
    address: str | None, service: str | None, metrics: str | None, *, namespace: str
) -> ProgressOptions | None:
    """Return where programs report their progress; None for nowhere.

    Raises:
        BadInput: An option cannot be used, or not without another one.
    """
    from ipaddress import ip_address

    from traincrew.operator.app import listen_address
    from traincrew.operator.options import ProgressOptions

    if address is None:
        if service or metrics:
            raise BadInput("--progress-service and --progress-metrics need --progress-address")
        return None
    try:
        host, port = listen_address(address)
        own = ip_address(host)
    except ValueError as error:
        raise BadInput(
            f"--progress-address {address}: write ADDRESS:PORT, with an IP address of this machine"
        ) from error
    if own.is_unspecified or not port:
        raise BadInput(
            f"--progress-address {address}: pods connect to it, so it needs the address of this"
            " machine or pod, such as $(POD_IP), and a port"
        )
    secret = {"secret": f"{service}-ca"} if service else {}
    return ProgressOptions(
        host=host,
        port=port,
        namespace=namespace,
        service=service or "",
        metrics=tuple(filter(None, (metrics or "").replace(" ", "").split(","))),
        **secret,
    )


def _kinds(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds of other projects that are named, each once.

    Raises:
        BadInput: There is no such kind.
    """
    from traincrew.operator.kinds import OF_OTHERS

    named = dict.fromkeys(name.strip() for text in texts for name in text.split(","))
    named.pop("", None)
    if unknown := [name for name in named if name not in OF_OTHERS]:
        raise BadInput(
            f"--kinds {','.join(unknown)}: write some of {', '.join(OF_OTHERS)};"
            " all other kinds of this operator are always served"
        )
    return tuple(named)


def _named_by_environment() -> str | None:
    """Return the kubeconfig that mxnet-operator's README names, unless ``KUBECONFIG`` is set.

    Raises:
        BadInput: There is no such file.
    """
    named = os.environ.get("USE_KUBE_CONFIG")
    if not named or os.environ.get("KUBECONFIG"):
        return None
    if not Path(named).expanduser().is_file():
        raise BadInput(
            f"USE_KUBE_CONFIG={named}: no such file; set it to the path of a kubeconfig, or unset"
            " it to use the service account of the pod or ~/.kube/config"
        )
    return named


def _accelerators(path: Path | None) -> Accelerators:
    """Read the configuration of accelerators, once, as mxnet-operator does.

    Raises:
        BadInput: The file cannot be used.
    """
    from traincrew.engine.observability import get_logger

    found = options.read_accelerators(path)
    if path is not None:
        names = [name for name, _ in found.by_resource]
        get_logger().info("accelerators are configured", file=str(path), resources=names)
    return found


def _explain(flags: dict[str, str | None]) -> None:
    """Log which of the given flags have no effect, and why."""
    from traincrew.engine.observability import get_logger

    for flag, value in flags.items():
        if value is not None:
            reason = WITHOUT_EFFECT[flag]
            get_logger().info("a flag has no effect", flag=f"{flag}={value}", reason=reason)


def _stop_signal() -> asyncio.Event:
    """Return an event that is set by SIGTERM and SIGINT."""
    import asyncio
    import signal

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
