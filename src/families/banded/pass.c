/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded C: the squared errors q_t = |B[t,:]|^2 under a named workload and the derivative of sum_t p_t q_t by the
 * entries of C, both in O(n b^2) time and O(n b) memory.
 *
 *     forward   y_t = sum_j a_j y_{t-j} + z_t / C[t,t],  a_j = -C[t,t-j] / C[t,t],  drives the workload's
 *               m_t = beta m_{t-1} + y_t,  o_t = keep o_{t-1} + p m_{t-1} + g y_t  (error/error.h). The covariance P_t of the
 *               state (the last b-1 outputs, m, o) is propagated; q_t = Var o_t.
 *     backward  L_t, the quadratic cost of the state, sum over u >= t of p_u Var o_u = <L_t, P_t> + terms without P_t:
 *               L_{t-1} = p_{t-1} e_o e_o' + F_t' L_t F_t with F_t the transition. With w = e_y + e_m + g e_o, through
 *               which y_t enters the state, and l = L_t w:  d/da = 2 l' F_t P_{t-1},  d/d(1/C[t,t]) = 2 w'l / C[t,t].
 *
 * This is McKenna 2024, Section 3.1 and Appendix C, with the covariance in place of n impulse responses: O(n b^2)
 * against O(n^2 b). P_{t-1} need not be kept: its entries are those of X^-1 within the band, each computed once, in the
 * step of the later of its two outputs. The outputs live in a ring (y_u in slot u mod (b-1)), in which a step of either
 * pass changes one row and column only, and all inner loops run over whole padded rows.
 */
#include "base/memory.h"
#include "error/error.h"
#include "families/banded/banded.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { PAD = 4, VECTORS = 6 };

dpmf_status banded_pass_create(const dpmf_workload *workload, int64_t bands, banded_pass *pass) {
    int64_t n = workload->steps;
    banded_pass p = {.workload = workload, .n = n, .bands = bands, .slots = bands - 1};
    dpmf_status status = DPMF_OK;
    const int matrix = workload->form == WORKLOAD_DENSE;
    assert((matrix || workload->form == WORKLOAD_NAMED) && bands >= 1 && bands <= n);
    p.stride = (p.slots + PAD - 1) / PAD * PAD;
    p.with_momentum = workload->momentum > 0;
    if (matrix) {
        TRY_DONE(banded_matrix_create(&p));
        *pass = p;
        return DPMF_OK;
    }
    TRY_DONE(BASE_ARRAYS("covariances", {&p.now, n * p.stride}, {&p.with_o, n * p.stride},
                         {&p.with_m, p.with_momentum ? n * p.stride : 0}, {&p.own, n}, {&p.outputs, p.slots * p.stride},
                         {&p.costs, p.slots * p.stride}, {&p.vectors, VECTORS * p.stride}));
    *pass = p;
    return DPMF_OK;
done:
    banded_pass_free(&p);
    return status;
}

void banded_pass_free(banded_pass *pass) {
    base_free(pass->now);
    banded_matrix_free(pass);
    *pass = (banded_pass){0};
}

/* y += sum over slots of x_k * (row k of m), four rows at a time: their sums stay in registers. */
static void add_product(int64_t slots, int64_t stride, const double *restrict m, const double *restrict x,
                        double *restrict y) {
    int64_t k = 0;
    for (; k + 4 <= slots; k += 4) {
        const double *restrict r = m + k * stride;
        double x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
        for (int64_t i = 0; i < stride; i++)
            y[i] += x0 * r[i] + x1 * r[stride + i] + x2 * r[2 * stride + i] + x3 * r[3 * stride + i];
    }
    for (; k < slots; k++) {
        const double *restrict r = m + k * stride;
        double x0 = x[k];
        for (int64_t i = 0; i < stride; i++)
            y[i] += x0 * r[i];
    }
}

double banded_inner(int64_t count, const double *restrict x, const double *restrict y) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0; /* count is a multiple of PAD */
    for (int64_t i = 0; i < count; i += PAD) {
        s0 += x[i] * y[i];
        s1 += x[i + 1] * y[i + 1];
        s2 += x[i + 2] * y[i + 2];
        s3 += x[i + 3] * y[i + 3];
    }
    return (s0 + s1) + (s2 + s3);
}

