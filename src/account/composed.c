/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting of the composed, Poisson-subsampled Gaussian mechanism under an adjacency: which directions count, which
 * engine answers, and what bounds stand in when one cannot.
 *
 *     zero-out, add-remove   the worse of removing a unit and adding one
 *     replace-one            one pair, its own mirror image
 *
 * Neither direction is always the worse one under composition (Lebeda et al. 2024), so both are certified, each by the
 * Fourier sum (account/fourier/fourier.c) where that works, which is nearly exact at any number of steps, else by connecting the
 * dots (account/grid/grid.c): removing, usually the worse, to the wanted slack, and adding only as finely as it takes to
 * see that it is smaller.
 *
 * Without sampling (probability 1) the closed form is exact. With it, the Gaussian without sampling is always an upper
 * bound too, since mixing in the same distribution on both sides only loses information (joint convexity): the lesser
 * of the two bounds, both proven, is the answer. Renyi divergences, proven too but looser, answer only when they are asked
 * for.
 */
#include "account/account.h"

#include "base/special.h"

#include <assert.h>
#include <math.h>

enum { DIRECTIONS_MAX = 2 };

static const char METHOD_GAUSSIAN[] = "Gaussian mechanism, closed form";
static const char METHOD_NEVER[] = "no unit ever takes part";
static const char METHOD_DOTS[] = "connect-the-dots discretisation, tilted FFT";
static const char METHOD_FOURIER[] = "Fourier sum over the moment generating function, with proven errors";
static const char METHOD_CONTOUR[] = "contour integral, not certified";
static const char METHOD_RDP[] = "Renyi divergences at the best order, the proven error of quadrature added";
static const char METHOD_UNSAMPLED[] = "Gaussian mechanism without the sampling, closed form";

double account_composed_mu(const account_composed *c) {
    double unit = c->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
    if (c->cap > 0 && c->adjacency == DPMF_ADJACENCY_ADD_REMOVE) unit = 2; /* a unit may push another out */
    double uses = c->picks > 0 ? (double)c->picks * (double)c->compositions : (double)c->compositions;
    return unit * sqrt(uses) / c->sigma;
}

static int directions_of(const account_composed *c, account_pair pairs[DIRECTIONS_MAX]) {
    account_pair pair = {.sigma = c->sigma, .probability = c->probability, .compositions = c->compositions};
    pairs[0] = pairs[1] = pair;
    if (c->adjacency == DPMF_ADJACENCY_REPLACE_ONE) {
        pairs[0].direction = ACCOUNT_REPLACE;
        return 1;
    }
    pairs[0].direction = ACCOUNT_REMOVE;
    pairs[1].direction = ACCOUNT_ADD;
    return 2;
}

/* Exact answers that need no engine. epsilon asked for if `of_epsilon`, else ln delta. */
static int is_exact(const account_composed *c, double given, int of_epsilon, account_answer *out) {
    if (c->probability <= 0) {
        *out = (account_answer){of_epsilon ? 0 : -INFINITY, DPMF_EXACT, METHOD_NEVER, 1};
        return 1;
    }
    if (c->probability < 1 || c->engine != DPMF_ENGINE_AUTO) return 0;
    double mu = account_composed_mu(c);
    double value = of_epsilon ? account_gaussian_epsilon(mu, given) : account_gaussian_log_delta(mu, given);
    *out = (account_answer){value, DPMF_EXACT, METHOD_GAUSSIAN, 1};
    return 1;
}

/* Keeps the smaller of two proven bounds; NaN is nobody's bound. */
static void improve(account_answer *best, double value, const char *method) {
    if (!(value < best->value)) return;
    best->value = value;
    best->method = method;
}

/* ---- epsilon ---- */

static const double COARSE = 0.02; /* slack that costs little, and tells most pairs of directions apart */

static dpmf_status dots_epsilon(const account_composed *c, const account_pair *pair, double log_delta, double relative,
                                double *epsilon, int *met) {
    grid_options how = {.relative = relative, .absolute = c->absolute, .hint = -1, .run = c->run};
    if (relative <= c->relative) how.step_max = c->step_max;
    *epsilon = INFINITY;
    *met = 0;
    TRY(grid_epsilon(pair, log_delta, &how, epsilon, met));
    if (isnan(*epsilon)) *epsilon = INFINITY;
    return DPMF_OK;
}

/* Connect the dots is what some ask for by name. */
static int may_sum(const account_composed *c) {
    return c->engine != DPMF_ENGINE_CONNECT_THE_DOTS;
}

