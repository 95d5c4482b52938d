#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks Debian packages and all that they depend on into a folder, where nothing of them is installed or run, and no foreign
# architecture is added to the system. Does nothing when the same packages are there already.
#
#   unpack_debian.sh ARCHITECTURE FOLDER PACKAGE...     into FOLDER/root; for src:NAME the sources of NAME, into FOLDER/sources
set -euo pipefail
architecture=$1
place=$(realpath -m "$2")
shift 2
root=$place/root
if [ "$(cat "$place/unpacked" 2>/dev/null)" = "$*" ]; then exit; fi

rm -rf "$root" "$place/sources" "$place/etc" "$place/unpacked"
mkdir -p "$place/state/lists/partial" "$place/cache/archives/partial" "$place/sources" "$place/etc/list.d" "$root"
: >"$place/state/status"
# This system's package sources, each for source packages too.
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    if ! [ -e "$file" ]; then continue; fi
    sed -E 's/^deb (.*)/&\ndeb-src \1/; s/^Types: deb$/Types: deb deb-src/' "$file" >"$place/etc/list.d/${file##*/}"
done
cat >"$place/apt.conf" <<END
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
Dir::State "$place/state";
Dir::State::status "$place/state/status";
Dir::Cache "$place/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$place/etc/list.d";
END
export APT_CONFIG=$place/apt.conf
packages=()
sources=()
for name in "$@"; do
    case $name in
    src:*) sources+=("${name#src:}") ;;
    *) packages+=("$name") ;;
    esac
done
apt-get update -qq
apt-get install -y -qq --no-install-recommends --download-only "${packages[@]}" >/dev/null
for file in "$place"/cache/archives/*.deb; do dpkg-deb -x "$file" "$root"; done
if [ ${#sources[@]} -gt 0 ]; then (cd "$place/sources" && apt-get source -qq "${sources[@]}" >/dev/null 2>"$place/sources.log"); fi
# Makes absolute links point into this folder.
find "$root" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
    ln -sfn "$root$target" "$link"
done
echo "$*" >"$place/unpacked"
