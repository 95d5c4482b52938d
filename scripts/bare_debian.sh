# SPDX-License-Identifier: Apache-2.0
# Sourced, in the top folder: a bare Debian in build/bare-debian, debootstrap's minimal system with Python and nothing else. Sets bare,
# as_root and no_bare_debian, the reason where there can be none.
bare=$PWD/build/bare-debian
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi
no_bare_debian="no namespaces, mounts or device files on this machine"

# A sandbox may forbid what a separate system needs: namespaces, mounts, device files. Then its tests are skipped with
# the reason.
may_make_bare_debian() {
    "${as_root[@]}" rm -rf "$bare.probe"
    # shellcheck disable=SC2016
    "${as_root[@]}" unshare --mount --net sh -c \
        'mkdir -p "$0/proc" && mount -t proc proc "$0/proc" && chroot / true && mknod "$0/null" c 1 3' "$bare.probe" && echo >"$bare.probe/null"
}

make_bare_debian() { # 77: not on this machine
    may_make_bare_debian || return 77
    if [ -e "$bare/ready" ]; then return; fi
    "${as_root[@]}" rm -rf "$bare"
    # In a separate namespace, so that nothing stays mounted there.
    "${as_root[@]}" unshare --mount debootstrap --variant=minbase --include=python3,python3-venv bookworm "$bare" &&
        "${as_root[@]}" touch "$bare/ready"
}
