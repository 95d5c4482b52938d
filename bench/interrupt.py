# SPDX-License-Identifier: Apache-2.0
"""How soon every verb answers SIGINT.

Starts a long case of each verb, sends SIGINT at several random moments and prints the worst processor time that the process
spent between the signal and its end (user and system, all threads), the wall time, and the exit code, which should be 130.
Processor time is what the program answers for: on a busy machine the wall time also holds the time of others.

    python3 bench/interrupt.py build/dpmf [--moments 4] [--seconds 3] [WORD ...]

runs the cases whose command line has one of the words, or all. Nothing passes or fails; look at the first column.
"""
import argparse
import os
import random
import shutil
import signal
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
    ["optimize", "--family", "lowrank", "--bands", "64", "--steps", "2000"],
    ["evaluate", "--family", "toeplitz", *MILLION, "--bound", "force"],
    ["evaluate", "--family", "toeplitz", "--workload", "momentum:0.9", *MILLION],
    ["design", "--epsilon", "1", "--delta", "1e-6", "--epochs", "1", *MILLION],
    ["design", "--epsilon", "1", "--delta", "1e-6", "--epochs", "10", "--steps", "20000"],
    ["account", "--sigma", "1", "--delta", "1e-10", "--sampling", "poisson:0.001", "--compositions", "1000000000000"],
    ["noise", "FILE", "--dim", "10000000", "--rows", "0:8192", "--key-file", "KEY", "--out", "OUT"],
    ["verify", "FILE"],
    ["report", "FILE", "--out", "OUT"],
    ["reproduce", "all"],
    ["audit", "FILE"],
    ["bench"],
]


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


def prepared(program, folder, case):
    """The case with its files in place."""
    fresh = "%08x" % random.getrandbits(32)  # a key's rows are given once
    names = {"FILE": os.path.join(folder, "file"), "KEY": os.path.join(folder, "key" + fresh),
             "OUT": os.path.join(folder, "out" + fresh)}
    if "FILE" in case and not os.path.exists(names["FILE"]):
        subprocess.run([program, "optimize", "--family", "tvblt", "--buffers", "4", "--steps", "8192", "--epsilon", "1",
                        "--delta", "1e-6", "--out", names["FILE"]], check=True, capture_output=True)
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
