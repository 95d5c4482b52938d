#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A new reader's test: the three quick starts of README.md (Python, command line, C), as pasted, on a Debian that has nothing but
# make, Python, the images and what debootstrap calls a minimal system. That system is made once, in build/readme/clean; each run starts
# from a copy of it. Needs root or sudo, and a network. Skipped with the reason where the machine allows no separate
# system.
#
#   test_readme.sh [PART...]   makes what is missing, runs the parts (command-line, c, python; all), writes build/results/readme.xml
#
# README_FILE: another README, to show that its mistakes are found.
set -euo pipefail
cd "$(dirname "$0")/.."
readme=${README_FILE:-README.md}
work=$PWD/build/readme
results=$PWD/build/results
mkdir -p "$work" "$results"
rm -f "$results/readme.xml" "$results/readme.broken"
trap 'if [ ! -e "$results/readme.xml" ]; then touch "$results/readme.broken"; fi' EXIT
# shellcheck source=scripts/bare_debian.sh
. scripts/bare_debian.sh
parts=(command-line c python)
if [ $# -gt 0 ]; then parts=("$@"); fi
status=0 cases=""

write_results() {
    echo "<testsuite name=\"readme\">$cases</testsuite>" >"$results/readme.xml"
}

code=0
make_bare_debian >"$work/debootstrap.log" 2>&1 || code=$?
if [ $code = 77 ]; then
    for part in "${parts[@]}"; do
        echo "readme: $part: SKIPPED: $no_bare_debian"
        cases+="<testcase name=\"readme $part\" status=\"notrun\"><skipped message=\"SKIP_REASON=$no_bare_debian\"/></testcase>"
    done
    write_results
    exit
elif [ $code != 0 ]; then
    tail -n 20 "$work/debootstrap.log" >&2
    exit 1
fi

# pip uses the package index of this machine: its settings, certificates and folders of packages are valid in the
# container too. Where there are none, torch comes from its index for processors only: the other has gigabytes that this
# machine cannot use. Its version is that of the other tests.
settings=(PIP_CONSTRAINT=/try/dpmf/python/tests/versions.txt)
while read -r name; do settings+=("$name=${!name}"); done < <(compgen -e | grep '^PIP_' | grep -v '^PIP_CONSTRAINT$' || true)
if [ ${#settings[@]} = 1 ]; then settings+=(PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu); fi
folders=$(python3 -m pip config list | grep -oE "/[A-Za-z0-9_./-]+" | cut -d/ -f1-2 | sort -u | grep -vE '^/(etc|root|home|usr)?$' || true)

in_container() { # root; a script on its standard input; downloads are kept between runs
    # shellcheck disable=SC2016
    "${as_root[@]}" unshare --mount sh -c 'root=$1 pip=$2 folders=$3 && shift 3 && mount -t proc proc "$root/proc" &&
        mkdir -p "$root/root/.cache/pip" && mount --bind "$pip" "$root/root/.cache/pip" &&
        for folder in $folders; do
            if [ -d "$folder" ]; then mkdir -p "$root$folder" && mount --bind -o ro "$folder" "$root$folder" || exit 1; fi
        done && exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root \
            PIP_ROOT_USER_ACTION=ignore "$@" bash -euo pipefail' sh "$1" "$work/pip" "$folders" "${settings[@]}"
}

copy_system() { # from, to
    "${as_root[@]}" rm -rf "$2"
    "${as_root[@]}" mkdir -p "$2"
    "${as_root[@]}" tar -cf - --one-file-system --exclude=./try -C "$1" . | "${as_root[@]}" tar -xf - -C "$2"
}

"${as_root[@]}" mkdir -p "$work/pip"
if ! [ -e "$work/clean/with-make" ]; then
    copy_system "$bare" "$work/clean"
    "${as_root[@]}" cp -L /etc/resolv.conf "$work/clean/etc/resolv.conf"
    echo "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        make ca-certificates dataset-fashion-mnist" | in_container "$work/clean" >"$work/clean.log" 2>&1 || {
        tail -n 20 "$work/clean.log" >&2
        exit 1
    }
    "${as_root[@]}" touch "$work/clean/with-make"
fi

# Copies the files that git tracks, with uncommitted changes, but nothing that was built here.
root=$work/root
copy_system "$work/clean" "$root"
"${as_root[@]}" mkdir -p "$root/try/dpmf"
git ls-files -z --cached --others --exclude-standard | "${as_root[@]}" tar --null --ignore-failed-read -T - -cf - |
    "${as_root[@]}" tar -xf - -C "$root/try/dpmf"
for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    if [ -e "$file" ]; then "${as_root[@]}" cp -L "$file" "$root$file"; fi
done

for part in "${parts[@]}"; do
    state=run
    (
        echo "cd /try/dpmf"
        python3 scripts/check_readme.py --quick-start "$part" "$readme"
    ) | in_container "$root" >"$work/$part.log" 2>&1 || state=fail
    output=""
    if [ $state = fail ]; then
        status=1
        tail -n 30 "$work/$part.log" >&2
        output="<system-out>$(tail -n 15 "$work/$part.log" | sed 's/&/\&amp;/g; s/</\&lt;/g' | tr -cd '\11\12\40-\176')</system-out>"
    fi
    echo "readme: $part: $state ($SECONDS s)"
    cases+="<testcase name=\"readme $part\" status=\"$state\">$output</testcase>"
done
write_results
exit $status
