/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT: the column norms and errors of a filter without its coefficients, in O(n r): what a search needs, against the
 * O(n r^2) of construction (families/tvblt/build.c), which only the filter that is chosen goes through.
 *
 * X^-1 = S = V^1/2 f(M) V^1/2 with f(x) = sum_j w_j x/(x + s_j) and K = V^1/2 M V^1/2.
 *
 *   norms    |C e_t|^2 = X_tt, X = V^-1/2 (1/f)(M) V^-1/2. f(x)/x falls from one pole -s_j to the next through all numbers,
 *            so it has one zero -z_k between any two neighbours, and by partial fractions
 *
 *                1/f(x) = a + b/x + sum_k c_k/(x + z_k),    a = 1/sum_j w_j,  b = 1/sum_j (w_j/s_j),
 *                c_k = 1 / (z_k sum_j w_j/(s_j - z_k)^2),
 *
 *            r terms, all positive: |C e_t|^2 = a/v_t + sum of b or c_k times [(K + z V)^-1]_tt, z = 0 or z_k: the diagonals
 *            that the optimum itself is made of (optimum/phi.h). Nothing cancels.
 *   errors   the noise d_t y_t, d the norms, has the covariance d_t S_tu d_u, and S is a sum over nodes of matrices that
 *            are semiseparable: kernels/tvblt/tvblt.h gives Var y_t and the covariance of y_t with what the workload has made of
 *            the noise before, and error/error.h a step of the workload on second moments.
 */
#include "base/memory.h"
#include "base/special.h"
#include "base/threads.h"
#include "error/error.h"
#include "families/tvblt/tvblt.h"
#include "kernels/tvblt/tvblt.h"
#include "optimum/optimum.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { NODES_MAX = TVBLT_NODES_MAX, LANES = KERNELS_TVBLT_LANES };

typedef tvblt_meter meter;
typedef tvblt_problem problem;
typedef tvblt_filter filter;

/* sum_j w_j/(s_j - z) over all nodes but `origin`, z = s_origin + u, and sum_j w_j/(s_j - z)^2. */
static double sum_others(const filter *f, int origin, double u, double *squares) {
    double sum = 0, second = 0;
    for (int j = 0; j < f->nodes; j++) {
        if (j == origin) continue;
        const double away = f->shift[j] - f->shift[origin] - u, term = f->weight[j] / away;
        sum += term;
        second += term / away;
    }
    *squares = second;
    return sum;
}

/*
 * The zero between nodes k and k+1, as its distance from the nearer of them, *origin: the root of u sum_others(u) = w, by
 * Newton's method kept within brackets. From the nearer node the zero keeps its digits however close it is.
 */
static double find_zero(const filter *f, int k, int *origin) {
    enum { STEPS_MAX = 200 };
    const double gap = f->shift[k + 1] - f->shift[k];
    double second, half = sum_others(f, k, gap / 2, &second) - f->weight[k] / (gap / 2);
    *origin = half > 0 ? k : k + 1;
    const double w = f->weight[*origin], sign = half > 0 ? 1 : -1;
    double low = 0, high = gap / 2, u = gap / 4; /* of |u| */
    for (int i = 0; i < STEPS_MAX; i++) {
        const double sum = sum_others(f, *origin, sign * u, &second), value = sign * u * sum - w;
        if (value > 0)
            high = u;
        else
            low = u;
        double next = u - value / (sign * sum + u * second);
        if (!(next > low && next < high)) next = low > 0 ? sqrt(low * high) : high / 16;
        const double change = fabs(next - u);
        u = next;
        if (change <= 4 * DBL_EPSILON * u) break;
    }
    return sign * u;
}