void banded_lead(const banded_pass *p, int64_t t, int64_t slot, const double *row, double *lead) {
    double seed = 1 / row[0];
    int64_t last = t < p->slots ? t : p->slots;
    if (last < p->slots) memset(lead, 0, (size_t)p->stride * sizeof *lead);
    int64_t i = slot;
    for (int64_t j = 1; j <= last; j++) {
        i = i == 0 ? p->slots - 1 : i - 1;
        lead[i] = -row[j] * seed;
    }
}

static void set_row_and_column(const banded_pass *p, int64_t slot, const double *values, double own, double *m) {
    memcpy(m + slot * p->stride, values, (size_t)p->slots * sizeof *m);
    for (int64_t i = 0; i < p->slots; i++)
        m[i * p->stride + slot] = values[i];
    m[slot * p->stride + slot] = own;
}

int banded_forward(banded_pass *p, const double *rows, double *squares) {
    int64_t stride = p->stride, slots = p->slots;
    if (p->y != NULL) return banded_matrix_forward(p, rows, squares);
    double *lead = p->vectors, *ym = p->vectors + stride, *yo = p->vectors + 2 * stride;
    error_moments v = {0};
    memset(p->vectors, 0, (size_t)(VECTORS * stride) * sizeof *p->vectors);
    memset(p->outputs, 0, (size_t)(slots * stride) * sizeof *p->outputs);
    for (int64_t t = 0, slot = 0; t < p->n; t++) {
        const double *row = rows + t * p->bands;
        double *now = p->now + t * stride, seed = 1 / row[0];
        error_drive d = error_drive_at(p->workload, t);
        banded_lead(p, t, slot, row, lead);
        memset(now, 0, (size_t)stride * sizeof *now);
        add_product(slots, stride, p->outputs, lead, now);
        double yy = seed * seed + banded_inner(stride, lead, now), m = banded_inner(stride, lead, ym),
               o = banded_inner(stride, lead, yo);
        error_moments_advance(&d, yy, m, o, &v);
        squares[t] = v.oo;
        p->own[t] = yy;
        if (!(v.oo < 1e300)) return 0; /* infinite or not a number */
        for (int64_t i = 0; i < stride; i++)
            yo[i] = d.keep * yo[i] + d.p * ym[i] + d.g * now[i];
        memcpy(p->with_o + t * stride, yo, (size_t)stride * sizeof *yo);
        if (p->with_momentum) {
            for (int64_t i = 0; i < stride; i++)
                ym[i] = d.beta * ym[i] + now[i];
            memcpy(p->with_m + t * stride, ym, (size_t)stride * sizeof *ym);
        }
        if (slots == 0) continue;
        set_row_and_column(p, slot, now, yy, p->outputs);
        yo[slot] = d.keep * o + d.p * m + d.g * yy;
        if (p->with_momentum) ym[slot] = d.beta * m + yy;
        slot = slot + 1 == slots ? 0 : slot + 1;
    }
    return 1;
}

/* The cost of the state: p->costs for the outputs with each other, these for the rest. */
typedef struct cost {
    double *with_m, *with_o; /* outputs with m and o */
    double mm, mo, oo;
} cost;

/* P_{t-1} from P_t: step t's slot goes back to y_{t-slots}, whose covariances the later outputs have kept. */
static void step_back(banded_pass *p, int64_t t, int64_t slot, double *values) {
    int64_t i = slot, oldest = t - p->slots;
    memset(values, 0, (size_t)p->stride * sizeof *values);
    for (int64_t j = 1; j < p->slots && oldest >= 0; j++) {
        i = i == 0 ? p->slots - 1 : i - 1;
        values[i] = p->now[(t - j) * p->stride + slot];
    }
    set_row_and_column(p, slot, values, oldest >= 0 ? p->own[oldest] : 0, p->outputs);
}

/* L <- F' L F for the outputs: L + l a' + a l' + a a' (w'l), l with step t's slot already cleared. */
static void carry_back(const banded_pass *p, const double *restrict l, const double *restrict a, double whole,
                       double *restrict half) {
    int64_t stride = p->stride;
    for (int64_t i = 0; i < stride; i++)
        half[i] = l[i] + 0.5 * whole * a[i];
    for (int64_t k = 0; k < p->slots; k++) {
        double *restrict r = p->costs + k * stride;
        double x = half[k], y = a[k];
        for (int64_t i = 0; i < stride; i++)
            r[i] += x * a[i] + y * half[i];
    }
}

