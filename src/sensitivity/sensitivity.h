/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensitivity: what its parts share. X = C'C throughout, X_p its restriction to a pattern p (the steps of one unit),
 * and
 *
 *     f(X_p) = max { sum_ij X_ij <g_i, g_j> : |g_i| <= 1 },   sensitivity^2 = max over the patterns of f(X_p).
 *
 * f grows with X in the order of semidefinite matrices, and with the pattern: only the largest patterns matter.
 */
#ifndef DPMF_SENSITIVITY_H
#define DPMF_SENSITIVITY_H

#include "base/threads.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

/* How a value was found; sensitivity/task.c has the texts, which mechanism files spell out. */
typedef enum sensitivity_method_kind {
    /* exact */
    SENSITIVITY_METHOD_COLUMN = 0,
    SENSITIVITY_METHOD_EARLIEST,
    SENSITIVITY_METHOD_NODES,
    SENSITIVITY_METHOD_NON_NEGATIVE,
    SENSITIVITY_METHOD_BALANCED,
    SENSITIVITY_METHOD_CERTIFIED,
    SENSITIVITY_METHOD_SEPARATE,
    SENSITIVITY_METHOD_NEIGHBOURS,
    SENSITIVITY_METHOD_EVEN,
    SENSITIVITY_METHOD_RESTARTS,
    SENSITIVITY_METHOD_CANCELLED,
    SENSITIVITY_METHOD_ONE_COLUMN,
    /* upper bounds */
    SENSITIVITY_METHOD_SPECTRAL,
    SENSITIVITY_METHOD_ABSOLUTE,
    SENSITIVITY_METHOD_SIGNS,
    SENSITIVITY_METHOD_DUAL,
    SENSITIVITY_METHOD_ROWS,
    SENSITIVITY_METHOD_DISTANCE,
    SENSITIVITY_METHOD_MAJORANT,
    SENSITIVITY_METHOD_LEVELS,
    SENSITIVITY_METHOD_LARGEST,
    SENSITIVITY_METHOD_TOO_LARGE,
    SENSITIVITY_METHOD_NORMS,
    SENSITIVITY_METHOD_FOR_EVER,
    SENSITIVITY_METHOD_ONE_COLUMN_BOUND,
    SENSITIVITY_METHOD_COUNT
} sensitivity_method_kind;

/* Its text, a string constant; and the constant equal to `text` among them, or NULL. */
const char *sensitivity_method_text(sensitivity_method_kind method);
const char *sensitivity_method(const char *text);

typedef struct sensitivity_found {
    double square; /* of the sensitivity; negative: nothing found yet */
    dpmf_certainty kind;
    sensitivity_method_kind method;
} sensitivity_found;

#define SENSITIVITY_NOT_FOUND ((sensitivity_found){-1, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_NORMS})

void sensitivity_found_improve(sensitivity_found *best, double square, sensitivity_method_kind method);

typedef struct sensitivity_task {
    const dpmf_strategy *strategy;
    workload_pattern pattern;
    dpmf_sensitivity_bound bound;
    int64_t n, k, b;
    int one_column;                   /* 1: patterns are valued for contributions of one number */
    const dpmf_participation *listed; /* WORKLOAD_LISTED: has the patterns */
    const dpmf_run *run;
    base_pool *pool;

    /* What may be spent before a looser but cheaper bound is given; 0: the defaults */
    double work_max;   /* multiplications for making diagonals of X and for dynamic programs */
    double search_max; /* multiplications for looking at patterns one by one */
    int64_t bytes_max; /* for diagonals and for the matrices of patterns, each */

    /* C = `stamps` times core, `length` steps each, its columns divided by `norms` (NULL: they are not) */
    const dpmf_strategy *core;
    const double *norms; /* `length` numbers */
    int64_t stamps, length;
    int64_t reach; /* X[t,u] = 0 for |t-u| >= reach, 1 <= reach <= length */
    int falls;     /* X is known to be non-negative, and not to rise with the distance of two steps */

    /* A core without structure, held whole: columns of `rows` numbers, not zero from `begins` to before `ends` */
    double *columns;
    int64_t rows, *begins, *ends;
} sensitivity_task;

/* The limits, and the core inside the wrappers: what a family is asked with (sensitivity of strategy/strategy.h). */
void sensitivity_task_unwrap(sensitivity_task *task);

/* The pattern as the general routes take it: one step per epoch and every step are fixed patterns. */
workload_pattern sensitivity_task_pattern(const sensitivity_task *task);

/* That, and what is known of C, from `strategy` and `run`. */
DPMF_MUST_CHECK dpmf_status sensitivity_task_open(sensitivity_task *task);
void sensitivity_task_close(sensitivity_task *task);

/* First column of the core if it is Toeplitz, without trailing zeros: 1. Else 0. */
int sensitivity_task_toeplitz(const sensitivity_task *task, int64_t *count, const double **c);

