/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of basic operations alone: the same bits on every machine. Mathematical libraries differ in the last place. */
#ifndef TRAIN_BASIC_H
#define TRAIN_BASIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* e^x for x <= 0 to some 1e-16: x = k ln 2 + r, Taylor series of e^r to r^12. No branches: it vectorizes. NaN stays NaN. */
static inline double train_exp_negative(double x) {
    static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33; /* k ln2_high is exact */
    const double within = x >= -700.0 ? x : -700.0;
    const double k = (double)(int)(within * 1.4426950408889634 - 0.5);
    const double r = (within - k * ln2_high) - k * ln2_low;
    double sum = 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    const double shifted = k + 0x1.00000000003ffp52; /* 2^52 + 1023 + k: its low bits are the exponent of 2^k */
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52; /* k >= -1011: a normal number */
    double power;
    memcpy(&power, &bits, sizeof power);
    const double small = x < -700.0 ? 0.0 : x; /* or NaN */
    return x >= -700.0 ? sum * power : small;
}

/* cos(2 pi t) and sin(2 pi t) to some 1e-16: t to the nearest quarter, and Taylor series within an eighth of a turn. */
static inline void train_turn(double t, double *cosine, double *sine) {
    const double whole = t - floor(t + 0.5), quarter = floor(4.0 * whole + 0.5);
    const double a = 6.283185307179586 * (whole - 0.25 * quarter), square = a * a;
    double c = 0.0, s = 0.0;
    for (int n = 18; n >= 2; n -= 2) {
        c = (1.0 + c) * (-square / (double)(n * (n - 1)));
        s = (1.0 + s) * (-square / (double)(n * (n + 1)));
    }
    c = 1.0 + c;
    s = a * (1.0 + s);
    const int turns = ((int)quarter + 4) % 4;
    *cosine = turns == 0 ? c : turns == 1 ? -s : turns == 2 ? -c : s;
    *sine = turns == 0 ? s : turns == 1 ? c : turns == 2 ? -s : -c;
}

#endif
