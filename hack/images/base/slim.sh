#!/bin/sh
# slim.sh ROOT
# Removes from a fresh Debian what dpkg.conf would not have unpacked, and what the installation left.
set -eu
cd "$1"
find usr/share/doc ! -type d ! -name copyright -delete
find usr/share/doc -mindepth 1 -type d -empty -delete
rm -rf usr/share/man/* usr/share/info/* usr/share/groff/* usr/share/lintian/* usr/share/linda/* \
  usr/share/locale/* var/cache/apt/* var/cache/debconf/*-old var/cache/ldconfig/* \
  var/lib/apt/lists/* var/lib/dpkg/*-old var/log/* \
  etc/apt/sources.list etc/apt/sources.list.d/* etc/apt/apt.conf.d/machine etc/machine-id \
  etc/hostname etc/resolv.conf
mkdir -p var/lib/apt/lists/partial var/cache/apt/archives/partial
