/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curves of random allocation, one of t steps, from above and from below.
 *
 * Without the unit the t observations are N(0, sigma^2); with it one of them, chosen at random, has mean 1. The likelihood ratio
 * is S/t, S = U_1 + ... + U_t with independent log-normal U_j of mean 1 (account/allocation/law.c). With a = e^epsilon,
 *
 *     remove   E[(S/t - a)_+],        add   E[(1 - a S/t)_+],
 *
 * convex in every U_j: the laws of U on a grid that account/allocation/law.c makes give bounds from both sides, with an error of
 * order h^2.
 *
 * Remove: the payoff grows without bound, and rare large U carry it when delta is small. With a cut c, U_j is big above it:
 *
 *     none is big    sum_s p_t(s) (s - t a)_+ / t                     p_m: the law of a sum of m that are not big
 *     one is         sum_s p_{t-1}(s) E[(U + s - t a)_+; U > c]       t equal terms over t; the mean is in closed form
 *     two or more    at most E[S/t; two are big] = v (t-1) w + (t-1)(t-2)/2 w^2,    w = P[U > c], v = E[U; U > c]:
 *
 * S/t is a density, under which one U, size-biased, is big with probability v and the others with w. c is chosen so that
 * this is a small part of the delta in question; from below it is left out.
 *
 * Add: the payoff vanishes for S > t/a, so that no U above t/a matters, and none above a c for which t P[U > c], which is added,
 * is small. The mean S/t is not below the geometric mean of the U, which is log-normal: far in the tail, where the cells of a grid
 * are too wide for a density that steep, P[geometric mean < 1/a] = Phi(sqrt(t) (1/(2 sigma) - sigma epsilon)) is the smaller bound.
 *
 * Tilts: the none-big sum at the order where its mean is t a, that of one big where the product of its weight and the closed
 * form is largest; they matter for accuracy alone.
 */
#include "account/allocation/allocation.h"

#include "base/memory.h"
#include "base/special.h"
#include <assert.h>
#include <float.h>
#include <math.h>

static const double SMALL = 1e-4;   /* the part of delta that a cut may cost */
static const double BEYOND = 1e270; /* ratios above it are near the end of a double's range: nothing is claimed there */
enum { CELLS_MAX = 1 << 19, TOGETHER = 24 };

static double two_big(double t, double w, double v) {
    return v * (t - 1) * w + 0.5 * (t - 1) * fmax(t - 2, 0) * w * w;
}

/* The least c (of ln c) where two_big is small enough (remove), or t P[U > c] (add). */
static double choose_cut(const allocation_scheme *s, int add) {
    const double t = (double)s->bins, shift = 1 / s->sigma;
    double low = add ? -5 : log(2.0), high = 0.5 * shift * shift + 39 * shift;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high), z = s->sigma * middle + 0.5 * shift;
        const double w = base_normal_cdf(-z), v = base_normal_cdf(shift - z);
        *((add ? t * w : two_big(t, w, v)) < SMALL * s->least ? &high : &low) = middle;
    }
    return exp(high);
}

static dpmf_status make_law(const allocation_scheme *s, int add, double most, allocation_law *out) {
    const double deviation = sqrt(expm1(fmin(1 / (s->sigma * s->sigma), 600))), wide = s->fineness * deviation;
    const double cut = fmin(choose_cut(s, add), most);
    const double step = fmax(fmin(wide, cut / 64), cut / CELLS_MAX);
    int64_t cells = (int64_t)ceil(cut / step);
    while (step * (double)cells < cut) /* an end that is a rounding below `most` would count what pays nothing */
        cells++;
    const allocation_side side = !s->lower ? ALLOCATION_UPPER : add ? ALLOCATION_LOWER_PUTS : ALLOCATION_LOWER_CALLS;
    return allocation_law_create(s->sigma, step, cells, side, out);
}

/* ---- remove ---- */

