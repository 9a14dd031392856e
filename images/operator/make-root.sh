#!/bin/sh
# make-root.sh LIST ROOTFS
# Unpacks the Debian packages named in LIST into ROOTFS, and leaves out what a program never reads.
set -eu

list=$1
rootfs=$2
packages=$(sed 's/#.*//' "$list")

work=$(mktemp -d)
cd "$work"
# shellcheck disable=SC2086 # one word for each package
apt-get download $packages
mkdir -p "$rootfs/var/lib/dpkg/status.d"
for archive in *.deb; do
  name=$(dpkg-deb --field "$archive" Package)
  dpkg-deb --extract "$archive" "$rootfs"
  dpkg-deb --field "$archive" > "$rootfs/var/lib/dpkg/status.d/$name"
done
rm -rf "$work"

cd "$rootfs"
find usr/share/doc -type f ! -name copyright -delete
rm -rf usr/share/man usr/share/lintian usr/share/locale usr/share/binfmts usr/share/pixmaps \
  usr/share/applications usr/share/python3 usr/share/ca-certificates usr/sbin \
  usr/lib/*-linux-gnu/gconv usr/lib/*-linux-gnu/audit etc/python3.11 etc/ld.so.conf.d
# Made by the install script of ca-certificates; the link is where OpenSSL looks.
install -D --mode 644 /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ca-certificates.crt
install --directory usr/lib/ssl
ln -s /etc/ssl/certs/ca-certificates.crt usr/lib/ssl/cert.pem
cd usr/lib/python3.11
rm -rf ensurepip idlelib lib2to3 pydoc_data turtledemo tkinter
# Extension modules whose libraries are not part of the image.
for module in lib-dynload/*.so; do
  if ldd "$module" | grep -Eq 'lib(sqlite3|readline|ncursesw|tinfo|db-5|gdbm|nsl|tirpc)'; then
    rm "$module"
  fi
done
