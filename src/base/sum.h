/* SPDX-License-Identifier: Apache-2.0 */
/* Neumaier's compensated sums: off by about one rounding, plain ones of n terms by n, for three additions per term. */
#ifndef DPMF_BASE_SUM_H
#define DPMF_BASE_SUM_H

typedef struct base_running {
    double high, low;
} base_running;

static inline void base_running_add(base_running *s, double x) {
    double sum = s->high + x;
    double big = s->high, small = x;
    if ((x < 0 ? -x : x) > (s->high < 0 ? -s->high : s->high)) big = x, small = s->high;
    s->low += (big - sum) + small;
    s->high = sum;
}

static inline double base_running_value(const base_running *s) {
    return s->high + s->low;
}

#endif
