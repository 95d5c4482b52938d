/* SPDX-License-Identifier: Apache-2.0 */
/* The constraints of a design in words: the same ones for inspect and for the report page. */
#include "designed.h"

#include <stdio.h>

const char *show_bytes(uint64_t bytes, char out[BYTES_SHOWN]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int i = 0;
    for (; value >= 1024.0 && i < 6; ++i)
        value /= 1024.0;
    snprintf(out, BYTES_SHOWN, "%.3g %s", value, units[i]);
    return out;
}

const char *designed_words(const dpmf_design_limits *d, char out[DESIGNED_MAX]) {
    char bytes[BYTES_SHOWN], memory[60] = "any memory", time[80] = "speed not measured", range[60] = "";
    if (d->memory > 0) snprintf(memory, sizeof memory, "memory at most %s", show_bytes(d->memory, bytes));
    if (d->max_overhead > 0.0)
        snprintf(time, sizeof time, "at most %g times the time of independent noise", d->max_overhead);
    if (d->separation_high > 0)
        snprintf(range, sizeof range, ", separations up to %lld", (long long)d->separation_high);
    snprintf(out, DESIGNED_MAX, "rows of %lld numbers, %s, %s, least %s noise%s", (long long)d->dim, memory, time,
             d->loss == DPMF_LOSS_MAX ? "max" : "RMS", range);
    return out;
}