enum { SENSITIVITY_SIGNS_MAX = 20 };        /* participations for which all signs are tried */
enum { SENSITIVITY_PATTERN_MAX = 4096 };    /* participations for which the matrix X_p is held */
enum { SENSITIVITY_COLUMNS_MAX = 4096 };    /* steps for which a C without structure is held whole */
enum { SENSITIVITY_ENUMERATE_MAX = 20000 }; /* patterns that are tried one by one */

/* The public figure: its root, an upper bound rounded up; DPMF_ERROR_NUMERICAL if it is not finite. */
DPMF_MUST_CHECK dpmf_status sensitivity_conclude(const sensitivity_task *task, const sensitivity_found *found,
                                                 dpmf_sensitivity *out);

/* Do the arguments of a public call make sense? `participation` may be NULL. */
DPMF_MUST_CHECK dpmf_status sensitivity_check(const dpmf_strategy *strategy, const dpmf_participation *participation,
                                              const dpmf_evaluate_options *o);

/* Refuses options->squares, where the answer is about one stream. */
DPMF_MUST_CHECK dpmf_status sensitivity_check_one_stream(const dpmf_evaluate_options *options);

/* dpmf_sensitivity_compute for one stream: options->squares is refused. */
DPMF_MUST_CHECK dpmf_status sensitivity_of_stream(const dpmf_strategy *strategy,
                                                  const dpmf_participation *participation,
                                                  const dpmf_evaluate_options *options, dpmf_sensitivity *out);

/* ---- X by diagonals (sensitivity/task.c) ---- */

typedef struct sensitivity_gram {
    const sensitivity_task *task;
    double *majorant; /* NULL; or the Toeplitz core's coefficients are replaced by these (sensitivity/search.c) */
    int64_t count;
} sensitivity_gram;

/* X itself. */
sensitivity_gram sensitivity_gram_of(const sensitivity_task *task);

/* Multiplications for one diagonal; INFINITY: too many to try. */
double sensitivity_gram_cost(const sensitivity_task *task);

/* values[t] = X[t, t+lag], t < n - lag, for lag < reach; DPMF_ERROR_NUMERICAL if one is not finite. */
DPMF_MUST_CHECK dpmf_status sensitivity_gram_lag(const sensitivity_gram *gram, int64_t lag, double *values);

/* Calls visit for the lags first, first + step, ... below end <= reach, in this order and from the calling thread. */
typedef dpmf_status (*sensitivity_visit)(void *context, int64_t lag, const double *values);
DPMF_MUST_CHECK dpmf_status sensitivity_gram_sweep(const sensitivity_gram *gram, int64_t first, int64_t step,
                                                   int64_t end, const char *what, sensitivity_visit visit,
                                                   void *context);

/* The diagonals [first, end) held in memory. */
typedef struct sensitivity_band {
    int64_t n, first, end;
    double *values;
} sensitivity_band;
int sensitivity_band_fits(const sensitivity_task *task, int64_t first, int64_t end); /* in task->bytes_max? */
DPMF_MUST_CHECK dpmf_status sensitivity_band_open(const sensitivity_gram *gram, int64_t first, int64_t end,
                                                  sensitivity_band *band);
void sensitivity_band_close(sensitivity_band *band);

/* X[t, t+lag] for all t, first <= lag < end. */
static inline const double *sensitivity_band_lag(const sensitivity_band *band, int64_t lag) {
    int64_t before = lag - band->first; /* diagonals of n - first, n - first - 1, ... numbers */
    return band->values + before * (band->n - band->first) - before * (before - 1) / 2;
}

/* ---- one pattern (sensitivity/pattern.c) ---- */

/* f(X) for a k x k matrix, or the bound asked for. */
DPMF_MUST_CHECK dpmf_status sensitivity_pattern_evaluate(int64_t k, const double *x, dpmf_sensitivity_bound bound,
                                                         sensitivity_found *out);

/*
 * The same for contributions of one number, max u'Xu over signs: exact where no more than SENSITIVITY_SIGNS_MAX steps are
 * connected, else a bound. A pattern whose value for vectors is no more than `enough`, or exact, gets that value.
 */
DPMF_MUST_CHECK dpmf_status sensitivity_pattern_column(int64_t k, const double *x, double enough,
                                                       sensitivity_found *out);

/* Block ascent: `u` nearest signs, `low` reached, `high` proven bound; `work`: k k, `vectors`: sensitivity_ascent_room(k). */
int64_t sensitivity_ascent_room(int64_t k);
DPMF_MUST_CHECK dpmf_status sensitivity_ascent(int64_t k, const double *x, double *work, double *vectors, double *u,
                                               double *low, double *high);
