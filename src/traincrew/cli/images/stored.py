"""Container images that are stored on this machine, as the commands show and find them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.cli.display.rows import aligned
from traincrew.cli.display.text import byte_size, plain
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.local.images.reference import familiar

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.images.manifest import Damage
    from traincrew.local.images.oci.model import StoredImage
    from traincrew.local.images.oci.store import ContainerImages

__all__ = [
    "described",
    "existing",
    "find",
    "prune",
    "remove",
    "short_id",
    "table",
    "verify",
]

_ID_DIGITS = 12
_ID = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})")


def short_id(image: StoredImage) -> str:
    """Return the first digits of an image's ID."""
    return image.id.removeprefix("sha256:")[:_ID_DIGITS]


def table(images: list[StoredImage]) -> str:
    """Return a table of images; empty if there are none."""
    if not images:
        return ""
    rows = [("IMAGE", "ID", "SIZE", "STORED")]
    for image in images:
        rows.extend(
            (plain(familiar(name)), short_id(image), byte_size(image.size), image.created)
            for name in image.names or ("<none>",)
        )
    return "\n".join(aligned(rows))


def find(store: ContainerImages, name: str) -> StoredImage | None:
    """Return an image by a name, or by six or more digits of its ID; None if there is none.

    Raises:
        BadInput: Several images have IDs that begin like this.
    """
    from traincrew.local.images.errors import ImagePullError
    from traincrew.local.images.reference import parse_reference

    try:
        found = store.find(str(parse_reference(name)))
    except ImagePullError:
        found = None
    digits = _ID.fullmatch(name)
    if found is not None or digits is None:
        return found
    fitting = [image for image in store.images() if image.id.startswith(f"sha256:{digits[1]}")]
    if len(fitting) > 1:
        raise BadInput(f'the IDs of {len(fitting)} images begin with "{name}": write more of it')
    return fitting[0] if fitting else None


def existing(store: ContainerImages, name: str) -> StoredImage:
    """Return an image as `find` does.

    Raises:
        BadInput: There is none.
    """
    found = find(store, name)
    if found is None:
        known = sorted(familiar(one) for image in store.images() for one in image.names)
        there = f"there are: {', '.join(known[:20])}" if known else "none is stored"
        raise BadInput(f'there is no container image "{name}"; {plain(there)}')
    return found


def described(image: StoredImage) -> str:
    """Return what is known of an image, as JSON."""
    config = image.config
    document: dict[str, Any] = {
        "id": image.id,
        "digest": image.digest,
        "names": image.names,
        "size": image.size,
        "stored": image.created,
        "platform": f"{config.operating_system}/{config.architecture}",
        "config": {
            "entrypoint": config.entrypoint,
            "arguments": config.arguments,
            "variables": config.variables,
            "workingDirectory": config.working_directory,
            "user": config.user,
            "volumes": config.volumes,
            "stopSignal": config.stop_signal,
            "labels": config.labels,
        },
        "diffIDs": config.diff_ids,
        "layers": [str(path) for path in image.layers],
        "leftOut": image.left_out,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def remove(store: ContainerImages, name: str) -> str:
    """Remove an image by a name or its ID; return what was done.

    One of several names is taken away; the image goes with the last one.

    Raises:
        BadInput: There is none.
        CommandFailed: A container uses it, or it cannot be removed.
    """
    from traincrew.local.images.errors import ImagePullError
    from traincrew.local.images.oci.removal import ImageInUseError
    from traincrew.local.images.reference import parse_reference

    image = existing(store, name)
    try:
        try:
            full = str(parse_reference(name))
        except ImagePullError:
            full = ""
        if full in image.names and len(image.names) > 1:
            store.untag(full)
            left = ", ".join(familiar(one) for one in image.names if one != full)
            return f"{name}: removed the name; the image is still {plain(left)}"
        store.remove(image)
    except ImageInUseError as error:
        raise CommandFailed(f"{error}: delete its pods first") from error
    except OSError as error:
        raise CommandFailed(f"{name}: {error}") from error
    return f"{name}: removed image {short_id(image)} ({byte_size(image.size)})"


def prune(store: ContainerImages, say: Callable[[str], None]) -> bool:
    """Remove images without a name, and layers that no image has; return whether there were any.

    Raises:
        CommandFailed: They cannot be removed.
    """
    from traincrew.local.images.oci.removal import ImageInUseError

    anything = False
    try:
        for image in store.images():
            if not image.names:
                try:
                    store.remove(image)
                except ImageInUseError:
                    say(f"image {short_id(image)} is in use by a container, and stays")
                    continue
                say(f"removed image {short_id(image)} ({byte_size(image.size)}), which has no name")
                anything = True
        layers = store.prune()
    except OSError as error:
        raise CommandFailed(str(error)) from error
    if layers:
        say(f"removed {len(layers)} layer{'s' if len(layers) > 1 else ''} of no image")
    return anything or bool(layers)


def verify(
    store: ContainerImages,
    images: list[StoredImage],
    *,
    pull: Callable[[str], None] | None,
    show: Callable[[list[Damage]], None],
    say: Callable[[str], None],
) -> int:
    """Compare every file of images with what was unpacked; return how many are damaged and stay so.

    Args:
        store: that has them.
        images: to compare.
        pull: fetches an image anew, to repair it; None to leave it damaged.
        show: is given the differences of an image.
        say: is given lines for users.
    """
    from traincrew.local.images.errors import ImagePullError
    from traincrew.local.images.oci.removal import ImageInUseError

    failed = 0
    for image in images:
        name = plain(familiar(image.names[0])) if image.names else short_id(image)
        try:
            damage = store.verify(image)
            if not damage:
                say(f"{name}: unchanged since it was unpacked")
                continue
            say(f"{name}: damaged ({image.id})")
            show(damage)
            if pull is not None:
                store.discard_damaged(image)
                if image.digest and image.names:
                    pull(image.names[0])
                else:
                    say(f"{name}: removed what is damaged; import the image again")
                continue
        except ImageInUseError as error:
            say(f"{name}: {error}: delete its pods first")
        except ImagePullError as error:
            say(error.message)
        except OSError as error:
            say(f"{name}: {error}")
        failed += 1
    return failed