/* a, and the terms of 1/f as a rule: shifts 0 and z_k with weights b and c_k. */
static double invert_filter(const filter *given, base_quadrature *rule) {
    filter f = *given;
    double sum = 0, ratios = 0, squares = 0;
    /* By rising shifts. */
    for (int i = 1; i < f.nodes; i++) {
        const double shift = f.shift[i], weight = f.weight[i];
        int j = i;
        for (; j > 0 && f.shift[j - 1] > shift; j--) {
            f.shift[j] = f.shift[j - 1];
            f.weight[j] = f.weight[j - 1];
        }
        f.shift[j] = shift;
        f.weight[j] = weight;
    }
    for (int j = 0; j < f.nodes; j++) {
        sum += f.weight[j];
        ratios += f.weight[j] / f.shift[j];
    }
    rule->count = 1;
    rule->shift[0] = 0;
    rule->weight[0] = 1 / ratios;
    for (int k = 0; k + 1 < f.nodes; k++) {
        int origin = 0;
        if (!(f.shift[k + 1] > f.shift[k])) continue; /* two nodes in one place: the zero meets them, and c = 0 */
        const double u = find_zero(&f, k, &origin), zero = f.shift[origin] + u;
        (void)sum_others(&f, origin, u, &squares);
        squares += f.weight[origin] / (u * u);
        rule->shift[rule->count] = zero;
        rule->weight[rule->count++] = 1 / (zero * squares);
    }
    return 1 / sum;
}

