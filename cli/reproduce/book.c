/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of training runs, as the figures of McKenna 2024 compare it: noise multiplier x RMS loss.
 *
 *     amplified       sigma(epsilon, delta; ceil(n/b) steps of the Poisson-subsampled Gaussian with probability k b/n)
 *                     x RMS loss per unit of the largest column norm            (Propositions 2.1 and 2.2)
 *     not amplified   sigma(epsilon, delta; one Gaussian) x RMS loss with the sensitivity of k passes
 *
 * n steps, k epochs, b bands. Noise multipliers under sampling are proven upper bounds, within 8e-5 of epsilon.
 *
 * Columns normalized afterwards (Section 3.2). With d_t the column norms of a Toeplitz C of b bands, v = C^-1 e_0 and
 * w = A v, rows t <= n-b of B = A D C^-1 are those of the Toeplitz matrix d_0 w, and
 *
 *     B[t,u] = B[t-1,u] + d_t v_{t-u}        for the b - 1 rows after them:
 *
 * O(n b) in all. The covariance recursion for banded matrices, which dpmf_evaluate takes, is O(n b^2), too much for
 * the thousands of bands of some curves. The normalized columns have norm 1, and those of steps b or more apart do not
 * overlap, so k passes of at least b steps have sensitivity sqrt(k).
 */
#include "reproduce/book.h"

#include "output.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* What an entry of the book is. */
typedef enum topic { TOEPLITZ, BANDED, BANDED_LOWER, SQUARE_ROOT, GAUSSIAN, SAMPLED, RIVAL_LOSS } topic;

typedef struct key {
    topic topic;
    double epsilon;
    int64_t steps, epochs, bands;
} key;

typedef struct entry {
    key key;
    double value;
} entry;

struct book {
    const dpmf_run *run;
    entry *entries;
    int64_t count, capacity;
};

book *book_open(const dpmf_run *run) {
    book *b = allocate(1, sizeof *b);
    if (b != NULL) b->run = run;
    return b;
}

void book_close(book *b) {
    if (b != NULL) free(b->entries);
    free(b);
}

const dpmf_run *book_run(const book *b) {
    return b->run;
}

static bool look_up(const book *b, key k, double *value) {
    for (int64_t i = 0; i < b->count; ++i) {
        const key *e = &b->entries[i].key;
        if (e->topic != k.topic || e->epsilon != k.epsilon || e->steps != k.steps || e->epochs != k.epochs ||
            e->bands != k.bands)
            continue;
        *value = b->entries[i].value;
        return true;
    }
    return false;
}

