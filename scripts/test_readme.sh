#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A new reader's test: the three quick starts of README.md (Python, command line, C), as pasted, on a Debian that has nothing but
# make, Python and what debootstrap calls a minimal system. The system is made once, in build/readme/clean, with the packages that
# the README asks for already downloaded; each run starts from a copy of it. Needs root or sudo, and a network.
#
#   test_readme.sh             makes what is missing, runs, writes build/results/readme.xml
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

in_container() { # a script on its standard input
    # torch for processors alone: the other has gigabytes that this machine cannot use. Downloads are kept between runs.
    # shellcheck disable=SC2016
    "${as_root[@]}" unshare --mount sh -c 'mount -t proc proc "$0/proc" && mkdir -p "$0/root/.cache/pip" &&
        mount --bind "$1" "$0/root/.cache/pip" && exec chroot "$0" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LANG=C.UTF-8 HOME=/root PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu PIP_ROOT_USER_ACTION=ignore bash -euo pipefail' \
        "$work/root" "$work/pip"
}

status=0 cases=""
for part in command-line c python; do
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
