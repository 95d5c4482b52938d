/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adjoint of families/replay/sensitivity.c: derivatives of the loss by h, beta, rho, psi, q, w, Z and the wanted X (or,
 * where P was given, by P), from those by P (or X). The same sweep turned round: stages by rising a + c, positions
 * forwards. Names as there; a bar in comments is a derivative. With O = O_{p+1}, l = O beta_c, m = O'beta_a,
 * s = beta_a'l, and
 *
 *     right = psi_c'zeta[a,c] - rho o m + (s + P) h_c,  left = psi_a'zeta[c,a] - rho o l,
 *     O_p = R O R + h_a right' + left h_c',   P = X + zeta[a,c]'w_c + zeta[c,a]'w_a - s
 *
 * each line below is the transpose of one of these. Within a stage no two pairs share an epoch on the same side, and
 * what both sides of neighbouring pairs would write (P by zeta) is kept apart: so pairs of a stage are items of work
 * here as well.
 */
#include "families/replay/search.h"

#include <string.h>

typedef replay_work work_t;
enum { R_MAX = REPLAY_BUFFERS_MAX };

/* One side: zeta[a,c] in the coordinates of epoch c, and everything of epoch c. */
typedef struct side {
    int first;                                   /* epoch c is 0: nothing reaches zeta from elsewhere */
    const double *precision, *q, *whole, *later; /* of epoch c + 1; NULL: none */
    const double *w, *psi, *h, *beta, *zeta;     /* values */
    double *q_, *whole_, *later_, *through_;     /* derivatives, of epoch c + 1 */
    double *w_, *psi_, *h_, *beta_;              /* derivatives */
    const double *zeta_, *reached_;              /* what came to zeta[a,c] and to P[a,c] through zeta */
} side;

typedef struct pair {
    int64_t b, exists;
    int solve, same; /* same: a = c */
    const double *rho, *gram, *precision;
    side one, two;
    double *value_, *precision_, *gram_, *rho_;
} pair;

/* P's derivative by way of V and of other pairs' zeta. */
static inline __attribute__((always_inline)) double arrived(const pair *t, int64_t p) {
    double sum = t->precision_[p];
    if (t->one.reached_ != NULL) sum += t->one.reached_[p];
    if (!t->same && t->two.reached_ != NULL) sum += t->two.reached_[p];
    return sum;
}

/* psi_p'zeta_p. */
static inline __attribute__((always_inline)) void carry(int r, const side *s, int64_t p, double *out) {
    const double *z = s->zeta + p * r, *psi = s->psi + p * r * r;
    for (int j = 0; j < r; j++)
        out[j] = 0;
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++)
            out[j] += psi[i * r + j] * z[i];
}

/* From the derivatives of psi'zeta (`back`) and of zeta'w (`dot`): those of zeta (added to z_), psi and w. */
static inline __attribute__((always_inline)) void uncarry(int r, const side *s, int64_t p, const double *back,
                                                          double dot, double *z_) {
    const double *z = s->zeta + p * r, *psi = s->psi + p * r * r, *w = s->w + p * r;
    double *psi_ = s->psi_ + p * r * r, *w_ = s->w_ + p * r;
    for (int i = 0; i < r; i++) {
        double sum = dot * w[i];
        for (int j = 0; j < r; j++)
            sum += psi[i * r + j] * back[j];
        z_[i] += sum;
        w_[i] += dot * z[i];
    }
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++)
            psi_[i * r + j] += z[i] * back[j];
}

/* zeta[a,c] = P[a,c+1] q + Z'zeta[a,c+1]; `later_` and `through_` have no other source. */
static inline __attribute__((always_inline)) void unanswer(int r, const side *s, int64_t p, const double *z_) {
    if (s->whole == NULL) return;
    const double *later = s->later + p * r, *q = s->q + p * r, weight = s->precision[p];
    double *later_ = s->later_ + p * r, *q_ = s->q_ + p * r, dot = 0;
    for (int i = 0; i < r; i++) {
        double sum = 0;
        for (int j = 0; j < r; j++)
            sum += s->whole[i * r + j] * z_[j];
        later_[i] = sum;
        dot += z_[i] * q[i];
        q_[i] += weight * z_[i];
    }
    s->through_[p] = dot;
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++)
            s->whole_[i * r + j] += later[i] * z_[j];
}

