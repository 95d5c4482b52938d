/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lower bounds: losses that no mechanism can beat for this workload and participation, for any C and any decoder. In
 * the following B C = A, X = C'C, and sens is the sensitivity under the participation (zero-out adjacency).
 *
 * Nuclear norm. Let a pattern of steps be drawn at random so that step t belongs to it with probability q_t. A unit
 * that contributes +1 or -1 with independent signs moves C g by sum_{t in pattern} X_tt on average (squared), and no
 * unit by more than sens^2: sens^2 >= sum_t q_t X_tt = |C diag(sqrt q)|_F^2. Hence (for q = 1/n: Li and Miklau 2013)
 *
 *     |A diag(sqrt q)|_* <= |B|_F |C diag(sqrt q)|_F <= |B|_F sens.
 *
 * With all q_t = 1/b: RMS loss = sens |B|_F / sqrt n >= |A|_* / sqrt(b n), and max loss >= RMS loss. Such a draw exists
 *
 *     single        b = n: one step, all alike
 *     cyclic k,b    one of the b patterns, all alike; they part the steps
 *     shuffled k,b  the same, since each of these is part of a shuffled pattern, and contributing 0 is allowed
 *     min-sep k,b   the patterns j, j+b', j+2b', ... with b' = max(b, ceil(n/k)): at least b apart, at most k of them
 *     full          b = 1: the one pattern
 *     from a file   patterns drawn so that the rarest step is as likely as can be: b is 1 over its probability
 *
 * For prefix sums under single participation this is N = (1/2n) sum_t csc((2t-1) pi/(2(2n+1))), above ln(2n+1)/pi
 * (Pillutla et al. 2025, Theorem 2.4) and above what Mathias 1993 and Henzinger, Upadhyay and Upadhyay 2023 give.
 *
 * One unit's contribution. If it may contribute u, then sens >= |C u|, so sens |B|_F >= |B C u| = |A u|, and in each
 * step sens |B[t,:]| >= |(A u)_t|. Here u is 1 on the steps 0, b, 2b, ..., k of them at most, or on a pattern of a file. This is the stronger one
 * when k is large: under full participation max loss >= n for prefix sums, which independent noise attains. Under
 * single participation it is one column of A, and not worth reporting.
 *
 * The optimum. Under single participation every q in the simplex is such a draw, and the best one is the dual of the
 * optimal mechanism (optimum/optimum.h): the bound is then the optimum itself, from below, for the RMS loss and, with weights
 * on the rows too, for the max loss. Where the workload has no cheap optimum the nuclear norm stands in.
 *
 * Several participations: the same with one more freedom, correlations within a unit's contributions
 * (optimum/epochs/bound.c), for the patterns of the draws above, which every unit may keep to: the optimum under cyclic
 * and full participation, and by containment a bound under the others. Patterns of a file, in up to 100 steps or if it is forced, have
 * the dual over themselves (optimum/patterns/patterns.h). Contributions must then have as many coordinates
 * as a unit has participations. The scope states the distance within which a mechanism is known, or that V was
 * extrapolated and not climbed.
 *
 * Contributions of one number have the first two of these bounds, whose units contribute signs, and the last not.
 *
 * Weights p turn A into diag(sqrt p) A. Replace-one adjacency doubles sens and so every bound.
 */
#include "optimum/optimum.h"

#include "base/fft.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const int64_t AUTO_STEPS_MAX = 2000000; /* what include/dpmf.h promises */

/* Within these of a known mechanism, and of none that is known: the last. */
static const double GAPS[] = {1e-4, 1e-3, 1e-2};
enum { GAP_COUNT = sizeof GAPS / sizeof GAPS[0] + 1 };

