/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loss as a function f of the squared errors q_t of the steps, with its gradient (McKenna 2024, Appendix D.2, where any
 * differentiable aggregator of the errors is optimized; Pillutla et al. 2025, Section 4.4.2).
 *
 *     rms   sqrt(mean q)      max   sqrt(max q)      lp:P   (mean q^(P/2))^(1/P)      last   sqrt(q_{n-1})      own   the caller's
 *
 * The built-in ones grow by c when all q grow by c^2, so that sigma x loss is the loss of the noise. Squares are divided by the
 * largest before they are raised to a power, so that no power leaves the range of a double. f^2 of lp is the P/2-norm of q up to a
 * constant: convex for P >= 2, so that f(q)^2 >= f(r)^2 + <grad f(r)^2, q - r> is a proof; for P < 2 it is not.
 */
#include "problem/problem.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double POWER_MOST = 1000;

dpmf_status problem_loss_check(const problem_loss *l, const char *what) {
    if ((unsigned)l->kind > DPMF_LOSS_OWN)
        return base_fail(DPMF_ERROR_ARGUMENT, "%s: loss %d, accepted 0 (rms), 1 (max), 2 (lp), 3 (last) or 4 (own)",
                         what, (int)l->kind);
    if (l->kind == DPMF_LOSS_LP && !(l->power >= 1 && l->power <= POWER_MOST))
        return base_fail(DPMF_ERROR_ARGUMENT, "%s: loss lp:%g, accepted: lp:1 to lp:%g", what, l->power, POWER_MOST);
    if (l->kind == DPMF_LOSS_OWN && (l->own == NULL || l->own->value == NULL))
        return base_fail(DPMF_ERROR_ARGUMENT, "%s: loss own, but own_loss or its value is NULL", what);
    return DPMF_OK;
}

int problem_loss_is_convex(const problem_loss *l) {
    return l->kind == DPMF_LOSS_OWN ? l->own->convex != 0 : l->kind != DPMF_LOSS_LP || l->power >= 2;
}

static double power_mean(double power, int64_t n, const double *q, double *gradient) {
    double most = 0, sum = 0;
    for (int64_t t = 0; t < n; t++)
        most = fmax(most, q[t]);
    if (!(most > 0 && isfinite(most))) return most;
    for (int64_t t = 0; t < n; t++)
        sum += pow(q[t] / most, power / 2);
    const double value = sqrt(most) * pow(sum / (double)n, 1 / power);
    /* d f / d q_t = f (q_t/most)^(P/2 - 1) / (2 most sum); of P < 2 it is infinite at 0, and there the least double stands in */
    for (int64_t t = 0; t < n && gradient != NULL; t++)
        gradient[t] = value * pow(fmax(q[t] / most, 1e-300), power / 2 - 1) / (2 * most * sum);
    return value;
}

double problem_loss_value(const problem_loss *l, int64_t n, const double *q, double *gradient) {
    double most = 0;
    int64_t worst = n - 1;
    if (l->kind == DPMF_LOSS_OWN) return l->own->value(l->own->context, n, q, gradient);
    if (l->kind == DPMF_LOSS_RMS || l->kind == DPMF_LOSS_LP)
        return power_mean(l->kind == DPMF_LOSS_RMS ? 2 : l->power, n, q, gradient);
    for (int64_t t = 0; t < n && l->kind == DPMF_LOSS_MAX; t++)
        if (q[t] > most) most = q[worst = t];
    const double value = sqrt(q[worst]);
    if (gradient != NULL) {
        memset(gradient, 0, (size_t)n * sizeof *gradient);
        gradient[worst] = 1 / (2 * value);
    }
    return value;
}

dpmf_status problem_loss_of(const problem_loss *l, int64_t n, const double *errors, double *out) {
    double *squares = NULL;
    TRY(base_alloc_doubles(n, "the squared errors", &squares));
    for (int64_t t = 0; t < n; t++)
        squares[t] = errors[t] * errors[t];
    const double found = problem_loss_value(l, n, squares, NULL);
    base_free(squares);
    if (!(found >= 0 && isfinite(found)))
        return base_fail(l->kind == DPMF_LOSS_OWN ? DPMF_ERROR_ARGUMENT : DPMF_ERROR_NUMERICAL,
                         "the loss is %g, accepted: finite and not negative", found);
    *out = found;
    return DPMF_OK;
}

void problem_loss_text(const problem_loss *l, char text[PROBLEM_LOSS_TEXT]) {
    static const char *const names[] = {"rms", "max", "lp", "last", "own"};
    char power[32] = "";
    if (l->kind == DPMF_LOSS_LP) base_format_double(l->power, power);
    snprintf(text, PROBLEM_LOSS_TEXT, "%s%s%s", names[l->kind], l->kind == DPMF_LOSS_LP ? ":" : "", power);
}

dpmf_status problem_loss_read(const char *text, problem_loss *out) {
    char again[PROBLEM_LOSS_TEXT];
    problem_loss found = {DPMF_LOSS_RMS, 0, NULL};
    if (strncmp(text, "lp:", 3) == 0) {
        found.kind = DPMF_LOSS_LP;
        if (!base_parse_double(text + 3, strlen(text + 3), &found.power))
            return base_fail(DPMF_ERROR_FORMAT, "the loss is none that is known");
    } else {
        found.kind = strcmp(text, "max") == 0    ? DPMF_LOSS_MAX
                     : strcmp(text, "last") == 0 ? DPMF_LOSS_LAST
                                                 : DPMF_LOSS_RMS;
    }
    TRY(problem_loss_check(&found, "design"));
    problem_loss_text(&found, again);
    if (strcmp(again, text) != 0) return base_fail(DPMF_ERROR_FORMAT, "the loss is none that is known");
    *out = found;
    return DPMF_OK;
}
