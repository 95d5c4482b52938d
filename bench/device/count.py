#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of the compiled CUDA kernel and estimates its time on a GPU by a stated model.

    count.py [--nvcc NVCC]      prints the tables of docs/device.md

Nothing is run on a GPU. From sm_70 on an instruction of the machine has 16 bytes, and its lowest 12 bits are the operation: the
code of a kernel is cut at branches, and the piece that ends at EXIT, with the pieces before it that are not out of the way (calls for
subnormal divisors and the like are), is what a thread runs.

The model: a thread's instructions are issued at 128 lanes per clock and multiprocessor, those of the integer unit at
64, loads from local memory at 32; memory at its nominal bandwidth. The lower bound is the largest of the four, the
expectation their sum of memory and the largest of the others: as if nothing overlapped.
"""
import argparse
import collections
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = HERE.parent.parent / "src" / "device" / "kernel"
FLAGS = ["-std=c++17", "--fmad=false", "-prec-div=true", "-prec-sqrt=true", "-ftz=false"]
CALL, EXIT, BRANCH, LOCAL_LOAD, NOTHING = 0x944, 0x94D, 0x947, 0x984, 0x918
# Logic, shifts, byte permutations, additions, comparisons and selections of integers, in all their forms.
INTEGER_UNIT = {0x10, 0x11, 0x12, 0x16, 0x19, 0x0C, 0x07}
GPUS = {  # multiprocessors, clock in GHz, bytes per nanosecond: NVIDIA's data sheets
    "A100 40 GB": (108, 1.41, 1555),
    "A100 80 GB": (108, 1.41, 2039),
    "H100 SXM": (132, 1.755, 3350),
}

Found = collections.namedtuple("Found", "instructions integer loads")


def compile_kernel(nvcc, architecture, folder, source=("portable.cl", "rows.cl"), more="", options=()):
    """(path of the cubin, the report of ptxas)."""
    text = "".join((KERNEL / name).read_text(encoding="utf-8") for name in source) + more
    path = pathlib.Path(folder) / "kernel.cu"
    path.write_text(text, encoding="utf-8")
    out = path.with_suffix(".cubin")
    command = [nvcc, *FLAGS, "-arch=" + architecture, "-cubin", "-Xptxas", "-v", *options, str(path), "-o", str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)
    return out, done.stdout


def registers_and_spills(report, kernel="dpmf_rows"):
    part = report[report.index("entry function '%s'" % kernel):]
    spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
    return int(re.search(r"Used (\d+) registers", part).group(1)), sum(int(n) for n in spills.groups())


def fused_in_ptx(nvcc, architecture, folder):
    """Multiplications fused with additions in the kernel's PTX, where divisions and roots are still one instruction."""
    path, out = pathlib.Path(folder) / "kernel.cu", pathlib.Path(folder) / "kernel.ptx"
    text = "".join((KERNEL / name).read_text(encoding="utf-8") for name in ("portable.cl", "rows.cl"))
    path.write_text(text, encoding="utf-8")
    subprocess.run([nvcc, *FLAGS, "-arch=" + architecture, "-ptx", str(path), "-o", str(out)], check=True)
    return len(re.findall(r"\b(?:fma|mad)\.(?:rn\.)?(?:ftz\.)?f32\b", out.read_text(encoding="utf-8")))


def code_of(cubin):
    """{kernel: list of operations}."""
    data = pathlib.Path(cubin).read_bytes()
    start, = struct.unpack_from("<Q", data, 0x28)
    count, names = struct.unpack_from("<HH", data, 0x3C)

    def section(i):
        return struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i)

    found = {}
    for i in range(count):
        head = section(i)
        name = data[section(names)[4] + head[0]:].split(b"\0", 1)[0].decode()
        if name.startswith(".text."):
            code = data[head[4]:head[4] + head[5]]
            found[name[6:]] = [struct.unpack_from("<H", code, k)[0] & 0xFFF for k in range(0, len(code), 16)]
    return found