enum {
    NUCLEAR,
    NUCLEAR_AND_CONTRIBUTION,
    CONTRIBUTION,
    OPTIMUM,
    OPTIMUM_RMS,
    SHORT,
    SHORT_RMS,
    EPOCHS,
    EPOCHS_RMS = EPOCHS + GAP_COUNT,
    CONTAINED = EPOCHS_RMS + GAP_COUNT,
    FORETOLD,
    FORETOLD_BOTH,
    SCOPES
};
#define EPOCHS_TEXT "any mechanism (contributions of k or more coordinates): dual of the optimum"
static const char *const SCOPE[SCOPES] = {
    [NUCLEAR] = "any mechanism: nuclear norm",
    [NUCLEAR_AND_CONTRIBUTION] = "any mechanism: nuclear norm (RMS), one unit's contribution (max)",
    [CONTRIBUTION] = "any mechanism: one unit's contribution",
    [OPTIMUM] = "any mechanism: dual of the optimum",
    [OPTIMUM_RMS] = "any mechanism: dual of the optimum for the RMS loss",
    [SHORT] = "any mechanism: dual of the optimum, short search",
    [SHORT_RMS] = "any mechanism: dual of the optimum for the RMS loss, short search",
    [EPOCHS] = EPOCHS_TEXT ", within 0.01 % of it",
    [EPOCHS + 1] = EPOCHS_TEXT ", within 0.1 % of it",
    [EPOCHS + 2] = EPOCHS_TEXT ", within 1 % of it",
    [EPOCHS + 3] = EPOCHS_TEXT ", not converged",
    [EPOCHS_RMS] = EPOCHS_TEXT " for the RMS loss, within 0.01 % of it",
    [EPOCHS_RMS + 1] = EPOCHS_TEXT " for the RMS loss, within 0.1 % of it",
    [EPOCHS_RMS + 2] = EPOCHS_TEXT " for the RMS loss, within 1 % of it",
    [EPOCHS_RMS + 3] = EPOCHS_TEXT " for the RMS loss, not converged",
    [FORETOLD] = EPOCHS_TEXT " for the RMS loss, at a point extrapolated from shorter epochs",
    [FORETOLD_BOTH] = EPOCHS_TEXT ", at a point extrapolated from shorter epochs",
    [CONTAINED] = EPOCHS_TEXT " under cyclic participation, which is part of this one"};

static int is_of_epochs(const char *scope) {
    return strncmp(scope, EPOCHS_TEXT, sizeof EPOCHS_TEXT - 1) == 0;
}

const char *optimum_lower_bound_scope(const char *text) {
    for (int i = 0; i < SCOPES; i++)
        if (strcmp(text, SCOPE[i]) == 0) return SCOPE[i];
    return NULL;
}

dpmf_status optimum_check_weights(int64_t n, const double *weights) {
    double largest = 0;
    for (int64_t t = 0; t < n; t++) {
        if (!(weights[t] >= 0 && isfinite(weights[t])))
            return base_fail(DPMF_ERROR_ARGUMENT, "weight of step %lld = %g, accepted: finite and not negative",
                             (long long)t, weights[t]);
        largest = fmax(largest, weights[t]);
    }
    if (largest == 0) return base_fail(DPMF_ERROR_ARGUMENT, "all weights are 0, accepted: at least one above 0");
    return DPMF_OK;
}

typedef struct patterns {
    int64_t apart;                    /* b of the draw: every step has probability 1/b */
    int64_t count, separation;        /* of one unit's steps 0, separation, 2 separation, ... */
    const dpmf_participation *listed; /* NULL, or the patterns of a file */
} patterns;

static patterns patterns_of(const dpmf_participation *p, int64_t n) {
    if (p == NULL || workload_is_once(p)) return (patterns){n, 1, n, NULL};
    if (p->pattern == WORKLOAD_LISTED) return (patterns){n, p->count, p->separation, p};
    patterns found = {p->separation, p->count, p->separation, NULL};
    int64_t even = (n - 1) / p->count + 1; /* ceil(n/k) */
    if (p->pattern == WORKLOAD_APART && even > found.apart) found.apart = even;
    return found;
}

/* That of u, where it is larger than what `out` has; y has n numbers. */
static dpmf_status contribution_of(const dpmf_workload *a, const double *u, const double *weights, double *y,
                                   dpmf_lower_bound *out) {
    int64_t n = a->steps;
    TRY(dpmf_workload_apply(a, u, y));
    double largest = 0;
    for (int64_t t = 0; t < n; t++) {
        /* Roundings of (A u)_t, at most 8 n for the recursions, whose terms do not cancel, and for a row of a matrix. */
        double size = y[t];
        if (a->form == WORKLOAD_DENSE) {
            size = 0;
            for (int64_t j = 0; j <= t; j++)
                size += fabs(a->matrix[t * a->steps + j]) * u[j];
        }
        double sure = fmax(0, fabs(y[t]) - 8 * (double)a->steps * 0x1p-53 * size);
        y[t] = weights == NULL ? sure : sqrt(weights[t]) * sure; /* u is still read */
        largest = fmax(largest, y[t]);
    }
    out->max_loss = fmax(out->max_loss, largest);
    out->rms_loss = fmax(out->rms_loss, base_norm(n, y) / sqrt((double)n));
    return DPMF_OK;
}