/* From below: sum over the window of (number - noise) e^(log_moment - order s) payoff(s), less what is wrapped around it. */
typedef struct total {
    double inside, noise, wrapped;
} total;

static double bound_of(const total *x) {
    return fmax((x->inside - x->noise - x->wrapped) * (1 - 1e-12), 0);
}

/* Of weights that were counted from `base` on, the highest of them `highest`. */
static double bound_of_sum(const allocation_sum *s, double base, double highest, total x) {
    const double scale = exp(s->log_moment - s->order * base);
    x.inside *= scale;
    x.noise *= scale;
    x.wrapped = scale * highest * s->wrapped;
    return bound_of(&x);
}

/* E[(S - T)_+; none big] from below, T = t a less the offset of all of them. */
static double none_big_lower(const allocation_sum *s, double T) {
    const double low = s->step * (double)s->first, base = fmax(T, low);
    total x = {0, 0, 0};
    double highest = 0;
    for (int64_t k = (int64_t)fmax(floor((T - low) / s->step), 0); k < s->length; k++) {
        const double place = s->step * (double)(s->first + k), pay = place - T;
        if (!(pay > 0)) continue;
        const double weight = exp(-s->order * (place - base)) * pay;
        x.inside += weight * s->number[k];
        x.noise += weight * s->noise;
        highest = fmax(highest, weight);
    }
    return bound_of_sum(s, base, highest, x);
}

/*
 * The same from above for several T at once, one exponential per place: with weights w_k from the top down
 *
 *     held_k = sum_{j >= k} w_j,      paid_k = sum_{j >= k} w_j (s_j - s_k) = paid_{k+1} + h held_{k+1},
 *
 * and E[(S - T)_+] = paid_k + (s_k - T) held_k at the first place s_k above T: positive terms only. numbers: 2 (length + 1).
 */
static void pile_up(const allocation_sum *s, int64_t from, double base, double *numbers) {
    double *held = numbers, *paid = numbers + s->length + 1;
    held[s->length] = paid[s->length] = 0;
    for (int64_t k = s->length - 1; k >= from; k--) {
        const double place = s->step * (double)(s->first + k);
        held[k] = held[k + 1] + exp(-s->order * (place - base)) * (s->number[k] + s->noise);
        paid[k] = paid[k + 1] + s->step * held[k + 1];
    }
}

/* A sum of n positive terms, each sum of n terms itself, is right to 2 n u of itself, and e^x to about |x| u. */
static double room_for(const allocation_sum *s) {
    const double exponents = fabs(s->log_moment) + fabs(s->order) * s->step * (double)(s->first + s->length);
    return 1 + 1e-12 + 4 * GRID_ROUNDING * ((double)s->length + exponents);
}

/* t e^epsilon and t e^-epsilon, to the side where more is paid. */
static double least_of(double t, double epsilon) {
    return t * exp(epsilon) * (1 - 8 * GRID_ROUNDING);
}

static double end_of(double t, double epsilon) {
    return t * exp(-epsilon) * (1 + 8 * GRID_ROUNDING);
}

static dpmf_status none_big_all(const allocation_sum *s, int64_t count, const double *T, double *out) {
    const double low = s->step * (double)s->first, top = s->step * (double)(s->first + s->length);
    const double base = fmax(T[0], low), scale = exp(s->log_moment - s->order * base) * room_for(s);
    const int64_t from = (int64_t)fmin(fmax(floor((T[0] - low) / s->step), 0), (double)s->length);
    double *held = NULL;
    TRY(base_alloc_doubles(2 * (s->length + 1), "the masses of a sum", &held));
    const double *paid = held + s->length + 1;
    pile_up(s, from, base, held);
    for (int64_t i = 0; i < count; i++) {
        int64_t k = (int64_t)fmin(fmax(floor((T[i] - low) / s->step), 0), (double)s->length);
        while (k < s->length && !(s->step * (double)(s->first + k) > T[i]))
            k++;
        const double far = fmax(top, T[i] + 1 / s->up_rate);
        const double inside = paid[k] + fmax(s->step * (double)(s->first + k) - T[i], 0) * held[k];
        out[i] = scale * inside + exp(s->up_log - s->up_rate * far) * (far - T[i]);
        if (low > T[i]) out[i] += exp(s->down_log - s->down_rate * (s->down_rate > 0 ? T[i] : low)) * (low - T[i]);
    }
    base_free(held);
    return DPMF_OK;
}

