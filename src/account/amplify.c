/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amplification by sampling: this file computes the numbers of a strategy that accounting needs.
 *
 * Block-cyclic Poisson sampling (McKenna 2024, Algorithm 2 and Proposition 2.1; Pillutla et al. 2025, Theorem 3.21): a
 * unit's possible steps are B apart, so that with C of at most B bands its columns touch disjoint rows. The release is
 * then dominated by ceil(n/B) compositions of the subsampled Gaussian with probability min(1, Q B) and sensitivity the
 * largest column norm. With more bands the columns overlap and none of this holds, so that such a C is refused.
 *
 * Poisson sampling of a C >= 0 of several bands: two numbers of C are enough (account/overlap.c).
 *
 * Balls-in-bins and b-min-separation sampling (Choquette-Choo et al. 2024): the privacy loss is that of a mixture of
 * Gaussians whose means are sums of columns of C. That a unit that always moves in the same direction is the worst case
 * needs entries that are not negative, which is checked.
 */
#include "account/question.h"

#include "account/account.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "strategy/strategy.h"

#include <math.h>
#include <string.h>

int account_sampling_overlaps(const dpmf_sampling *sampling) {
    return sampling->kind == DPMF_SAMPLING_POISSON && sampling->cap == 0;
}

static dpmf_status largest_norm(const dpmf_strategy *strategy, double *out) {
    int64_t n = strategy->steps;
    double *norms = NULL, largest = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "the column norms", &norms));
    TRY_DONE(dpmf_strategy_column_norms(strategy, norms));
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, norms[t]);
    *out = largest;
done:
    base_free(norms);
    return status;
}

/* Room for the rounding of a norm, so that a value written with full precision is not refused. */
static const double NORM_ROUNDING = 1e-12;
static const double OVERLAP_ROUNDING = 1e-10; /* of sums of products, from above */

static dpmf_status check_bands(const dpmf_strategy *strategy, int64_t accepted, const char *sampling) {
    int64_t bands = strategy_bands(strategy);
    if (bands <= accepted && strategy_rows(strategy) == strategy->steps) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "%s sampling: the strategy (%s) has %lld bands, accepted at most %lld: a unit's columns would "
                     "overlap",
                     sampling, strategy->family, (long long)bands, (long long)accepted);
}

/* Above this the check that no entry is negative, O(rows) per column, would take minutes for a C without structure. */
enum { COLUMNS_MAX = 1 << 15 };
static const char MONTE_CARLO[] = "Monte Carlo accounting";

static dpmf_status check_values(const dpmf_strategy *s, int64_t count, const double *values, const char *account) {
    for (int64_t i = 0; i < count; i++)
        if (!(values[i] >= 0))
            return base_fail(DPMF_ERROR_UNSUPPORTED,
                             "the strategy (%s) has the negative entry %g: %s is proven for entries that are not "
                             "negative",
                             s->family, values[i], account);
    return DPMF_OK;
}

static dpmf_status check_non_negative(const dpmf_strategy *s, const char *account) {
    int64_t count = 0, inverse_count = 0, n = s->steps, rows = strategy_rows(s);
    const double *c = NULL, *inverse = NULL;
    double *column = NULL;
    dpmf_status status = DPMF_OK;
    if (strategy_toeplitz(s, &count, &c, &inverse_count, &inverse) && c != NULL)
        return check_values(s, count, c, account);
    if (n > COLUMNS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "%s, of a C that is not Toeplitz: %lld steps, at most %d are accepted",
                         account, (long long)n, COLUMNS_MAX);
    TRY_DONE(base_alloc_doubles(rows, "a column", &column));
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(dpmf_strategy_column(s, t, column));
        TRY_DONE(check_values(s, rows, column, account));
    }
done:
    base_free(column);
    return status;
}

/*
 * The largest row sum of G = C'C with its diagonal raised to the largest entry of it, over that entry, and the norm of the sum of
 * all columns over the largest norm of one. For a C without structure by its columns: row t of G sums to <column t, C 1>. A diagonal
 * C, for example the identity as a dense matrix, has one band: 0.
 */
