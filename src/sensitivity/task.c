/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the sensitivity share: X = C'C and what they have found, in words and as the public figure.
 *
 * X = C'C for the sensitivity, one diagonal at a time: what the structure of C says about X, what a diagonal costs, and
 * sweeps over the diagonals whose lag can separate two participations.
 *
 * Every strategy is a core without wrappers, its columns perhaps divided by their norms, repeated down the diagonal. X
 * is then block diagonal with equal blocks, X[t,u]/(d_t d_u) in terms of the core's, and X[t,u] = 0 for |t-u| >= w
 * where C has w bands (Pillutla et al. 2025, Lemma 3.16b). A core for which no diagonal of X comes cheaply (a user's
 * operator, a workload with a schedule) is held whole, column by column, up to SENSITIVITY_COLUMNS_MAX steps.
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/sum.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

static const double WORK_MAX = 1e11, SEARCH_MAX = 4e11; /* a minute or two */
static const int64_t BYTES_MAX = (int64_t)1 << 28;

sensitivity_gram sensitivity_gram_of(const sensitivity_task *task) {
    return (sensitivity_gram){.task = task};
}

/* ---- structure ---- */

/* The diagonals of a dense C that are not all zero. */
static int64_t dense_bands(int64_t n, const double *matrix) {
    int64_t bands = 1;
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u + bands <= t; u++) /* entries beyond the bands found so far */
            if (matrix[t * n + u] != 0) bands = t - u + 1;
    return bands;
}

int sensitivity_task_toeplitz(const sensitivity_task *task, int64_t *count, const double **c) {
    int64_t inverse_count = 0;
    const double *inverse = NULL;
    if (!strategy_toeplitz(task->core, count, c, &inverse_count, &inverse)) return 0;
    while (*count > 1 && (*c)[*count - 1] == 0)
        (*count)--;
    return 1;
}

/* Must the core be held whole? */
static int without_structure(const sensitivity_task *task) {
    return !strategy_can(task->core, STRATEGY_CAN_GRAM) && !strategy_can(task->core, STRATEGY_CAN_TOEPLITZ) &&
           strategy_bands(task->core) >= task->length;
}

/* The columns, where they begin and end, and from that how far apart two of them can overlap. */
static dpmf_status hold_columns(sensitivity_task *task) {
    const int64_t n = task->length, rows = strategy_rows(task->core);
    task->rows = rows;
    TRY(base_alloc(n, sizeof *task->begins, "the columns of C", (void **)&task->begins));
    TRY(base_alloc(n, sizeof *task->ends, "the columns of C", (void **)&task->ends));
    TRY(base_alloc_doubles(rows * n, "the columns of C", &task->columns));
    for (int64_t j = 0; j < n; j++) {
        double *column = task->columns + j * rows;
        int64_t i = 0, end = rows;
        if (j % 64 == 0) TRY(base_progress(task->run, "reading the columns of C", (double)j / (double)n));
        TRY(dpmf_strategy_column(task->core, j, column));
        while (i < rows && column[i] == 0)
            i++;
        while (end > i && column[end - 1] == 0)
            end--;
        task->begins[j] = i;
        task->ends[j] = end;
    }
    task->reach = 1;
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = n - 1; u >= t + task->reach; u--)
            if (task->begins[u] < task->ends[t]) task->reach = u - t + 1;
    return DPMF_OK;
}

/* Through the wrappers to the core; a second normalization divides by 1: the innermost norms are those that count. */
void sensitivity_task_unwrap(sensitivity_task *task) {
    const dpmf_strategy *s = task->strategy;
    if (task->work_max == 0) task->work_max = WORK_MAX;
    if (task->search_max == 0) task->search_max = SEARCH_MAX;
    if (task->bytes_max == 0) task->bytes_max = BYTES_MAX;
    task->norms = NULL;
    task->stamps = 1;
    for (;;) {
        const double *norms = NULL;
        int64_t stamps = 1;
        const dpmf_strategy *inside = strategy_scaled(strategy_block(s, &stamps), &norms);
        if (norms != NULL) task->norms = norms;
        task->stamps *= stamps;
        if (inside == s) break;
        s = inside;
    }
    task->core = s;
    task->length = task->reach = s->steps;
    assert(task->stamps * task->length == task->strategy->steps);
}

