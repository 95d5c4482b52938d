/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT: from shifts and weights to the coefficients of the stream, its column norms and its errors, in O(n R^2).
 *
 * The optimal X = C'C has X^-1 = V^1/2 M^1/2 V^1/2 with M = V^-1/2 K V^-1/2, K = A^-1 P^-1 A^-T (Denisov et al. 2022,
 * Theorem 3.2, with step weights P). Replace the square root by f(x) = sum_j w_j x/(x + s_j) =
 * sum_j w_j (1 - s_j/(x + s_j)). K is a banded matrix, so E = (K + sV)^-1 is semiseparable: below the diagonal its
 * columns obey the recursion of `order` terms that eliminates K + sV from the bottom up. Hence S = X^-1 is the
 * covariance of a process with R = order x nodes numbers of state, h'x_t being its part of y_t, and its Cholesky factor
 * C^-1 = L is the innovations form of that process: with b_t = Cov(x_{t+1}, y_t), P_0 = 0,
 *
 *     l_t^2 = S_tt - h'P_t h,   g_t = (b_t - F_t P_t h) / l_t,   P_{t+1} = F_t P_t F_t' + g_t g_t'.
 *
 * The basis is scaled so that h is 1 for the first number of a node and 0 for the second: the first is v_t times the
 * entry of E, the second how much that changed since t-1.
 *
 * order 1, R = I: with a_t = Q[t,t], c_t = -Q[t,t-1], e = 1/p (all quantities positive, no cancellation)
 *     dn_t = a_t^2 e_t gamma_{t+1} / (c_{t+1}^2 e_t + gamma_{t+1}),  gamma_t = s v_t + dn_t       down from t = n-1
 *     up_t = c_t^2 e_{t-1} phi_{t-1} / (a_{t-1}^2 e_{t-1} + phi_{t-1}),  phi_t = s v_t + up_t      up from t = 0
 *     E_tt = 1/(gamma_t + up_t),   rho_{t+1} = c_{t+1} a_t e_t / (c_{t+1}^2 e_t + gamma_{t+1}),  E_{t+1,t} = rho E_tt
 *
 * order 2: E = R'T R, T = (Q P^-1 Q' + s R V R')^-1. The factors U D U' of its inverse from the bottom up come from
 * orthogonal rotations of (Q P^-1/2, R (sV)^1/2), which never forms the matrix (its condition is the square); T is the
 * covariance of the process x_t = alpha_t x_{t-1} + chi_t x_{t-2} + noise of variance 1/D_t. A column of R'T R obeys a
 * recursion of two terms of its own, since u_t = r0 T_t + r1 T_{t+1} and u_{t-1} determine T_t and T_{t-1}.
 *
 * Errors (normalized columns: y_t is multiplied by d_t): Var y_t = S_tt and b_t are known, so the covariances of x with
 * the workload's state need no P: O(n R).
 */
#include "families/tvblt/tvblt.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "error/error.h"
#include "optimum/optimum.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { NODES_MAX = TVBLT_NODES_MAX, STATES_MAX = TVBLT_STATES_MAX };

void tvblt_work_free(tvblt_work *w) {
    tvblt_free(&w->c);
    base_free(w->cross);
    base_free(w->variance);
    *w = (tvblt_work){0};
}

dpmf_status tvblt_work_alloc(const tvblt_problem *problem, int nodes, tvblt_work *out) {
    tvblt_work w = {0};
    int64_t n = problem->steps;
    dpmf_status status = DPMF_OK;
    TRY_DONE(BASE_ARRAYS("variances", {&w.variance, n}, {&w.norms, n}, {&w.squares, n}));
    TRY_DONE(tvblt_work_room(problem, nodes, &w));
    *out = w;
    w = (tvblt_work){0};
done:
    tvblt_work_free(&w);
    return status;
}

dpmf_status tvblt_work_room(const tvblt_problem *problem, int nodes, tvblt_work *w) {
    if (nodes == w->nodes_room) return DPMF_OK;
    tvblt_free(&w->c);
    base_free(w->cross);
    w->cross = NULL;
    w->nodes_room = 0;
    TRY(tvblt_alloc(problem->steps, nodes, problem->order, &w->c));
    TRY(base_alloc_doubles(problem->steps * nodes * problem->order, "covariances", &w->cross));
    w->nodes_room = nodes;
    return DPMF_OK;
}

static double row_weight(const tvblt_problem *p, int64_t t) { /* 1/p_t */
    return p->p == NULL ? 1 : 1 / p->p[t];
}

/* ---- order 1: the two ladders ---- */

