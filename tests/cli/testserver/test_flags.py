"""Command lines as Go programs read them."""

import pytest

from traincrew.cli.testserver.flags import FlagError, is_true, parse

NAMES = {"data-dir", "secure-port", "cert-dir"}
SWITCHES = {"allow-privileged"}


@pytest.mark.parametrize(
    "words",
    [
        ["--data-dir=/a", "--allow-privileged=true"],
        ["--data-dir", "/a", "--allow-privileged"],
        ["-data-dir", "/a", "-allow-privileged"],  # as fabric8 starts etcd
        ["--allow-privileged", "--data-dir", "/a"],  # the word after a switch is not its value
    ],
)
def test_spellings(words: list[str]) -> None:
    assert parse(words, NAMES, SWITCHES).values == {
        "data-dir": ["/a"],
        "allow-privileged": ["true"],
    }


def test_the_last_of_several_values_counts() -> None:
    flags = parse(["--data-dir=/a", "--data-dir=", "--data-dir=/b=c"], NAMES, SWITCHES)
    assert flags.values["data-dir"] == ["/a", "", "/b=c"]
    assert flags.last("data-dir") == "/b=c"
    assert flags.last("cert-dir", "/here") == "/here"


def test_unknown_flags_are_named_with_their_values() -> None:
    words = ["--new=1", "--bare", "--data-dir", "/a", "--with", "value", "--end"]
    flags = parse(words, NAMES, SWITCHES)
    assert flags.unknown == ["--new=1", "--bare", "--with=value", "--end"]
    assert flags.last("data-dir") == "/a"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data-dir"], "--data-dir: flag needs an argument"),
        (["serve"], "unexpected argument 'serve': only flags are known"),
        (["--"], "unexpected argument '--': only flags are known"),
        (["-"], "unexpected argument '-': only flags are known"),
    ],
)
def test_what_is_no_flag(words: list[str], said: str) -> None:
    with pytest.raises(FlagError) as error:
        parse(words, NAMES, SWITCHES)
    assert str(error.value) == said


def test_a_value_may_look_like_a_flag() -> None:
    assert parse(["--data-dir", "--x"], NAMES, SWITCHES).last("data-dir") == "--x"


def test_switches_mean_what_go_reads() -> None:
    assert is_true("a", "T")
    assert not is_true("a", "0")
    with pytest.raises(FlagError, match="--a: 'yes' is neither true nor false"):
        is_true("a", "yes")