dpmf_status sensitivity_task_open(sensitivity_task *task) {
    int64_t count = 0;
    const double *c = NULL, *matrix = NULL;
    sensitivity_task_unwrap(task);
    matrix = strategy_matrix(task->core);
    if (sensitivity_task_toeplitz(task, &count, &c))
        task->reach = count;
    else if (matrix != NULL)
        task->reach = dense_bands(task->length, matrix);
    else if (strategy_bands(task->core) < task->reach)
        task->reach = strategy_bands(task->core);
    if (!without_structure(task) || task->length > SENSITIVITY_COLUMNS_MAX) return DPMF_OK;
    dpmf_status status = hold_columns(task);
    if (status != DPMF_OK) sensitivity_task_close(task);
    return status;
}

void sensitivity_task_close(sensitivity_task *task) {
    base_free(task->columns);
    base_free(task->begins);
    base_free(task->ends);
    task->columns = NULL;
    task->begins = task->ends = NULL;
}

double sensitivity_gram_cost(const sensitivity_task *task) {
    const double n = (double)task->n, length = (double)task->length;
    if (without_structure(task)) return task->columns != NULL ? length * (double)task->reach + n : INFINITY;
    if (strategy_matrix(task->core) != NULL) return length * length / 2 + n;
    if (strategy_can(task->core, STRATEGY_CAN_GRAM | STRATEGY_CAN_COVARIANCE)) return n; /* FFT: one number each */
    if (strategy_can(task->core, STRATEGY_CAN_GRAM) || strategy_can(task->core, STRATEGY_CAN_TOEPLITZ)) return 4 * n;
    return length * (double)strategy_bands(task->core) + n;
}

dpmf_status sensitivity_gram_lag(const sensitivity_gram *gram, int64_t lag, double *values) {
    const sensitivity_task *task = gram->task;
    const int64_t inside = task->length - lag;
    const double *d = task->norms;
    assert(lag >= 0 && lag < task->reach);
    if (gram->majorant != NULL) {
        /* The Toeplitz matrix of the majorant: sum_{i < n-t-lag} c_i c_{i+lag}. */
        int64_t length = gram->task->length;
        base_running sum = {0};
        for (int64_t i = 0; i + lag < length; i++) {
            if (i + lag < gram->count) base_running_add(&sum, gram->majorant[i] * gram->majorant[i + lag]);
            values[length - 1 - lag - i] = base_running_value(&sum);
        }
    } else if (task->columns != NULL) {
        for (int64_t t = 0; t + lag < task->length; t++) {
            const double *left = task->columns + t * task->rows, *right = left + lag * task->rows;
            int64_t from = task->begins[t] > task->begins[t + lag] ? task->begins[t] : task->begins[t + lag];
            int64_t to = task->ends[t] < task->ends[t + lag] ? task->ends[t] : task->ends[t + lag];
            values[t] = from < to ? base_dot(to - from, left + from, right + from) : 0;
        }
    } else
        TRY(strategy_gram(task->core, lag, values));
    for (int64_t t = 0; d != NULL && t < inside; t++)
        values[t] = lag == 0 && gram->majorant == NULL ? 1 : values[t] / (d[t] * d[t + lag]);
    for (int64_t t = 0; t < inside; t++)
        if (!isfinite(values[t]))
            return base_fail(DPMF_ERROR_NUMERICAL, "the product of columns %lld and %lld of C is not finite",
                             (long long)t, (long long)(t + lag));
    for (int64_t s = 0; s + 1 < task->stamps; s++) { /* the other blocks; 0 where the lag leads from one to the next */
        memset(values + s * task->length + inside, 0, (size_t)lag * sizeof *values);
        memcpy(values + (s + 1) * task->length, values, (size_t)inside * sizeof *values);
    }
    return DPMF_OK;
}

typedef struct sweep_part {
    const sensitivity_gram *gram;
    int64_t first, step, n;
    double *values;
} sweep_part;

static dpmf_status sweep_item(void *context, int64_t item, int worker) {
    const sweep_part *part = context;
    (void)worker;
    return sensitivity_gram_lag(part->gram, part->first + item * part->step, part->values + item * part->n);
}

