#!/bin/sh
# make.sh SUITE MIRROR SETTINGS ARCHIVE
# Writes the files of Debian's smallest system, with its security updates, to the tar file ARCHIVE.
# Works in memory, so it has to be started in a mount namespace of its own.
#   MIRROR    address of Debian's archive
#   SETTINGS  directory with this machine's apt settings: debian.sources and machine.conf
set -eu

suite=$1
mirror=$2
settings=$3
archive=$4
here=$(dirname "$0")

root=$settings/root
mkdir "$root"
mount -t tmpfs -o mode=755 debian "$root"
debootstrap --variant=minbase "$suite" "$root" "$mirror"

cp "$here/dpkg.conf" "$root/etc/dpkg/dpkg.cfg.d/slim"
cp "$here/apt.conf" "$root/etc/apt/apt.conf.d/slim"
# debootstrap knows one archive; updates are in others.
rm "$root/etc/apt/sources.list"
cp "$settings/debian.sources" "$root/etc/apt/sources.list.d/"
cp "$settings/machine.conf" "$root/etc/apt/apt.conf.d/machine"
chroot "$root" sh -c 'apt-get update && apt-get -o Dpkg::Use-Pty=0 --yes upgrade'

# What a container's runtime brings, what dpkg.conf would not have unpacked, what an installation
# leaves behind, and what belongs to this machine.
cd "$root"
find usr/share/doc ! -type d ! -name copyright -delete
find usr/share/doc -mindepth 1 -type d -empty -delete
rm -rf dev/* usr/share/man/* usr/share/info/* usr/share/groff/* usr/share/lintian/* usr/share/linda/* \
  usr/share/locale/* var/cache/apt/* var/cache/debconf/*-old var/cache/ldconfig/* \
  var/lib/apt/lists/* var/lib/dpkg/*-old var/log/* \
  etc/apt/sources.list.d/* etc/apt/apt.conf.d/machine etc/machine-id etc/hostname etc/resolv.conf
mkdir -p var/lib/apt/lists/partial var/cache/apt/archives/partial
tar --create --file "$archive" --one-file-system --sort=name --numeric-owner .