/* One direction; nothing above `least`, a bound that the other direction has reached already, needs to be tight. */
static dpmf_status direction_epsilon(const account_composed *c, const account_pair *pair, double log_delta,
                                     double least, account_answer *out) {
    const fourier_options how = {c->relative, c->absolute, c->step_max};
    account_answer found = {INFINITY, DPMF_UPPER_BOUND, METHOD_FOURIER, 0};
    double value = INFINITY;
    int met = 0;
    TRY(base_progress(c->run, "certifying epsilon", -1));
    if (may_sum(c)) TRY(fourier_epsilon(pair, log_delta, &how, &found.value, &found.met));
    if (!found.met && least > 0) {
        TRY(dots_epsilon(c, pair, log_delta, fmax(COARSE, c->relative), &value, &met));
        improve(&found, value, METHOD_DOTS);
    }
    if (!found.met && found.value > least) {
        TRY(dots_epsilon(c, pair, log_delta, c->relative, &value, &met));
        improve(&found, value, METHOD_DOTS);
        found.met = met;
    }
    *out = found;
    return DPMF_OK;
}

static dpmf_status certified_epsilon(const account_composed *c, double log_delta, account_answer *out) {
    account_pair pairs[DIRECTIONS_MAX];
    account_answer worst = {0, DPMF_UPPER_BOUND, METHOD_DOTS, 1};
    const int count = directions_of(c, pairs);
    for (int i = 0; i < count; i++) {
        account_answer found;
        TRY(direction_epsilon(c, &pairs[i], log_delta, worst.value, &found));
        if (i == 0 || found.value > worst.value) worst = found;
    }
    *out = worst;
    return DPMF_OK;
}

static dpmf_status rdp_epsilon(const account_composed *c, double log_delta, double *out) {
    account_pair pairs[DIRECTIONS_MAX];
    int count = directions_of(c, pairs);
    double worst = 0;
    for (int i = 0; i < count; i++) {
        double epsilon = INFINITY;
        TRY(account_rdp_epsilon(&pairs[i], log_delta, &epsilon));
        worst = fmax(worst, isnan(epsilon) ? INFINITY : epsilon);
    }
    *out = worst;
    return DPMF_OK;
}

/* The contour for all directions; *ok = 0 where it fails. */
static dpmf_status contour_epsilon(const account_composed *c, double log_delta, double *out, int *ok) {
    account_pair pairs[DIRECTIONS_MAX];
    int count = directions_of(c, pairs);
    *out = 0;
    *ok = 1;
    for (int i = 0; i < count; i++) {
        double epsilon = INFINITY, error = INFINITY;
        TRY(account_contour_epsilon(&pairs[i], log_delta, &epsilon, &error));
        if (!(error <= 1e-3 * fmax(epsilon, 1e-3))) *ok = 0;
        *out = fmax(*out, epsilon);
    }
    return DPMF_OK;
}

dpmf_status account_composed_epsilon(const account_composed *c, double log_delta, account_answer *out) {
    assert(c->sigma > 0 && c->compositions >= 1 && log_delta < 0);
    account_answer found = {INFINITY, DPMF_UPPER_BOUND, METHOD_RDP, 0};
    double value = INFINITY;
    if (is_exact(c, log_delta, 1, out)) return DPMF_OK;
    if (c->engine == DPMF_ENGINE_CONTOUR) {
        int ok = 0;
        TRY(contour_epsilon(c, log_delta, &value, &ok));
        if (ok) {
            *out = (account_answer){value, DPMF_ESTIMATE, METHOD_CONTOUR, 1};
            return DPMF_OK;
        }
    }
    if (c->engine == DPMF_ENGINE_RDP) {
        TRY(rdp_epsilon(c, log_delta, &found.value));
        found.met = 1;
        *out = found;
        return DPMF_OK;
    }
    TRY(certified_epsilon(c, log_delta, &found));
    improve(&found, account_gaussian_epsilon(account_composed_mu(c), log_delta), METHOD_UNSAMPLED);
    *out = found;
    return DPMF_OK;
}

/* ---- ln delta ---- */

/* Adding a unit loses at most -ln(1-q) a step. */
static int is_beyond_loss(const account_pair *pair, double epsilon) {
    return pair->direction == ACCOUNT_ADD &&
           epsilon >= -(double)pair->compositions * log1p(-pair->probability) * (1 + 1e-12);
}

static dpmf_status dots_log_delta(const account_composed *c, const account_pair *pair, double epsilon, double relative,
                                  double *log_delta, int *met) {
    grid_options how = {.relative = relative, .absolute = c->absolute, .hint = epsilon, .run = c->run};
    if (relative <= c->relative) how.step_max = c->step_max;
    *log_delta = 0;
    *met = 0;
    TRY(grid_log_delta(pair, epsilon, &how, log_delta, met));
    if (isnan(*log_delta)) *log_delta = 0;
    return DPMF_OK;
}

