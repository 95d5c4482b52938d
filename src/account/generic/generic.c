/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curves of mechanisms that are known by a guarantee, and of the same after sampling.
 *
 * Notation: (P, Q) with and without the unit; h(a) = sup_T P(T) - a Q(T), h' of (Q, P); a = e^x >= 1.
 *
 *     (epsilon, delta)   delta + (1 - delta) (1 - e^(x - epsilon))_+ / (1 + e^-epsilon)       (account/generic/exact.c)
 *     Laplace, scale b   (1 - e^((x - 1/b)/2))_+      one number of sensitivity 1: exact
 *     losses             the curve of the distribution, account/generic/law.c
 *
 * Sampling. Poisson, a unit takes part with probability q, and not taking part is the neighbour: the run is (1-q) Q + q P for the
 * best (P, Q), which dominates (Zhu, Dong and Wang 2022, Theorem 11), so
 *
 *     removing   q h(1 + (a-1)/q),        adding   r h'(1 + (a-1)/r), r = 1 - a (1-q), and 0 where r <= 0.
 *
 * For a pure guarantee these are 0 from ln(1 + q (e^epsilon - 1)) on, and with (epsilon, delta) the first is q delta there: Balle,
 * Barthe and Gaboardi 2018, Theorem 8. Under replace-one, the same two theorems need the guarantee for adding a unit beside that for
 * replacing one, since the other batch may be without it; one guarantee does not give both, and this is refused. Batches of
 * M out of N without replacement, under replace-one: q h(1 + (a-1)/q) with q = M/N in both directions (Theorem 9 there), as both
 * batches have M units and differ in one. Under zero-out and add-remove this needs more than a guarantee, and is refused.
 *
 * Rounding: x is off by 4 u (1 + x), a curve falls at most by e^(x - epsilon) per x while it is not 0, and 16 u of the value
 * are for the rest. Points beyond epsilon by more than rounding have the exact constant.
 */
#include "account/generic/generic.h"

#include "base/file.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

/* ---- curves ---- */

/* (1 - e^(factor (x - end)))_+ from above. */
static double falling(double x, double end, double factor) {
    const double u = GRID_ROUNDING, room = 4 * u * (1 + end);
    if (x >= end + room) return 0;
    return -expm1(factor * (x - end - room)) * (1 + 16 * u);
}

static double curve_at(const generic_mechanism *m, int reversed, double x) {
    switch (m->kind) {
    case GENERIC_APPROXIMATE:
        return m->delta +
               (1 - m->delta) * falling(x, m->epsilon, 1) / (1 + exp(-m->epsilon)) * (1 + 16 * GRID_ROUNDING);
    case GENERIC_LAPLACE:
        return falling(x, m->epsilon, 0.5);
    default:
        return generic_law_curve(&m->laws[reversed != 0], fmax(x - 4 * GRID_ROUNDING * (1 + x), 0));
    }
}

double generic_curve(const generic_mechanism *m, int reversed, double less_one) {
    const double q = m->probability;
    if (q >= 1) return curve_at(m, reversed, log1p(less_one));
    if (m->fixed || !reversed) return q * curve_at(m, reversed, log1p(less_one / q)) * (1 + 4 * GRID_ROUNDING);
    const double rest = q - less_one * (1 - q) + 4 * GRID_ROUNDING * (q + less_one);
    if (!(rest > 0)) return 0;
    return fmin(rest, q) * curve_at(m, 1, log1p(less_one / rest)) * (1 + 4 * GRID_ROUNDING);
}

/* The loss beyond which the curve, before sampling, is constant or at most `mass`. */
static double end_of(const generic_mechanism *m, int reversed, double mass) {
    if (m->kind != GENERIC_LOSSES) return m->epsilon;
    const generic_law *law = &m->laws[reversed != 0];
    int64_t low = -1, high = law->count - 1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        *(law->finite[middle] > 0.1 * mass ? &low : &high) = middle;
    }
    return law->loss[high];
}

static double reach(const void *of, int reversed, double mass) {
    const generic_mechanism *m = of;
    const double q = m->probability, end = end_of(m, reversed, mass) * (1 + 1e-12);
    if (q >= 1) return end;
    return m->fixed || !reversed ? log1p(q * expm1(end)) : -log1p(q * expm1(-end));
}

static dpmf_status fill(const void *of, int reversed, int64_t count, double step, double mass, const dpmf_run *run,
                        double *out) {
    const generic_mechanism *m = of;
    (void)mass;
    (void)run;
    for (int64_t i = 0; i < count; i++)
        out[i] = m->probability < 1 ? generic_curve(m, reversed, expm1((double)i * step))
                                    : curve_at(m, reversed, (double)i * step);
    return DPMF_OK;
}