void tvblt_meter_free(meter *m) {
    double *const all[] = {m->band[0], m->band[1], m->band[2], m->root_v,  m->keep,   m->pass,   m->gain,  m->drive,
                           m->scratch, m->part[0], m->part[1], m->part[2], m->sum[0], m->sum[1], m->sum[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        base_free(all[i]);
    optimum_phi_free(m->phi);
    base_pool_free(m->pool);
    *m = (meter){0};
}

dpmf_status tvblt_meter_create(const problem *p, meter *out) {
    meter m = {0};
    double **const each[] = {&m.band[0], &m.band[1], &m.band[2], &m.root_v,  &m.keep,   &m.pass,   &m.gain,
                             &m.drive,   &m.part[0], &m.part[1], &m.part[2], &m.sum[0], &m.sum[1], &m.sum[2]};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_pool_create(1, &m.pool));
    TRY_DONE(optimum_phi_create(p->workload, m.pool, &m.phi));
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        TRY_DONE(base_alloc_doubles(p->steps, "the bands of a TV-BLT", each[i]));
    TRY_DONE(base_alloc_doubles(p->steps * kernels_tvblt_scratch(p->order), "the nodes of a TV-BLT", &m.scratch));
    for (int64_t t = 0; t < p->steps; t++) {
        const error_drive drive = error_drive_at(p->workload, t);
        m.keep[t] = drive.keep;
        m.pass[t] = drive.p;
        m.gain[t] = drive.g;
        m.beta = drive.beta;
    }
    tvblt_meter_weigh(p, &m);
    *out = m;
    m = (meter){0};
done:
    tvblt_meter_free(&m);
    return status;
}

void tvblt_meter_weigh(const problem *p, meter *m) {
    if (m->phi == NULL) return;
    for (int64_t t = 0; t < p->steps; t++) {
        const double e = p->p == NULL ? 1 : 1 / p->p[t], a = p->q[3 * t];
        const double one = t + 1 < p->steps ? p->q[3 * (t + 1) + 1] : 0;
        const double two = t + 2 < p->steps ? p->q[3 * (t + 2) + 2] : 0;
        if (p->order == 1) {
            m->band[0][t] = a * a * e;
            if (t + 1 < p->steps) m->band[1][t + 1] = one * one * e;
            m->band[2][t] = -one * a * e;
        } else {
            const double root = sqrt(e);
            m->band[0][t] = root * a;
            m->band[1][t] = root * one;
            m->band[2][t] = root * two;
            m->root_v[t] = sqrt(p->v[t]);
        }
    }
}

/* Eight nodes from `first` on into m->part; nodes left over weigh nothing. */
static void run_group(const problem *p, const filter *f, int first, meter *m) {
    const kernels_tvblt_set *kernels = kernels_tvblt_get();
    double shift[LANES], weight[LANES];
    for (int j = 0; j < LANES; j++) {
        const int used = first + j < f->nodes;
        shift[j] = f->shift[used ? first + j : first];
        weight[j] = used ? f->weight[first + j] : 0;
    }
    if (p->order == 1) {
        kernels_tvblt_one job = {p->steps, m->band[0], m->band[1], m->band[2], p->v,       m->keep,
                                 m->drive, {0},        {0},        m->scratch, m->part[0], m->part[2]};
        memcpy(job.shift, shift, sizeof shift);
        memcpy(job.weight, weight, sizeof weight);
        kernels->one(&job);
    } else {
        kernels_tvblt_two job = {p->steps, p->r0,      p->r1,      m->beta,    m->band[0], m->band[1], m->band[2],
                                 p->v,     m->root_v,  m->keep,    m->pass,    m->gain,    m->drive,   {0},
                                 {0},      m->scratch, m->part[0], m->part[1], m->part[2]};
        memcpy(job.shift, shift, sizeof shift);
        memcpy(job.weight, weight, sizeof weight);
        kernels->two(&job);
    }
}

/* The same without momentum: of the three moments the answer's alone is left. */
static void run_answers(const problem *p, const meter *m, const double *norms, const double *variance,
                        const double *with_o, double *squares) {
    double square = 0;
    for (int64_t t = 0; t < p->steps; t++) {
        const double d = norms[t], dv = d * p->v[t], keep = m->keep[t], g = m->gain[t];
        square = keep * keep * square + g * g * (d * dv * variance[t]) + 2 * keep * g * (-dv * with_o[t]);
        squares[t] = square;
    }
}

static void measure_errors(const problem *p, const filter *f, meter *m, const double *norms, double *squares) {
    const int64_t n = p->steps;
    for (int64_t t = 0; t < n; t++) /* the kernel of order 1 knows no momentum: g is folded in */
        m->drive[t] = norms[t] * p->v[t] * (p->order == 1 ? m->gain[t] : 1);
    run_group(p, f, 0, m);
    for (int i = 0; i < 3 && f->nodes > LANES; i++)
        memcpy(m->sum[i], m->part[i], (size_t)n * sizeof *m->sum[i]);
    for (int first = LANES; first < f->nodes; first += LANES) {
        run_group(p, f, first, m);
        for (int i = 0; i < 3; i++)
            for (int64_t t = 0; t < n; t++)
                m->sum[i][t] += m->part[i][t];
    }
    double *const *sum = f->nodes > LANES ? m->sum : m->part;
    if (p->order == 1)
        run_answers(p, m, norms, sum[0], sum[2], squares);
    else {
        /* The workload on second moments, from the noise's own and its covariances with momentum and answer. */
        error_moments moments = {0};
        for (int64_t t = 0; t < p->steps; t++) {
            const error_drive drive = {m->beta, m->keep[t], m->pass[t], m->gain[t]};
            const double d = norms[t], dv = d * p->v[t];
            error_moments_advance(&drive, d * dv * sum[0][t], -dv * sum[1][t], -dv * sum[2][t], &moments);
            squares[t] = moments.oo;
        }
    }
}

dpmf_status tvblt_measure(const problem *p, const filter *f, meter *m, double *norms, double *squares) {
    assert(f->nodes >= 1 && f->nodes <= NODES_MAX);
    base_quadrature rule;
    const double a = invert_filter(f, &rule);
    TRY(optimum_phi_resolvents(m->phi, p->v, p->p, &rule, norms));
    for (int64_t t = 0; t < p->steps; t++)
        norms[t] = sqrt((a + norms[t]) / p->v[t]);
    measure_errors(p, f, m, norms, squares);
    return DPMF_OK;
}
