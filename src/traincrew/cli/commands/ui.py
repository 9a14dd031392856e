"""`traincrew ui`: the page with the jobs of a cluster."""

from __future__ import annotations

import sys

import click

from traincrew.cli.cluster.selection import target_options


@click.command("ui")
@click.argument("job", required=False, metavar="[[KIND/]JOB]")
@target_options
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="All namespaces.  [default, unless -n is given]"
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port.  [default: a free one]"
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in your browser.")
def ui_command(  # noqa: PLR0917 - click passes by name
    job: str | None,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    all_namespaces: bool,
    port: int,
    open_browser: bool,
) -> None:
    """Serve a page with the jobs of a cluster, on this machine only.

    Prints an address that can be opened once, and the next one when it was opened. The page shows
    what you may see: it uses your rights, and changes nothing. Ends with Ctrl-C.

    \b
      traincrew ui                   all jobs of the cluster that kubectl uses
      traincrew ui -n team digits    one job
    """  # noqa: D301 - click's mark for text it must not wrap
    import asyncio

    from traincrew.cli.display.folding import say
    from traincrew.cli.errors import BadInput
    from traincrew.cli.page.serve import serve
    from traincrew.cli.watching.target import choose

    if namespace and all_namespaces:
        raise BadInput("-n and -A exclude each other")
    target = choose(kubeconfig, context)
    if target.doubt:
        say(f"traincrew: {target.name}; {target.doubt}")
    code = asyncio.run(serve(target, job, namespace, port=port, open_browser=open_browser))
    sys.exit(code)
