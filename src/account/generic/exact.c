/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimal composition of guarantees (epsilon_j, delta_j), n_j times each.
 *
 * Every (epsilon, delta)-private mechanism is dominated by the pair (Kairouz, Oh and Viswanath 2015, Theorem 3.1 and Section 4)
 *
 *     loss      infinity    epsilon                        -epsilon                  (and an outcome that P never has)
 *     P         delta       (1-delta) e^epsilon/(1+e^epsilon)   (1-delta)/(1+e^epsilon)
 *
 * which is itself (epsilon, delta)-private. So the composition of these pairs is a bound, and no smaller one holds for all
 * mechanisms with these guarantees. Its loss is infinite with the probability D = 1 - prod (1-delta_j)^n_j, else
 * sum_j epsilon_j (n_j - 2 l_j), l_j binomial:
 *
 *     delta(x) = D + (1 - D) sum_l prod_j Bin(l_j) (1 - e^(x - L(l)))_+.
 *
 * For one kind this is their closed form, for several the sum of Murtagh and Vadhan 2016. All sums are listed where there are at
 * most SUMS of them; longer lists are composed on a grid (account/ledger.c), since the problem is hard in general.
 *
 * Rounding: binomial weights by their ratios from the mode on, each off by 4 u, and normalized: within 16 u (n+8) for n. Losses
 * are off by 8 u of the sum of all n_j epsilon_j; they are moved up by that. Weights below 1e-300 are lost, 1e-290 makes up.
 */
#include "account/generic/generic.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { SUMS = 1 << 20 };
static const double UNDERFLOW = 1e-290;

typedef struct guarantee {
    double epsilon;
    int64_t times;
} guarantee;

typedef struct sum_atom {
    double loss, mass;
} sum_atom;

static int by_epsilon(const void *a, const void *b) {
    const guarantee *x = a, *y = b;
    return (x->epsilon > y->epsilon) - (x->epsilon < y->epsilon);
}

static int by_loss(const void *a, const void *b) {
    const sum_atom *x = a, *y = b;
    return (x->loss > y->loss) - (x->loss < y->loss);
}

/* out[l] = P[l of n at -epsilon], l <= n. */
static void fill_binomial(int64_t n, double epsilon, double *out) {
    const double odds = exp(-epsilon); /* of -epsilon */
    int64_t mode = (int64_t)((double)(n + 1) * (odds / (1 + odds)));
    if (mode > n) mode = n;
    double total = 1;
    out[mode] = 1;
    for (int64_t l = mode; l < n; l++)
        total += out[l + 1] = out[l] * ((double)(n - l) / (double)(l + 1)) * odds;
    for (int64_t l = mode; l > 0; l--)
        total += out[l - 1] = out[l] * ((double)l / (double)(n - l + 1)) / odds;
    for (int64_t l = 0; l <= n; l++)
        out[l] /= total;
}

/* Guarantees with the same epsilon together; returns the number of sums, SUMS + 1 where there are more. */
static int64_t join(int64_t *count, guarantee *list) {
    int64_t kept = 0, sums = 1;
    qsort(list, (size_t)*count, sizeof *list, by_epsilon);
    for (int64_t i = 0; i < *count; i++) {
        if (!(list[i].epsilon > 0)) continue;
        if (kept > 0 && list[kept - 1].epsilon == list[i].epsilon)
            list[kept - 1].times += list[i].times;
        else
            list[kept++] = list[i];
    }
    for (int64_t i = 0; i < kept; i++)
        sums = list[i].times >= SUMS / sums ? SUMS + 1 : sums * (list[i].times + 1);
    *count = kept;
    return sums > SUMS ? SUMS + 1 : sums;
}

static void multiply(sum_atom *atoms, int64_t *count, const guarantee *g, const double *weights) {
    const int64_t before = *count;
    for (int64_t l = g->times; l >= 0; l--) /* the first block is read by all others, so that it is last */
        for (int64_t i = 0; i < before; i++)
            atoms[l * before + i] =
                (sum_atom){atoms[i].loss + g->epsilon * (double)(g->times - 2 * l), atoms[i].mass * weights[l]};
    *count = before * (g->times + 1);
}

/* Losses above 0 in order, equal ones together; returns their number. */
static int64_t settle(int64_t count, const sum_atom *atoms, double more, double all, double *loss, double *mass) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        const double at = atoms[i].loss + more;
        if (!(at > 0)) continue;
        if (kept == 0 || at > loss[kept - 1]) {
            loss[kept] = at;
            mass[kept++] = 0;
        }
        mass[kept - 1] += all * atoms[i].mass;
    }
    return kept;
}

static dpmf_status list_sums(int64_t sums, int64_t kinds, const guarantee *list, double most, double log_none,
                             generic_law *out) {
    sum_atom *atoms = NULL;
    double *weights = NULL, *loss, *mass, error = 0;
    int64_t count = 1;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(sums, sizeof *atoms, "sums of privacy losses", (void **)&atoms));
    TRY_DONE(BASE_ARRAYS("sums of privacy losses", {&weights, sums}, {&loss, sums}, {&mass, sums}));
    atoms[0] = (sum_atom){0, 1};
    for (int64_t j = 0; j < kinds; j++) {
        fill_binomial(list[j].times, list[j].epsilon, weights);
        multiply(atoms, &count, &list[j], weights);
        error += 16 * GRID_ROUNDING * (double)(list[j].times + 8);
    }
    qsort(atoms, (size_t)count, sizeof *atoms, by_loss);
    count = settle(count, atoms, 8 * GRID_ROUNDING * most, exp(log_none), loss, mass);
    error += GRID_ROUNDING * (16 + 64 * fabs(log_none) + (double)kinds);
    const double infinite = log_none < 0 ? -expm1(log_none) * (1 + 16 * GRID_ROUNDING) : 0;
    TRY_DONE(generic_law_create(count, loss, mass, infinite + UNDERFLOW, error, out));
done:
    base_free(atoms);
    base_free(weights);
    return status;
}

dpmf_status generic_compose(int64_t count, const generic_mechanism *list, generic_law *out, double *most, int *made) {
    guarantee *kinds = NULL;
    dpmf_status status = DPMF_OK;
    double all = 0, log_none = 0;
    *made = 0;
    for (int64_t i = 0; i < count; i++)
        if (list[i].kind != GENERIC_APPROXIMATE || list[i].probability < 1) return DPMF_OK;
    TRY(base_alloc(count, sizeof *kinds, "guarantees", (void **)&kinds));
    for (int64_t i = 0; i < count; i++) {
        const double times = (double)list[i].times;
        kinds[i] = (guarantee){list[i].epsilon, list[i].times};
        all += times * list[i].epsilon;
        log_none += times * log1p(-list[i].delta) * (1 + 8 * GRID_ROUNDING);
    }
    const int64_t sums = join(&count, kinds);
    if (sums <= SUMS) {
        TRY_DONE(list_sums(sums, count, kinds, all, log_none, out));
        *most = all * (1 + 16 * GRID_ROUNDING);
        *made = 1;
    }
done:
    base_free(kinds);
    return status;
}
