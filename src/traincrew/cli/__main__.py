"""`python -m traincrew.cli`: the same as `traincrew`."""

from traincrew.cli.main import main

main()
