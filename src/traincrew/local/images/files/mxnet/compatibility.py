"""Prepares an MXNet 1.9.1 that is about to be imported, and programs written for it.

NumPy has removed names that MXNet reads (`numpy.bool`), and that programs of its time read, too.
They are added when `mxnet` is imported and not before, so that other programs see NumPy as it is.

Processes of a distributed job announce an address to each other, by default that of a network
interface. Here it is the address of the pod, which its host name stands for.
"""

import ctypes
import os
import platform
import socket
import sys

# https://numpy.org/doc/stable/release/1.24.0-notes.html: aliases of the built-in types.
BUILTINS = {"bool": bool, "int": int, "float": float, "complex": complex, "object": object}
# What MXNet's wheel for Linux on x86-64 takes from the machine, and Debian's packages of it.
LIBRARIES = {"libgomp.so.1": "libgomp1", "libquadmath.so.0": "libquadmath0"}


def check():
    """Name the package of a library that this machine lacks."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return
    for library, package in LIBRARIES.items():
        try:
            ctypes.CDLL(library)
        except OSError as error:
            raise ImportError(f"MXNet needs {library}: apt-get install {package}") from error


def restore():
    """Add the names to NumPy that it lacks."""
    import numpy as np

    for name, value in BUILTINS.items():
        vars(np).setdefault(name, value)


def announce():
    """Name the address of this pod, unless the manifest chooses an address or interface."""
    if "DMLC_ROLE" not in os.environ or {"DMLC_NODE_HOST", "DMLC_INTERFACE"} & set(os.environ):
        return
    try:
        os.environ["DMLC_NODE_HOST"] = socket.gethostbyname(socket.gethostname())
    except OSError:
        # The name does not stand for an address: MXNet looks for an interface.
        return


class Finder:
    """Notices the first import of MXNet, and finds nothing itself."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # noqa: ARG003
        """Prepare what MXNet needs."""
        if name == "mxnet":
            sys.meta_path.remove(cls)
            check()
            restore()
            announce()


sys.meta_path.insert(0, Finder)