/*
 * The same mean where S is above the window, at most e^up_log sup f(s) e^(-up_rate s): f, the mean over U, rises with s, and so is
 * at most that of its upper end in each of the pieces up to T. From there on it is at most E[U; U > c] + s P[U > c].
 */
static double one_big_above(const allocation_law *law, const allocation_sum *s, double T) {
    enum { PIECES = 256 };
    const double top = s->step * (double)(s->first + s->length), end = fmax(T, top), rate = s->up_rate;
    double most = exp(s->up_log - rate * end) * (law->big_mean + fmax(end, 1 / rate) * law->big);
    for (int i = 0; i < PIECES && end > top; i++) {
        const double from = top + (end - top) * i / PIECES, to = top + (end - top) * (i + 1) / PIECES;
        most = fmax(most, exp(s->up_log - rate * from) * allocation_call(law, T - to));
    }
    return most * (1 + 1e-12);
}

/*
 * E[(U + S - T)_+; U > c, no other is big], weights[k] the masses of the sum and below[k] their sums up to k: from the top down
 * until all that is left, with the call of its upper end, which grows with s, is nothing.
 */
static double one_big(const allocation_law *law, const allocation_sum *s, const double *weights, const double *below,
                      double T) {
    static const double nothing = 1e-6;
    double sum = 0;
    for (int64_t k = s->length - 1; k >= 0; k--) {
        const double call = allocation_call(law, T - s->step * (double)(s->first + k));
        if (below[k] * call <= nothing * sum) {
            sum += below[k] * call;
            break;
        }
        sum += weights[k] * call;
    }
    /* What beside one that is big lies outside the window. */
    const double low = s->step * (double)s->first;
    double outside = one_big_above(law, s, T);
    if (s->first > 0) outside += exp(s->down_log - fmin(s->down_rate, 0) * low) * allocation_call(law, T - low);
    return sum * room_for(s) + outside;
}

static double one_big_lower(const allocation_law *law, const allocation_sum *s, double T) {
    total x = {0, 0, 0};
    double highest = 0;
    for (int64_t k = 0; k < s->length; k++) {
        const double place = s->step * (double)(s->first + k);
        const double weight = exp(s->log_moment - s->order * place) * allocation_call(law, T - place);
        x.inside += weight * s->number[k];
        x.noise += weight * s->noise;
        highest = fmax(highest, weight);
    }
    x.wrapped = highest * s->wrapped;
    /* The call's own roundings, 16 u (1 + z^2) of its terms, are far less than this. */
    return fmax(bound_of(&x) - 1e-9 * x.inside, 0);
}

/* The masses that one_big takes: 2 length numbers, owned by the caller. */
static dpmf_status weigh(const allocation_sum *s, double **out) {
    TRY(base_alloc_doubles(2 * s->length, "the masses of a sum", out));
    double *weights = *out, *below = weights + s->length, sum = 0, room = room_for(s);
    for (int64_t k = 0; k < s->length; k++) {
        weights[k] = (s->number[k] + s->noise) * exp(s->log_moment - s->order * s->step * (double)(s->first + k));
        sum += weights[k];
        below[k] = sum * room;
    }
    return DPMF_OK;
}