/* b_t into `cross` and Var y_t, given up_t; leaves up_{t+1}. */
static void ladder_up_step(const tvblt_problem *p, const tvblt_filter *f, int64_t t, double *up, tvblt_work *w) {
    int r = f->nodes;
    double a = p->q[3 * t], c = t + 1 < p->steps ? -p->q[3 * (t + 1) + 1] : 0, e = row_weight(p, t), v = p->v[t];
    double aae = a * a * e, cce = c * c * e, sum = 0, *cross = w->cross + t * r;
    const double *keep = w->c.keep + t * r;
    for (int j = 0; j < r; j++) {
        double sv = f->shift[j] * v, around = up[j] + cross[j], inverse = 1 / (sv + around), phi = sv + up[j];
        sum += f->weight[j] * inverse * around;
        cross[j] = -f->weight[j] * sv * inverse * v * keep[j];
        up[j] = cce * phi / (aae + phi);
    }
    w->variance[t] = v * sum;
}

/* ---- order 2: rotations down, covariances up ---- */

/* The columns of (Q P^-1/2, R (sV)^1/2) met so far, rows t and t-1, rotated to a lower triangle [x 0; y z]. */
typedef struct pending {
    double x, y, z;
} pending;

/* [u f z; u2 f2 0] rotated to a lower triangle. */
static pending rotate_together(double u, double u2, double f, double f2, double z) {
    double h = sqrt(u * u + f * f), both = u2, apart = f2;
    if (h > 0) {
        both = (u * u2 + f * f2) / h;
        apart = (u * f2 - f * u2) / h;
    }
    double x = sqrt(h * h + z * z), rest = z * both / x;
    return (pending){x, h * both / x, sqrt(rest * rest + apart * apart)};
}

/* keep_t = (alpha, chi)_{t+1}, and 1/D_t in `cross`, unscaled: T's own recursion. */
static void factor_down(const tvblt_problem *p, const tvblt_filter *f, tvblt_work *w) {
    int64_t n = p->steps;
    int r = f->nodes;
    double root[NODES_MAX]; /* of the shifts */
    pending column[NODES_MAX];
    for (int j = 0; j < r; j++) {
        root[j] = sqrt(f->shift[j]);
        double last = p->q[3 * (n - 1)] * sqrt(row_weight(p, n - 1)), noise = p->r0 * root[j] * sqrt(p->v[n - 1]);
        double e = n > 1 ? sqrt(row_weight(p, n - 2)) : 0;
        column[j] = rotate_together(e * p->q[3 * (n - 1) + 1], n > 1 ? e * p->q[3 * (n - 2)] : 0, 0, 0,
                                    sqrt(last * last + noise * noise));
        w->c.keep[2 * (n - 1) * r + j] = w->c.keep[2 * (n - 1) * r + r + j] = 0;
    }
    for (int64_t t = n - 1; t >= 0; t--) {
        double e = t >= 2 ? sqrt(row_weight(p, t - 2)) : 0, root_v = t >= 1 ? sqrt(p->v[t - 1]) : 0;
        double q2 = e * p->q[3 * t + 2], q1 = t >= 2 ? e * p->q[3 * (t - 1) + 1] : 0;
        double q0 = t >= 2 ? e * p->q[3 * (t - 2)] : 0, *cross = w->cross + 2 * t * r;
        for (int j = 0; j < r; j++) {
            pending *c = &column[j];
            double noise = root_v * root[j], f1 = p->r1 * noise, f0 = p->r0 * noise;
            double two = c->x * c->x + q2 * q2, all = two + f1 * f1, h = sqrt(two), l = sqrt(all);
            double low1 = (c->x * c->y + q2 * q1) / h, low2 = q2 * q0 / h; /* the column that keeps row t */
            double turn1 = (f0 * h - f1 * low1) / l, turn2 = -f1 * low2 / l;
            if (t >= 1) {
                double *keep = w->c.keep + 2 * (t - 1) * r;
                keep[j] = -(h * low1 + f1 * f0) / all;
                keep[r + j] = -h * low2 / all;
            }
            cross[j] = 1 / all;
            *c = rotate_together((c->y * q2 - q1 * c->x) / h, -q0 * c->x / h, turn1, turn2, c->z);
        }
    }
}

/* What the way up carries for each node. */
typedef struct covariances {
    double before; /* T_{t-1,t-1} */
    double here;   /* T_tt */
    double below;  /* T_{t,t-1} */
} covariances;

