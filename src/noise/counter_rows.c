/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a counter. With x_t = g_t + noise row t the answer is o = A x. A^-1 = R^-1 Q with few bands, so Q o = R x gives it
 * row by row: o_t = (sum_j R[t,t-j] x_{t-j} - sum_{j>0} Q[t,t-j] o_{t-j}) / Q[t,t].
 *
 * g and the noise are rounded to one grid (2^-40 of the noise's size; exact noise is on its grid already), and added there in
 * 128-bit integers, so that large numbers cannot absorb the noise. Everything computed from x after that is post-processing.
 * Running sums themselves (A = prefix) stay integers. Numbers that could overflow in a later step are refused.
 *
 * A row that is clipped (each row is the contribution of one unit) is scaled by clip (1 - 2^-30)/|row| and cut towards 0:
 * the norm is computed in doubles, whose errors over 10^6 columns are below 10^6 x 2^-52 < 2^-31, so that the resulting
 * integers have at most the norm clip. One column needs no norm, and is cut to floor(clip 2^places) exactly.
 */
#include "noise/counter.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef noise_wide wide;

enum { ASKED = 8 }; /* rows between two calls of the progress callback: a row may take some hundredths of a second */
enum { EXACT_BITS = 35 }; /* of an exact seed, as in noise/exact.c, with room for the allowance */

_Static_assert(sizeof(dpmf_int128) == sizeof(wide), "the same 16 bytes, the low half first");

static wide wide_of(const dpmf_int128 *number) {
    wide value;
    memcpy(&value, number, sizeof value);
    return value;
}

/* floor(x 2^places + 1/2): adding a whole number before or after makes no difference. 0 beyond 2^100. */
static int round_to_grid(double x, double unit, wide *out) {
    const double y = x * unit;
    if (fabs(y) < 0x1p62) { /* nearly always, and much faster */
        int64_t below = (int64_t)y;
        below -= (double)below > y;
        *out = below + (y - (double)below >= 0.5);
        return 1;
    }
    if (!(fabs(y) < 0x1p100)) return 0;
    *out = (wide)y; /* an integer: a double of 2^62 has no bits below 1 */
    return 1;
}

static double grid_unit(const dpmf_counter *c) {
    return ldexp(1, c->places);
}

static double value_of(wide x, int places) {
    return ldexp((double)x, -places);
}

/* The binary places of a grid of 2^-bits of the scale, within the range that can be printed. */
static int places_of(double scale, int bits) {
    int exponent = 0;
    frexp(scale, &exponent);
    const int places = bits - exponent;
    return places < 0 ? 0 : places > NOISE_COUNTER_PLACES_MAX ? NOISE_COUNTER_PLACES_MAX : places;
}

double noise_counter_exact_grid(double scale) {
    return ldexp(1, -places_of(scale, EXACT_BITS));
}

dpmf_status noise_counter_grid(dpmf_counter *c) {
    const double scale = dpmf_noise_get(c->noise).release.scale, least = 0x1p-40, most = 0x1p50;
    if (!(scale >= least && scale <= most))
        return base_fail(DPMF_ERROR_ARGUMENT, "clip x sigma x sensitivity = %.6g, accepted for counting: %.3g to %.3g",
                         scale, least, most);
    if (dpmf_noise_get(c->noise).grid > 0)
        c->places = -ilogb(dpmf_noise_get(c->noise).grid); /* the noise's own */
    else
        c->places = places_of(scale, 40);
    c->limit = ((wide)1 << 125) / c->steps; /* the same amount is left for the noise */
    return DPMF_OK;
}

int noise_counter_round(const dpmf_counter *c, double value, dpmf_int128 *out) {
    wide rounded = 0;
    if (!isfinite(value) || !(fabs(value) < value_of(c->limit, c->places))) return 0;
    if (!round_to_grid(value, grid_unit(c), &rounded)) {
        /* From 2^100 steps on a double is a whole number of steps. */
        int exponent = 0;
        const double fraction = frexp(value, &exponent);
        exponent += c->places - 53;
        assert(exponent >= 0 && exponent < 127 - 53);
        rounded = (wide)(int64_t)ldexp(fraction, 53) * ((wide)1 << exponent);
    }
    if (rounded >= c->limit || rounded <= -c->limit) return 0;
    memcpy(out, &rounded, sizeof rounded);
    return 1;
}

double noise_counter_value(const dpmf_counter *c, const dpmf_int128 *number) {
    return value_of(wide_of(number), c->places);
}

static void clip_row(const dpmf_counter *c, wide *row) {
    const double most = c->clip * grid_unit(c);
    double squares = 0;
    if (c->columns == 1) {
        const wide cut = (wide)most;
        row[0] = row[0] > cut ? cut : row[0] < -cut ? -cut : row[0];
        return;
    }
    for (int64_t i = 0; i < c->columns; i++)
        squares += (double)row[i] * (double)row[i];
    const double norm = sqrt(squares), factor = most * (1 - 0x1p-30) / norm;
    if (!(norm > most * (1 - 0x1p-30))) return;
    for (int64_t i = 0; i < c->columns; i++)
        row[i] = (wide)((double)row[i] * factor);
}

static double *row_of(const dpmf_counter *c, double *rows, int64_t t) {
    return rows + t % NOISE_COUNTER_HISTORY * c->columns;
}

/* x_t = the row + its noise, on the grid, into c->sum. */
static dpmf_status add_noise(dpmf_counter *c, const dpmf_int128 *values) {
    const double unit = grid_unit(c);
    memcpy(c->sum, values, (size_t)c->columns * sizeof *values);
    if (c->clip_rows) clip_row(c, c->sum);
    TRY(dpmf_noise_next(c->noise, c->noisy));
    for (int64_t i = 0; i < c->columns; i++) {
        wide noise = 0;
        if (!round_to_grid(c->noisy[i], unit, &noise)) /* no normal number is ever that large */
            return base_fail(DPMF_ERROR_NUMERICAL, "noise of row %" PRId64 " is out of range", c->step);
        c->sum[i] += noise;
    }
    return DPMF_OK;
}

/* The answer of a workload that is not the running sum, rounded to the grid again for printing. */
static dpmf_status recur(dpmf_counter *c, dpmf_int128 *sums) {
    const int64_t t = c->step;
    const double unit = grid_unit(c);
    double q[3], r[2], *o = row_of(c, c->o, t), *x = row_of(c, c->x, t);
    TRY(dpmf_workload_inverse_row(c->workload, t, q, r));
    for (int64_t i = 0; i < c->columns; i++)
        x[i] = value_of(c->sum[i], c->places);
    for (int64_t i = 0; i < c->columns; i++) {
        double sum = 0;
        wide rounded = 0;
        for (int j = 0; j <= c->r_bands && j <= t; j++)
            sum += r[j] * row_of(c, c->x, t - j)[i];
        for (int j = 1; j <= c->q_bands && j <= t; j++)
            sum -= q[j] * row_of(c, c->o, t - j)[i];
        o[i] = sum / q[0];
        if (!round_to_grid(o[i], unit, &rounded))
            return base_fail(DPMF_ERROR_NUMERICAL, "the sum of row %" PRId64 " is out of range", t);
        memcpy(&sums[i], &rounded, sizeof rounded);
    }
    return DPMF_OK;
}

static dpmf_status next_row(dpmf_counter *c, const dpmf_int128 *values, dpmf_int128 *sums) {
    TRY(add_noise(c, values));
    if (c->total != NULL) {
        for (int64_t i = 0; i < c->columns; i++)
            c->total[i] += c->sum[i];
        memcpy(sums, c->total, (size_t)c->columns * sizeof *sums);
    } else {
        TRY(recur(c, sums));
    }
    c->step++;
    return DPMF_OK;
}

dpmf_status noise_counter_fits(const dpmf_counter *c, int64_t rows) {
    if (rows < 0 || rows > c->steps - c->step)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "%" PRId64 " rows after %" PRId64 ": the mechanism has %" PRId64
                         " steps, and no noise for more",
                         rows, c->step, c->steps);
    return DPMF_OK;
}