static const double CONTRIBUTIONS_WORK = 2e9; /* multiplications */

/* Of a list all patterns, or as many as do not take long: each gives a bound. */
static dpmf_status contribution(const dpmf_workload *a, const patterns *p, const double *weights,
                                dpmf_lower_bound *out) {
    int64_t n = a->steps;
    double *u = NULL, *y = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "a contribution", &u));
    TRY_DONE(base_alloc_doubles(n, "an answer", &y));
    for (int64_t i = 0; p->listed == NULL && i < p->count; i++)
        u[i * p->separation] = 1;
    if (p->listed == NULL) TRY_DONE(contribution_of(a, u, weights, y, out));
    const double each = (double)n * (a->form == WORKLOAD_DENSE ? 2 * (double)n : 16);
    const int64_t all = p->listed == NULL ? 0 : p->listed->patterns;
    const int64_t apart = (int64_t)ceil((double)all * each / CONTRIBUTIONS_WORK);
    for (int64_t q = 0; q < all; q += apart) {
        workload_patterns_mark(p->listed, q, u);
        TRY_DONE(contribution_of(a, u, weights, y, out));
    }
done:
    base_free(u);
    base_free(y);
    return status;
}

/* Covers the last few roundings, and hides the last digits, in which mathematical libraries differ between machines. */
static double round_to(int bits, double x) {
    int exponent = 0;
    double part = frexp(x, &exponent);
    return ldexp(floor(ldexp(part, bits) - 0.25), exponent - bits);
}

enum { BITS = 40 };

static double round_down(double x) {
    return round_to(BITS, x);
}

/* A climb's last digits depend on every rounding on its way: only this many bits of its bound are kept. */
enum { CLIMBED_BITS = 20 };

int optimum_lower_bound_is_cut(double bound, const char *scope) {
    int exponent = 0;
    const double part = ldexp(frexp(bound, &exponent), is_of_epochs(scope) ? CLIMBED_BITS : BITS);
    return part == floor(part);
}

int optimum_lower_bound_is_weaker(double claimed, const char *claimed_scope, double found, const char *found_scope) {
    return is_of_epochs(claimed_scope) && is_of_epochs(found_scope) && claimed > 0 && claimed <= found &&
           optimum_lower_bound_is_cut(claimed, claimed_scope);
}

/* Bounds of longer runs are within 5e-6, not 1e-6, of the optimum and, unless the best is requested, from a short search. */
static const int64_t LONG = 131072;

/* The dual value of one loss, 0 where the optimum is not known. */
static dpmf_status optimum_bound(const dpmf_workload *a, int max_loss, const dpmf_evaluate_options *o, int is_short,
                                 double *out) {
    optimum_answer found = {0};
    double tolerance = a->steps <= LONG ? 1e-6 : 5e-6, lower = 0;
    dpmf_status status = is_short ? optimum_single_bound(a, max_loss, o->weights, &o->run, &lower)
                                  : optimum_solve(a, max_loss, o->weights, tolerance, &o->run, &found);
    if (status == DPMF_ERROR_UNSUPPORTED || status == DPMF_ERROR_NUMERICAL) return DPMF_OK; /* none from here */
    if (status == DPMF_OK) *out = is_short ? lower : found.lower;
    optimum_free(&found);
    return status;
}

/* like: the scope that the bound is to have, or NULL: the options decide. */
static int wants_short(const dpmf_workload *a, const dpmf_evaluate_options *o, const char *like) {
    if (a->steps <= LONG) return 0;
    return like == NULL ? o->lower_bound != DPMF_LOWER_BOUND_FORCE
                        : strcmp(like, SCOPE[SHORT]) == 0 || strcmp(like, SCOPE[SHORT_RMS]) == 0;
}