static inline __attribute__((always_inline)) void arrive(int r, const side *s, int64_t p, double *z_) {
    for (int j = 0; j < r; j++)
        z_[j] = s->first ? 0 : s->zeta_[p * r + j];
}

/* One position: `bar` is O_p's derivative and becomes O_{p+1}'s; squares collects O o bar, for rho. */
static inline __attribute__((always_inline)) void retreat(int r, const pair *t, int64_t p, double *bar, double *squares,
                                                          double *rho_) {
    const double *o = t->gram + (p + 1) * r * r, *rho = t->rho;
    const double *ha = t->two.h + p * r, *hc = t->one.h + p * r, *ba = t->two.beta + p * r, *bc = t->one.beta + p * r;
    double right[R_MAX], left[R_MAX], l[R_MAX], m[R_MAX] = {0}, s = 0;
    double right_[R_MAX] = {0}, left_[R_MAX], l_[R_MAX], m_[R_MAX], both_ = 0, z_[R_MAX];
    carry(r, &t->one, p, right);
    carry(r, &t->two, p, left);
    for (int i = 0; i < r; i++) {
        double sum = 0;
        for (int j = 0; j < r; j++) {
            sum += o[i * r + j] * bc[j];
            m[j] += o[i * r + j] * ba[i];
        }
        l[i] = sum;
        s += ba[i] * sum;
    }
    const double both = s + t->precision[p];
    for (int j = 0; j < r; j++) {
        right[j] += both * hc[j] - rho[j] * m[j];
        left[j] -= rho[j] * l[j];
    }
    double *ha_ = t->two.h_ + p * r, *hc_ = t->one.h_ + p * r, *ba_ = t->two.beta_ + p * r, *bc_ = t->one.beta_ + p * r;
    for (int i = 0; i < r; i++) {
        double sum = 0, sum_h = 0;
        for (int j = 0; j < r; j++) {
            right_[j] += ha[i] * bar[i * r + j];
            sum += bar[i * r + j] * hc[j];
            sum_h += bar[i * r + j] * right[j];
        }
        left_[i] = sum;
        ha_[i] += sum_h;
    }
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++)
            hc_[j] += left[i] * bar[i * r + j];
    for (int j = 0; j < r; j++) {
        hc_[j] += both * right_[j];
        both_ += right_[j] * hc[j];
    }
    double cross_ = 0;
    if (t->solve) {
        if (p < t->exists) cross_ = arrived(t, p) + both_;
        t->value_[p] = cross_;
    } else {
        cross_ = p < t->exists ? -t->value_[p] : 0;
        t->precision_[p] = p < t->exists ? arrived(t, p) + both_ - cross_ : 0;
    }
    const double s_ = both_ - cross_;
    arrive(r, &t->one, p, z_);
    uncarry(r, &t->one, p, right_, cross_, z_);
    if (!t->same) {
        unanswer(r, &t->one, p, z_);
        arrive(r, &t->two, p, z_);
    }
    uncarry(r, &t->two, p, left_, cross_, z_);
    unanswer(r, &t->two, p, z_);
    for (int j = 0; j < r; j++) {
        l_[j] = s_ * ba[j] - rho[j] * left_[j];
        m_[j] = -rho[j] * right_[j];
        rho_[j] -= m[j] * right_[j] + l[j] * left_[j];
    }
    for (int i = 0; i < r; i++) {
        double sum = s_ * l[i];
        for (int j = 0; j < r; j++)
            sum += o[i * r + j] * m_[j];
        ba_[i] += sum;
    }
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++) {
            bc_[j] += o[i * r + j] * l_[i];
            squares[i * r + j] += o[i * r + j] * bar[i * r + j];
            bar[i * r + j] = rho[i] * rho[j] * bar[i * r + j] + l_[i] * bc[j] + ba[i] * m_[j];
        }
}