/*
 * The same from unit vectors g that the caller has (k of r numbers, and r of room), for some sweeps at most: `d` gets a
 * diagonal with Diag(d) - X psd and the sum `high`. `work` has k * k numbers, `d` 2 k, of which the first k count.
 */
DPMF_MUST_CHECK dpmf_status sensitivity_cover(int64_t k, int64_t r, int64_t sweeps, const double *x, double *g,
                                              double *work, double *d, double *low, double *high);

/* k x (largest eigenvalue of x), not below it by rounding; `work` has k * k + k numbers. */
DPMF_MUST_CHECK dpmf_status sensitivity_pattern_spectral(int64_t k, const double *x, double *work, double *out);

/* ---- many patterns (sensitivity/search.c) ---- */

/*
 * Patterns and what is known of each before its matrix is made: key[i] is not below any value that the search could
 * give it. `fill` writes the matrices of the patterns `which`, `size` x `size` numbers apart, sizes[i] x sizes[i] each.
 */
typedef struct sensitivity_patterns {
    int64_t count, size;
    const int64_t *sizes;
    const double *keys;
    dpmf_status (*fill)(void *context, int64_t count, const int64_t *which, double *matrices);
    void *context;
    int64_t *winner; /* NULL, or gets the pattern that the answer is the value (or the key) of */
} sensitivity_patterns;
DPMF_MUST_CHECK dpmf_status sensitivity_patterns_search(const sensitivity_task *task,
                                                        const sensitivity_patterns *patterns, sensitivity_found *out);

/* Min-separation and shuffled patterns one by one, if they are few: then `there` = 1. (sensitivity/search.c) */
DPMF_MUST_CHECK dpmf_status sensitivity_enumerate(const sensitivity_task *task, int *there, sensitivity_found *out);

/* ---- the kinds of participation (sensitivity/sensitivity.c, sensitivity/apart.c, sensitivity/listed.c) ---- */

/* Each gives task->bound; DPMF_ERROR_UNSUPPORTED if it cannot be computed. Full participation is cyclic, b = 1. */
DPMF_MUST_CHECK dpmf_status sensitivity_cyclic(const sensitivity_task *task, sensitivity_found *out);
DPMF_MUST_CHECK dpmf_status sensitivity_separated(const sensitivity_task *task, sensitivity_found *out);
DPMF_MUST_CHECK dpmf_status sensitivity_shuffled(const sensitivity_task *task, sensitivity_found *out);

DPMF_MUST_CHECK dpmf_status sensitivity_listed(const sensitivity_task *task, sensitivity_found *out);

dpmf_status sensitivity_too_many(const sensitivity_task *task);

/* `square` is the largest sum |X| over a pattern, and attained by signs: exact, or the bound that was asked for. */
void sensitivity_found_sum(const sensitivity_task *task, double square, sensitivity_method_kind method,
                           sensitivity_found *out);

/*
 * sensitivity/rows.c: max sum_{t in p} r_t over at most k steps at least b apart (Pillutla et al. 2025, Algorithm 3.2); r >= 0. `work` has
 * 2 n numbers. With `best` not NULL, best[j] for j = 0..k gets the maximum with at most j steps.
 */
double sensitivity_place(int64_t n, int64_t k, int64_t b, const double *r, double *work, double *best);

/* ---- Toeplitz and what is like it (sensitivity/search.c) ---- */

/* Refuses what would not end: loops over this many participations or steps, of which a file of a kilobyte may have 2^53. */
DPMF_MUST_CHECK dpmf_status sensitivity_check_visits(double visits);

/* |C[:,0] + C[:,b] + ... + C[:,(k-1)b]|^2 for Toeplitz C of n steps with first column c >= 0. */
double sensitivity_earliest_square(int64_t n, int64_t k, int64_t b, int64_t count, const double *c);

/* Non-negative Toeplitz, up to one sign for all of C? And non-increasing? */
void sensitivity_toeplitz_shape(int64_t count, const double *c, int *one_sign, int *non_increasing);

/* Shuffled, or (for cyclic too) min-separation: improves *best, or makes it exact, if C is of this kind. */
DPMF_MUST_CHECK dpmf_status sensitivity_monotone(const sensitivity_task *task, sensitivity_found *best);

/* ---- upper bounds for any C (sensitivity/rows.c); each improves *best ---- */

DPMF_MUST_CHECK dpmf_status sensitivity_bound_rows(const sensitivity_task *task, sensitivity_found *best);
DPMF_MUST_CHECK dpmf_status sensitivity_bound_distance(const sensitivity_task *task, sensitivity_found *best);
DPMF_MUST_CHECK dpmf_status sensitivity_bound_norms(const sensitivity_task *task, sensitivity_found *best);
DPMF_MUST_CHECK dpmf_status sensitivity_bound_any(const sensitivity_task *task,
                                                  sensitivity_found *best); /* the cheaper of them */

#endif
