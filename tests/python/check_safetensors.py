#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that other readers and ours agree on files.

    check_safetensors.py FILE...        check these mechanism files
    DPMF=PROGRAM check_safetensors.py   make some with the program, and check them

Each file is read with the `safetensors` package and compared with the required contents of the container: metadata,
types, shapes, order, digest (recomputed here). With DPMF_TEST_ARRAY=build/tests/test_array, also .npy files both ways:
what numpy.save writes our reader reads (test_array checks the numbers), what we write is byte for byte what numpy.save
writes. Exit code 0 if all is well.
"""
import hashlib
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
import safetensors
import safetensors.numpy


def check(condition, message):
    if not condition:
        sys.exit(f"check_safetensors: {message}")


def no_duplicates(pairs):
    check(len(dict(pairs)) == len(pairs), f"a key is there twice among {[key for key, _ in pairs]}")
    return dict(pairs)


def check_file(path):
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    check(length % 8 == 0, f"{path}: the arrays are not aligned")
    header = json.loads(raw[8 : 8 + length].decode("utf-8"), object_pairs_hook=no_duplicates)
    names = list(header)[1:]
    check(list(header)[0] == "__metadata__", f"{path}: metadata are not first")

    arrays = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        check(sorted(file.keys()) == sorted(names), f"{path}: safetensors sees the arrays {sorted(file.keys())}")
    check(sorted(metadata) == ["dpmf", "sha256"], f"{path}: metadata are {sorted(metadata)}")
    text = metadata["dpmf"]
    record = json.loads(text, object_pairs_hook=no_duplicates)
    check(isinstance(record, dict) and record, f"{path}: the record is not an object")

    digest = hashlib.sha256(text.encode("utf-8"))
    offset = 0
    for name in names:
        array, entry = arrays[name], header[name]
        check(array.dtype == numpy.dtype("<f8") and entry["dtype"] == "F64", f"{path}: {name} has type {array.dtype}")
        check(array.ndim in (1, 2) and array.size > 0, f"{path}: {name} has shape {array.shape}")
        check(list(array.shape) == entry["shape"], f"{path}: {name}: {array.shape} read, {entry['shape']} in the header")
        check(entry["data_offsets"] == [offset, offset + array.nbytes], f"{path}: {name}: offsets {entry['data_offsets']}")
        check(bool(numpy.isfinite(array).all()), f"{path}: {name} has a value that is not finite")
        offset += array.nbytes
        digest.update(name.encode("utf-8") + b"\0")
        digest.update(struct.pack(f"<{1 + array.ndim}q", array.ndim, *array.shape))
        digest.update(numpy.ascontiguousarray(array).tobytes())
    check(8 + length + offset == len(raw), f"{path}: {len(raw)} bytes, {8 + length + offset} expected")
    check(digest.hexdigest() == metadata["sha256"], f"{path}: digest {metadata['sha256']}, found {digest.hexdigest()}")
    print(f"{path}: {len(names)} arrays, {offset} bytes, digest as written")


def exchanged(rows, columns):
    """The numbers of the arrays that are exchanged; tests/base/test_array.c has the same."""
    i, j = numpy.arange(rows)[:, None], numpy.arange(columns)[None, :]
    return (7.0 * i - 3.0 * j) / 16.0


def saved(array):
    buffer = io.BytesIO()
    numpy.save(buffer, array)
    return buffer.getvalue()


def check_arrays(program, directory):
    for rows, columns in [(1, 1), (6, 1), (1000, 1), (4, 5), (1, 333)]:
        matrix = exchanged(rows, columns)
        kinds = {"f8": matrix, "f4": matrix.astype("<f4"), "sliced": numpy.repeat(matrix, 2, axis=1)[:, ::2]}
        for kind, array in kinds.items():
            numpy.save(directory / f"numpy_2_{rows}_{columns}_{kind}.npy", array)
            if columns == 1:
                numpy.save(directory / f"numpy_1_{rows}_1_{kind}.npy", array[:, 0])
        with open(directory / f"numpy_2_{rows}_{columns}_version2.npy", "wb") as file:
            numpy.lib.format.write_array(file, numpy.ascontiguousarray(matrix), version=(2, 0))
    subprocess.run([program], env={**os.environ, "DPMF_TEST_DIR": str(directory)}, check=True, capture_output=True)
    ours = sorted(directory.glob("dpmf_*.npy"))
    check(len(ours) > 0, f"{program} wrote no array")
    for path in ours:
        dimensions, rows, columns = (int(word) for word in path.stem.split("_")[1:])
        expected = exchanged(rows, columns) if dimensions == 2 else exchanged(rows, columns)[:, 0]
        array = numpy.load(path, allow_pickle=False)
        check(array.dtype == numpy.dtype("<f8") and array.shape == expected.shape, f"{path.name}: {array.shape}")
        check(bool((array == expected).all()), f"{path.name}: other numbers")
        check(path.read_bytes() == saved(numpy.ascontiguousarray(expected)), f"{path.name}: not the bytes of numpy.save")
    print(f"{len(ours)} arrays of ours are as numpy.save writes them; ours reads NumPy's")


def make_files(program, directory):
    rate, weights = directory / "rate.npy", directory / "weights.npy"
    numpy.save(rate, numpy.linspace(1.0, 0.25, 24))
    numpy.save(weights, numpy.linspace(0.0, 2.0, 24))
    matrix = numpy.tril(numpy.ones((24, 24))) * numpy.linspace(1.0, 2.0, 24)[:, None]
    numpy.save(directory / "matrix.npy", matrix)
    variants = [
        ["--workload", "prefix", "--family", "identity"],
        ["--workload", "momentum:0.9,cooldown:0.5:0.1", "--family", "toeplitz", "--participation", "cyclic:1,24"],
        ["--workload", "prefix", "--family", "toeplitz", "--nu", "0.01", "--normalize", "after"],
        ["--workload", "prefix", "--family", "bsr", "--bands", "4", "--participation", "minsep:1,8"],
        ["--workload", "nesterov:0.5", "--family", "bisr", "--bands", "3", "--weights", str(weights)],
        ["--workload", f"lr:{rate}", "--family", "workload"],
        ["--workload", f"file:{directory / 'matrix.npy'}", "--family", "workload"],
    ]
    for index, options in enumerate(variants):
        path = directory / f"{index}.safetensors"
        command = [program, "evaluate", "--steps", "24", *options, "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        check(done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}")
        yield path


def main():
    files = sys.argv[1:]
    program, test_array = os.environ.get("DPMF"), os.environ.get("DPMF_TEST_ARRAY")
    check(files or program or test_array, "no file is given, and neither DPMF nor DPMF_TEST_ARRAY is set")
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for path in files or (make_files(program, directory) if program else []):
            check_file(path)
        if test_array:
            check_arrays(test_array, directory)


main()
