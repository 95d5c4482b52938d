/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting: what the engines share. They know numbers only: sigma (per unit of sensitivity), sampling probability,
 * compositions, a direction; never strategies. delta is handled as ln delta wherever it may be tiny.
 */
#ifndef DPMF_ACCOUNT_H
#define DPMF_ACCOUNT_H

#include "base/status.h"

/*
 * One step of the Poisson-subsampled Gaussian mechanism as a pair of distributions, composed `compositions` times. With
 * M(c) = (1-q) N(0, sigma^2) + q N(c, sigma^2):
 *
 *     remove   P = M(1),         Q = N(0, sigma^2)
 *     add      P = N(0, sigma^2), Q = M(1)
 *     replace  P = M(1),         Q = M(-1)           (its mirror image has the same privacy)
 *
 * delta(epsilon) = E_P[(1 - e^(epsilon - L))_+], L = ln dP/dQ summed over the steps. q = 1 is the Gaussian mechanism.
 */
typedef enum account_direction { ACCOUNT_REMOVE = 0, ACCOUNT_ADD, ACCOUNT_REPLACE } account_direction;

typedef struct account_pair {
    account_direction direction;
    double sigma;         /* > 0, finite */
    double probability;   /* q, 0 < q <= 1 */
    int64_t compositions; /* >= 1 */
} account_pair;

/* account/statement.c: how the sentence on arithmetic begins, which an exact release replaces. */
const char *account_real_noise(void);

/* account/text.c: DPMF_ERROR_ARGUMENT if a value is out of range. */
DPMF_MUST_CHECK dpmf_status account_sampling_check(const dpmf_sampling *sampling);

/* Is a run under it so many compositions of one sampled step (poisson, block-cyclic)? Of a sampling that was checked. */
int account_sampling_composes(const dpmf_sampling *sampling);
/* Is every unit used in so many steps, chosen at random (allocation, balls-in-bins)? */
int account_sampling_allocates(const dpmf_sampling *sampling);

/* The most bands of C for which its theorem holds; 0: it asks for none. */
int64_t account_sampling_bands(const dpmf_sampling *sampling);

/* ---- account/gaussian.c: exact; mu = sensitivity / sigma; composition adds mu^2 ---- */

double account_gaussian_log_delta(double mu, double epsilon); /* epsilon >= 0; -inf for mu = 0 */
double account_gaussian_epsilon(double mu, double log_delta); /* 0 if delta(0) is below; log_delta < 0 */
double account_gaussian_mu(double epsilon, double log_delta); /* the largest mu that is (epsilon, delta) */

/* The least epsilon that holds for every rho-zCDP mechanism by the best conversion over continuous orders. */
double account_zcdp_epsilon(double rho, double log_delta);

/* ---- account/rdp.c: Renyi divergences by quadrature, converted at the best continuous order: upper bounds ---- */

/* An upper bound of n ln M(t), INFINITY where the quadrature fails. Over t, the divergence of order 1 + t. */
double account_rdp_cumulant(const account_pair *pair, double t);
DPMF_MUST_CHECK dpmf_status account_rdp_epsilon(const account_pair *pair, double log_delta, double *epsilon);
DPMF_MUST_CHECK dpmf_status account_rdp_log_delta(const account_pair *pair, double epsilon, double *log_delta);

/* ---- account/contour/contour.c: near exact, an estimate with its error; for search ---- */

/*
 * `error`: an estimate of |ln delta - its true value|, INFINITY where the method fails (then the value means nothing
 * and the caller falls back on account/grid/grid.c).
 */
DPMF_MUST_CHECK dpmf_status account_contour_log_delta(const account_pair *pair, double epsilon, double *log_delta,
                                                      double *error);
/* The epsilon with delta(epsilon) = e^log_delta, 0 if delta(0) is below; `error` is of epsilon, or INFINITY. */
DPMF_MUST_CHECK dpmf_status account_contour_epsilon(const account_pair *pair, double log_delta, double *epsilon,
                                                    double *error);

/* ---- account/grid/grid.c: certified upper bounds by connect-the-dots discretisation ---- */

/*
 * relative and absolute: the wanted slack in epsilon, whichever is larger. `hint`: a guess of epsilon (from the
 * contour), or negative: none. The answer is a proven upper bound in any case, INFINITY at worst; *met says whether the
 * slack was reached (as far as the method's own error estimate can tell).
 */
