/* SPDX-License-Identifier: Apache-2.0 */
#include "regret.h"

#include "options/verbs.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double UPWARDS = 1 + 32 * DBL_EPSILON; /* more than the rounding of the few operations behind a term */

/* D,L or D,L,RATE; a rate of 0: not given. */
static bool read_numbers(const char *text, regret *out) {
    double *const into[] = {&out->distance, &out->lipschitz, &out->rate};
    char part[64];
    int count = 0;
    for (const char *at = text; at != NULL; count++) {
        const size_t length = strcspn(at, ",");
        if (count == 3 || length >= sizeof part) return false;
        memcpy(part, at, length);
        part[length] = '\0';
        if (!read_number(part, into[count]) || !(*into[count] >= 1e-50) || !(*into[count] <= 1e50)) return false;
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return count >= 2;
}

int regret_read(const arguments *given, regret *out) {
    char shown[SHOWN];
    if (!option_given(given, OPTION_REGRET))
        return option_given(given, OPTION_DIM) ? fail(EXIT_USAGE, "--dim: evaluate takes it with --regret only") : 0;
    if (!read_numbers(option_text(given, OPTION_REGRET), out))
        return fail(EXIT_USAGE,
                    "--regret %s: D,L and D,L,RATE are accepted, numbers from 1e-50 to 1e50: the distance, the norm of "
                    "gradients, and the learning rate",
                    show(option_text(given, OPTION_REGRET), shown));
    if (!option_given(given, OPTION_DIM))
        return fail(EXIT_USAGE, "--regret needs --dim M, the number of weights: each of them gets noise");
    out->dim = given->count[OPTION_DIM];
    return 0;
}

static int refuse(const char *fault) {
    return fail(EXIT_USAGE, "--regret: %s", fault);
}

int regret_check(const arguments *given, const problem *p, regret *r) {
    if (!option_given(given, OPTION_REGRET)) return 0;
    if (strcmp(dpmf_workload_get(p->workload).text, "prefix") != 0)
        return refuse("the bound is for gradient descent with a constant rate, whose workload is prefix; with a FILE "
                      "--workload prefix is accepted");
    if (p->weights != NULL) return refuse("the bound is for losses without --weights");
    if (!dpmf_sampling_is_none(&p->sampling))
        return refuse("the bound is for steps that all use the same number of units: mechanisms without sampling are "
                      "accepted");
    if (p->columns == 1 && r->dim != 1) return refuse("the mechanism is for one column: --dim 1 is accepted");
    if (option_given(given, OPTION_EPSILON)) return 0;
    r->sigma = p->mechanism != NULL ? dpmf_mechanism_get(p->mechanism).sigma : 0.0;
    return r->sigma > 0.0 ? 0 : refuse("there is no sigma: add --epsilon E and --delta D, or name a calibrated FILE");
}

int regret_evaluate(const problem *p, const dpmf_evaluation *found, double sigma, regret *r) {
    const double n = (double)dpmf_workload_get(p->workload).steps;
    if (found->sensitivity.kind != DPMF_EXACT && found->sensitivity.kind != DPMF_UPPER_BOUND)
        return refuse("the sensitivity is neither exact nor an upper bound, so there would be no bound");
    if (sigma > 0.0) r->sigma = sigma;
    const double root = r->sigma * sqrt((double)r->dim) * found->rms_loss, l = r->lipschitz, d = r->distance;
    if (r->rate == 0.0) r->rate = d / (l * sqrt(n * (1 + 2 * root)));
    r->steps = UPWARDS * (d * d / (2 * r->rate * n) + 0.5 * r->rate * l * l);
    r->noise = UPWARDS * (r->rate * l * l * root);
    return 0;
}

/* The first weights themselves have no larger regret. */
static double staying(const regret *r) {
    return r->distance * r->lipschitz * UPWARDS;
}

void json_regret(text_buffer *t, const regret *r) {
    json_open(t, "regret", '{');
    json_double(t, "distance", r->distance);
    json_double(t, "lipschitz", r->lipschitz);
    json_integer(t, "dim", r->dim);
    json_double(t, "sigma", r->sigma);
    json_double(t, "rate", r->rate);
    json_double(t, "bound", UPWARDS * (r->steps + r->noise));
    json_text(t, "kind", "upper bound");
    json_double(t, "without_noise", r->steps);
    json_double(t, "noise", r->noise);
    json_double(t, "staying", staying(r));
    json_close(t, '}');
}

void table_regret(text_buffer *t, const regret *r) {
    const double bound = UPWARDS * (r->steps + r->noise);
    table_upper(t, "regret", bound, "upper bound, mean of the steps (D, L: see --regret)");
    table_upper(t, "  of steps", r->steps, "without noise, at the same rate");
    table_upper(t, "  of noise", r->noise, NULL);
    table_double(t, "  rate", r->rate, NULL);
    if (bound >= staying(r)) table_upper(t, "  no better", staying(r), "than weights that never move: D x L");
}