/* Of neighbouring epsilons: one pair of transforms, at the tilt of the one in the middle. */
static dpmf_status remove_some(const allocation_scheme *s, const allocation_law *law, int64_t count,
                               const double *epsilons, const dpmf_run *run, double *out) {
    const double t = (double)s->bins, middle = exp(epsilons[count / 2]);
    allocation_sum none = {0}, beside = {0};
    double order = 0, *weights = NULL, targets[TOGETHER], others[TOGETHER] = {0};
    dpmf_status status = DPMF_OK;
    assert(count <= TOGETHER);
    /* far in the tail, at u, the density falls as e^(-order u) does at order = sigma^2 ln(u)/u */
    const double steepest = (60 + 2 * law->sigma * law->sigma * log(law->cut)) / law->cut;
    TRY_DONE(allocation_order(law, fmin(middle - law->offset, 0.9 * law->cut), 1e-3 / t / law->cut, steepest, &order));
    const double lowest = t * (exp(epsilons[0]) - law->offset);
    const double log_most = t * allocation_log_moment(law, order) - order * lowest;
    const double most = exp(fmin(log_most, 600)) / (2.718 * order * t); /* (s - T)_+ <= e^(r (s - T)) / (e r) */
    const int skipped = most < 1e-7 * s->least;
    if (!skipped) TRY_DONE(allocation_sum_create(law, s->bins, order, 0, run, &none));
    TRY_DONE(allocation_beside(law, t - 1, t * middle - (t - 1) * law->offset, order, &order));
    TRY_DONE(allocation_sum_create(law, s->bins - 1, order, 0, run, &beside));
    TRY_DONE(weigh(&beside, &weights));
    for (int64_t i = 0; i < count; i++)
        targets[i] = s->lower ? t * (exp(epsilons[i]) - law->offset) : least_of(t, epsilons[i]);
    if (!skipped && !s->lower) TRY_DONE(none_big_all(&none, count, targets, others));
    for (int64_t i = 0; i < count; i++) {
        const double rest = s->lower ? t * exp(epsilons[i]) - (t - 1) * law->offset : least_of(t, epsilons[i]);
        double sum = s->lower ? one_big_lower(law, &beside, rest)
                              : one_big(law, &beside, weights, weights + beside.length, rest);
        if (!skipped) sum += (s->lower ? none_big_lower(&none, targets[i]) : others[i]) / t;
        if (!s->lower) sum += two_big(t, law->big, law->big_mean) * (1 + 1e-12) + (skipped ? most : 0);
        out[i] = sum;
    }
done:
    allocation_sum_free(&none);
    allocation_sum_free(&beside);
    base_free(weights);
    return status;
}

/* ---- add ---- */

static double put_lower(const allocation_law *law, const allocation_sum *s, double a) {
    const double t = (double)s->copies, end = t / a, shift = t * law->offset;
    const double base = fmin(end, s->step * (double)(s->first + s->length));
    total x = {0, 0, 0};
    double highest = 0;
    for (int64_t k = 0; k < s->length; k++) {
        const double place = s->step * (double)(s->first + k), pay = 1 - a * (place + shift) / t;
        if (!(pay > 0)) break;
        const double weight = exp(-s->order * (place - base)) * pay;
        x.inside += weight * s->number[k];
        x.noise += weight * s->noise;
        highest = fmax(highest, weight);
    }
    return bound_of_sum(s, base, highest, x);
}