def fast_path(operations):
    """The instructions of a thread up to EXIT without the rare calls."""
    run, piece = [], []
    for operation in operations:
        piece.append(operation)
        if operation in (CALL, BRANCH, EXIT):
            if operation != CALL:
                run += piece
            piece = []
        if operation == EXIT:
            break
    return Found(len(run), sum(o & 0xFF in INTEGER_UNIT for o in run), sum(o == LOCAL_LOAD for o in run))


def less(a, b, k=1):
    return Found(*(max(x - k * y, 0) for x, y in zip(a, b)))


def times(a, k):
    return Found(*(k * x for x in a))


def plus(*all_of):
    return Found(*(sum(values) for values in zip(*all_of)))


def count_parts(nvcc, architecture):
    """Instructions per number of noise, by part."""
    with tempfile.TemporaryDirectory() as folder:
        cubin, _ = compile_kernel(nvcc, architecture, folder, more=(HERE / "parts.cu").read_text(encoding="utf-8"))
        found = {name: fast_path(code) for name, code in code_of(cubin).items() if name.startswith("part_")}
    none = found["part_none"]
    return {
        "AES": times(less(found["part_aes"], none), 1 / 8),
        "normals": times(less(found["part_normal"], none), 1 / 2),
        "a buffer": times(less(found["part_buffer"], none), 1 / 8),
        "gradient": times(less(found["part_emit"], none), 1 / 4),
        "Philox + Box-Muller": times(less(found["part_philox"], none), 1 / 4),
    }


def model(per_number, bytes_of_number, gpu):
    """(lower bound, expectation) in picoseconds per number."""
    processors, clock, bandwidth = GPUS[gpu]
    lanes = processors * clock / 1000  # a picosecond, for each lane of a multiprocessor
    work = max(per_number.instructions / 128, per_number.integer / 64, per_number.loads / 32) / lanes
    memory = 1000 * bytes_of_number / bandwidth
    return max(work, memory), work + memory


def print_tables(nvcc):
    for architecture in ("sm_80", "sm_90"):
        with tempfile.TemporaryDirectory() as folder:
            cubin, report = compile_kernel(nvcc, architecture, folder)
            print(architecture, "registers, spilled bytes:", *registers_and_spills(report), " instructions in all:",
                  len(code_of(cubin)["dpmf_rows"]), " fused in PTX:", fused_in_ptx(nvcc, architecture, folder))
        parts = count_parts(nvcc, architecture)
        for name, found in parts.items():
            print("    %-20s %6.1f instructions per number, %6.1f integer, %5.1f loads" % (name, *found))
        seed = plus(parts["AES"], parts["normals"])
        buffer_ = parts["a buffer"]
        rows = {
            "independent noise, float32": (plus(seed, parts["gradient"]), 8),
            "TV-BLT, 4 buffers, float32": (plus(seed, times(buffer_, 4), parts["gradient"]), 40),
            "TV-BLT, 4 buffers, bfloat16": (plus(seed, times(buffer_, 4), parts["gradient"]), 36),
            "banded, 8 bands (7 rows)": (plus(seed, times(buffer_, 4), parts["gradient"]), 8 + 7 * 4 + 4),
            "TV-BLT, 4 epochs replayed": (plus(times(seed, 2.5), times(buffer_, 4), parts["gradient"]), 40),
            "torch: normals, then add": (plus(parts["Philox + Box-Muller"], parts["gradient"]), 4 + 12),
        }
        for gpu in (name for name in GPUS if name.startswith("A100") == (architecture == "sm_80")):
            for name, (found, size) in rows.items():
                low, likely = model(found, size, gpu)
                print("    %-11s %-28s %3d bytes  %5.1f ps at least, %5.1f expected; %5.1f to %5.1f numbers a ns" %
                      (gpu, name, size, low, likely, 1000 / likely, 1000 / low))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    nvcc = parser.parse_args().nvcc
    if shutil.which(nvcc) is None:
        sys.exit("count.py: there is no nvcc here")
    print_tables(nvcc)


if __name__ == "__main__":
    main()