grid_part generic_part(const generic_mechanism *m) {
    return (grid_part){m, fill, reach, m->times};
}

double generic_infinite(const generic_mechanism *m) {
    const double delta = m->kind == GENERIC_LOSSES ? fmax(m->laws[0].infinite, m->laws[1].infinite) : m->delta;
    return m->probability * delta;
}

static int compare_laws(const generic_law *a, const generic_law *b) {
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    if (a->infinite != b->infinite) return a->infinite < b->infinite ? -1 : 1;
    if (a->count == 0) return 0;
    const size_t size = (size_t)a->count * sizeof(double);
    const int order = memcmp(a->loss, b->loss, size);
    return order != 0 ? order : memcmp(a->slope, b->slope, size);
}

int generic_is_symmetric(const generic_mechanism *m) {
    return (m->probability >= 1 || m->fixed) &&
           (m->kind != GENERIC_LOSSES || compare_laws(&m->laws[0], &m->laws[1]) == 0);
}

/* Of one: after sampling, removing has the larger loss, since (1 + q (e^E - 1)) (1 - q (1 - e^-E)) >= 1. */
static generic_end end_of_one(const generic_mechanism *m) {
    const double q = m->probability, end = fmax(end_of(m, 0, 0), end_of(m, 1, 0));
    const double part = m->kind == GENERIC_LAPLACE ? 0.5 : (1 - m->delta) / (1 + exp(-m->epsilon));
    const generic_law *law = &m->laws[0];
    double mass = q * part + (1 - q) * part * exp(-end);
    if (m->kind == GENERIC_LOSSES) mass = law->count > 1 ? q * law->slope[law->count - 2] : 1;
    return (generic_end){.loss = (q < 1 ? log1p(q * expm1(end)) : end) * (1 + 16 * GRID_ROUNDING),
                         .log_mass = log(mass),
                         .infinite = generic_infinite(m)};
}

double generic_step(const generic_mechanism *m) {
    static const double PARTS = 500; /* of the largest loss: a curve of a few atoms bends at each of their sums */
    return end_of_one(m).loss * sqrt(fmax(1, (double)m->times * m->probability)) / PARTS;
}

generic_end generic_end_of(int64_t count, const generic_mechanism *list) {
    generic_end all = {0, 0, 0};
    double log_none = 0;
    for (int64_t i = 0; i < count; i++) {
        const generic_end one = end_of_one(&list[i]);
        const double times = (double)list[i].times;
        all.loss += times * one.loss;
        all.log_mass += times * one.log_mass;
        log_none += times * log1p(-fmin(one.infinite, 1)) * (1 + 8 * GRID_ROUNDING);
    }
    all.loss *= 1 + GRID_ROUNDING * (16 + (double)count);
    if (log_none < 0) all.infinite = -expm1(log_none) * (1 + 16 * GRID_ROUNDING);
    return all;
}

/* ---- texts ---- */

static dpmf_status refuse(const char *text) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(
        DPMF_ERROR_ARGUMENT,
        "mechanism '%s': accepted: pure:EPSILON, approximate:EPSILON,DELTA, laplace:SCALE, pld:FILE, and with "
        "sampling before it @poisson:Q or @fixed:M,N; epsilon and 1/SCALE above 0, to %d, DELTA from 0 to "
        "below 1",
        base_show_path(text, shown), (int)GENERIC_EPSILON_MAX);
}

static int read_numbers(const char *text, size_t length, int count, double out[2]) {
    const char *comma = memchr(text, ',', length);
    if ((comma != NULL) != (count == 2)) return 0;
    if (count == 1) return base_parse_double(text, length, &out[0]);
    const size_t first = (size_t)(comma - text);
    return base_parse_double(text, first, &out[0]) && base_parse_double(comma + 1, length - first - 1, &out[1]);
}

