"""Print one request of a seed as it is sent: ``python -m suites.fuzz SEED NUMBER``."""

import sys

from .requests import Requests

if __name__ == "__main__":
    seed, number = map(int, sys.argv[1:])
    sys.stdout.buffer.write(Requests(seed).make(number).encoded("TOKEN"))