/* The derivative by row t of C from those by a (in the ring) and by 1/C[t,t]. */
static void write_row(const banded_pass *p, int64_t t, int64_t slot, const double *row, const double *by_a,
                      double by_seed, double *out) {
    double seed = 1 / row[0], first = -by_seed * seed;
    int64_t i = slot;
    memset(out, 0, (size_t)p->bands * sizeof *out);
    for (int64_t j = 1; j <= p->slots && j <= t; j++) {
        i = i == 0 ? p->slots - 1 : i - 1;
        out[j] = -by_a[i] * seed;
        first += by_a[i] * row[j] * seed;
    }
    out[0] = first * seed;
}

void banded_backward(banded_pass *p, const double *rows, const double *weights, double *d, double *slopes) {
    int64_t stride = p->stride, slots = p->slots;
    if (p->y != NULL) {
        banded_matrix_backward(p, rows, weights, d);
        return;
    }
    double *a = p->vectors, *l = p->vectors + stride, *by_a = p->vectors + 2 * stride, *half = p->vectors + 3 * stride;
    cost c = {.with_m = p->vectors + 4 * stride, .with_o = p->vectors + 5 * stride, .oo = weights[p->n - 1]};
    memset(p->vectors, 0, (size_t)(VECTORS * stride) * sizeof *p->vectors);
    memset(p->costs, 0, (size_t)(slots * stride) * sizeof *p->costs);
    for (int64_t t = p->n - 1, slot = slots == 0 ? 0 : (p->n - 1) % slots; t >= 0; t--) {
        const double *row = rows + t * p->bands, *now = p->now + t * stride, *with_o = p->with_o + t * stride;
        const double *with_m = p->with_momentum ? p->with_m + t * stride : NULL;
        error_drive v = error_drive_at(p->workload, t);
        double own = 0, lm = c.mm + v.g * c.mo, lo = c.mo + v.g * c.oo;
        if (slots > 0) {
            banded_lead(p, t, slot, row, a);
            const double *mine = p->costs + slot * stride;
            for (int64_t i = 0; i < stride; i++)
                l[i] = mine[i] + c.with_m[i] + v.g * c.with_o[i];
            lm += c.with_m[slot];
            lo += c.with_o[slot];
            own = l[slot];
            if (slopes != NULL) memcpy(slopes + t * (stride + 2), l, (size_t)stride * sizeof *l);
            step_back(p, t, slot, half);
            l[slot] = c.with_m[slot] = c.with_o[slot] = 0; /* y_t is not part of the state before */
            for (int64_t i = 0; i < stride; i++)
                by_a[i] = own * now[i] + lo * with_o[i];
            for (int64_t i = 0; i < stride && with_m != NULL; i++)
                by_a[i] += lm * with_m[i];
            add_product(slots, stride, p->outputs, l, by_a);
            for (int64_t i = 0; i < stride; i++)
                by_a[i] *= 2;
        }
        double whole = own + lm + v.g * lo;
        if (slopes != NULL) {
            slopes[t * (stride + 2) + stride] = lm;
            slopes[t * (stride + 2) + stride + 1] = lo;
        }
        write_row(p, t, slot, row, by_a, 2 * whole / row[0], d + t * p->bands);
        if (slots > 0) {
            memset(half, 0, (size_t)stride * sizeof *half);
            set_row_and_column(p, slot, half, 0, p->costs);
            carry_back(p, l, a, whole, half);
            slot = slot == 0 ? slots - 1 : slot - 1;
        }
        double weight = t > 0 ? weights[t - 1] : 0;
        for (int64_t i = 0; i < p->stride; i++) {
            double m = c.with_m[i], o = c.with_o[i];
            c.with_m[i] = v.beta * m + v.p * o + a[i] * (v.beta * lm + v.p * lo);
            c.with_o[i] = v.keep * (o + a[i] * lo);
        }
        c.mm = v.beta * v.beta * c.mm + 2 * v.beta * v.p * c.mo + v.p * v.p * c.oo;
        c.mo = v.keep * (v.beta * c.mo + v.p * c.oo);
        c.oo = v.keep * v.keep * c.oo + weight;
    }
}
