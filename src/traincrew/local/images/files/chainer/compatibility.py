"""Lets Chainer 7.8.1 run on NumPy 2, the only NumPy there is for Python 3.12 and newer.

Chainer reads names that NumPy 1.24 and 2.0 removed, and programs written for it do, too. Each gets
the meaning it had. They are added when `chainer` is imported and not before, so that programs
without Chainer see NumPy as it is.
"""

import importlib.util
import sys
import types

# https://numpy.org/doc/stable/release/1.24.0-notes.html: aliases of the built-in types.
BUILTINS = {"bool": bool, "int": int, "float": float, "complex": complex, "object": object}
# https://numpy.org/doc/stable/numpy_2_0_migration_guide.html
RENAMED = {
    "float_": "float64",
    "complex_": "complex128",
    "unicode_": "str_",
    "string_": "bytes_",
    "Inf": "inf",
    "infty": "inf",
    "NaN": "nan",
    "product": "prod",
    "cumproduct": "cumprod",
    "alltrue": "all",
    "sometrue": "any",
    "round_": "round",
}
KINDS = {
    "int": ("int8", "int16", "int32", "int64"),
    "uint": ("uint8", "uint16", "uint32", "uint64"),
    "float": ("float16", "float32", "float64", "longdouble"),
    "complex": ("complex64", "complex128", "clongdouble"),
}


def restore():
    """Add the names to NumPy that it lacks."""
    import numpy as np

    if importlib.util.find_spec("numpy.distutils") is None:
        # Chainer asks it on macOS whether NumPy uses Accelerate. An empty answer is "no".
        module = types.ModuleType("numpy.distutils.system_info")
        module.get_info = lambda _: {}
        np.distutils = types.ModuleType("numpy.distutils")
        np.distutils.system_info = module
        sys.modules["numpy.distutils"] = np.distutils
        sys.modules["numpy.distutils.system_info"] = module
    known = vars(np)
    for name, value in BUILTINS.items():
        # NumPy 2 has `bool` again, as its own type; an array of either has the same type.
        known.setdefault(name, value)
    for name, now in RENAMED.items():
        known.setdefault(name, known[now])
    if "sctypes" not in known:
        known["sctypes"] = {
            kind: [known[name] for name in names] for kind, names in KINDS.items()
        } | {"others": [bool, object, bytes, str, known["void"]]}


class Finder:
    """Notices the first import of Chainer, and finds nothing itself."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # noqa: ARG003
        """Prepare NumPy if `name` is Chainer."""
        if name in {"chainer", "chainermn"}:
            sys.meta_path.remove(cls)
            restore()


sys.meta_path.insert(0, Finder)