/* A few diagonals at a time, in parallel; which ones they are does not change them. */
dpmf_status sensitivity_gram_sweep(const sensitivity_gram *gram, int64_t first, int64_t step, int64_t end,
                                   const char *what, sensitivity_visit visit, void *context) {
    const int64_t n = gram->task->n, total = first < end ? (end - first + step - 1) / step : 0;
    const int64_t room = gram->task->bytes_max / 2 / (n * (int64_t)sizeof(double));
    int64_t held = 2 * base_pool_threads(gram->task->pool);
    if (held > room) held = room > 0 ? room : 1;
    if (held > total) held = total;
    sweep_part part = {.gram = gram, .step = step, .n = n};
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(held * n, "diagonals of C'C", &part.values));
    for (int64_t done = 0; done < total; done += held) {
        int64_t count = total - done < held ? total - done : held;
        part.first = first + done * step;
        TRY_DONE(base_progress(gram->task->run, what, (double)done / (double)total));
        TRY_DONE(base_pool_run(gram->task->pool, count, sweep_item, &part));
        for (int64_t i = 0; i < count; i++)
            TRY_DONE(visit(context, part.first + i * step, part.values + i * n));
    }
done:
    base_free(part.values);
    return status;
}

/* ---- diagonals held ---- */

static double band_numbers(int64_t n, int64_t first, int64_t end) {
    double m = (double)(end - first);
    return m * (double)(n - first) - m * (m - 1) / 2;
}

int sensitivity_band_fits(const sensitivity_task *task, int64_t first, int64_t end) {
    return band_numbers(task->n, first, end) * (double)sizeof(double) <= (double)task->bytes_max;
}

static dpmf_status keep_lag(void *context, int64_t lag, const double *values) {
    const sensitivity_band *band = context;
    memcpy((double *)sensitivity_band_lag(band, lag), values, (size_t)(band->n - lag) * sizeof *values);
    return DPMF_OK;
}

dpmf_status sensitivity_band_open(const sensitivity_gram *gram, int64_t first, int64_t end, sensitivity_band *band) {
    *band = (sensitivity_band){.n = gram->task->n, .first = first, .end = end};
    assert(first <= end && sensitivity_band_fits(gram->task, first, end));
    TRY(base_alloc_doubles((int64_t)band_numbers(band->n, first, end), "the band of C'C", &band->values));
    dpmf_status status = sensitivity_gram_sweep(gram, first, 1, end, "multiplying columns of C", keep_lag, band);
    if (status != DPMF_OK) sensitivity_band_close(band);
    return status;
}

void sensitivity_band_close(sensitivity_band *band) {
    base_free(band->values);
    *band = (sensitivity_band){0};
}

/* ---- what has been found ---- */

/* In mechanism files: a text may be added, never changed. */
static const char *const METHODS[] = {
    [SENSITIVITY_METHOD_COLUMN] = "largest column norm",
    [SENSITIVITY_METHOD_EARLIEST] = "earliest pattern of a non-negative Toeplitz matrix",
    [SENSITIVITY_METHOD_NODES] = "participations counted under every node of the tree",
    [SENSITIVITY_METHOD_NON_NEGATIVE] = "sum of C'C over a pattern, non-negative there",
    [SENSITIVITY_METHOD_BALANCED] = "sum of |C'C| over a pattern, attained by signs",
    [SENSITIVITY_METHOD_CERTIFIED] = "best signs of a pattern, proven by a Cholesky factorization",
    [SENSITIVITY_METHOD_SEPARATE] = "dynamic program over separated columns",
    [SENSITIVITY_METHOD_NEIGHBOURS] = "dynamic program over neighbouring participations",
    [SENSITIVITY_METHOD_EVEN] = "bound by distance, attained by evenly spaced steps",
    [SENSITIVITY_METHOD_RESTARTS] = "sum over restarts",
    [SENSITIVITY_METHOD_CANCELLED] = "sum of C'C over a pattern, diagonal there",
    [SENSITIVITY_METHOD_ONE_COLUMN] = "maximum over the signs of one column on a pattern",
    [SENSITIVITY_METHOD_SPECTRAL] = "participations times the largest eigenvalue of C'C on a pattern",
    [SENSITIVITY_METHOD_ABSOLUTE] = "sum of |C'C| over a pattern",
    [SENSITIVITY_METHOD_SIGNS] = "sqrt(pi/2) times the maximum over signs on a pattern",
    [SENSITIVITY_METHOD_DUAL] = "semidefinite dual bound of a pattern",
    [SENSITIVITY_METHOD_ROWS] = "rows of |C'C|",
    [SENSITIVITY_METHOD_DISTANCE] = "largest |C'C| by distance",
    [SENSITIVITY_METHOD_MAJORANT] = "non-increasing majorant of a Toeplitz matrix, by distance",
    [SENSITIVITY_METHOD_LEVELS] = "most participations on every level of the tree",
    [SENSITIVITY_METHOD_LARGEST] = "participations times the largest squared column norm",
    [SENSITIVITY_METHOD_TOO_LARGE] = "sum of |C'C| over a pattern (too large for a closer bound)",
    [SENSITIVITY_METHOD_NORMS] = "sum of column norms over a pattern",
    [SENSITIVITY_METHOD_FOR_EVER] = "largest column norm of a stream that never ends",
    [SENSITIVITY_METHOD_ONE_COLUMN_BOUND] =
        "signs of one column on a pattern, and a dual bound where many steps are connected",
};

