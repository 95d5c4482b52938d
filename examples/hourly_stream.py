#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Five years of hourly visits with the shape of real ones: days, weeks, seasons, holidays, growth, and an outage.

    hourly_stream.py [--csv] [--years 5] [--seed 1] > hours.txt

One number per line, or with --csv a header and the time beside it. A private running count of it without a planned end,
and questions on it:

    dpmf evaluate --family unbounded --steps 1e12 --epsilon 1 --delta 1e-6 -o endless.dpmf
    dpmf count endless.dpmf < hours.txt > hours.out
    dpmf query hours.out --mechanism endless.dpmf --range 745:1416
    dpmf report hours.out --mechanism endless.dpmf --range 1:744,745:1416 -o hours.html
"""
import argparse
import datetime
import math
import random

HOLIDAYS = {(1, 1), (5, 1), (12, 24), (12, 25), (12, 26), (12, 31)}
OUTAGE_HOURS = range(11, 30)  # of the 400th day and the next: nothing arrives, and then all that had waited


def expected(hour, start):
    """The expected visits of an hour."""
    day = hour.weekday()
    daily = 0.15 + math.exp(-(((hour.hour - 13.5) / 4.5) ** 2)) + 0.6 * math.exp(-(((hour.hour - 20) / 2.0) ** 2))
    weekly = (1.05, 1.1, 1.1, 1.05, 0.95, 0.6, 0.5)[day]
    seasonal = 1 + 0.2 * math.cos(2 * math.pi * (hour.timetuple().tm_yday - 15) / 365.25)
    growth = math.exp(0.25 * (hour - start).days / 365.25)
    holiday = 0.3 if (hour.month, hour.day) in HOLIDAYS else 1
    return 120 * daily * weekly * seasonal * growth * holiday


def visits(years, seed):
    """(time, visits) for each hour."""
    numbers = random.Random(seed)
    start = datetime.datetime(2020, 1, 1)
    waiting = 0
    for i in range(round(years * 365.25 * 24)):
        hour = start + datetime.timedelta(hours=i)
        mean = expected(hour, start)
        count = max(0, round(numbers.gauss(mean, math.sqrt(mean) * 1.3)))  # bursts: more than Poisson's
        if i - 400 * 24 in OUTAGE_HOURS:
            waiting += count // 4
            count = 0
        elif waiting:
            count, waiting = count + waiting, 0
        yield hour, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", action="store_true", help="a header, and the time beside the number")
    parser.add_argument("--years", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.csv:
        print("time,visits")
    for hour, count in visits(given.years, given.seed):
        print("%s,%d" % (hour.strftime("%Y-%m-%dT%H:00"), count) if given.csv else count)


if __name__ == "__main__":
    main()
