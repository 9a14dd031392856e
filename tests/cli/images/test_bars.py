"""What a pull shows: rows on a terminal, lines in a file."""

from traincrew.cli.display.rows import drawn
from traincrew.cli.images.bars import Bars, lines
from traincrew.local.images.oci.registry import Progress, Transfer

MB = 1_000_000


def layer(name: str, phase: str, done: int, total: int = 50 * MB) -> Transfer:
    return Transfer(f"sha256:{name * 64}", phase, done, total)  # type: ignore[arg-type]


def test_the_image_comes_first_then_the_layers_that_move() -> None:
    layers = (
        layer("a", "done", 50 * MB),
        layer("b", "unpacking", 10 * MB),
        layer("c", "fetching", 25 * MB),
        layer("d", "waiting", 0),
    )
    bars = Bars("me/train:7")
    bars.rows(Progress((layer("a", "waiting", 0),)), 0.0)
    rows = [drawn(row, 120, plain=True) for row in bars.rows(Progress(layers), 2.0)]
    assert rows == [
        "############--------   62%  me/train:7  125 MB of 200 MB  62.5 MB/s  1 of 4 layers",
        "####----------------   20%  bbbbbbbbbbbb  unpacking  50.0 MB",
        "##########----------   50%  cccccccccccc  fetching  50.0 MB",
    ]


def test_nothing_to_fetch_is_all() -> None:
    row = Bars("me/train:7").rows(Progress(()), 0.0)[0]
    assert row.done == 1.0


def test_lines_say_the_size_and_each_layer() -> None:
    waiting, ready = layer("a", "waiting", 0), layer("a", "done", 50 * MB)
    assert lines(Progress((waiting,))) == ["1 layer, 50.0 MB"]
    assert lines(Progress((waiting,), layer("a", "fetching", 7))) == []
    assert lines(Progress((ready, waiting), ready)) == [
        "layer aaaaaaaaaaaa is ready (50.0 MB), 1 of 2"
    ]
