#!/bin/sh
# finish.sh VENV
# Leaves out of a virtual environment what training never reads, and compiles the rest.
set -eu

venv=$1
packages=$(echo "$venv"/lib/python3*/site-packages)
find "$packages" -depth -type d \( -name tests -o -name __pycache__ \) -exec rm -rf {} +
find "$packages" -name '*.pyx' -delete
rm -rf "$packages/mxnet/include"
# Users need not be able to write, so what is not compiled now would be compiled at every start.
# Nothing is compared with its source, whose time would have to survive being copied.
"$venv/bin/python3" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages"
