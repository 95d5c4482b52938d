/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A score for each canary: the logarithm of the likelihood ratio of "in" and "out", for an attacker who knows the mechanism and
 * the sampler's law but neither coins nor batches. Any score is a valid attack; this one is optimal where C is square
 * and, under sampling, the columns of steps that take the same unit do not overlap.
 *
 * Along canary i the releases are r = x u + s W z, where x is the canary's sign, u marks the steps that took it, z is
 * standard normal and s = sigma sensitivity. With v = C r = x C u + s z, c_t column t of C and l(y, q) = (y - q/2)/s^2:
 *
 *     without sampling, u is known:     l(<C u, v>, |C u|^2)                                       (a matched filter)
 *     with probability p in each step of one of B blocks t mod B, an unknown one:
 *         ln (1/B) sum_b exp sum_{t = b mod B} ln(1 - p + p exp l(<c_t, v>, |c_t|^2))
 *
 * Poisson is B = 1, balls-in-bins p = 1; samplers with other laws are treated as Poisson of the same expectation. Where
 * neighbours replace, the score is that of v minus that of -v.
 *
 * The auditor, who made the run, knows u under sampling too: projected = <C u, v>/|C u| and |C u| are for audit/bounds.c.
 */
#include "audit/audit.h"

#include "base/memory.h"
#include "base/special.h"

#include <math.h>

typedef struct scorer {
    dpmf_audit *audit;
    const dpmf_strategy *strategy;
    int64_t n, bands;
    double *column, *squared; /* n x bands from the diagonal down; |c_t|^2. Under sampling only */
    double *u, *image, *v;    /* n numbers each */
    int64_t blocks;           /* 0: no sampling */
    double probability, variance;
} scorer;

/* ---- what the attacker knows ---- */

/* Are the steps that took a canary all equal modulo `period`? */
static int one_class(const scorer *s, int64_t period) {
    for (int64_t i = 0; i < s->audit->canaries; i++) {
        int64_t rest = -1;
        for (int64_t t = 0; t < s->n; t++) {
            if (!s->audit->taken[i * s->n + t]) continue;
            if (rest >= 0 && t % period != rest) return 0;
            rest = t % period;
        }
    }
    return 1;
}

/* The sampler's law as the batches show it: B is a number of blocks or bins for some samplers only. */
static void read_sampling(scorer *s) {
    const dpmf_sampling sampling = dpmf_mechanism_get(s->audit->mechanism).sampling;
    const int64_t cells = s->audit->canaries * s->n;
    int64_t taken = 0;
    if (dpmf_sampling_is_none(&sampling)) return;
    for (int64_t i = 0; i < cells; i++)
        taken += s->audit->taken[i];
    s->blocks = sampling.count > 1 && sampling.count <= s->n && one_class(s, sampling.count) ? sampling.count : 1;
    s->probability = fmin(1, (double)taken / (double)cells * (double)s->blocks);
}

static dpmf_status read_columns(scorer *s) {
    const int64_t n = s->n, bands = dpmf_strategy_get(s->strategy).bands;
    s->bands = bands > 0 && bands < n ? bands : n;
    TRY(base_alloc_doubles(n * s->bands, "the columns of C", &s->column));
    TRY(base_alloc_doubles(n, "their norms", &s->squared));
    for (int64_t t = 0; t < n; t++) {
        TRY(dpmf_strategy_column(s->strategy, t, s->image));
        for (int64_t j = 0; j < s->bands && t + j < n; j++) {
            s->column[t * s->bands + j] = s->image[t + j];
            s->squared[t] += s->image[t + j] * s->image[t + j];
        }
    }
    return DPMF_OK;
}

static double mixture(const scorer *s, double sign) {
    double all = -INFINITY;
    for (int64_t b = 0; b < s->blocks; b++) {
        double sum = 0;
        for (int64_t t = b; t < s->n; t += s->blocks) {
            const double *c = s->column + t * s->bands;
            double y = 0;
            for (int64_t j = 0; j < s->bands && t + j < s->n; j++)
                y += c[j] * s->v[t + j];
            const double ratio = (sign * y - s->squared[t] / 2) / s->variance;
            sum += s->probability < 1 ? base_log_add(log1p(-s->probability), log(s->probability) + ratio) : ratio;
        }
        all = base_log_add(all, sum);
    }
    return all - log((double)s->blocks);
}

/* The sensitivity is that of a whole pattern or of one column; where neighbours replace, that of a pattern counts twice. */
static void note_size(scorer *s, int64_t canary, double norm) {
    dpmf_audit *a = s->audit;
    const dpmf_sensitivity about = dpmf_mechanism_get(a->mechanism).evaluation.sensitivity;
    const int replaced = dpmf_mechanism_get(a->mechanism).adjacency == DPMF_ADJACENCY_REPLACE_ONE;
    if (s->blocks == 0) {
        a->largest = fmax(a->largest, norm * (replaced && about.of == DPMF_SENSITIVITY_PARTICIPATION ? 2 : 1));
        return;
    }
    for (int64_t t = 0; t < s->n; t++)
        if (a->taken[canary * s->n + t]) a->largest = fmax(a->largest, sqrt(s->squared[t]));
}

static dpmf_status score_canary(scorer *s, int64_t i) {
    dpmf_audit *a = s->audit;
    const int replaced = dpmf_mechanism_get(a->mechanism).adjacency == DPMF_ADJACENCY_REPLACE_ONE;
    double product = 0, squared = 0;
    for (int64_t t = 0; t < s->n; t++)
        s->u[t] = a->taken[i * s->n + t];
    TRY(dpmf_strategy_apply(s->strategy, s->u, s->image));
    TRY(dpmf_strategy_apply(s->strategy, a->released + i * s->n, s->v));
    for (int64_t t = 0; t < s->n; t++) {
        product += s->image[t] * s->v[t];
        squared += s->image[t] * s->image[t];
    }
    a->norm[i] = sqrt(squared);
    a->projected[i] = squared > 0 ? product / a->norm[i] : 0;
    if (squared > 0) note_size(s, i, a->norm[i]);
    if (s->blocks > 0)
        a->score[i] = mixture(s, 1) - (replaced ? mixture(s, -1) : 0);
    else
        a->score[i] = (replaced ? 2 * product : product - squared / 2) / s->variance;
    return DPMF_OK;
}

dpmf_status audit_score(dpmf_audit *a) {
    scorer s = {.audit = a};
    dpmf_status status = DPMF_OK;
    const dpmf_evaluation about = dpmf_mechanism_get(s.audit->mechanism).evaluation;
    const double scale = dpmf_mechanism_get(s.audit->mechanism).sigma * about.sensitivity.value;
    s.strategy = dpmf_mechanism_get(s.audit->mechanism).strategy;
    s.n = s.audit->steps;
    s.variance = scale * scale;
    TRY_DONE(base_alloc_doubles(s.n, "a canary", &s.u));
    TRY_DONE(base_alloc_doubles(s.n, "a canary", &s.image));
    TRY_DONE(base_alloc_doubles(s.n, "a canary", &s.v));
    read_sampling(&s);
    TRY_DONE(s.blocks > 0 ? read_columns(&s) : DPMF_OK);
    for (int64_t i = 0; i < a->canaries; i++) {
        if (i % 64 == 0) TRY_DONE(base_progress(&a->options.run, "scoring", (double)i / (double)a->canaries));
        TRY_DONE(score_canary(&s, i));
    }
done:
    base_free(s.column);
    base_free(s.squared);
    base_free(s.u);
    base_free(s.image);
    base_free(s.v);
    return status;
}
