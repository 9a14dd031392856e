#!/bin/sh
# add-environment.sh VENV ROOTFS
# Puts the virtual environment VENV into ROOTFS, without what a program never reads, compiles all
# Python there, and makes sure that no library is missing.
set -eu

venv=$1
rootfs=$2

install --directory "$rootfs$venv/bin" "$rootfs$venv/lib"
cp -a "$venv/pyvenv.cfg" "$rootfs$venv/"
cp -a "$venv"/bin/python* "$rootfs$venv/bin/"
cp -a "$venv"/lib/python3* "$rootfs$venv/lib/"
ln -sf python3.11 "$rootfs/usr/bin/python3"
find "$rootfs$venv" "$rootfs/usr/lib/python3.11" -depth -type d \
  \( -name __pycache__ -o -name tests -o -name test \) -exec rm -rf {} +
find "$rootfs$venv" -name '*.so' -exec strip --strip-unneeded {} +

# The root file system is read-only when the image runs, so nothing is compiled then. Nothing is
# compared with its source either, whose time would have to survive being copied.
python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$rootfs" -p / \
  "$rootfs/usr/lib/python3.11" "$rootfs$venv/lib"

install --directory --mode 1777 "$rootfs/tmp"
# Where container runtimes mount things.
install --directory "$rootfs/proc" "$rootfs/sys" "$rootfs/dev" "$rootfs/run"

loader=$(cd "$rootfs" && ls lib*/ld-linux*.so.*)
find "$rootfs" -type f \( -name '*.so*' -o -name python3.11 \) | while read -r file; do
  inside=${file#"$rootfs"}
  chroot "$rootfs" "/$loader" --list "$inside" 2>&1 | sed -n "s|.*not found.*|$inside: &|p"
done > /tmp/missing-libraries
if [ -s /tmp/missing-libraries ]; then
  cat /tmp/missing-libraries >&2
  exit 1
fi
