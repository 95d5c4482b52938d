# SPDX-License-Identifier: Apache-2.0
"""bench/results.csv: group, task, our seconds, peer, its seconds, ratio (peer / ours), remark."""
import csv
import os

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "results.csv")
HEADER = ["group", "task", "seconds", "peer", "peer_seconds", "ratio", "remark"]


def replace(group, rows):
    """Puts `rows` in the place of those of `group`, leaving the others."""
    kept = []
    if os.path.exists(PATH):
        with open(PATH, newline="", encoding="utf-8") as file:
            kept = [row for row in list(csv.reader(file))[1:] if row and row[0] != group]
    with open(PATH + ".new", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(sorted(kept + rows, key=lambda row: row[0]))
    os.replace(PATH + ".new", PATH)