/* A matrix takes minutes beyond this: the nuclear norm is one decomposition instead of dozens. */
static const int64_t MATRIX_STEPS_MAX = 512;

static dpmf_status single_bound(const dpmf_workload *a, const dpmf_evaluate_options *o, const char *like,
                                epochs_losses losses, dpmf_lower_bound *out) {
    double times = o->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1, rms = 0, max = 0;
    const int is_short = wants_short(a, o, like);
    if (a->form == WORKLOAD_OPERATOR || (a->form == WORKLOAD_DENSE && a->steps > MATRIX_STEPS_MAX)) return DPMF_OK;
    TRY(optimum_bound(a, 0, o, is_short, &rms));
    if (rms == 0) return DPMF_OK;
    if (losses != EPOCHS_RMS_LOSS) TRY(optimum_bound(a, 1, o, is_short, &max));
    int both = max >= rms; /* the max loss is at least the RMS loss: their bounds are too */
    const char *scope = is_short ? SCOPE[both ? SHORT : SHORT_RMS] : SCOPE[both ? OPTIMUM : OPTIMUM_RMS];
    *out = (dpmf_lower_bound){times * round_down(rms), times * round_down(both ? max : rms), scope};
    return DPMF_OK;
}

static double adjacency_factor(const dpmf_evaluate_options *o) {
    return o->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
}

/* Nuclear norm and one unit's contribution: cheap for any participation. */
static dpmf_status elementary(const dpmf_workload *a, const patterns *p, const dpmf_evaluate_options *o,
                              dpmf_lower_bound *out) {
    double nuclear = 0, apart = (double)p->apart;
    dpmf_lower_bound one = {0};
    if (p->listed != NULL) TRY(patterns_draw(p->listed, &apart));
    if (apart > 0) TRY(optimum_nuclear_norm(a, o->weights, &o->run, &nuclear));
    if ((p->count > 1 || p->listed != NULL) && a->form != WORKLOAD_OPERATOR) TRY(contribution(a, p, o->weights, &one));
    nuclear = apart > 0 ? nuclear / sqrt(apart * (double)a->steps) : 0;
    double rms = fmax(nuclear, one.rms_loss), max = fmax(nuclear, one.max_loss);
    if (!isfinite(max) || !(rms > 0)) return DPMF_OK; /* beyond the range of a double, or none known */
    *out = (dpmf_lower_bound){round_down(rms), round_down(max),
                              SCOPE[nuclear < one.rms_loss   ? CONTRIBUTION
                                    : nuclear < one.max_loss ? NUCLEAR_AND_CONTRIBUTION
                                                             : NUCLEAR]};
    return DPMF_OK;
}

static int near_of(double gap) {
    int near = 0;
    while (near < GAP_COUNT - 1 && !(gap <= GAPS[near]))
        near++;
    return near;
}

/* The dual over several participations, where it is above `found`. `known`: NULL, or the RMS loss of the extrapolated dual. */
static dpmf_status epochs_bound(const dpmf_workload *a, const dpmf_participation *participation, const patterns *p,
                                const dpmf_evaluate_options *o, epochs_losses losses, const dpmf_lower_bound *known,
                                dpmf_lower_bound *found) {
    epochs_lower dual;
    const int has_rms = known != NULL && known->scope == SCOPE[FORETOLD];
    TRY(epochs_lower_bound(a, p->count, p->apart, o->weights, has_rms ? EPOCHS_MAX_LOSS : losses, &o->run, &dual));
    double rms = has_rms             ? known->rms_loss / adjacency_factor(o)
                 : dual.rms_loss > 0 ? round_to(CLIMBED_BITS, dual.rms_loss)
                                     : 0;
    double max = dual.max_loss > 0 ? round_to(CLIMBED_BITS, dual.max_loss) : 0;
    if (!(rms > found->rms_loss)) { /* no better; the max loss may be */
        found->max_loss = fmax(found->max_loss, max);
        return DPMF_OK;
    }
    const int both = max >= rms && max >= found->max_loss;
    const double gap = both ? fmax(dual.rms_gap, dual.max_gap) : dual.rms_gap;
    const int near = near_of(gap);
    *found = (dpmf_lower_bound){rms, fmax(fmax(max, rms), found->max_loss),
                                SCOPE[participation->pattern != WORKLOAD_FIXED ? CONTAINED
                                      : dual.foretold && both                  ? FORETOLD_BOTH
                                      : dual.foretold                          ? FORETOLD
                                      : both                                   ? EPOCHS + near
                                                                               : EPOCHS_RMS + near]};
    return DPMF_OK;
}

