# SPDX-License-Identifier: Apache-2.0
"""Measures how soon every verb ends after SIGINT.

Starts a long case of each verb, sends SIGINT at several random moments and prints the worst processor time that the process
spent between the signal and its end (user and system, all threads), the wall time, and the exit code, which should be 130.
Processor time is the program's own: on a busy machine the wall time also contains the time of others.

    python3 bench/interrupt.py build/dpmf [--moments 4] [--seconds 3] [WORD ...]

runs the cases whose command line has one of the words, or all. This is no test; look at the first column.
"""
import argparse
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MILLION = ["--steps", "1000000"]
CASES = [
    ["optimize", "--family", "tvblt", *MILLION],
    ["optimize", "--family", "tvblt", "--workload", "momentum:0.9", *MILLION],
    ["optimize", "--family", "tvblt", "--loss", "max", *MILLION],
    ["optimize", "--family", "tvblt", "--steps", "2000", "--participation", "cyclic:10,200", "--buffers", "4"],
    ["evaluate", "--family", "fft-opt", "--workload", "momentum:0.9", *MILLION],
    ["optimize", "--family", "toeplitz", *MILLION],
    ["optimize", "--family", "blt", "--buffers", "6", *MILLION],
    ["optimize", "--family", "banded-toeplitz", "--bands", "64", *MILLION],
    ["optimize", "--family", "banded", "--bands", "16", "--steps", "100000"],
    ["optimize", "--family", "dense", "--steps", "4096"],
    ["optimize", "--family", "dense", "--steps", "2000", "--participation", "cyclic:20,100"],
    ["optimize", "--family", "lowrank", "--bands", "64", "--buffers", "64", "--steps", "2000"],
    ["evaluate", "--family", "toeplitz", *MILLION, "--bound", "force"],
    ["evaluate", "--family", "toeplitz", "--workload", "momentum:0.9", *MILLION],
    ["design", "--epsilon", "1", "--delta", "1e-6", "--epochs", "1", *MILLION],
    ["design", "--epsilon", "1", "--delta", "1e-6", "--epochs", "10", "--steps", "20000"],
    ["account", "--sigma", "1", "--delta", "1e-10", "--sampling", "poisson:0.001", "--compositions", "1000000000000"],
    ["account", "BANDED", "--delta", "1e-6", "--sampling", "balls-in-bins:100"],
    ["noise", "FILE", "--dim", "10000000", "--rows", "0:8192", "--key-file", "KEY", "--out", "OUT"],
    ["noise", "BANDED", "--dim", "10000000", "--rows", "0:8192", "--key-file", "KEY"],
    ["verify", "SHORT"],
    ["report", "FILE", "--out", "OUT"],
    ["audit", "FILE"],
    ["bench"],
    ["calibrate", "BANDED", "--epsilon", "1", "--delta", "1e-6", "--sampling", "balls-in-bins:100"],
    ["count", "LONG", "--follow", "ROWS", "--key-file", "KEY"],
    ["count", "LONG", "--follow", "WIDE", "--columns", "100000", "--key-file", "KEY"],
    ["query", "STREAM", "--mechanism", "LONG", "--cdf"],
    ["query", "STREAM", "--mechanism", "LONG", "--smooth", "--monotone"],
    ["train", "--data", "TABLE", "--hold-out", "1000", "--epsilon", "1", "--delta", "1e-6", "--batch", "2000",
     "--epochs", "100", "--model", "mlp:256"],
    ["train", "--data", "TABLE", "--hold-out", "1000", "--epsilon", "1", "--delta", "1e-6", "--batch", "40000",
     "--epochs", "100"],
    ["predict", "WEIGHTS", "--model", "mlp:256", "--test-data", "TABLE"],
]
MADE = {  # a mechanism of these options
    "FILE": ["tvblt", "--buffers", "4", "--steps", "8192"],
    "SHORT": ["tvblt", "--buffers", "4", "--steps", "2000", "--participation", "cyclic:10,200"],
    "BANDED": ["banded-toeplitz", "--bands", "20", "--steps", "8192"],
    "LONG": ["blt", "--buffers", "3", *MILLION],
}
FEATURES, CLASSES, HIDDEN = 100, 10, 256


def busy(pid):
    """User and system time of a process so far, in seconds."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupt(command, after):
    """Processor and wall time from the signal to the end and the exit code, or None if it ended before."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        start = time.monotonic()
        while time.monotonic() - start < after:
            time.sleep(0.01)
            if os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                break
        else:
            used, sent = busy(run.pid), time.monotonic()
            os.kill(run.pid, signal.SIGINT)
            _, status, usage = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime - used, time.monotonic() - sent, run.returncode
        text = run.stderr.read().decode(errors="replace").strip().splitlines()
        print("    ended by itself: %s" % (text[-1][:110] if text else "done"))
    return None


def write_lines(path, lines):
    with open(path, "w", encoding="ascii") as out:
        out.writelines(line + "\n" for line in lines)


def write_weights(path):
    """A NumPy file of floats: the weights of a network of one hidden layer."""
    numbers = HIDDEN * (FEATURES + 1) + CLASSES * (HIDDEN + 1)
    header = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % numbers).ljust(117) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(4 * numbers))


def write_input(word, path):
    """Rows to count, examples to learn from or weights."""
    if word == "ROWS":
        write_lines(path, ("1" for _ in range(1000000)))
    elif word == "WIDE":
        write_lines(path, (" ".join(["1"] * 100000) for _ in range(100)))
    elif word == "TABLE":
        names = ",".join("x%d" % i for i in range(FEATURES)) + ",label"
        write_lines(path, [names, *[",".join(["0.1"] * FEATURES + [str(i % CLASSES)]) for i in range(60000)]])
    else:
        write_weights(path)


def prepared(program, folder, case):
    """The case with its files in place."""
    fresh = "%08x" % random.getrandbits(32)  # a key's rows are given once
    names = {"KEY": os.path.join(folder, "key" + fresh), "OUT": os.path.join(folder, "out" + fresh)}
    for word in sorted({*MADE, "ROWS", "WIDE", "STREAM", "TABLE", "WEIGHTS"} & {*case}):  # LONG before STREAM
        names[word] = os.path.join(folder, word)
        if os.path.exists(names[word]):
            continue
        if word in MADE:
            subprocess.run([program, "optimize", "--family", *MADE[word], "--epsilon", "1", "--delta", "1e-6", "--out",
                            names[word]], check=True, capture_output=True)
        elif word == "STREAM":
            with open(names[word], "wb") as out:
                subprocess.run([program, "count", names["LONG"]], input=b"1\n" * 1000000, stdout=out, check=True)
        else:
            write_input(word, names[word])
    return [program, *[names.get(word, word) for word in case]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--moments", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_intermixed_args()
    print("worst s of processor, of wall time, exit codes: command")
    for case in CASES:
        if options.words and not any(word in case for word in options.words):
            continue
        folder = tempfile.mkdtemp()
        found = []
        try:
            for _ in range(options.moments):
                answer = interrupt(prepared(options.program, folder, case), random.uniform(0.1, options.seconds))
                if answer is None:
                    break
                found.append(answer)
        finally:
            shutil.rmtree(folder)
        if found:
            print("%.2f %.2f %s: %s" % (max(f[0] for f in found), max(f[1] for f in found), sorted({f[2] for f in found}),
                                        " ".join(case)))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
