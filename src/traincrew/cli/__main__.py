"""The program `traincrew`, and `python -m traincrew.cli`."""

from traincrew.cli.starting import end_silently

end_silently()  # before the imports, which take most of the time until a command begins

from traincrew.cli.main import main as run  # noqa: E402


def main() -> None:
    """Run the program."""
    try:
        run()
    finally:
        end_silently()


if __name__ == "__main__":
    main()