static dpmf_status write_down(book *b, key k, double value) {
    if (b->count == b->capacity) {
        int64_t capacity = 2 * b->capacity + 64;
        entry *grown = realloc(b->entries, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return DPMF_ERROR_MEMORY;
        b->entries = grown;
        b->capacity = capacity;
    }
    b->entries[b->count++] = (entry){k, value};
    return DPMF_OK;
}

/* ---- losses, single participation ------------------------------------------------------------------------------ */

/* row[u] += factor v[u] for u <= t, and the sum of its squares: four sums, since one would wait for itself. */
static double add_and_square(int64_t t, double factor, const double *v, double *row) {
    double sum[4] = {0.0};
    int64_t u = 0;
    for (; u + 3 <= t; u += 4)
        for (int lane = 0; lane < 4; ++lane) {
            double now = row[u + lane] + factor * v[u + lane];
            row[u + lane] = now;
            sum[lane] += now * now;
        }
    for (; u <= t; ++u) {
        row[u] += factor * v[u];
        sum[0] += row[u] * row[u];
    }
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* sum over the rows of |B[t,:]|^2, see above; v is turned around for the sake of its order; `row` is scratch. */
static double normalized_squares(int64_t n, int64_t bands, const double *d, double *v, const double *w, double *row) {
    double prefix = 0.0, total = 0.0;
    for (int64_t t = 0; t <= n - bands; ++t) {
        prefix += w[t] * w[t];
        total += d[0] * d[0] * prefix;
    }
    for (int64_t u = 0; u <= n - bands; ++u)
        row[u] = d[0] * w[n - bands - u];
    for (int64_t i = 0; i < n / 2; ++i) {
        double swapped = v[i];
        v[i] = v[n - 1 - i];
        v[n - 1 - i] = swapped;
    }
    for (int64_t t = n - bands + 1; t < n; ++t) {
        row[t] = 0.0;
        total += add_and_square(t, d[t], v + (n - 1 - t), row);
    }
    return total;
}

static dpmf_status normalized_loss(const dpmf_workload *workload, const dpmf_strategy *strategy, int64_t bands,
                                   double *loss) {
    int64_t n = dpmf_strategy_steps(strategy);
    double *scratch = allocate(4 * n, sizeof *scratch);
    if (scratch == NULL) return DPMF_ERROR_MEMORY;
    double *norms = scratch, *v = scratch + n, *w = scratch + 2 * n, *row = scratch + 3 * n;
    w[0] = 1.0;
    dpmf_status status = dpmf_strategy_column_norms(strategy, norms);
    if (status == DPMF_OK) status = dpmf_strategy_solve(strategy, w, v);
    if (status == DPMF_OK) status = dpmf_workload_apply(workload, v, w);
    if (status == DPMF_OK) *loss = sqrt(normalized_squares(n, bands, norms, v, w, row) / (double)n);
    free(scratch);
    return status;
}

dpmf_status toeplitz_loss(book *b, int64_t steps, int64_t bands, double *loss) {
    key k = {.topic = TOEPLITZ, .steps = steps, .bands = bands};
    if (look_up(b, k, loss)) return DPMF_OK;
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    how.bands = bands;
    how.run = *b->run;
    dpmf_status status = dpmf_workload_create(steps, NULL, &workload);
    if (status == DPMF_OK) status = dpmf_optimize(DPMF_FAMILY_BANDED_TOEPLITZ, workload, NULL, &how, &strategy, &found);
    if (status == DPMF_OK) status = normalized_loss(workload, strategy, bands, loss);
    if (status == DPMF_OK) status = write_down(b, k, *loss);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return status;
}

dpmf_status banded_loss(book *b, int64_t steps, int64_t bands, double *loss, double *lower) {
    key k = {.topic = BANDED, .steps = steps, .bands = bands}, k_lower = k;
    double found_lower;
    k_lower.topic = BANDED_LOWER;
    if (lower == NULL) lower = &found_lower;
    if (look_up(b, k, loss) && look_up(b, k_lower, lower)) return DPMF_OK;
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    dpmf_workload *workload = NULL;
    how.bands = bands;
    how.run = *b->run;
    if (steps > 4096) how.tolerance = bands > 16 ? 0.1 : 1e-3; /* the last digits take most of the time */
    dpmf_status status = dpmf_workload_create(steps, NULL, &workload);
    if (status == DPMF_OK) status = dpmf_optimize(DPMF_FAMILY_BANDED, workload, NULL, &how, NULL, &found);
    if (status == DPMF_OK) {
        *loss = found.optimum_upper;
        *lower = found.optimum_lower;
        status = write_down(b, k, *loss);
    }
    if (status == DPMF_OK) status = write_down(b, k_lower, *lower);
    dpmf_workload_free(workload);
    return status;
}

/* Sensitivity x RMS error, without the lower bound. */
static dpmf_status rms_loss(const book *b, const dpmf_workload *workload, const dpmf_participation *participation,
                            const dpmf_strategy *strategy, double *loss) {
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_evaluation found;
    how.lower_bound = DPMF_LOWER_BOUND_NONE;
    how.run = *b->run;
    dpmf_status status = dpmf_evaluate(workload, participation, strategy, &how, &found, NULL);
    if (status == DPMF_OK) *loss = found.rms_loss;
    return status;
}

dpmf_status square_root_loss(book *b, int64_t steps, int64_t bands, double *loss) {
    key k = {.topic = SQUARE_ROOT, .steps = steps, .bands = bands};
    if (look_up(b, k, loss)) return DPMF_OK;
    dpmf_strategy_options made = dpmf_strategy_options_defaults();
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    made.bands = bands;
    dpmf_status status = dpmf_workload_create(steps, NULL, &workload);
    if (status == DPMF_OK) status = dpmf_strategy_create(DPMF_FAMILY_BSR, workload, &made, &strategy);
    if (status == DPMF_OK) status = rms_loss(b, workload, NULL, strategy, loss);
    if (status == DPMF_OK) status = write_down(b, k, *loss);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return status;
}

/* ---- noise multipliers ----------------------------------------------------------------------------------------- */

static dpmf_status calibrate(book *b, key k, dpmf_sampling sampling, double *sigma) {
    if (look_up(b, k, sigma)) return DPMF_OK;
    dpmf_account_options how = dpmf_account_options_defaults();
    dpmf_privacy found;
    how.sampling = sampling;
    how.compositions = k.steps;
    how.run = *b->run;
    dpmf_status status = dpmf_calibrate_sigma(k.epsilon, BOOK_DELTA, &how, &found);
    if (status != DPMF_OK) return status;
    *sigma = found.sigma;
    return write_down(b, k, *sigma);
}

dpmf_status gaussian_sigma(book *b, double epsilon, int64_t compositions, double *sigma) {
    key k = {.topic = GAUSSIAN, .epsilon = epsilon, .steps = compositions};
    return calibrate(b, k, (dpmf_sampling){0}, sigma);
}

dpmf_status sampled_sigma(book *b, double epsilon, int64_t steps, int64_t epochs, int64_t bands, double *sigma) {
    key k = {.topic = SAMPLED, .epsilon = epsilon, .steps = steps, .epochs = epochs, .bands = bands};
    dpmf_sampling sampling = {DPMF_SAMPLING_BLOCK_CYCLIC, (double)epochs / (double)steps, bands, 0, 0, 0};
    return calibrate(b, k, sampling, sigma);
}

/* ---- noise ----------------------------------------------------------------------------------------------------- */

dpmf_status amplified_noise(book *b, double epsilon, int64_t steps, int64_t epochs, int64_t bands, double *noise) {
    double sigma, loss;
    dpmf_status status = sampled_sigma(b, epsilon, steps, epochs, bands, &sigma);
    if (status == DPMF_OK) status = toeplitz_loss(b, steps, bands, &loss);
    if (status == DPMF_OK) *noise = sigma * loss;
    return status;
}

int64_t next_bands(int64_t bands, int64_t steps, int64_t epochs) {
    int64_t most = steps / epochs;
    if (bands == 0) return 1;
    if (bands == most) return 0;
    return 2 * bands < most ? 2 * bands : most;
}

dpmf_status best_noise(book *b, double epsilon, int64_t steps, int64_t epochs, double *noise, int64_t *bands) {
    double least = INFINITY;
    int64_t at = 0;
    for (int64_t tried = next_bands(0, steps, epochs); tried != 0; tried = next_bands(tried, steps, epochs)) {
        double found;
        dpmf_status status = amplified_noise(b, epsilon, steps, epochs, tried, &found);
        if (status != DPMF_OK) return status;
        if (found < least) {
            least = found;
            at = tried;
        }
    }
    *noise = least;
    if (bands != NULL) *bands = at;
    return DPMF_OK;
}

dpmf_status full_batch_noise(book *b, double epsilon, int64_t steps, double *noise) {
    double sigma, loss;
    dpmf_status status = gaussian_sigma(b, epsilon, steps, &sigma);
    if (status == DPMF_OK) status = toeplitz_loss(b, steps, 1, &loss);
    if (status == DPMF_OK) *noise = sigma * loss / (double)steps;
    return status;
}

/* ---- the others ------------------------------------------------------------------------------------------------ */

/* The optimum of one epoch: within 1e-4 of it, by a stream of 8 nodes, since any number of steps is wanted. */
static dpmf_status make_stamping(const book *b, int64_t steps, int64_t epochs, dpmf_strategy **out) {
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    dpmf_workload *block = NULL;
    dpmf_strategy *once = NULL;
    how.buffers = 8;
    how.run = *b->run;
    dpmf_status status = dpmf_workload_create(steps / epochs, NULL, &block);
    if (status == DPMF_OK) status = dpmf_optimize(DPMF_FAMILY_TVBLT, block, NULL, &how, &once, &found);
    if (status == DPMF_OK) status = dpmf_strategy_create_stamped(once, epochs, out);
    dpmf_strategy_free(once);
    dpmf_workload_free(block);
    return status;
}

static dpmf_status make_rival(const book *b, rival who, const dpmf_workload *workload,
                              const dpmf_participation *participation, int64_t epochs, dpmf_strategy **out) {
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    switch (who) {
    case RIVAL_TREE:
        return dpmf_strategy_create(DPMF_FAMILY_TREE_ONLINE, workload, NULL, out);
    case RIVAL_SQUARE_ROOT:
        return dpmf_strategy_create(DPMF_FAMILY_TOEPLITZ, workload, NULL, out);
    case RIVAL_STAMPING:
        return make_stamping(b, dpmf_workload_steps(workload), epochs, out);
    default:
        how.buffers = who == RIVAL_BLT_2 ? 2 : 5;
        how.run = *b->run;
        return dpmf_optimize(DPMF_FAMILY_BLT, workload, participation, &how, out, &found);
    }
}

static dpmf_status rival_loss(book *b, rival who, int64_t steps, int64_t epochs, double *loss) {
    key k = {.topic = RIVAL_LOSS, .steps = steps, .epochs = epochs, .bands = who};
    if (look_up(b, k, loss)) return DPMF_OK;
    dpmf_workload *workload = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_participation_kind kind = epochs == 1 ? DPMF_PARTICIPATION_SINGLE : DPMF_PARTICIPATION_CYCLIC;
    dpmf_status status = dpmf_workload_create(steps, NULL, &workload);
    if (status == DPMF_OK)
        status = dpmf_participation_create(kind, steps, epochs, (steps + epochs - 1) / epochs, &participation);
    if (status == DPMF_OK) status = make_rival(b, who, workload, participation, epochs, &strategy);
    if (status == DPMF_OK) status = rms_loss(b, workload, participation, strategy, loss);
    if (status == DPMF_OK) status = write_down(b, k, *loss);
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return status;
}

dpmf_status rival_noise(book *b, rival who, double epsilon, int64_t steps, int64_t epochs, double *noise) {
    double sigma, loss;
    assert(steps % epochs == 0);
    if (who == RIVAL_SGD) return amplified_noise(b, epsilon, steps, epochs, 1, noise);
    dpmf_status status = gaussian_sigma(b, epsilon, 1, &sigma);
    if (status != DPMF_OK) return status;
    status = who == RIVAL_UNAMPLIFIED ? toeplitz_loss(b, steps, steps / epochs, &loss)
                                      : rival_loss(b, who, steps, epochs, &loss);
    if (status != DPMF_OK) return status;
    *noise = sigma * loss * (who == RIVAL_UNAMPLIFIED ? sqrt((double)epochs) : 1.0);
    return DPMF_OK;
}
