/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loss of a TV-BLT with replayed seeds as a function of its parameters, and its gradient: forwards
 *
 *     parameters -> h, beta, rho, profile, d -> P (pairs) -> V (classes) -> errors -> loss
 *
 * and the same way back. The sensitivity is 1 by construction (families/replay/sensitivity.c), so the loss is that of the
 * errors alone. A gradient costs about three evaluations, O(n k r^2).
 */
#include "families/replay/replay.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

/*
 * The adjoint of families/replay/sensitivity.c: derivatives of the loss by h, beta, rho, psi, q, w, Z and the wanted X (or,
 * where P was given, by P), from those by P (or X). The same sweep turned round: stages by rising a + c, positions forwards.
 * Names as there; a bar in comments is a derivative. With O = O_{p+1}, l = O beta_c, m = O'beta_a, s = beta_a'l, and
 *
 *     right = psi_c'zeta[a,c] - rho o m + (s + P) h_c,  left = psi_a'zeta[c,a] - rho o l,
 *     O_p = R O R + h_a right' + left h_c',   P = X + zeta[a,c]'w_c + zeta[c,a]'w_a - s
 *
 * each line below is the transpose of one of these. Within a stage no two pairs share an epoch on the same side, and what both
 * sides of neighbouring pairs would write (P by zeta) is kept apart: so pairs of a stage are items of work here as well.
 */

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
    REPLAY_UNROLLED(sweep, r, &w)
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

typedef replay_work work_t;
typedef replay_adjoint adjoint_t;

static dpmf_status adjoint_alloc(const replay_shape *s, int states, adjoint_t *out) {
    const int64_t k = s->epochs, b = s->period, r = s->buffers, m = states, pairs = replay_pairs(s);
    adjoint_t d = {0};
    TRY(BASE_ARRAYS("derivatives of the loss", {&d.h, k * b * r}, {&d.beta, k * b * r}, {&d.profile, k * b},
                    {&d.scale, k * b}, {&d.rho, (pairs + k) * r}, {&d.covariance, pairs * b}, {&d.precision, pairs * b},
                    {&d.through_zeta, k * k * b}, {&d.values, pairs * b}, {&d.zeta, k * k * b * r},
                    {&d.gram, pairs * r * r}, {&d.q, k * b * r}, {&d.w, k * b * r}, {&d.psi, k * (b + 1) * r * r},
                    {&d.whole, k * r * r}, {&d.squares, k * b}, {&d.gamma, k * b * m}, {&d.omega, k * b * m},
                    {&d.error_w, k * b * m}, {&d.error_through, k * k * m * m}, {&d.error_whole, k * m * m}));
    *out = d;
    return DPMF_OK;
}

/* What is only added to. */
void replay_adjoint_clear(work_t *w) {
    const replay_shape *s = &w->c.shape;
    adjoint_t *d = &w->adjoint;
    const int64_t k = s->epochs, b = s->period, r = s->buffers, m = w->error.states, pairs = replay_pairs(s);
    const struct {
        double *array;
        int64_t count;
    } all[] = {{d->h, k * b * r},
               {d->beta, k * b * r},
               {d->scale, k * b},
               {d->rho, (pairs + k) * r},
               {d->q, k * b * r},
               {d->w, k * b * r},
               {d->psi, k * (b + 1) * r * r},
               {d->whole, k * r * r},
               {d->covariance, pairs * b},
               {d->error_w, k * b * m},
               {d->error_through, k * k * m * m},
               {d->error_whole, k * m * m}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        memset(all[i].array, 0, (size_t)all[i].count * sizeof *all[i].array);
}

void replay_work_free(work_t *w) {
    replay_free(&w->c);
    replay_filter_free(&w->filter);
    replay_gram_free(&w->gram);
    replay_error_free(&w->error);
    base_free(w->adjoint.h);
    base_free(w->parameters);
    base_free(w->scales);
    *w = (work_t){0};
}

dpmf_status replay_work_create(const dpmf_workload *workload, const replay_shape *shape, base_pool *pool, work_t *out) {
    work_t w = {.pool = pool, .norm = 1};
    const int64_t count = replay_count(shape);
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_alloc(shape, &w.c));
    TRY_DONE(replay_filter_alloc(shape, &w.filter));
    TRY_DONE(replay_gram_alloc(shape, 1, &w.gram));
    TRY_DONE(replay_error_alloc(workload, shape, &w.error));
    TRY_DONE(adjoint_alloc(shape, w.error.states, &w.adjoint));
    TRY_DONE(base_alloc_doubles(count, "the parameters", &w.parameters));
    TRY_DONE(base_alloc_doubles(count, "scales of the parameters", &w.scales));
    *out = w;
    w = (work_t){0};
done:
    replay_work_free(&w);
    return status;
}

static double weight(const work_t *w, int64_t t) {
    return w->weights == NULL ? 1 : w->weights[t];
}

double replay_largest(const work_t *w) {
    double largest = 0;
    for (int64_t t = 0; t < w->c.shape.steps; t++)
        largest = fmax(largest, w->error.squares[t]);
    return sqrt(largest);
}