enum { LISTED_STEPS_MAX = 100 }; /* unless the bound is asked for by name: some seconds */

/* The dual over the patterns of a file, where it is above `found`. */
static dpmf_status listed_bound(const dpmf_workload *a, const dpmf_participation *participation,
                                const dpmf_evaluate_options *o, int forced, epochs_losses losses,
                                dpmf_lower_bound *found) {
    const int64_t most = forced ? PATTERNS_STEPS_MAX : LISTED_STEPS_MAX;
    epochs_lower dual;
    TRY(patterns_lower_bound(a, participation, o->weights, losses == EPOCHS_RMS_LOSS, most, &o->run, &dual));
    const double rms = dual.rms_loss > 0 ? round_to(CLIMBED_BITS, dual.rms_loss) : 0;
    const double max = dual.max_loss > 0 ? round_to(CLIMBED_BITS, dual.max_loss) : 0;
    const int both = max >= rms && max >= found->max_loss;
    const int near = both ? EPOCHS + near_of(fmax(dual.rms_gap, dual.max_gap)) : EPOCHS_RMS + near_of(dual.rms_gap);
    if (rms > found->rms_loss) *found = (dpmf_lower_bound){rms, fmax(fmax(rms, max), found->max_loss), SCOPE[near]};
    return DPMF_OK;
}

/* like: NULL, or the scope that the bound is to have: files have the bounds of the version that wrote them. */
static dpmf_status strongest_plain(const dpmf_workload *a, const dpmf_participation *participation,
                                   const dpmf_evaluate_options *o, const char *like, epochs_losses losses,
                                   const dpmf_lower_bound *known, dpmf_lower_bound *out) {
    patterns p = patterns_of(participation, a->steps);
    dpmf_lower_bound found = {0};
    if (p.count == 1 && p.listed == NULL) {
        TRY(single_bound(a, o, like, losses, out));
        if (out->scope != NULL) return DPMF_OK;
    }
    TRY(elementary(a, &p, o, &found));
    const int duals = o->columns == 0 && (like == NULL || is_of_epochs(like)); /* they need vectors */
    if (duals && p.listed != NULL)
        TRY(listed_bound(a, participation, o, like != NULL || o->lower_bound == DPMF_LOWER_BOUND_FORCE, losses,
                         &found));
    else if (duals && p.count > 1)
        TRY(epochs_bound(a, participation, &p, o, losses, known, &found));
    const double times = adjacency_factor(o);
    *out = (dpmf_lower_bound){times * found.rms_loss, times * found.max_loss, found.scope};
    return DPMF_OK;
}

/*
 * Sums, matrices of any shape, and weights of 0: the RMS loss is that of the triangular R of workload_reduce, and the max loss is
 * at least as large. The rows of R are not the steps, so its own max loss means nothing here.
 */
static dpmf_status reduced_bound(const dpmf_workload *a, const dpmf_participation *participation,
                                 const dpmf_evaluate_options *o, const char *like, dpmf_lower_bound *out) {
    const double relative = 1e-8; /* a hundredth of what the searches for the optimum leave */
    const patterns p = patterns_of(participation, a->steps);
    dpmf_workload *reduced = NULL;
    dpmf_evaluate_options plain = *o;
    dpmf_lower_bound found = {0};
    double added = 0;
    if (a->steps > OPTIMUM_DENSE_STEPS_MAX) return DPMF_OK; /* nothing known */
    plain.weights = NULL;
    TRY(workload_reduce(a, o->weights, relative, &reduced, &added));
    const dpmf_status status = strongest_plain(reduced, participation, &plain, like, EPOCHS_RMS_LOSS, NULL, &found);
    dpmf_workload_free(reduced);
    TRY(status);
    const double rms = found.rms_loss - adjacency_factor(o) * added * sqrt((double)p.count);
    if (found.scope == NULL || !(rms > 0)) return DPMF_OK;
    const int climbed = is_of_epochs(found.scope);
    found.rms_loss = found.max_loss = added == 0 ? found.rms_loss : round_to(climbed ? CLIMBED_BITS : BITS, rms);
    if (found.scope == SCOPE[NUCLEAR_AND_CONTRIBUTION]) found.scope = SCOPE[NUCLEAR];
    *out = found;
    return DPMF_OK;
}

