"""uv's terminal output is parsed into lines and progress of downloads."""

from traincrew.local.images.installation.uv_output import Screen

PAD = " " * 60


class Clock:
    """A clock that a test advances."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def bars(*rows: str) -> str:
    """Return the output of one update of some progress bars."""
    up = f"\x1b[{len(rows)}A"
    return f"{up}\r\x1b[2K⠋ Preparing packages... (0/3){PAD}" + "".join(r + PAD for r in rows)


def test_only_final_text_becomes_lines() -> None:
    lines: list[str] = []
    screen = Screen(lines.append)
    screen.feed("Using Python 3.11.2\r\n⠋ Resolving dependencies...   \r\x1b[2K⠙ Resolving")
    screen.feed("\r\x1b[2KResolved 2 packages in 5ms\r")
    screen.feed("\n\x1b[1m + six==1.17.0\x1b[0m\r\nlast")
    screen.close()
    expected = ["Using Python 3.11.2", "Resolved 2 packages in 5ms", " + six==1.17.0", "last"]
    assert lines == expected


def test_an_error_after_progress_that_is_not_erased() -> None:
    lines: list[str] = []
    screen = Screen(lines.append)
    screen.feed(
        f"\r\x1b[2K⠙ Resolving dependencies...{PAD}error: Failed to fetch: x\r\n  cause: y\r\n"
    )
    assert lines == ["error: Failed to fetch: x", "  cause: y"]


def test_bytes_and_rate() -> None:
    clock = Clock()
    screen = Screen(lambda _: None, clock)
    assert screen.progress() == ""
    clock.now += 1
    screen.feed(
        bars(
            "numpy   -------------- 5.00 MiB/16.00 MiB", "scipy   ------------- 512.00 KiB/1.00 GiB"
        )
    )
    assert screen.progress() == "6 of 1091 MB, 5.8 MB/s: downloading scipy and 1 more"
    clock.now += 1
    screen.feed(
        bars("numpy   -------------- 16.00 MiB/16.00 MiB", "scipy   ---------- 20.00 MiB/1.00 GiB")
    )
    assert screen.progress() == "38 of 1091 MB, 32.0 MB/s: downloading scipy"
    # numpy is drawn no more: it is complete.
    clock.now += 1
    screen.feed(bars("scipy   ---------- 30.00 MiB/1.00 GiB"))
    assert screen.progress().startswith("48 of 1091 MB, ")


def test_an_interpreter() -> None:
    screen = Screen(lambda _: None, Clock())
    screen.feed("cpython-3.14.0-linux-x86_64-gnu (download) ------------ 10.00 MiB/32.00 MiB")
    assert screen.progress().startswith("10 of 34 MB, ")


def test_unpacking_and_building() -> None:
    screen = Screen(lambda _: None, Clock())
    screen.feed("\r\x1b[2K█████████░░░░░░ [7/8] scipy==1.15.3     ")
    assert screen.progress() == "unpacking 7 of 8 packages"
    screen.feed("\r\x1b[2K⠋ Preparing packages... (0/1)\n   Building chainer==7.8.1     ")
    assert screen.progress() == "building chainer 7.8.1"


def test_memory_for_progress_is_bounded() -> None:
    lines: list[str] = []
    screen = Screen(lines.append)
    for _ in range(1000):
        screen.feed("\r\x1b[2K⠋ Resolving dependencies..." + " " * 400)
    screen.feed("\r\x1b[2KResolved 1 package\r\n")
    assert lines == ["Resolved 1 package"]