double replay_rms(const work_t *w) {
    double sum = 0;
    for (int64_t t = 0; t < w->c.shape.steps; t++)
        sum += weight(w, t) * w->error.squares[t];
    return sqrt(sum / (double)w->c.shape.steps);
}

/* log of the loss and its derivatives by the squared errors. */
double replay_loss_of_errors(work_t *w) {
    const int64_t n = w->c.shape.steps;
    const double largest = pow(replay_largest(w), 2), *e = w->error.squares;
    double sum = 0, *bar = w->adjoint.squares;
    for (int64_t t = 0; t < n; t++) {
        const double x = e[t] / largest, high = w->norm == 1 ? 1 : pow(x, w->norm - 1);
        bar[t] = weight(w, t) * high;
        sum += bar[t] * x;
    }
    for (int64_t t = 0; t < n; t++)
        bar[t] *= 0.5 / (sum * largest);
    return 0.5 * log(largest) + 0.5 / w->norm * log(sum / (double)n);
}

/* values = d^2 profile on the diagonal; the softmax; sums over the epochs for d. */
static void profile_adjoint(work_t *w) {
    const replay_shape *s = &w->c.shape;
    const int64_t b = s->period;
    adjoint_t *d = &w->adjoint;
    for (int64_t p = 0; p < b; p++) {
        const int k = replay_members(s, p);
        const double scale = w->c.scale[p];
        double mean = 0, log_scale = 0;
        for (int e = 0; e < s->epochs; e++) {
            const double bar = e < k ? d->values[replay_pair(e, e) * b + p] : 0;
            d->profile[e * b + p] = scale * scale * bar;
            mean += w->c.profile[e * b + p] * d->profile[e * b + p];
            log_scale += scale * d->scale[e * b + p];
        }
        for (int e = 0; e < s->epochs; e++)
            d->profile[e * b + p] = w->c.profile[e * b + p] * (d->profile[e * b + p] - mean);
        d->scale[p] = log_scale + 2 * mean; /* by log d */
    }
}

void replay_rho_adjoint(work_t *w, double *logit_) {
    const replay_shape *s = &w->c.shape;
    const int r = s->buffers;
    const int64_t items = replay_pairs(s) + s->epochs;
    double sum[REPLAY_BUFFERS_MAX] = {0};
    for (int64_t i = 0; i < items * r; i++)
        sum[i % r] += w->adjoint.rho[i];
    for (int64_t i = 0; i < s->epochs * s->period * r; i++) { /* beta = rho kappa */
        sum[i % r] += w->adjoint.beta[i] * w->c.beta[i] / w->c.rho[i % r];
        w->adjoint.beta[i] *= w->c.rho[i % r];
    }
    for (int j = 0; j < r; j++)
        logit_[j] = sum[j] * w->c.rho[j] * (1 - w->c.rho[j]);
}

dpmf_status replay_ask(const work_t *w) {
    return base_progress(w->run, "replayed seeds", -1);
}

dpmf_status replay_loss(work_t *w, const double *parameters, double *loss, double *gradient) {
    int definite = 0;
    *loss = INFINITY;
    replay_expand(parameters, &w->c);
    TRY(replay_filter_fill(&w->c, w->pool, &w->filter));
    TRY(replay_ask(w));
    replay_wanted(&w->c, &w->gram);
    TRY(replay_blocks(&w->c, &w->filter, 1, w->pool, &w->gram));
    TRY(replay_ask(w));
    TRY(replay_factor(&w->c, w->pool, &definite));
    TRY(replay_ask(w));
    if (!definite) return DPMF_OK;
    TRY(replay_error_fill(&w->c, w->pool, &w->error));
    TRY(replay_ask(w));
    const double value = replay_loss_of_errors(w);
    if (!isfinite(value)) return DPMF_OK;
    if (gradient != NULL) {
        replay_adjoint_clear(w);
        TRY(replay_error_adjoint(w));
        TRY(replay_ask(w));
        TRY(replay_class_adjoint(w, 0));
        TRY(replay_ask(w));
        TRY(replay_pairs_adjoint(w, 1));
        TRY(replay_ask(w));
        TRY(replay_filter_adjoint(w));
        TRY(replay_ask(w));
        const replay_shape *s = &w->c.shape;
        const replay_view v = replay_look(s, gradient);
        const int64_t b = s->period, q = s->nodes;
        const int r = s->buffers;
        memset(gradient, 0, (size_t)replay_count(s) * sizeof *gradient);
        profile_adjoint(w);
        replay_rho_adjoint(w, v.logit);
        for (int e = 0; e < s->epochs; e++) {
            replay_gather(s, r, w->adjoint.h + e * b * r, v.h + e * q * r);
            replay_gather(s, r, w->adjoint.beta + e * b * r, v.kappa + e * q * r);
            replay_gather(s, 1, w->adjoint.profile + e * b, v.profile + e * q);
        }
        replay_gather(s, 1, w->adjoint.scale, v.scale);
    }
    *loss = value;
    return DPMF_OK;
}