_Static_assert(sizeof METHODS / sizeof METHODS[0] == SENSITIVITY_METHOD_COUNT, "every method has a text");

const char *sensitivity_method(const char *text) {
    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++)
        if (strcmp(text, METHODS[i]) == 0) return METHODS[i];
    return NULL;
}

const char *sensitivity_method_text(sensitivity_method_kind method) {
    assert((unsigned)method < SENSITIVITY_METHOD_COUNT);
    return METHODS[method];
}

void sensitivity_found_improve(sensitivity_found *best, double square, sensitivity_method_kind method) {
    if (best->square >= 0 && square >= best->square) return;
    *best = (sensitivity_found){square, DPMF_UPPER_BOUND, method};
}

void sensitivity_found_sum(const sensitivity_task *task, double square, sensitivity_method_kind method,
                           sensitivity_found *out) {
    *out = (sensitivity_found){square, DPMF_EXACT, method};
    if (task->bound == DPMF_BOUND_ABSOLUTE)
        *out = (sensitivity_found){square, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_ABSOLUTE};
    if (task->bound == DPMF_BOUND_SIGNS)
        *out = (sensitivity_found){M_PI_2 * square, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_SIGNS};
}

dpmf_status sensitivity_too_many(const sensitivity_task *task) {
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "sensitivity bound %s: the patterns of this participation are too many to try (up to %d are "
                     "tried): use auto or absolute",
                     task->bound == DPMF_BOUND_SPECTRAL ? "spectral" : "signs", SENSITIVITY_ENUMERATE_MAX);
}

/*
 * An upper bound must not be rounded below. Entries of X are off by a few roundings where their sums are compensated or closed
 * forms (Toeplitz, trees, FFT), else by at most one per term; a pattern adds some more.
 */
static double rounded_up(const sensitivity_task *task, double square) {
    int plain = !strategy_can(task->core, STRATEGY_CAN_TOEPLITZ) &&
                (!strategy_can(task->core, STRATEGY_CAN_GRAM) || strategy_matrix(task->core) != NULL);
    double terms = (plain ? (double)task->reach : 0) + (double)task->k + 16;
    return square * (1 + 2 * DBL_EPSILON * terms);
}

dpmf_status sensitivity_conclude(const sensitivity_task *task, const sensitivity_found *found, dpmf_sensitivity *out) {
    double square = found->kind == DPMF_EXACT ? found->square : rounded_up(task, found->square);
    if (!(square >= 0 && isfinite(square)))
        return base_fail(DPMF_ERROR_NUMERICAL, "the sensitivity is beyond the range of a double");
    *out = (dpmf_sensitivity){sqrt(square), found->kind, DPMF_SENSITIVITY_PARTICIPATION,
                              sensitivity_method_text(found->method), task->one_column};
    return DPMF_OK;
}

