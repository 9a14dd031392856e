"""`traincrew images`: what image names stand for, environments or container images."""

from __future__ import annotations

import asyncio
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from traincrew.local.images import ImageStore
    from traincrew.local.images.oci.store import ContainerImages

_catalogs = click.option(
    "--images",
    "catalogs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A catalog of your own environments; may be repeated.",
)


def _store(catalogs: tuple[Path, ...]) -> ImageStore:
    from traincrew.local.directories import default_cache
    from traincrew.local.images import CatalogError, ImageStore, user_catalogs

    try:
        return ImageStore(default_cache(), (*catalogs, *user_catalogs()))
    except CatalogError as error:
        raise BadInput(str(error)) from error


def _complete_image(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the image names of the catalogs, except patterns, in the shell."""
    try:
        known = _store(ctx.params.get("catalogs") or ()).environments()
    except BadInput:
        return []
    names = {image for status in known for image in status.images if "*" not in image}
    return sorted(name for name in names if name.startswith(incomplete))


@click.group("images")
def images_command() -> None:
    """List, prepare, verify and remove what images stand for.

    An image name stands for an environment on this machine, which is built when a pod first needs
    it, or now by `pull`; or for a container image, from a registry or imported from an archive.
    """


@images_command.command("list")
@_catalogs
def list_images(catalogs: tuple[Path, ...]) -> None:
    """List the environments, whether they are built, and the container images that are stored."""
    from traincrew.cli.display.folding import columns_of, folded
    from traincrew.cli.display.rows import aligned
    from traincrew.cli.images.stored import table

    store, columns = _store(catalogs), columns_of(sys.stdout)
    rows = [("ENVIRONMENT", "PYTHON", "READY", "IMAGES")]
    for status in store.environments():
        ready = "yes" if status.is_ready else "on demand" if status.path else "missing"
        rows.append((status.name, status.python or "-", ready, ", ".join(status.images) or "-"))
    click.echo("\n".join(folded(line, columns) for line in aligned(rows)))
    if stored := table(store.containers.images()):
        click.echo("\n" + "\n".join(folded(line, columns) for line in stored.split("\n")))
    click.echo(f"\nBuilt environments are in {store.cache}", err=True)


@images_command.command("pull")
@click.argument("image", nargs=-1, required=True, shell_complete=_complete_image)
@click.option(
    "--from",
    "source",
    type=click.Choice(["environment", "registry"]),
    help="Build its environment, or pull the container image.  [default: what pods use]",
)
@_catalogs
def pull_images(image: tuple[str, ...], source: str | None, catalogs: tuple[Path, ...]) -> None:
    """Build the environments of images now, or pull container images.

    An image without an environment is pulled from its registry, with the credentials of Docker and
    podman; so is one that was pulled before, unless a catalog of yours has it.
    """
    from traincrew.cli.images.pulling import pull_container_image
    from traincrew.local.images import ImagePullError, Source
    from traincrew.local.images.sources import Choice

    store = _store(catalogs)
    allowed = {"environment": Source.ENVIRONMENT, "registry": Source.IMAGE, None: Source.AUTO}

    async def pull() -> None:
        for name in image:
            if isinstance(store.look(name, allowed[source]).meaning, Choice):
                await pull_container_image(name, store.containers, either=source is None)
            else:
                await _build(store, name)

    try:
        asyncio.run(pull())
    except ImagePullError as error:
        raise CommandFailed(error.message) from error


async def _build(store: ImageStore, name: str) -> None:
    """Build the environment of an image, and say what is done."""
    from traincrew.local.images import Notice, PullRequest, Source

    present = store.is_present(name, Source.ENVIRONMENT)

    def say(line: str) -> None:
        nonlocal present
        present = present and not isinstance(line, Notice)
        click.echo(f"{name}: {line}", err=True)

    environment = await store.pull(name, say, PullRequest(source=Source.ENVIRONMENT))
    how = "is there already" if present else "is ready"
    click.echo(f"{name}: environment {environment.name!r} {how}")


@images_command.command("map")
@click.argument("image")
@click.option("--python", metavar="VERSION",
              help="Such as 3.11, or current.  [default: that of traincrew]")  # fmt: skip
@click.option(
    "--requirements",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Packages to install, one a line; may be repeated.",
)
def map_images(image: str, python: str | None, files: tuple[Path, ...]) -> None:
    """Define the environment that an image name stands for, for this user.

    IMAGE without a tag stands for all of its tags. Mapping it again replaces the first mapping.

    \b
      traincrew images map me/train:7 --python 3.11 --requirements requirements.txt
    """  # noqa: D301 - click's mark for text it must not wrap
    from traincrew.local.images import CatalogError, ImagePullError
    from traincrew.local.images.catalog import is_path
    from traincrew.local.images.mapping import map_image, read_requirements

    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        requirements = [each for file in files for each in read_requirements(file)]
        version = python or (own if requirements else "current")
        name = map_image(image, version, requirements)
    except CatalogError as error:
        raise BadInput(str(error)) from error
    except ImagePullError as error:
        raise BadInput(error.message) from error
    what = "the Python of traincrew" if version == "current" else f"Python {version}"
    count = len(requirements)
    packages = f" with {count} requirement{'s' if count != 1 else ''}" if count else ""
    quoted = shlex.quote(image)
    click.echo(f"{image}: {what}{packages} (environment {name!r})")
    if version != "current" and not is_path(version):
        click.echo(f"a pod builds it when it first needs it; now: traincrew images pull {quoted}")
    click.echo(f"to remove it: traincrew images unmap {quoted}")


def _complete_mapped(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the images that this user has mapped, in the shell."""
    from traincrew.local.images import CatalogError
    from traincrew.local.images.mapping import mapped_images

    try:
        return sorted(image for image in mapped_images() if image.startswith(incomplete))
    except CatalogError:
        return []


@images_command.command("unmap")
@click.argument("image", shell_complete=_complete_mapped)
def unmap_images(image: str) -> None:
    """Remove what `map` has defined for an image; `prune` removes what was built for it."""
    from traincrew.local.images import CatalogError
    from traincrew.local.images.mapping import mapped_images, unmap_image

    try:
        if not unmap_image(image):
            known = ", ".join(mapped_images())
            there = f"there are: {known}" if known else "there is none"
            raise BadInput(f"there is no mapping of {image!r}; {there}")
    except CatalogError as error:
        raise BadInput(str(error)) from error
    click.echo(f"{image}: not mapped any more")


def _complete_stored(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of container images that are stored, in the shell."""
    from traincrew.local.images.reference import familiar

    names = {familiar(name) for image in _containers().images() for name in image.names}
    return sorted(name for name in names if name.startswith(incomplete))


def _containers() -> ContainerImages:
    from traincrew.local.directories import default_cache
    from traincrew.local.images.oci.store import ContainerImages

    return ContainerImages.of_cache(default_cache())


@images_command.command("import")
@click.argument("archive", default="-", type=click.Path(path_type=str), metavar="[FILE]")
@click.option("--name", "names", multiple=True, metavar="IMAGE",
              help="A further name for the image; may be repeated.")  # fmt: skip
def import_image(archive: str, names: tuple[str, ...]) -> None:
    """Import the container images of an archive, so that pods can run them.

    FILE is what `docker save` or `podman save` writes, or an OCI layout: an archive, compressed by
    gzip or zstd or not, or a directory. Without it, or with -, standard input is read.

    \b
      docker save me/train:7 | traincrew images import
    """  # noqa: D301 - click's mark for text it must not wrap
    from traincrew.cli.display.text import byte_size, plain
    from traincrew.cli.images.importing import import_archive
    from traincrew.cli.images.stored import short_id
    from traincrew.local.images.reference import familiar

    for image in import_archive(_containers(), archive, names):
        shown = ", ".join(plain(familiar(name)) for name in image.names) or short_id(image)
        click.echo(f"{shown}: image {short_id(image)} ({byte_size(image.size)}) is ready")
        for one in image.left_out:
            click.echo(f"{shown}: left out: {one}", err=True)


@images_command.command("inspect")
@click.argument("image", shell_complete=_complete_stored)
def inspect_image(image: str) -> None:
    """Print what is known of a container image that is stored, as JSON."""
    from traincrew.cli.images.stored import described, existing

    click.echo(described(existing(_containers(), image)))


@images_command.command("remove")
@click.argument("image", nargs=-1, required=True, shell_complete=_complete_stored)
def remove_images(image: tuple[str, ...]) -> None:
    """Remove container images, by their names or IDs.

    Layers that other images have stay. An image that a container uses is not removed.
    """
    from traincrew.cli.images.stored import remove

    for name in image:
        click.echo(remove(_containers(), name))


@images_command.command("prune")
@click.option("--all", "everything", is_flag=True, help="Also those that are still in a catalog.")
@_catalogs
def prune_images(everything: bool, catalogs: tuple[Path, ...]) -> None:
    """Remove built environments that no catalog names, and container images without a name."""
    from traincrew.cli.images.stored import prune as prune_stored
    from traincrew.local.images import BuildError

    store = _store(catalogs)
    paths = set(store.unused())
    if everything:
        paths |= {s.path for s in store.environments() if s.path is not None and s.is_ready}

    async def prune() -> None:
        for path in sorted(paths):
            await store.remove(path, lambda line: click.echo(line, err=True))
            click.echo(f"removed {path}")

    try:
        asyncio.run(prune())
    except BuildError as error:
        raise CommandFailed(str(error)) from error
    if not prune_stored(store.containers, click.echo) and not paths:
        click.echo("nothing to remove")


def _complete_name(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of environments in the shell."""
    try:
        known = _store(ctx.params.get("catalogs") or ()).environments()
    except BadInput:
        return []
    return sorted({status.name for status in known if status.name.startswith(incomplete)})


@images_command.command("verify")
@click.argument("name", required=False, shell_complete=_complete_name)
@click.option("--repair", is_flag=True, help="Build or pull anew what is damaged.")
@_catalogs
def verify_images(name: str | None, repair: bool, catalogs: tuple[Path, ...]) -> None:
    """Compare every file of environments and container images, or of one, with what was built.

    Exit code 1 if one is damaged and stays so. Pods that run keep a damaged environment after a
    repair; `prune` removes it. Of a container image, a repair pulls what is damaged.
    """
    from traincrew.cli.images.checking import built, show_damage, verify_stored
    from traincrew.cli.images.stored import find
    from traincrew.local.images import BuildError
    from traincrew.local.images.interpreters import InterpreterNotFoundError

    store = _store(catalogs)
    if name is not None and all(status.name != name for status in store.environments()):
        image = find(store.containers, name)
        if image is not None:
            verify_stored(store, [image], repair=repair)
            return
    failed = 0
    for tree, sharing in built(store, name).items():
        what = ", ".join(status.name for status in sharing)
        try:
            damage = store.verify(tree)
            if not damage:
                click.echo(f"{what}: unchanged since it was built ({tree})")
                continue
            click.echo(f"{what}: damaged ({tree})")
            show_damage(damage)
            if repair:
                say = partial(click.echo, err=True)
                repaired = asyncio.run(store.repair(sharing[0].name, say))
                click.echo(f"{what}: built anew ({repaired})")
                continue
        except (BuildError, InterpreterNotFoundError) as error:
            click.echo(f"{what}: {error}", err=True)
        failed += 1
    if name is None:
        verify_stored(store, store.containers.images(), repair=repair, also=failed)
    if failed and not repair:
        raise CommandFailed(
            f"{failed} environment(s) not as they were built: the next pull builds them anew, and "
            "so does `traincrew images verify --repair`"
        )
    if failed:
        raise CommandFailed(f"{failed} environment(s) could not be repaired")
