"""Bills of materials: what an image consists of, as CycloneDX documents.

https://cyclonedx.org/docs/1.6/json/. They name the Debian packages, the Python packages and the Go
modules in an image, and the image itself by its ID, so that a signed document also vouches for an
image in a registry.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tempfile
import uuid
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from hack.images.archive import Archive
from hack.images.errors import ImageError
from packageurl import PackageURL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# For serial numbers.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://traincrew.dev/images")


def path(archive: Path) -> Path:
    """Return where the document of an image is."""
    return archive.with_suffix(".cdx.json")


def is_current(archive: Path) -> bool:
    """Return whether the document of an image is there, and this program would write it so."""
    if not path(archive).exists():
        return False
    written = json.loads(path(archive).read_text())
    return bool(written["serialNumber"] == _serial_number(Archive(archive)).urn)


def write(archive: Path, suite: str, programs: Iterable[str] = ()) -> Path:
    """Write the document of an image beside it.

    Args:
        archive: File returned by `build`.
        suite: The release of Debian that it is based on.
        programs: Programs in /usr/local/bin that were built from Go modules.

    Raises:
        ImageError: What is in the image cannot be told.
    """
    text = document(Archive(archive), suite, programs)
    target = path(archive)
    temporary = target.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(target)
    return target


def document(archive: Archive, suite: str, programs: Iterable[str] = ()) -> str:
    """Return the document of an image; arguments and errors are those of `write`."""
    name, _, version = archive.names[0].rpartition(":")
    components = [
        *_debian(archive, suite),
        *(
            _component(PackageURL("pypi", name=each.lower(), version=its), each)
            for each, its in archive.python_packages().items()
        ),
        *(module for program in programs for module in _modules(archive, program)),
    ]
    image = Component(
        type=ComponentType.CONTAINER,
        name=name,
        version=version,
        bom_ref=archive.identity,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=archive.identity.split(":")[1])],
    )
    created = datetime.fromisoformat(archive.document["created"][:19] + "+00:00")
    bom = Bom(
        serial_number=_serial_number(archive),
        metadata=BomMetaData(component=image, timestamp=created),
        components=components,
    )
    bom.register_dependency(image, components)
    text = str(JsonV1Dot6(bom).output_as_string(indent=1)) + "\n"
    # Importing it builds parsers of a dozen formats, which takes longer than all the rest.
    from cyclonedx.validation.json import JsonStrictValidator

    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ImageError(f"{archive.path.name}: its bill of materials is not CycloneDX: {error}")
    return text


def _serial_number(archive: Archive) -> uuid.UUID:
    """Return the number of a document: the same for the same image and program."""
    program = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return uuid.uuid5(_NAMESPACE, f"{archive.identity} {program}")


def _debian(archive: Archive, suite: str) -> Iterator[Component]:
    machine = str(archive.document["architecture"])
    for name, version in archive.packages().items():
        qualifiers = {"arch": machine, "distro": suite}
        yield _component(PackageURL("deb", "debian", name, version, qualifiers), name)


def _modules(archive: Archive, program: str) -> Iterator[Component]:
    """Yield the modules that the compiler has recorded in a program, which Go reads."""
    if (go := shutil.which("go")) is None:
        raise ImageError(f"{program}: Go is needed to read its modules, and is not installed")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, program)
        file.write_bytes(archive.content(f"/usr/local/bin/{program}"))
        done = subprocess.run(
            [go, "version", "-m", file], capture_output=True, text=True, check=False
        )
    lines = [line.split() for line in done.stdout.splitlines()]
    if lines:  # FILE: go1.26.0
        release = lines[0][-1].removeprefix("go")
        yield _component(PackageURL("golang", None, "stdlib", release), "stdlib")
    # A replaced module is followed by the one in its place.
    replaced = {index for index, words in enumerate(lines[1:]) if words[:1] == ["=>"]}
    found = 0
    for index, words in enumerate(lines):
        if words[:1] in (["mod"], ["dep"], ["=>"]) and index not in replaced:
            name, version, *checksum = words[1:]
            namespace, _, last = name.rpartition("/")
            found += 1
            yield _component(PackageURL("golang", namespace, last, version), name, checksum)
    if not found:
        raise ImageError(f"{program}: names no Go modules: {done.stderr.strip()}")


def _component(url: PackageURL, name: str, checksum: Iterable[str] = ()) -> Component:
    """Return a component; a checksum is one of go.sum, of a module's files."""
    hashes = [
        HashType(
            alg=HashAlgorithm.SHA_256,
            content=base64.b64decode(each.removeprefix("h1:")).hex(),
        )
        for each in checksum
    ]
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=url.version,
        purl=url,
        bom_ref=url.to_string(),
        hashes=hashes,
    )