static inline __attribute__((always_inline)) void sweep(int r, const pair *t) {
    double bar[R_MAX * R_MAX], squares[R_MAX * R_MAX] = {0}, rho_[R_MAX] = {0};
    for (int i = 0; i < r * r; i++)
        bar[i] = t->gram_[i];
    for (int64_t p = 0; p < t->b; p++)
        retreat(r, t, p, bar, squares, rho_);
    for (int i = 0; i < r * r; i++)
        t->gram_[i] = bar[i];
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++) {
            rho_[i] += t->rho[j] * squares[i * r + j];
            rho_[j] += t->rho[i] * squares[i * r + j];
        }
    for (int j = 0; j < r; j++)
        t->rho_[j] = rho_[j];
}

static void sweep_any(int r, const pair *t) {
    REPLAY_UNROLLED(sweep, r, t)
}

/* ---- all of them ---- */

typedef struct task {
    work_t *w;
    int solve, stage;
} task;

static side side_of(work_t *v, int64_t a, int64_t c) {
    const replay_shape *s = &v->c.shape;
    const int64_t k = s->epochs, b = s->period, r = s->buffers;
    replay_adjoint *d = &v->adjoint;
    side out = {.first = c == 0,
                .w = v->filter.w + c * b * r,
                .psi = v->filter.psi + c * (b + 1) * r * r,
                .h = v->c.h + c * b * r,
                .beta = v->c.beta + c * b * r,
                .zeta = v->gram.zeta + (a * k + c) * b * r,
                .w_ = d->w + c * b * r,
                .psi_ = d->psi + c * (b + 1) * r * r,
                .h_ = d->h + c * b * r,
                .beta_ = d->beta + c * b * r,
                .zeta_ = d->zeta + (a * k + c) * b * r,
                .reached_ = c == 0 ? NULL : d->through_zeta + (a * k + c) * b};
    if (c + 1 < k) {
        out.precision = v->c.precision + replay_pair((int)a, (int)c + 1) * b;
        out.q = v->filter.q + (c + 1) * b * r;
        out.whole = v->filter.phi + ((c + 1) * (b + 1) + b) * r * r;
        out.later = v->gram.zeta + (a * k + c + 1) * b * r;
        out.q_ = d->q + (c + 1) * b * r;
        out.whole_ = d->whole + (c + 1) * r * r;
        out.later_ = d->zeta + (a * k + c + 1) * b * r;
        out.through_ = d->through_zeta + (a * k + c + 1) * b;
    }
    return out;
}

static dpmf_status one_pair(void *context, int64_t item, int worker) {
    const task *t = context;
    work_t *v = t->w;
    const replay_shape *s = &v->c.shape;
    const int a = replay_stage_first(s, t->stage) + (int)item, c = t->stage - a, r = s->buffers;
    const int64_t b = s->period, at = replay_pair(a, c);
    pair w = {.b = b,
              .exists = a == s->epochs - 1 ? s->last : b,
              .solve = t->solve,
              .same = a == c,
              .rho = v->c.rho,
              .gram = v->gram.gram + at * (b + 1) * r * r,
              .precision = v->c.precision + at * b,
              .one = side_of(v, a, c),
              .two = side_of(v, c, a),
              .value_ = v->adjoint.values + at * b,
              .precision_ = v->adjoint.precision + at * b,
              .gram_ = v->adjoint.gram + at * r * r,
              .rho_ = v->adjoint.rho + at * r};
    size_t bytes = (size_t)(r * r) * sizeof *w.gram_;
    (void)worker;
    if (c > 0)
        memcpy(w.gram_, v->adjoint.gram + replay_pair(a - 1, c - 1) * r * r, bytes);
    else
        memset(w.gram_, 0, bytes);
    sweep_any(r, &w);
    return DPMF_OK;
}

dpmf_status replay_pairs_adjoint(work_t *w, int solve) {
    const replay_shape *s = &w->c.shape;
    task t = {.w = w, .solve = solve};
    for (t.stage = 0; t.stage <= 2 * (s->epochs - 1); t.stage++) {
        int first = replay_stage_first(s, t.stage), end = replay_stage_end(s, t.stage);
        TRY(replay_run(w->pool, s->period * 40 * s->buffers * s->buffers, end - first, one_pair, &t));
    }
    return DPMF_OK;
}