/* keep_t, b_t and Var y_t in the scaled basis; leaves the covariances of t+1. */
static void factor_up_step(const tvblt_problem *p, const tvblt_filter *f, int64_t t, covariances *node, tvblt_work *w) {
    int r = f->nodes, more = t + 1 < p->steps;
    double v = p->v[t], ahead = more ? p->v[t + 1] : v, behind = t >= 1 ? p->v[t - 1] : v, sum = 0;
    double r0 = p->r0, r1 = p->r1, ratio = ahead / v, rise = (ahead - v) / v, bend = ahead / behind * (v - behind) / v;
    double *keep = w->c.keep + 2 * t * r, *cross = w->cross + 2 * t * r;
    const double *next_keep = keep + 2 * r, *next_noise = cross + 2 * r; /* read only if there is a next step */
    for (int j = 0; j < r; j++) {
        double alpha = keep[j], chi = keep[r + j];
        double alpha2 = more ? next_keep[j] : 0, chi2 = more ? next_keep[r + j] : 0, noise = more ? next_noise[j] : 0;
        covariances now = node[j];
        double next_below = alpha * now.here + chi * now.below;
        double next = alpha * (next_below + chi * now.below) + chi * chi * now.before + noise;
        double far = alpha2 * next_below + chi2 * now.here, far_below = alpha2 * next + chi2 * next_below;
        double e = r0 * r0 * now.here + 2 * r0 * r1 * next_below + r1 * r1 * next;
        double e_below = r0 * r0 * next_below + r0 * r1 * (next + far) + r1 * r1 * far_below;
        /* (u_t, u_{t-1}) = [top1 top2; r1 r0] (T_t, T_{t-1}); the same a step on, and the recursion between them */
        double top1 = r0 + r1 * alpha, top2 = r1 * chi, next1 = r0 + r1 * alpha2, next2 = r1 * chi2;
        double det = top1 * r0 - top2 * r1, from1 = next1 * alpha + next2, from2 = next1 * chi;
        alpha = (from1 * r0 - from2 * r1) / det;
        chi = (from2 * top1 - from1 * top2) / det;
        /* v_{t+1} u_{t+1} - v_t u_t from v_t u_t and v_t u_t - v_{t-1} u_{t-1} */
        keep[j] = more ? (alpha + chi - 1) * ratio + rise + chi * bend : 0;
        keep[r + j] = more ? -chi * ahead / behind : 0;
        sum += f->weight[j] * (1 - f->shift[j] * v * e);
        cross[j] = -f->weight[j] * f->shift[j] * v * ahead * e_below;
        cross[r + j] = cross[j] + f->weight[j] * f->shift[j] * v * v * e;
        node[j] = (covariances){now.here, next, next_below};
    }
    w->variance[t] = v * sum;
}

/* One step of the Cholesky factor: l_t, g_t, and P_t to P_{t+1}. 0 if S is not positive here. */
static int innovate(int64_t t, double *covariance, tvblt_work *w) {
    const tvblt_parameters *c = &w->c;
    int states = tvblt_states(c);
    double *gain = c->gain + t * states, *cross = w->cross + t * states, seen[STATES_MAX];
    tvblt_seen(c, covariance, seen);
    double left = w->variance[t] - tvblt_output(c, seen);
    if (!(left > 0 && isfinite(left))) return 0;
    c->diagonal[t] = sqrt(left);
    tvblt_push(c, t, seen);
    for (int i = 0; i < states; i++)
        gain[i] = t + 1 < c->steps ? (cross[i] - seen[i]) / c->diagonal[t] : 0;
    tvblt_push_covariance(c, t, covariance);
    return 1;
}

static dpmf_status factor(const tvblt_problem *p, const tvblt_filter *f, tvblt_work *w) {
    double covariance[STATES_MAX * STATES_MAX] = {0}, up[NODES_MAX] = {0};
    covariances node[NODES_MAX] = {{0}};
    if (p->order == 1) {
        /* keep_t = rho_{t+1} v_{t+1}/v_t and, in `cross`, dn_t. */
        int r = f->nodes;
        int64_t n = p->steps;
        double *dn = w->cross + (n - 1) * r, last = p->q[3 * (n - 1)];
        for (int j = 0; j < r; j++) {
            dn[j] = last * last * row_weight(p, n - 1);
            w->c.keep[(n - 1) * r + j] = 0;
        }
        for (int64_t t = n - 2; t >= 0; t--) {
            double a = p->q[3 * t], c = -p->q[3 * (t + 1) + 1], e = row_weight(p, t), v = p->v[t + 1];
            double cce = c * c * e, aae = a * a * e, cae = c * a * e * v / p->v[t];
            double *keep = w->c.keep + t * r, *here = w->cross + t * r;
            for (int j = 0; j < r; j++) {
                double gamma = f->shift[j] * v + dn[j], over = 1 / (cce + gamma);
                keep[j] = cae * over;
                here[j] = aae * gamma * over;
            }
            dn = here;
        }
    } else
        factor_down(p, f, w);
    for (int j = 0; j < f->nodes && p->order == 2; j++)
        node[j].here = w->cross[j];
    for (int64_t t = 0; t < p->steps; t++) {
        if (p->order == 1)
            ladder_up_step(p, f, t, up, w);
        else
            factor_up_step(p, f, t, node, w);
        if (!innovate(t, covariance, w))
            return base_fail(DPMF_ERROR_NUMERICAL,
                             "tvblt: with %d nodes the noise of step %lld has no positive variance given the past",
                             f->nodes, (long long)t);
    }
    return DPMF_OK;
}