typedef struct grid_options {
    double relative, absolute; /* e.g. 5e-5 and 5e-6 */
    double hint;
    const dpmf_run *run;
    double step_max; /* of the grid; 0: as the slack allows */
} grid_options;

DPMF_MUST_CHECK dpmf_status grid_epsilon(const account_pair *pair, double log_delta, const grid_options *options,
                                         double *epsilon, int *met);
/* An upper bound of ln delta(epsilon), tight to the slack in epsilon. */
DPMF_MUST_CHECK dpmf_status grid_log_delta(const account_pair *pair, double epsilon, const grid_options *options,
                                           double *log_delta, int *met);

/* ---- account/fourier/fourier.c: the same to about 1e-9 of delta where many steps make the sum of losses smooth, any number of them ---- */

/* The slack as above. grid: 0, or the step of a grid of losses than which the answer is to be tighter. */
typedef struct fourier_options {
    double relative, absolute, grid;
} fourier_options;

/* Where the method has nothing to say, the answer is INFINITY, or ln 1, and not met; that costs little. */
DPMF_MUST_CHECK dpmf_status fourier_epsilon(const account_pair *pair, double log_delta, const fourier_options *how,
                                            double *epsilon, int *met);
DPMF_MUST_CHECK dpmf_status fourier_log_delta(const account_pair *pair, double epsilon, const fourier_options *how,
                                              double *log_delta, int *met);

/* ln delta by the saddle point: no bound, but at the cost of a few sums, and smooth. sigma from 0.01 up. */
DPMF_MUST_CHECK dpmf_status fourier_guess(const account_pair *pair, double epsilon, double *log_delta);

/* ---- account/composed.c: all directions of an adjacency together, by the engine asked for ---- */

typedef struct account_composed {
    double sigma; /* per zero-out sensitivity */
    double probability;
    int64_t compositions;
    int64_t picks, bins; /* random allocation: so many of so many steps, `compositions` times; 0: something else */
    int64_t cap, units,
        blocks; /* a cap on the batch, and the units in so many blocks that it is drawn from; 0: no cap */
    dpmf_adjacency adjacency;
    dpmf_engine engine;
    double relative, absolute; /* slack in epsilon */
    double step_max;           /* of the certified engine's grid; 0: as the slack allows */
    const dpmf_run *run;
} account_composed;

typedef struct account_answer {
    double value; /* epsilon or ln delta; never NaN */
    dpmf_kind kind;
    const char *method;
    int met;
} account_answer;

DPMF_MUST_CHECK dpmf_status account_composed_epsilon(const account_composed *c, double log_delta, account_answer *out);
DPMF_MUST_CHECK dpmf_status account_composed_log_delta(const account_composed *c, double epsilon, account_answer *out);

/* About that, for the beginning of a search: by the saddle point where possible, and of removing a unit alone, usually the worse. */
DPMF_MUST_CHECK dpmf_status account_composed_search(const account_composed *c, double epsilon, double *log_delta);

/* ---- account/capped/account.c: the same with a cap that may bind, the smaller of two accounts ---- */

DPMF_MUST_CHECK dpmf_status capped_epsilon(const account_composed *c, double log_delta, account_answer *out);
DPMF_MUST_CHECK dpmf_status capped_log_delta(const account_composed *c, double epsilon, account_answer *out);
/* Can more than the cap be drawn at all? */
int capped_binds(const account_composed *c);

/* ---- account/dispatch.c: whichever of them it is ---- */

DPMF_MUST_CHECK dpmf_status account_dispatch_epsilon(const account_composed *c, double log_delta, account_answer *out);
DPMF_MUST_CHECK dpmf_status account_dispatch_log_delta(const account_composed *c, double epsilon, account_answer *out);
DPMF_MUST_CHECK dpmf_status account_dispatch_search(const account_composed *c, double epsilon, double *log_delta);

/* ---- account/ledger/ledger.c: what a ledger knows of the file that it comes from ---- */

void ledger_set_budget(dpmf_ledger *ledger, double epsilon, double delta);
void ledger_count(dpmf_ledger *ledger); /* one more entry of the file */

/* mu of all compositions if nothing were sampled. */
double account_composed_mu(const account_composed *c);

#endif