/* The same from above for several a at once: sums from the bottom up, as in pile_up. */
static dpmf_status put_all(const allocation_law *law, const allocation_sum *s, int64_t count, const double *epsilons,
                           double *out) {
    const double t = (double)s->copies, low = s->step * (double)s->first, widest = end_of(t, epsilons[0]);
    const double top = s->step * (double)(s->first + s->length), base = fmin(widest, top);
    const double scale = exp(s->log_moment - s->order * base) * room_for(s);
    double *held = NULL;
    TRY(base_alloc_doubles(2 * s->length, "the masses of a sum", &held));
    double *paid = held + s->length;
    int64_t built = 0;                                                   /* entries that are made */
    for (int64_t i = count - 1; i >= 0; i--) {                           /* t/a rises */
        const double a = exp(epsilons[i]), end = end_of(t, epsilons[i]); /* as in add_some, to the bit: see make_law */
        for (; built < s->length && s->step * (double)(s->first + built) < end; built++) {
            const double place = s->step * (double)(s->first + built), before = built > 0 ? held[built - 1] : 0;
            held[built] = before + exp(-s->order * (place - base)) * (s->number[built] + s->noise);
            paid[built] = (built > 0 ? paid[built - 1] : 0) + s->step * before;
        }
        out[i] = law->cut < end ? t * law->big : 0;
        if (built > 0) {
            const double place = s->step * (double)(s->first + built - 1);
            out[i] += scale * a / t * (paid[built - 1] + (end - place) * held[built - 1]);
        }
        if (s->first > 0) out[i] += exp(s->down_log - fmin(s->down_rate, 0) * low);
        if (top < end) out[i] += exp(s->up_log - s->up_rate * (s->up_rate > 0 ? top : end));
    }
    base_free(held);
    return DPMF_OK;
}

static double put_of_geometric_mean(const allocation_scheme *s, double epsilon) {
    const double root = sqrt((double)s->bins), z = root * (0.5 / s->sigma - s->sigma * epsilon);
    const double up = z + 8 * GRID_ROUNDING * root * (0.5 / s->sigma + s->sigma * epsilon);
    return fmax(base_normal_cdf(up) * (1 + 64 * GRID_ROUNDING * (1 + z * z)), DBL_MIN);
}

static dpmf_status add_some(const allocation_scheme *s, int64_t count, const double *epsilons, const dpmf_run *run,
                            double *out) {
    const double t = (double)s->bins, middle = exp(-epsilons[count / 2]);
    allocation_law law = {0};
    allocation_sum sum = {0};
    double order = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(make_law(s, 1, end_of(t, epsilons[0]), &law));
    const double mean = middle - law.offset;
    TRY_DONE(allocation_order(&law, fmax(mean, 1e-3 * law.step), -400 / law.step, -1e-9 / law.cut, &order));
    TRY_DONE(allocation_sum_create(&law, s->bins, order, end_of(t, epsilons[0]), run, &sum));
    if (!s->lower) TRY_DONE(put_all(&law, &sum, count, epsilons, out));
    for (int64_t i = 0; i < count; i++)
        out[i] =
            s->lower ? put_lower(&law, &sum, exp(epsilons[i])) : fmin(out[i], put_of_geometric_mean(s, epsilons[i]));
done:
    allocation_sum_free(&sum);
    allocation_law_free(&law);
    return status;
}

dpmf_status allocation_curve(const allocation_scheme *scheme, int add, int64_t count, const double *epsilons,
                             const dpmf_run *run, double *out) {
    allocation_law law = {0};
    dpmf_status status = DPMF_OK;
    for (int64_t i = 0; i < count; i++)
        out[i] = scheme->lower ? 0 : 1;
    if (!add && !(choose_cut(scheme, 0) < BEYOND)) return DPMF_OK;
    if (!add) TRY_DONE(make_law(scheme, 0, INFINITY, &law));
    for (int64_t i = 0; i < count && exp(epsilons[i]) < BEYOND;) {
        int64_t together = 1; /* as many as one tilt can serve */
        while (i + together < count && together < TOGETHER && epsilons[i + together] - epsilons[i] < 0.15 &&
               exp(epsilons[i + together]) < BEYOND)
            together++;
        TRY_DONE(base_progress(run, "random allocation", (double)i / (double)count));
        TRY_DONE(add ? add_some(scheme, together, epsilons + i, run, out + i)
                     : remove_some(scheme, &law, together, epsilons + i, run, out + i));
        i += together;
    }
    for (int64_t i = 0; i < count; i++)
        if (!(out[i] >= 0 && out[i] <= 1)) out[i] = scheme->lower ? 0 : 1;
done:
    allocation_law_free(&law);
    return status;
}