/* As direction_epsilon. */
static dpmf_status direction_log_delta(const account_composed *c, const account_pair *pair, double epsilon,
                                       double least, account_answer *out) {
    const fourier_options how = {c->relative, c->absolute, c->step_max};
    account_answer found = {0, DPMF_UPPER_BOUND, METHOD_FOURIER, 0};
    double value = 0;
    int met = 0;
    if (is_beyond_loss(pair, epsilon)) {
        *out = (account_answer){-INFINITY, DPMF_UPPER_BOUND, METHOD_DOTS, 1};
        return DPMF_OK;
    }
    TRY(base_progress(c->run, "certifying delta", -1));
    if (may_sum(c)) TRY(fourier_log_delta(pair, epsilon, &how, &found.value, &found.met));
    if (!found.met && least > -INFINITY) {
        TRY(dots_log_delta(c, pair, epsilon, fmax(COARSE, c->relative), &value, &met));
        improve(&found, value, METHOD_DOTS);
    }
    if (!found.met && found.value > least) {
        TRY(dots_log_delta(c, pair, epsilon, c->relative, &value, &met));
        improve(&found, value, METHOD_DOTS);
        found.met = met;
    }
    *out = found;
    return DPMF_OK;
}

static dpmf_status certified_log_delta(const account_composed *c, double epsilon, account_answer *out) {
    account_pair pairs[DIRECTIONS_MAX];
    account_answer worst = {-INFINITY, DPMF_UPPER_BOUND, METHOD_DOTS, 1};
    const int count = directions_of(c, pairs);
    for (int i = 0; i < count; i++) {
        account_answer found;
        TRY(direction_log_delta(c, &pairs[i], epsilon, worst.value, &found));
        if (i == 0 || found.value > worst.value) worst = found;
    }
    *out = worst;
    return DPMF_OK;
}

static dpmf_status rdp_log_delta(const account_composed *c, double epsilon, double *out) {
    account_pair pairs[DIRECTIONS_MAX];
    int count = directions_of(c, pairs);
    double worst = -INFINITY;
    for (int i = 0; i < count; i++) {
        double log_delta = 0;
        TRY(account_rdp_log_delta(&pairs[i], epsilon, &log_delta));
        worst = fmax(worst, isnan(log_delta) ? 0 : log_delta);
    }
    *out = worst;
    return DPMF_OK;
}

static dpmf_status contour_log_delta(const account_composed *c, double epsilon, double *out, int *ok) {
    account_pair pairs[DIRECTIONS_MAX];
    int count = directions_of(c, pairs);
    *out = -INFINITY;
    *ok = 1;
    for (int i = 0; i < count; i++) {
        double log_delta = 0, error = INFINITY;
        TRY(account_contour_log_delta(&pairs[i], epsilon, &log_delta, &error));
        if (!(error <= 1e-4)) *ok = 0;
        *out = fmax(*out, log_delta);
    }
    return DPMF_OK;
}

dpmf_status account_composed_log_delta(const account_composed *c, double epsilon, account_answer *out) {
    assert(c->sigma > 0 && c->compositions >= 1 && epsilon >= 0);
    account_answer found = {0, DPMF_UPPER_BOUND, METHOD_RDP, 0};
    double value = 0;
    if (is_exact(c, epsilon, 0, out)) return DPMF_OK;
    if (c->engine == DPMF_ENGINE_CONTOUR) {
        int ok = 0;
        TRY(contour_log_delta(c, epsilon, &value, &ok));
        if (ok) {
            *out = (account_answer){value, DPMF_ESTIMATE, METHOD_CONTOUR, 1};
            return DPMF_OK;
        }
    }
    if (c->engine == DPMF_ENGINE_RDP) {
        TRY(rdp_log_delta(c, epsilon, &found.value));
        found.met = 1;
        *out = found;
        return DPMF_OK;
    }
    TRY(certified_log_delta(c, epsilon, &found));
    improve(&found, account_gaussian_log_delta(account_composed_mu(c), epsilon), METHOD_UNSAMPLED);
    *out = found;
    return DPMF_OK;
}

dpmf_status account_composed_search(const account_composed *c, double epsilon, double *log_delta) {
    static const double sigma_min = 0.01; /* below, a guess takes as many points as a bound */
    account_pair pairs[DIRECTIONS_MAX];
    account_answer found;
    int met = 0;
    directions_of(c, pairs);
    if (c->probability > 0 && c->probability < 1 && c->engine != DPMF_ENGINE_RDP && c->engine != DPMF_ENGINE_CONTOUR) {
        if (c->sigma >= sigma_min) return fourier_guess(&pairs[0], epsilon, log_delta);
        return dots_log_delta(c, &pairs[0], epsilon, fmax(COARSE, c->relative), log_delta, &met);
    }
    TRY(account_composed_log_delta(c, epsilon, &found));
    *log_delta = found.value;
    return DPMF_OK;
}
