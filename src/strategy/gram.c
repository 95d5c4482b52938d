/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of X = C'C one diagonal at a time: X[t, t+lag] for all t. Sensitivity under several participations needs only
 * the diagonals whose lag can separate two of them, so this is O(n) numbers at a time, whatever C is.
 *
 *     Toeplitz   X[t, t+lag] = sum_{i <= n-1-t-lag} c_i c_{i+lag}: one running sum, O(n)
 *     banded     from the rows, O(n b)
 *     others     from the columns, O(n) products of columns
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <string.h>

static void gram_toeplitz(int64_t n, int64_t count, const double *c, int64_t lag, double *values) {
    base_running sum = {0};
    for (int64_t i = 0; i + lag < n; i++) {
        if (i + lag < count) base_running_add(&sum, c[i] * c[i + lag]);
        values[n - 1 - lag - i] = base_running_value(&sum);
    }
}

/* Row i meets columns u = i - j and t = u - lag. */
static dpmf_status gram_banded(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t bands = strategy_bands(s);
    double *row = NULL;
    memset(values, 0, (size_t)(s->steps - lag) * sizeof *values);
    if (lag >= bands) return DPMF_OK;
    TRY(base_alloc_doubles(bands, "a row", &row));
    for (int64_t i = lag; i < s->steps; i++) {
        s->ops->row(s, i, row);
        for (int64_t j = 0; j + lag < bands && j + lag <= i; j++)
            values[i - lag - j] += row[j] * row[j + lag];
    }
    base_free(row);
    return DPMF_OK;
}

static dpmf_status gram_columns(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t rows = strategy_rows(s);
    double *columns = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(2 * rows, "two columns", &columns));
    for (int64_t t = 0; t + lag < s->steps; t++) {
        TRY_DONE(dpmf_strategy_column(s, t, columns));
        if (lag > 0) TRY_DONE(dpmf_strategy_column(s, t + lag, columns + rows));
        values[t] = base_dot(rows, columns, lag > 0 ? columns + rows : columns);
    }
done:
    base_free(columns);
    return status;
}

dpmf_status strategy_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t count = 0, inverse_count = 0;
    const double *c = NULL, *inverse = NULL;
    assert(lag >= 0 && lag < s->steps);
    if (strategy_can(s, STRATEGY_CAN_GRAM)) return s->ops->gram(s, lag, values);
    if (strategy_toeplitz(s, &count, &c, &inverse_count, &inverse)) {
        gram_toeplitz(s->steps, count, c, lag, values);
        return DPMF_OK;
    }
    if (strategy_bands(s) < s->steps) return gram_banded(s, lag, values);
    return gram_columns(s, lag, values);
}