dpmf_status tvblt_build(const tvblt_problem *problem, const tvblt_filter *filter, tvblt_work *work) {
    assert(filter->nodes >= 1 && filter->nodes <= work->nodes_room);
    work->c.nodes = filter->nodes;
    TRY(factor(problem, filter, work));
    int64_t bad = tvblt_square_norms(&work->c, work->norms);
    if (bad >= 0)
        return base_fail(DPMF_ERROR_NUMERICAL, "tvblt: with %d nodes the norm of column %lld is not finite",
                         filter->nodes, (long long)bad);
    for (int64_t t = 0; t < problem->steps; t++)
        work->norms[t] = sqrt(work->norms[t]);
    const tvblt_parameters *c = &work->c;
    int states = tvblt_states(c);
    double xm[STATES_MAX] = {0}, xo[STATES_MAX] = {0}; /* Cov(x_t, m_{t-1}), Cov(x_t, o_{t-1}) */
    error_moments moments = {0};
    for (int64_t t = 0; t < problem->steps; t++) {
        error_drive drive = error_drive_at(problem->workload, t);
        double d = work->norms[t];
        const double *cross = work->cross + t * states;
        error_moments_advance(&drive, d * d * work->variance[t], d * tvblt_output(c, xm), d * tvblt_output(c, xo),
                              &moments);
        work->squares[t] = moments.oo;
        tvblt_push(c, t, xm);
        tvblt_push(c, t, xo);
        for (int j = 0; j < states; j++) {
            xo[j] = drive.keep * xo[j] + drive.p * xm[j] + drive.g * d * cross[j];
            xm[j] = drive.beta * xm[j] + d * cross[j];
        }
    }
    return DPMF_OK;
}

void tvblt_normalize(tvblt_parameters *c, const double *d) {
    int states = tvblt_states(c), r = c->nodes;
    for (int64_t t = 0; t < c->steps; t++) {
        double here = d[t], ahead = t + 1 < c->steps ? d[t + 1] : here, behind = t >= 1 ? d[t - 1] : here;
        double ratio = ahead / here, rise = (ahead - here) / here, bend = ahead / behind * (here - behind) / here;
        double *keep = c->keep + t * states, *gain = c->gain + t * states;
        c->diagonal[t] *= here;
        for (int j = 0; j < r && t + 1 < c->steps; j++) {
            double first = gain[j];
            gain[j] *= ahead;
            if (c->order == 1) {
                keep[j] *= ratio;
                continue;
            }
            keep[j] = keep[j] * ratio + rise - keep[r + j] * bend;
            keep[r + j] *= ahead / behind;
            gain[r + j] = gain[r + j] * here + first * (ahead - here);
        }
    }
}

/*
 * TV-BLT: the problem that is tuned and built: the bands of the workload's inverse, the weights of the optimum, and the ends
 * of the spectrum of M = V^-1/2 K V^-1/2, K = A^-1 P^-1 A^-T, by the power method.
 */

void tvblt_problem_free(tvblt_problem *p) {
    base_free(p->q);
    base_free(p->v);
    base_free(p->p);
    *p = (tvblt_problem){0};
}

/*
 * For max loss many weights of the optimum all but vanish (the errors of their steps are not tight). Coefficients that
 * jump by decades from step to step would cost digits of the column norms, and privacy rests on these, so weights are
 * kept above a hundredth of their mean; the rounds of reweighting lower the loss.
 */
static const double WEIGHT_FLOOR = 1e-2;

static void take_floored(int64_t n, int max_loss, const double *from, double *to) {
    double floor_ = max_loss ? WEIGHT_FLOOR * base_sum(n, from) / (double)n : 0;
    for (int64_t t = 0; t < n; t++)
        to[t] = fmax(from[t], floor_);
}

