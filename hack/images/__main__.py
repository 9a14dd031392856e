"""``python -m hack.images``: build the project's container images."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
from hack.images import ImageError, build, builder, catalog, lock, machine, materials, signing


@click.group()
def main() -> None:
    """Container images of the project, as files for `docker load` and `ctr images import`."""


@main.command(name="build")
@click.argument("wanted", metavar="[NAME]...", nargs=-1)
def build_command(wanted: tuple[str, ...]) -> None:
    """Build images (all by default) and print where they are, one path a line.

    Each has its bill of materials beside it, and signatures if TRAINCREW_SIGNING_KEY names a key.
    """
    try:
        secret = signing.key()
        built = []
        for name in wanted or catalog.names():
            built.append(build(name))
            click.echo(built[-1])
        if secret:
            signing.sign(built, secret)
        else:
            click.echo(signing.UNSIGNED, err=True)
    except ImageError as error:
        raise click.ClickException(str(error)) from None


@main.command(name="verify")
@click.option("--key", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument(
    "archives",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
def verify_command(key: Path, archives: tuple[Path, ...]) -> None:
    """Check the signatures of images and of their bills of materials.

    --key has the public key.
    """
    try:
        for archive in archives:
            signing.verify(archive, key)
            click.echo(f"{archive}: signed, and described by {materials.path(archive).name}")
    except ImageError as error:
        raise click.ClickException(str(error)) from None


@main.command(name="list")
def list_command() -> None:
    """Show the images, and which of them are built."""
    for name in catalog.names():
        path = builder.archive(name)
        state = f"{path.stat().st_size / 1e6:.0f} MB" if path.exists() else "not built"
        click.echo(f"{name:<10} {catalog.image(name).tagged:<40} {state}")


@main.command(name="lock")
def lock_command() -> None:
    """Build all images and write the versions of their Debian packages to the lock file."""
    try:
        lock.write(
            [
                (catalog.suite(catalog.image(name)), build(name, locked=False))
                for name in catalog.names()
            ]
        )
    except ImageError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"wrote {lock.FILE.relative_to(catalog.REPOSITORY)}")


@main.command()
def missing() -> None:
    """Report what is missing on this machine to build images; exit code 1 if anything is."""
    lacking = machine.missing()
    for line in lacking:
        click.echo(line)
    raise SystemExit(1 if lacking else 0)


@main.command()
def clean() -> None:
    """Remove all images and the build caches."""
    directory = machine.cache_directory()
    if directory.exists():
        shutil.rmtree(directory)
        click.echo(f"removed {directory}")


if __name__ == "__main__":
    main()