dpmf_status sensitivity_check(const dpmf_strategy *strategy, const dpmf_participation *participation,
                              const dpmf_evaluate_options *o) {
    if (strategy == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity: the strategy is NULL");
    if (participation != NULL && participation->steps != strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the participation has %lld steps, the strategy %lld: they must agree",
                         (long long)participation->steps, (long long)strategy->steps);
    if ((int)o->adjacency < 0 || o->adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return base_fail(DPMF_ERROR_ARGUMENT, "adjacency %d, accepted 0 to 2", (int)o->adjacency);
    if ((int)o->sensitivity < 0 || o->sensitivity > DPMF_BOUND_SIGNS)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity bound %d, accepted 0 to 3", (int)o->sensitivity);
    if (o->columns != 0 && o->columns != 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "columns %lld, accepted 1, or 0 for contributions of any dimension",
                         (long long)o->columns);
    if (o->columns == 1 && o->sensitivity != DPMF_BOUND_AUTO)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sensitivity bound %s with columns 1: it is a bound for vectors, and one column takes auto",
                         dpmf_sensitivity_bound_name(o->sensitivity));
    if ((int)o->of < 0 || o->of > DPMF_SENSITIVITY_COLUMN)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity of %d, accepted 0 to 1", (int)o->of);
    return DPMF_OK;
}

dpmf_status sensitivity_check_one_stream(const dpmf_evaluate_options *options) {
    if (options->squares == 0 && options->squares_of == NULL) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "squares with a weight of %g: only dpmf_sensitivity_compute has a second stream",
                     options->squares);
}

/* ---- options in words ---- */

/*
 * Words for adjacency, bounds of the sensitivity and kinds of figures, and the presets: here because the sensitivity is the
 * first stage that reads these options.
 */

static const char *const KINDS[] = {[DPMF_EXACT] = "exact",
                                    [DPMF_UPPER_BOUND] = "upper bound",
                                    [DPMF_LOWER_BOUND] = "lower bound",
                                    [DPMF_ESTIMATE] = "estimate"};
static const char *const ADJACENCIES[] = {[DPMF_ADJACENCY_ZERO_OUT] = "zero-out",
                                          [DPMF_ADJACENCY_ADD_REMOVE] = "add-remove",
                                          [DPMF_ADJACENCY_REPLACE_ONE] = "replace-one"};
static const char *const BOUNDS[] = {[DPMF_BOUND_AUTO] = "auto",
                                     [DPMF_BOUND_SPECTRAL] = "spectral",
                                     [DPMF_BOUND_ABSOLUTE] = "absolute",
                                     [DPMF_BOUND_SIGNS] = "signs"};
enum { ADJACENCY_COUNT = sizeof ADJACENCIES / sizeof ADJACENCIES[0], BOUND_COUNT = sizeof BOUNDS / sizeof BOUNDS[0] };

static int find_name(int count, const char *const *names, const char *text) {
    for (int i = 0; text != NULL && i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    return -1;
}

const char *dpmf_certainty_name(dpmf_certainty kind) {
    return (unsigned)kind < sizeof KINDS / sizeof KINDS[0] ? KINDS[kind] : "unknown";
}

const char *dpmf_adjacency_name(dpmf_adjacency adjacency) {
    return (unsigned)adjacency < ADJACENCY_COUNT ? ADJACENCIES[adjacency] : "unknown";
}

dpmf_status dpmf_adjacency_parse(const char *text, dpmf_adjacency *out) {
    char shown[64];
    int found = find_name(ADJACENCY_COUNT, ADJACENCIES, text);
    if (found < 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "adjacency '%s', accepted: zero-out, add-remove, replace-one",
                         text == NULL ? "NULL" : base_show(text, strlen(text), shown));
    *out = (dpmf_adjacency)found;
    return DPMF_OK;
}

const char *dpmf_sensitivity_bound_name(dpmf_sensitivity_bound bound) {
    return (unsigned)bound < BOUND_COUNT ? BOUNDS[bound] : "unknown";
}

dpmf_status dpmf_sensitivity_bound_parse(const char *text, dpmf_sensitivity_bound *out) {
    char shown[64];
    int found = find_name(BOUND_COUNT, BOUNDS, text);
    if (found < 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity '%s', accepted: auto, spectral, absolute, signs",
                         text == NULL ? "NULL" : base_show(text, strlen(text), shown));
    *out = (dpmf_sensitivity_bound)found;
    return DPMF_OK;
}

dpmf_evaluate_options dpmf_evaluate_options_defaults(void) {
    return (dpmf_evaluate_options){.run = dpmf_run_defaults()};
}