static dpmf_status find_overlap(const dpmf_strategy *s, double norm, double *overlap, double *whole) {
    const int64_t n = s->steps;
    int64_t count = 0, inverse_count = 0;
    const double *c = NULL, *inverse = NULL;
    double *ones = NULL, *sum = NULL, *column = NULL, most = 0;
    int diagonal = 1;
    dpmf_status status = DPMF_OK;
    TRY_DONE(check_non_negative(s, "Poisson accounting of several bands"));
    TRY_DONE(base_alloc_doubles(n, "ones", &ones));
    TRY_DONE(base_alloc_doubles(n, "the sum of the columns", &sum));
    TRY_DONE(base_alloc_doubles(n, "a column", &column));
    for (int64_t t = 0; t < n; t++)
        ones[t] = 1;
    TRY_DONE(dpmf_strategy_apply(s, ones, sum));
    *whole = sqrt(base_dot(n, sum, sum)) / norm * (1 + OVERLAP_ROUNDING);
    if (strategy_toeplitz(s, &count, &c, &inverse_count, &inverse) && c != NULL) {
        for (int64_t t = 0; t < n; t++) /* C' is C with the order of the steps reversed on both sides */
            ones[t] = sum[n - 1 - t];
        TRY_DONE(dpmf_strategy_apply(s, ones, column));
        TRY_DONE(dpmf_strategy_column_norms(s, ones));
        for (int64_t t = 0; t < n; t++)
            most = fmax(most, column[n - 1 - t] - ones[t] * ones[t]);
        for (int64_t lag = 1; lag < count; lag++)
            diagonal = diagonal && c[lag] == 0;
    } else {
        for (int64_t t = 0; t < n; t++) {
            TRY_DONE(dpmf_strategy_column(s, t, column));
            most = fmax(most, base_dot(n, column, sum) - base_dot(n, column, column));
            for (int64_t row = 0; row < n; row++)
                diagonal = diagonal && (row == t || column[row] == 0);
        }
    }
    *overlap = diagonal ? 0 : (1 + most / (norm * norm)) * (1 + OVERLAP_ROUNDING);
done:
    base_free(ones);
    base_free(sum);
    base_free(column);
    return status;
}

dpmf_status account_amplify(const dpmf_strategy *strategy, const dpmf_sampling *sampling, double claimed_norm,
                            account_amplification *out) {
    double norm = 0;
    if (strategy == NULL || sampling == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "amplify: the strategy or the sampling is NULL");
    TRY(account_sampling_check(sampling));
    if (!(claimed_norm >= 0 && isfinite(claimed_norm)))
        return base_fail(DPMF_ERROR_ARGUMENT, "claimed column norm %g, accepted: above 0, or 0 for none", claimed_norm);
    if (!account_sampling_composes(sampling))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "amplify: only poisson, block-cyclic and fixed-size sampling are compositions of one step");
    int64_t blocks = account_sampling_blocks(sampling);
    const int overlaps = account_sampling_overlaps(sampling) && strategy_bands(strategy) > 1;
    double overlap = 0, whole = 0;
    TRY(check_bands(strategy, overlaps ? strategy->steps : blocks, dpmf_sampling_describe(sampling->kind)->name));
    TRY(largest_norm(strategy, &norm));
    if (overlaps) TRY(find_overlap(strategy, norm, &overlap, &whole));
    if (claimed_norm != 0 && !(norm <= claimed_norm * (1 + NORM_ROUNDING)))
        return base_fail(DPMF_ERROR_ARGUMENT, "claimed largest column norm %.12g, but it is %.12g", claimed_norm, norm);
    int64_t n = strategy->steps;
    *out = (account_amplification){
        .compositions = n / blocks + (n % blocks != 0),
        .probability = account_sampling_turn(sampling),
        .overlap = overlap,
        .whole = whole,
        .sensitivity = {norm, DPMF_EXACT, DPMF_SENSITIVITY_COLUMN, "largest column norm", 0},
    };
    return DPMF_OK;
}

/* ---- Monte Carlo schemes ---- */

