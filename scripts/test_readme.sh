#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A new reader's test: the three quick starts of README.md (Python, command line, C), as pasted, on a Debian that has nothing but
# make, Python and what debootstrap calls a minimal system. The system is made once, in build/readme/clean, with the packages that
# the README asks for already downloaded; each run starts from a copy of it. Needs root or sudo, and a network.
#
#   test_readme.sh [PART...]   makes what is missing, runs the parts (command-line, c, python; all), writes build/results/readme.xml
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/readme
results=$PWD/build/results
mkdir -p "$work" "$results"
rm -f "$results/readme.xml"
trap 'if [ ! -e "$results/readme.xml" ]; then touch "$results/readme.broken"; fi' EXIT
rm -f "$results/readme.broken"
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi

if ! [ -e "$work/clean/ready" ]; then
    "${as_root[@]}" rm -rf "$work/clean"
    "${as_root[@]}" debootstrap --variant=minbase --include=make,ca-certificates,python3,python3-venv,dataset-fashion-mnist \
        bookworm "$work/clean" >"$work/debootstrap.log" 2>&1 || {
        tail -n 20 "$work/debootstrap.log" >&2
        exit 1
    }
    "${as_root[@]}" touch "$work/clean/ready"
fi

# The clone as git has it, with what is not committed yet; nothing that was built here.
"${as_root[@]}" rm -rf "$work/root"
"${as_root[@]}" cp -a "$work/clean" "$work/root"
"${as_root[@]}" mkdir -p "$work/root/try/dpmf" "$work/pip"
git ls-files -z --cached --others --exclude-standard | "${as_root[@]}" tar --null --ignore-failed-read -T - -cf - |
    "${as_root[@]}" tar -xf - -C "$work/root/try/dpmf"
"${as_root[@]}" cp -L /etc/resolv.conf "$work/root/etc/resolv.conf"

# pip asks where it asks on this machine: its settings, certificates and folders of packages hold in the container too. Where there
# are none, torch comes from its index for processors alone: the other has gigabytes that this machine cannot use.
settings=()
while read -r name; do settings+=("$name=${!name}"); done < <(compgen -e | grep '^PIP_' || true)
if [ ${#settings[@]} = 0 ]; then settings=(PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu); fi
folders=$(python3 -m pip config list | grep -oE "/[A-Za-z0-9_./-]+" | cut -d/ -f1-2 | sort -u | grep -vE '^/(etc|root|home|usr)?$' || true)
for file in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    if [ -e "$file" ]; then "${as_root[@]}" cp -L "$file" "$work/root$file"; fi
done

in_container() { # a script on its standard input; downloads are kept between runs
    # shellcheck disable=SC2016
    "${as_root[@]}" unshare --mount sh -c 'root=$1 pip=$2 folders=$3 && shift 3 && mount -t proc proc "$root/proc" &&
        mkdir -p "$root/root/.cache/pip" && mount --bind "$pip" "$root/root/.cache/pip" &&
        for folder in $folders; do
            if [ -d "$folder" ]; then mkdir -p "$root$folder" && mount --bind -o ro "$folder" "$root$folder" || exit 1; fi
        done && exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root \
            PIP_ROOT_USER_ACTION=ignore "$@" bash -euo pipefail' sh "$work/root" "$work/pip" "$folders" "${settings[@]}"
}

parts=(command-line c python)
if [ $# -gt 0 ]; then parts=("$@"); fi
status=0 cases=""
for part in "${parts[@]}"; do
    state=run
    (
        echo "cd /try/dpmf"
        python3 scripts/check_readme.py --quick-start "$part" README.md
    ) | in_container >"$work/$part.log" 2>&1 || state=fail
    if [ $state = fail ]; then
        status=1
        tail -n 30 "$work/$part.log" >&2
    fi
    echo "readme: $part: $state"
    cases+="<testcase name=\"readme $part\" status=\"$state\"/>"
done
echo "<testsuite name=\"readme\">$cases</testsuite>" >"$results/readme.xml"
exit $status