void tvblt_take_weights(const optimum_answer *optimum, int max_loss, tvblt_problem *p) {
    take_floored(p->steps, max_loss, optimum->v, p->v);
    if (p->p != NULL) take_floored(p->steps, max_loss, optimum->p, p->p);
}

dpmf_status tvblt_problem_create(const dpmf_workload *a, int max_loss, const optimum_answer *optimum,
                                 tvblt_problem *out) {
    tvblt_problem p = {.workload = a, .steps = a->steps};
    int r_bands = 0;
    double r[2] = {1, 0};
    dpmf_status status = DPMF_OK;
    workload_inverse_bands(a, &p.order, &r_bands);
    TRY_DONE(base_alloc_doubles(3 * p.steps, "the bands of the workload's inverse", &p.q));
    TRY_DONE(base_alloc_doubles(p.steps, "the weights of the columns", &p.v));
    if (optimum->p != NULL) TRY_DONE(base_alloc_doubles(p.steps, "the weights of the steps", &p.p));
    for (int64_t t = 0; t < p.steps; t++)
        TRY_DONE(dpmf_workload_inverse_row(a, t, p.q + 3 * t, r)); /* R is the same in every row but the first */
    p.r0 = r[0];
    p.r1 = r[1];
    tvblt_take_weights(optimum, max_loss, &p);
    *out = p;
    p = (tvblt_problem){0};
done:
    tvblt_problem_free(&p);
    return status;
}

/* x <- A^-T x = R^-T Q' x. */
static void transposed_solve(const tvblt_problem *p, double *x) {
    int64_t n = p->steps;
    for (int64_t t = 0; t < n; t++) {
        double one = t + 1 < n ? p->q[3 * (t + 1) + 1] * x[t + 1] : 0;
        double two = t + 2 < n ? p->q[3 * (t + 2) + 2] * x[t + 2] : 0;
        x[t] = p->q[3 * t] * x[t] + one + two;
    }
    for (int64_t t = n - 1; t >= 0; t--)
        x[t] = (x[t] - (t + 1 < n ? p->r1 * x[t + 1] : 0)) / p->r0;
}

/* x <- V^-1 K x, or its inverse A'P A V x; gives the largest |x| before x is scaled to 1. */
static dpmf_status spectrum_step(const tvblt_problem *p, int inverse, double *x, double *growth) {
    int64_t n = p->steps;
    double largest = 0;
    if (!inverse) transposed_solve(p, x);
    for (int64_t t = 0; t < n; t++)
        x[t] *= inverse ? p->v[t] : p->p == NULL ? 1 : 1 / p->p[t];
    if (inverse)
        TRY(dpmf_workload_apply(p->workload, x, x));
    else
        TRY(dpmf_workload_solve(p->workload, x, x));
    for (int64_t t = 0; t < n; t++)
        x[t] *= !inverse ? 1 / p->v[t] : p->p == NULL ? 1 : p->p[t];
    if (inverse) TRY(workload_apply_transpose(p->workload, x, x));
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, fabs(x[t]));
    for (int64_t t = 0; t < n; t++)
        x[t] /= largest;
    *growth = largest;
    return DPMF_OK;
}

/* The ends of the spectrum of M by the power method. The ends of the interval are tuned anyway: two digits will do. */
dpmf_status tvblt_spectrum(const dpmf_run *run, tvblt_problem *p) {
    enum { POWER_STEPS = 30 };
    double *x = NULL, growth = 0, end[2] = {0};
    dpmf_status status = DPMF_OK;
    if (p->low > 0) return DPMF_OK;
    TRY(base_alloc_doubles(p->steps, "an eigenvector", &x));
    for (int inverse = 0; inverse <= 1; inverse++) {
        for (int64_t t = 0; t < p->steps; t++)
            x[t] = inverse || t % 2 == 0 ? 1 : -1; /* A >= 0; K alternates */
        for (int k = 0; k < POWER_STEPS; k++) {
            TRY_DONE(base_progress(run, "tvblt: spectrum", -1));
            TRY_DONE(spectrum_step(p, inverse, x, &growth));
        }
        end[inverse] = inverse ? 1 / growth : growth;
    }
    if (!(end[1] > 0 && isfinite(end[1]) && end[0] > 0 && isfinite(end[0]))) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "tvblt: the spectrum of the problem, %g to %g, is out of range",
                           end[1], end[0]);
        goto done;
    }
    p->low = end[1];
    p->high = fmax(end[0], end[1]);
done:
    base_free(x);
    return status;
}
