"""Layers with random mistakes: unpacked or refused, and never anything else."""

import contextlib
import os
import random
from pathlib import Path

import variation
from local.images.oci.packing import (
    DIRECTORY,
    END,
    FIFO,
    Layer,
    entry,
    hard_link,
    octal,
    pax,
    records,
    symlink,
    unpacked,
)
from local.images.oci.test_layers import sparse_layer, zstandard
from traincrew.local.directories import remove_tree
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.layers import Limits
from traincrew.local.images.oci.layers.headers import shown
from traincrew.local.images.oci.verification import damage_of

ROUNDS = 100
NAMES = [
    b"a", b"b", b"a/b", b"a/c/d", b"b/a", b"./a", b"/b", b"a/../b", b"../a", b".wh.a", b"a/.wh.b",
    b"a/.wh..wh..opq", b"n" * 120, b"d/" * 60 + b"x", b"\xff", b"",
]  # fmt: skip


def one_entry(chance: random.Random) -> bytes:
    name = chance.choice(NAMES)
    text, target = os.fsdecode(name), os.fsdecode(chance.choice(NAMES))
    match chance.randrange(9):
        case 0:
            return entry(name, b"", DIRECTORY, mode=chance.choice([0, 0o755]))
        case 1:
            return entry(name, b"", FIFO)
        case 2:
            return entry(name, b"", b"3")
        case 3:
            return symlink(text, target)
        case 4:
            return hard_link(text, target)
        case 5:
            return pax({"path": name, "mtime": b"1.5"}) + entry("x", b"1")
        case 6:
            kind = chance.choice(["gnu", "0.1", "1.0"])
            return sparse_layer(kind).archive.removesuffix(END)
        case 7:
            return entry(name, b"", fields={124: octal(chance.choice([1, 512]), 12)})
    return entry(name, chance.randbytes(chance.choice([0, 5, 700])))


def entries(chance: random.Random) -> list[bytes]:
    """Return entries that meet each other: files, links and directories of a few names."""
    return [one_entry(chance) for _ in range(chance.randrange(1, 12))]


def mutated(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([0, 0, 1, 3])):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    if chance.random() < 0.2:
        del changed[chance.randrange(len(changed) + 1) :]
    return bytes(changed)


def test_random_layers(tmp_path: Path) -> None:
    chance = random.Random(variation.NUMBER)
    good = 0
    for number in range(ROUNDS):
        archive = mutated(chance, b"".join(entries(chance)) + END)
        blob = chance.choice([archive, mutated(chance, zstandard(archive)), None])
        layer = Layer(archive, end=b"", blob=blob)
        place = tmp_path / str(number)
        # Any other exception fails the test.
        with contextlib.suppress(ImageContentError):
            found = unpacked(place, layer, limits=Limits(size=64 << 20, directories=200))
            good += 1
            assert [text for text in found.left_out if not text.isprintable()] == []
            assert damage_of(place, place.with_name(f"{number}.records"), "single") == []
            assert records(place)
        remove_tree(place)
    assert good > 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == sorted(
        [".blob", ".records"] * ROUNDS
    )


def test_names_in_messages_do_not_control_terminals() -> None:
    assert shown(b"a\x05\x1b[31m\n\xff caf\xc3\xa9") == "a\\x05\\x1b[31m\\n\\xff café"
    assert shown(b"n" * 100 + b"\n" * 100 + b"m" * 60) == f"{'n' * 100}…{'m' * 60}"
