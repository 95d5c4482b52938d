#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Noise time per step with 2 processes compared with 1, medians of alternating runs: run.sh BUILD_DIRECTORY [COORDINATES]
# The build directory needs -DDPMF_MPI=ON and the target noise_ranks. MPIRUN is the launcher, ROUNDS the number of runs.
set -euo pipefail
program=$(realpath "$1")/bench/noise_ranks
dim=${2:-10000000}
if ! [ -x "$program" ]; then
    echo "run.sh: there is no $program: cmake --build $1 --target noise_ranks (with -DDPMF_MPI=ON)" >&2
    exit 1
fi
launcher=${MPIRUN:-mpirun}
start=("$launcher")
version=$("$launcher" --version)
# A process that is bound to a core waits for other programs there, even when another core is free.
if [[ $version == *"Open MPI"* || $version == *OpenRTE* ]]; then start+=(--allow-run-as-root --oversubscribe --bind-to none); fi
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for ((round = 0; round < ${ROUNDS:-5}; round++)); do
    for ranks in 1 2; do "${start[@]}" -n $ranks "$program" "$dim" >>"$results"; done
done
echo "load: $(cut -d' ' -f1-3 /proc/loadavg), cores: $(nproc)"
python3 - "$results" <<'END'
import collections, statistics, sys
times, least = collections.defaultdict(list), collections.defaultdict(list)
for line in open(sys.argv[1], encoding="utf-8"):
    family, ranks, _, seconds, shortest, _ = line.split(",")
    times[family, int(ranks)].append(float(seconds))
    least[family, int(ranks)].append(float(shortest))
for family in sorted({name for name, _ in times}):
    for what, one, two in (("median", *(statistics.median(times[family, ranks]) for ranks in (1, 2))),
                           ("least", *(min(least[family, ranks]) for ranks in (1, 2)))):
        print("%-18s %-6s 1 process %.4f s   2 processes %.4f s   ratio %.3f (goal 0.55)"
              % (family, what, one, two, two / one))
END
