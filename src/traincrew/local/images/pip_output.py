"""Reading pip's output: what a person wants to see of it, and why it failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_LINE = 400

_ADVICE = (
    (
        (
            r"Temporary failure in name resolution|Failed to establish a new connection|"
            r"Network is unreachable|nodename nor servname|ConnectTimeoutError|ProxyError"
        ),
        (
            "The package index cannot be reached: check the network and pip's settings "
            '("pip config list"), or map the image to an interpreter that already has the '
            "packages (python: current)"
        ),
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED",
        'Check the certificates pip trusts ("pip config get global.cert")',
    ),
    (r"No space left on device", "Free some disk space, or move the cache (TRAINCREW_CACHE)"),
    (
        r"ResolutionImpossible|conflicting dependencies",
        "Change the requirements of the environment so that they fit together",
    ),
    (
        r"No matching distribution found|Could not find a version",
        "Correct this requirement of the environment, or its python version",
    ),
    (
        r"No module named '(setuptools|pkg_resources|wheel|numpy)",
        "A package needs this to be built: name it under buildRequirements",
    ),
    (
        r"(gcc|cc|clang)['\"]? failed|command '(gcc|cc|clang)'|Python\.h: No such file",
        (
            "A package must be compiled: install a C compiler and Python's headers, or choose a "
            "version that has a wheel for this Python"
        ),
    ),
)


def progress_phase(line: str) -> str | None:
    """Translate a line of pip's output into progress a person wants to see, or None."""
    text = line.strip()
    if match := re.match(r"Downloading (\S+?) \(([^)]+)\)", text):
        return f"downloading {_short(match[1])} ({match[2]})"
    if match := re.match(r"Using cached (\S+?)(?: \(([^)]+)\))?$", text):
        return f"using downloaded {_short(match[1])}"
    if match := re.match(r"Building wheel for (\S+) .*: started", text):
        return f"building {match[1]}"
    if match := re.match(r"Installing collected packages: (.+)", text):
        return f"unpacking {match[1].count(',') + 1} packages"
    if match := re.match(r"WARNING: Retrying \(.*\) after connection broken by '([^(']+)", text):
        return f"pip cannot reach the package index and tries again ({match[1]})"
    return None


def _short(file: str) -> str:
    """``numpy-1.23.5-cp311-….whl`` -> ``numpy 1.23.5``."""
    name = file.rsplit("/", 1)[-1]
    match = re.match(r"(.+?)-(\d[^-]*?)(?:-.*\.whl|\.tar\.gz|\.zip|-py.*)$", name)
    return f"{match[1]} {match[2]}" if match else name


def failure_reason(lines: Iterable[str]) -> str:
    """Return the lines that say what went wrong, joined into one."""
    # The list of all versions there are would push out what matters.
    lines = [re.sub(r" \(from versions: [^)]*\)", "", line) for line in lines]
    errors = [line for line in lines if line.startswith(("ERROR:", "error:", "Error:"))]
    # When building a package failed, pip's last words only frame the package's own error.
    raised = [line for line in lines if re.match(r"([\w.]+\.)?\w*(Error|Exception): ", line)]
    raised = [line for line in raised if line not in errors]
    chosen = list(dict.fromkeys([*raised[-1:], *errors[-2:]])) or lines[-2:]
    return " | ".join(line[:_LONGEST_LINE] for line in chosen) or "it gave no reason"


def advice(lines: Iterable[str]) -> str:
    """Return what to do about it as a sentence to append, or nothing."""
    text = "\n".join(lines)
    for pattern, sentence in _ADVICE:
        if re.search(pattern, text):
            return f". {sentence}"
    return ""