static dpmf_status bin_gram(const dpmf_strategy *s, int64_t bins, double **out) {
    int64_t n = s->steps, rows = strategy_rows(s);
    double *means = NULL, *x = NULL, *gram = NULL;
    dpmf_status status = DPMF_OK;
    if (bins > n)
        return base_fail(DPMF_ERROR_ARGUMENT, "balls-in-bins: %lld bins, accepted 1 to %lld (the steps)",
                         (long long)bins, (long long)n);
    if (bins > INT64_MAX / rows / 8)
        return base_fail(DPMF_ERROR_MEMORY, "balls-in-bins: %lld bins of %lld rows do not fit the memory",
                         (long long)bins, (long long)rows);
    TRY_DONE(base_alloc_doubles(bins * bins, "the Gram matrix of the bins", &gram));
    int64_t count = 0, unused = 0;
    const double *c = NULL, *inverse = NULL;
    if (strategy_toeplitz(s, &count, &c, &unused, &inverse) && c != NULL && rows == n) {
        /* For a Toeplitz C columns s < t share sum_{u < n-t} c_u c_{u+t-s}: per distance one running sum serves all pairs. */
        for (int64_t apart = 0; apart < count && apart < n; apart++) {
            double sum = 0;
            for (int64_t t = n - 1; t >= apart; t--) {
                const int64_t u = n - 1 - t, i = (t - apart) % bins, j = t % bins;
                if (u + apart < count) sum += c[u] * c[u + apart];
                gram[i * bins + j] += sum;
                if (apart > 0) gram[j * bins + i] += sum;
            }
        }
    } else {
        TRY_DONE(base_alloc_doubles(bins * rows, "the means of the bins", &means));
        TRY_DONE(base_alloc_doubles(n, "the steps of a bin", &x));
        /* means[j] = C x, x the indicator of the steps of bin j. */
        for (int64_t j = 0; j < bins; j++) {
            memset(x, 0, (size_t)n * sizeof *x);
            for (int64_t t = j; t < n; t += bins)
                x[t] = 1;
            TRY_DONE(dpmf_strategy_apply(s, x, means + j * rows));
        }
        for (int64_t i = 0; i < bins; i++)
            for (int64_t j = 0; j <= i; j++)
                gram[i * bins + j] = gram[j * bins + i] = base_dot(rows, means + i * rows, means + j * rows);
    }
    *out = gram;
    gram = NULL;
done:
    base_free(means);
    base_free(gram);
    base_free(x);
    return status;
}

/* numbers[t * bands + j] = C[t+j, t]. */
static dpmf_status banded_columns(const dpmf_strategy *s, int64_t bands, double **out) {
    int64_t n = s->steps;
    double *columns = NULL, *row = NULL;
    dpmf_status status = DPMF_OK;
    if (!strategy_can(s, STRATEGY_CAN_ROW))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "min-sep: the strategy (%s) is not stored by its bands", s->family);
    TRY_DONE(base_alloc_doubles(n * bands, "the columns", &columns));
    TRY_DONE(base_alloc_doubles(bands, "a row", &row));
    for (int64_t t = 0; t < n; t++) {
        s->ops->row(s, t, row);
        for (int64_t j = 0; j < bands && j <= t; j++)
            columns[(t - j) * bands + j] = row[j];
    }
    *out = columns;
    columns = NULL;
done:
    base_free(columns);
    base_free(row);
    return status;
}

static dpmf_status sensed(const dpmf_strategy *s, dpmf_participation_kind kind, int64_t b, const dpmf_run *run,
                          dpmf_sensitivity *out) {
    int64_t n = s->steps;
    dpmf_participation *participation = NULL;
    dpmf_evaluate_options options = dpmf_evaluate_options_defaults();
    options.run = *run;
    TRY(dpmf_participation_create(kind, n, n / b + (n % b != 0), b, &participation));
    dpmf_status status = dpmf_sensitivity_compute(s, participation, &options, out);
    dpmf_participation_free(participation);
    return status;
}

dpmf_status account_amplify_scheme(const dpmf_strategy *s, const dpmf_sampling *sampling, int warm, const dpmf_run *run,
                                   account_amplified *out) {
    int bins = account_sampling_allocates(sampling);
    int64_t n = s->steps, b = sampling->count;
    account_amplified a = {.scheme = {.kind = bins ? MONTECARLO_SCHEME_BINS : MONTECARLO_SCHEME_SEPARATED,
                                      .bins = b,
                                      .steps = n,
                                      .separation = b,
                                      .probability = sampling->probability,
                                      .warm = warm}};
    dpmf_status status = DPMF_OK;
    TRY_DONE(largest_norm(s, &a.norm));
    if (bins) {
        TRY_DONE(check_non_negative(s, MONTE_CARLO));
        TRY_DONE(bin_gram(s, b, &a.numbers));
        a.scheme.gram = a.numbers;
    } else {
        TRY_DONE(check_bands(s, b, "min-sep"));
        a.scheme.bands = strategy_bands(s);
        TRY_DONE(banded_columns(s, a.scheme.bands, &a.numbers));
        TRY_DONE(check_values(s, n * a.scheme.bands, a.numbers, MONTE_CARLO));
        a.scheme.columns = a.numbers;
    }
    TRY_DONE(
        sensed(s, bins ? DPMF_PARTICIPATION_CYCLIC : DPMF_PARTICIPATION_MIN_SEPARATION, b < n ? b : n, run, &a.sensed));
    *out = a;
    a.numbers = NULL;
done:
    base_free(a.numbers);
    return status;
}

void account_amplified_free(account_amplified *amplified) {
    base_free(amplified->numbers);
    *amplified = (account_amplified){0};
}