static dpmf_status add_sampling(const char *text, const char *at, dpmf_adjacency adjacency, generic_mechanism *m) {
    dpmf_sampling sampling;
    TRY(dpmf_sampling_parse(at, &sampling));
    m->probability = account_sampling_turn(&sampling);
    m->fixed = sampling.kind == DPMF_SAMPLING_FIXED;
    if ((sampling.kind != DPMF_SAMPLING_POISSON && !m->fixed) || sampling.cap > 0 ||
        account_sampling_blocks(&sampling) > 1)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "mechanism '%s': a guarantee alone is amplified by poisson:Q and by fixed:M,N, not by %s",
                         text, at);
    if (!(m->probability > 0)) return refuse(text);
    if (m->probability < 1 && m->fixed != (adjacency == DPMF_ADJACENCY_REPLACE_ONE))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "mechanism '%s' under %s adjacency: a guarantee alone is amplified by poisson:Q under "
                         "zero-out and add-remove "
                         "adjacency, and by fixed:M,N under replace-one",
                         text, dpmf_adjacency_name(adjacency));
    return DPMF_OK;
}

/* The name of a kind at the beginning of a text; what follows its colon, else NULL. */
static const char *after(const char *text, const char *name) {
    const size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && text[length] == ':' ? text + length + 1 : NULL;
}

static dpmf_status read_law(const char *text, const char *path, size_t length, dpmf_adjacency adjacency,
                            generic_law laws[2]) {
    char *copy = NULL;
    if (length == 0) return refuse(text);
    TRY(base_copy_text(path, &copy));
    copy[length] = '\0';
    const dpmf_status status = generic_read(copy, adjacency, laws);
    base_free(copy);
    return status;
}

dpmf_status generic_parse(const char *text, dpmf_adjacency adjacency, generic_mechanism *out) {
    generic_mechanism m = {.probability = 1, .times = 1};
    double numbers[2] = {0, 0};
    dpmf_status status = DPMF_OK;
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the mechanism's text is NULL");
    const char *at = strrchr(text, '@'), *values, *colon = strchr(text, ':');
    if (at != NULL && after(at + 1, "poisson") == NULL && after(at + 1, "fixed") == NULL && after(text, "pld") != NULL)
        at = NULL; /* a part of the file's name */
    const char *end = at != NULL ? at : text + strlen(text);
    if (colon == NULL || colon >= end) return refuse(text);
    if ((values = after(text, "pld")) != NULL) {
        m.kind = GENERIC_LOSSES;
        TRY(read_law(text, values, (size_t)(end - values), adjacency, m.laws));
    } else if ((values = after(text, "pure")) != NULL) {
        if (!read_numbers(values, (size_t)(end - values), 1, numbers)) return refuse(text);
    } else if ((values = after(text, "approximate")) != NULL) {
        if (!read_numbers(values, (size_t)(end - values), 2, numbers)) return refuse(text);
    } else if ((values = after(text, "laplace")) != NULL) {
        if (!read_numbers(values, (size_t)(end - values), 1, numbers)) return refuse(text);
        m.kind = GENERIC_LAPLACE;
        numbers[0] = 1 / numbers[0] * (1 + 2 * GRID_ROUNDING);
    } else {
        return refuse(text);
    }
    m.epsilon = numbers[0];
    m.delta = numbers[1];
    const int positive = m.epsilon > 0 || (m.kind == GENERIC_APPROXIMATE && m.epsilon == 0 && m.delta > 0);
    if (m.kind != GENERIC_LOSSES && !(positive && m.epsilon <= GENERIC_EPSILON_MAX && m.delta >= 0 && m.delta < 1))
        return refuse(text);
    if (at != NULL) TRY_DONE(add_sampling(text, at + 1, adjacency, &m));
    *out = m;
    return DPMF_OK;
done:
    generic_free(&m);
    return status;
}

dpmf_status generic_copy(const generic_mechanism *from, generic_mechanism *out) {
    generic_mechanism m = *from;
    m.laws[0] = m.laws[1] = (generic_law){0};
    dpmf_status status = DPMF_OK;
    for (int r = 0; r < 2; r++)
        TRY_DONE(generic_law_copy(&from->laws[r], &m.laws[r]));
    *out = m;
    return DPMF_OK;
done:
    generic_free(&m);
    return status;
}

void generic_free(generic_mechanism *m) {
    generic_law_free(&m->laws[0]);
    generic_law_free(&m->laws[1]);
}

int generic_compare(const generic_mechanism *a, const generic_mechanism *b) {
    const double x[] = {(double)a->kind, a->epsilon, a->delta, a->probability, (double)a->fixed};
    const double y[] = {(double)b->kind, b->epsilon, b->delta, b->probability, (double)b->fixed};
    int order = 0;
    for (size_t i = 0; i < sizeof x / sizeof *x && order == 0; i++)
        order = (x[i] > y[i]) - (x[i] < y[i]);
    for (int r = 0; r < 2 && order == 0; r++)
        order = compare_laws(&a->laws[r], &b->laws[r]);
    return order;
}