static dpmf_status check_rows(const dpmf_counter *c, int64_t rows, const dpmf_int128 *values) {
    TRY(noise_counter_fits(c, rows));
    for (int64_t i = 0; i < rows * c->columns; i++) {
        const wide value = wide_of(&values[i]);
        if (value >= c->limit || value <= -c->limit)
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "row %" PRId64 ", number %" PRId64 ": numbers below %.3g in size are accepted",
                             c->step + i / c->columns, i % c->columns, value_of(c->limit, c->places));
    }
    return DPMF_OK;
}

dpmf_status dpmf_counter_prepare(dpmf_counter *c, int64_t rows, const dpmf_int128 *values, dpmf_int128 *sums) {
    if (c == NULL || (rows > 0 && (values == NULL || sums == NULL)))
        return base_fail(DPMF_ERROR_ARGUMENT, "counter: the counter, the values or memory for the sums is NULL");
    if (c->ended) return base_fail(DPMF_ERROR_IO, "this counter has ended: rows or its state file failed before");
    if (c->input_wanted > 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the state file has seen %" PRId64 " bytes of input: give them first, or declare a new input",
                         c->input_wanted);
    TRY(noise_check_usable(c->noise));
    TRY(check_rows(c, rows, values));
    if (rows > 0) c->recorded = 0;
    for (int64_t k = 0; k < rows; k++) {
        dpmf_status status = DPMF_OK;
        if (k % ASKED == ASKED - 1) status = base_progress(&c->noise->run, "counting rows", (double)k / (double)rows);
        if (status == DPMF_OK) status = next_row(c, values + k * c->columns, sums + k * c->columns);
        if (status != DPMF_OK) {
            c->ended = 1; /* the counter cannot continue from half a batch */
            return status;
        }
    }
    return DPMF_OK;
}
