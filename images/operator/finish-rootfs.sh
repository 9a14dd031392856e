#!/bin/sh
# finish-rootfs.sh VENV ROOTFS
# Puts the virtual environment VENV into ROOTFS and compiles all Python of it.
set -eu

venv=$1
rootfs=$2

rm -rf "$venv/include" "$venv/lib64" "$venv"/bin/activate* "$venv"/bin/Activate*
find "$venv" "$rootfs/usr/lib/python3.11" -depth -type d \
  \( -name __pycache__ -o -name tests -o -name test \) -exec rm -rf {} +
install --directory "$rootfs$(dirname "$venv")" "$rootfs/usr/bin"
cp -a "$venv" "$rootfs$venv"
ln -sf python3.11 "$rootfs/usr/bin/python3"

# The root file system is read-only when the image runs, so nothing is compiled then. Compiled files
# that are not checked against their source save a stat for each module, too.
python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$rootfs" -p / \
  "$rootfs/usr/lib/python3.11" "$rootfs$venv/lib"

install --directory --mode 1777 "$rootfs/tmp"
install --directory "$rootfs/proc" "$rootfs/sys" "$rootfs/dev" "$rootfs/run"

# Every library that something in the image wants is there, or the build ends here.
loader=$(cd "$rootfs" && ls lib*/ld-linux*.so.*)
find "$rootfs" -name '*.so*' -type f -o -name 'python3.11' -type f | while read -r file; do
  chroot "$rootfs" "/$loader" --list "${file#"$rootfs"}" 2>&1 |
    sed -n "s|.*not found.*|${file#"$rootfs"}: &|p"
done > /tmp/missing-libraries
if [ -s /tmp/missing-libraries ]; then
  cat /tmp/missing-libraries >&2
  exit 1
fi
chroot "$rootfs" "$venv/bin/traincrew" --version
