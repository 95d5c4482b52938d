/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of a TV-BLT as its loss sees it (families/tvblt/loss.c), for eight nodes at once: compiled once per instruction
 * set from tvblt/body.inc with identical results (additions, multiplications, divisions and square roots, lane by lane).
 *
 * E_j = (K + shift_j V)^-1, K = Q diag(e) Q' (two sub-diagonals: R^-1 Q diag(e) Q' R^-T). The noise y has
 *
 *     Var y_t = v_t sum_j weight_j (1 - shift_j v_t E_j[t,t]),   Cov(y_t, y_u) = -v_t v_u sum_j weight_j shift_j E_j[t,u].
 *
 * The results are variance_t = Var y_t / v_t and, times -1/v_t, the covariances of y_t with the workload's outputs of
 * y_0 ... y_{t-1}.
 */
#ifndef DPMF_KERNELS_TVBLT_H
#define DPMF_KERNELS_TVBLT_H

#include <stdint.h>

enum { KERNELS_TVBLT_LANES = 8 };

/*
 * Q with a_t on the diagonal and -c_t below it: diagonal_t = a_t^2 e_t, below_t = c_t^2 e_{t-1}, couple_t = a_t c_{t+1} e_t
 * (the last unused). The workload is o_t = keep_t o_{t-1} + g_t d_t y_t, and drive_t = g_t d_t v_t. scratch: n x 8.
 */
typedef struct kernels_tvblt_one {
    int64_t n;
    const double *diagonal, *below, *couple, *v, *keep, *drive;
    double shift[KERNELS_TVBLT_LANES], weight[KERNELS_TVBLT_LANES];
    double *scratch;
    double *variance, *with_o;
} kernels_tvblt_one;

/*
 * Q[t,t], Q[t+1,t] and Q[t+2,t], times sqrt(e_t): top, middle, bottom, 0 where there is no such row; R = r0 on the diagonal,
 * r1 below; root_v = sqrt(v). The workload is m_t = beta m_{t-1} + d_t y_t, o_t = keep_t o_{t-1} + pass_t m_{t-1} +
 * gain_t d_t y_t; drive_t = d_t v_t. scratch: n x 24.
 */
typedef struct kernels_tvblt_two {
    int64_t n;
    double r0, r1, beta;
    const double *top, *middle, *bottom, *v, *root_v, *keep, *pass, *gain, *drive;
    double shift[KERNELS_TVBLT_LANES], weight[KERNELS_TVBLT_LANES];
    double *scratch;
    double *variance, *with_m, *with_o;
} kernels_tvblt_two;

/* Numbers of scratch per step. */
static inline int64_t kernels_tvblt_scratch(int order) {
    return (order == 1 ? 1 : 3) * KERNELS_TVBLT_LANES;
}

typedef struct kernels_tvblt_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    void (*one)(const kernels_tvblt_one *job);
    void (*two)(const kernels_tvblt_two *job);
} kernels_tvblt_set;

const kernels_tvblt_set *kernels_tvblt_get(void);
const kernels_tvblt_set *kernels_tvblt_find(const char *name);

#endif
