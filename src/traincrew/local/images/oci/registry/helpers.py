"""Programs that keep credentials: ``docker-credential-*``.

Protocol: https://github.com/docker/docker-credential-helpers. ``get`` reads the server from
standard input and prints JSON.
"""

from __future__ import annotations

import re
import shutil

from msgspec import Struct

from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.engine.programs import Answer, OutputTooLongError, ask_program
from traincrew.local.images.oci.registry.credentials import Credential

__all__ = ["HUB_SERVER", "HelperError", "ask"]

HUB_SERVER = "https://index.docker.io/v1/"
"""Docker's name of Docker Hub for these programs."""

TIMEOUT = 30.0
"""Seconds for one answer: the program may ask a service."""
_MAX_OUTPUT = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NOT_FOUND = "credentials not found"
_TOKEN_USER = "<token>"  # noqa: S105 - a mark of the protocol


class HelperError(ValueError):
    """The program cannot be asked; the message has nothing of what it printed."""


class _Answer(Struct, rename="pascal"):
    username: str = ""
    secret: str = ""


async def ask(
    program: str, server: str, where: str, *, limit: float | None = None
) -> Credential | None:
    """Return what a program keeps of a server; None if that is nothing.

    Args:
        program: The end of its name: ``pass`` for ``docker-credential-pass``.
        server: Of the registry.
        where: File and field that name it, for messages.
        limit: Seconds; `TIMEOUT` by default.

    Raises:
        HelperError: It is missing, failed, was too slow, or printed something else.
    """
    field = where.rpartition(": ")[2]
    if not _NAME.fullmatch(program):
        raise HelperError(f"{field}: is not the end of a program's name, such as pass or ecr-login")
    name = f"docker-credential-{program}"
    path = shutil.which(name)
    if path is None:
        raise HelperError(f"{field}: the program {name} is not in PATH; install it")
    output, code = await _run(path, server, f"{field}: {name}", limit or TIMEOUT)
    if code:
        if _NOT_FOUND in output.decode(errors="replace").lower():
            return None
        raise HelperError(
            f"{field}: {name} failed with exit code {code}; try: echo {server} | {name} get"
        )
    try:
        answer = decode_json(output, type=_Answer)
    except UndecodableError:
        raise HelperError(f"{field}: {name} did not print the JSON that it should") from None
    if not answer.secret:
        return None
    if answer.username == _TOKEN_USER:
        return Credential(identity_token=answer.secret, origin=where)
    return Credential(user=answer.username, password=answer.secret, origin=where)


async def _run(path: str, server: str, what: str, limit: float) -> Answer:
    try:
        data = f"{server}\n".encode()
        return await ask_program((path, "get"), seconds=limit, max_output=_MAX_OUTPUT, data=data)
    except TimeoutError:
        raise HelperError(f"{what} did not answer within {limit:g} s") from None
    except OutputTooLongError:
        raise HelperError(f"{what} printed more than {_MAX_OUTPUT >> 10} KiB") from None
    except OSError as error:
        raise HelperError(f"{what} cannot be started: {error.strerror}") from error
