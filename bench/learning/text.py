# SPDX-License-Identifier: Apache-2.0
"""A small transformer that spells Bible verses: DP-SGD beside correlated noise at equal privacy. Mechanisms, rates, file: training_runs.py.

    python bench/learning/text.py [--output bench/learning/text.csv] [--epsilons 8] [--mechanisms ...] [--seeds 5]

The score is minus the bits that a character takes on average (verses.py has the text and the model). The verses are shuffled once and
split: 2000 for the test, 2000 held out to choose the rate, 13 500 to train on in four epochs of 54 batches of 250; the other 13 602 are left
out to save time. Verses quote each other, which the split does not look for; a verse is the privacy unit all the same.
"""

import argparse
import math
import pathlib

import torch

import training_runs as runs
import verses

HERE = pathlib.Path(__file__).resolve().parent
TEST, HELD_OUT, TRAIN, BATCH = 2000, 2000, 13500, 250


def bits(model, data):
    """Minus the mean bits of a character."""
    total, count = 0.0, 0
    with torch.no_grad():
        for before, after in zip(data[0].split(500), data[1].split(500)):
            known = int((after != verses.IGNORED).sum())
            total += float(verses.loss_of(model(before), after)) * known
            count += known
    return -total / count / math.log(2)


def make_task(path=verses.DATA, train=TRAIN, batch=BATCH, held_out=HELD_OUT, test=TEST):
    found = verses.read_verses(path)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(1611)).tolist()
    coded = verses.encode([found[at] for at in order[: test + held_out + train]])
    parts = list(zip(*(part.split([test, held_out, train]) for part in coded)))
    return runs.Task(
        test=parts[0],
        held_out=parts[1],
        train=parts[2],
        make_model=verses.Speller,
        score=bits,
        loss=verses.loss_of,
        epochs=4,
        batch=batch,
        first_rates=lambda name: (0.3, 1.0),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=verses.DATA)
    runs.add_options(parser, HERE / "text.csv")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    runs.make_runs(make_task(asked.data), asked.output, asked.epsilons, asked.mechanisms, asked.seeds)


if __name__ == "__main__":
    main()