static dpmf_status strongest(const dpmf_workload *a, const dpmf_participation *participation,
                             const dpmf_evaluate_options *o, const char *like, epochs_losses losses,
                             const dpmf_lower_bound *known, dpmf_lower_bound *out) {
    const int has_zero = o->weights != NULL && !optimum_all_positive(a->steps, o->weights);
    if (workload_is_stack(a) || (has_zero && a->form != WORKLOAD_OPERATOR && a->steps <= OPTIMUM_DENSE_STEPS_MAX))
        return reduced_bound(a, participation, o, like, out);
    return strongest_plain(a, participation, o, like, losses, known, out);
}

static dpmf_status check_options(const dpmf_workload *a, const dpmf_participation *participation,
                                 const dpmf_evaluate_options *o) {
    if (participation != NULL && participation->steps != a->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the participation has %lld steps, the workload %lld: they must agree",
                         (long long)participation->steps, (long long)a->steps);
    if ((int)o->adjacency < 0 || o->adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return base_fail(DPMF_ERROR_ARGUMENT, "adjacency %d, accepted 0 to 2", (int)o->adjacency);
    if ((int)o->lower_bound < 0 || o->lower_bound > DPMF_LOWER_BOUND_FORCE)
        return base_fail(DPMF_ERROR_ARGUMENT, "lower bound mode %d, accepted 0 to 2", (int)o->lower_bound);
    return o->weights == NULL ? DPMF_OK : optimum_check_weights(a->steps, o->weights);
}

dpmf_status optimum_lower_bound_like(const dpmf_workload *workload, const dpmf_participation *participation,
                                     const dpmf_evaluate_options *o, const char *scope, dpmf_lower_bound *out,
                                     double *tolerance) {
    dpmf_lower_bound found = {0};
    TRY(check_options(workload, participation, o));
    TRY(strongest(workload, participation, o, scope, EPOCHS_BOTH, NULL, &found));
    const int climbed = found.scope == SCOPE[OPTIMUM] || found.scope == SCOPE[OPTIMUM_RMS] ||
                        found.scope == SCOPE[SHORT] || found.scope == SCOPE[SHORT_RMS];
    *tolerance = found.scope != NULL && (is_of_epochs(found.scope) || (climbed && workload->steps > LONG)) ? 1e-5 : 0;
    *out = found;
    return DPMF_OK;
}

dpmf_status optimum_lower_bound(const dpmf_workload *workload, const dpmf_participation *participation,
                                const dpmf_evaluate_options *options, epochs_losses losses,
                                const dpmf_lower_bound *known, dpmf_lower_bound *out) {
    dpmf_evaluate_options o = options == NULL ? dpmf_evaluate_options_defaults() : *options;
    dpmf_lower_bound found = {0};
    if (workload == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "lower bound: the workload is NULL");
    TRY(check_options(workload, participation, &o));
    int wanted = o.lower_bound == DPMF_LOWER_BOUND_FORCE ||
                 (o.lower_bound == DPMF_LOWER_BOUND_AUTO && workload->steps <= AUTO_STEPS_MAX);
    if (wanted) TRY(strongest(workload, participation, &o, NULL, losses, known, &found));
    if (o.lower_bound == DPMF_LOWER_BOUND_FORCE && found.scope == NULL)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "no proven lower bound is known for workload %s of %lld steps under participation %s",
                         workload->text, (long long)workload->steps,
                         participation == NULL ? "single" : participation->text);
    *out = found;
    return DPMF_OK;
}

dpmf_status optimum_find_bound(const dpmf_workload *workload, const dpmf_participation *participation,
                               const dpmf_evaluate_options *options, dpmf_lower_bound *out) {
    return optimum_lower_bound(workload, participation, options, EPOCHS_BOTH, NULL, out);
}
