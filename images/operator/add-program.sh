#!/bin/sh
# add-program.sh SOURCE VENV ROOTFS TARGET
# Installs the project in SOURCE into the virtual environment VENV, puts what that added into TARGET,
# and makes sure that the program starts in the image, which is ROOTFS with TARGET.
set -eu

source=$1
venv=$2
rootfs=$3
target=$4
pip=/build/tools/bin/pip

cd "$source"
"$pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir /build/wheels .
"$pip" --python "$venv/bin/python" install --quiet --no-compile --no-deps --no-index \
  /build/wheels/*.whl
packages=$(echo "$venv"/lib/python3*/site-packages)
# It says where on the building machine the wheel was.
rm "$packages"/traincrew-*.dist-info/direct_url.json
python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages/traincrew"

mkdir "$target"
cd /
for path in "$venv/bin/traincrew" "$packages/traincrew" "$packages"/traincrew-*.dist-info; do
  cp -a --parents "${path#/}" "$target"
done
# Where the image of mxnet-operator has its program, which Deployments name as their command.
install -D --mode 755 /build/mx_operator "$target/opt/mlkube/mx_operator"
cp -a "$target/." "$rootfs"
chroot "$rootfs" "$venv/bin/traincrew" --version
chroot "$rootfs" /opt/mlkube/mx_operator --version
