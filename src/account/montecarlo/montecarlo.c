/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monte Carlo accounting with a certificate.
 *
 * A pass draws N independent samples of each direction, Y in [0, 1] with delta = M mean(Y), M known beforehand
 * (account/montecarlo/scheme.c; 1 for plain sampling).
 *
 * The bound. For a fixed 0 < lambda < 1 and independent Y_i with means that average to mu,
 *
 *     E prod_i (1 - lambda Y_i) = prod_i (1 - lambda mu_i) <= (1 - lambda mu)^N,
 *
 * so by Markov's inequality prod_i (1 - lambda Y_i) < (1 - lambda mu)^N / alpha with probability at least 1 - alpha, or
 *
 *     mu < (1 - exp(-(sum_i -ln(1 - lambda Y_i) + ln(1/alpha)) / N)) / lambda.
 *
 * This is one bet in the sense of Waudby-Smith and Ramdas 2024. To second order the right side is mean + lambda E Y^2 /
 * 2 + ln(1/alpha) / (lambda N), least at lambda = sqrt(2 ln(1/alpha) / (N E Y^2)): it adapts to the variance. Clopper
 * and Pearson's limit, on Y made into coins, does not, and E Y^2 is below E Y here. lambda is chosen from samples of an
 * earlier pass (another stream of the seed), before those that it is applied to are drawn; there is no other choice of
 * bound.
 *
 * Confidence. The two directions fail with probability alpha/2 each. epsilon and sigma are searched with the samples of
 * run 0, the same at every step of the search, to where the bound is predicted to hold with some room. The find is
 * confirmed by a pass of run 1, independent of run 0; if its bound is above delta, a larger value is confirmed by run
 * 2, and so on. Attempt j = 0, 1, ... may fail with probability alpha 3/4 4^-j: over all attempts alpha at most, no
 * matter which of them ends the search. The composed Gaussian mechanism at the largest |m| is a bound without any
 * sampling (delta is jointly convex in P and Q): no answer is above it, and where sampling cannot beat it, it is the
 * answer.
 *
 * "With probability" is over the generator's numbers taken as random. Rounding in the loss, some 1e-14, is neglected.
 */
#include "account/montecarlo/montecarlo.h"

#include "account/account.h"
#include "account/montecarlo/scheme.h"
#include "base/memory.h"
#include "base/sum.h"

#include <inttypes.h>
#include <math.h>

enum { ATTEMPTS = 16, FIRST_LOOK = 1 << 16 };
static const double largest_bet = MONTECARLO_BET_LARGEST; /* near 1 a single Y = 1 would cost ln 20 */

/* ---- bounds; `log_failure` is ln(1/alpha) of one direction ---- */

static double best_bet(const montecarlo_side *d, double log_failure, double samples) {
    return d->square > 0 ? fmin(largest_bet, sqrt(2 * log_failure / (samples * d->square))) : largest_bet;
}

static double proven_bound(const montecarlo_side *d, double bet, double log_failure, double samples) {
    return fmin(-expm1(-d->log_bet - log_failure / samples) / bet * exp(d->log_most), 1);
}

/* The value that proven_bound is likely to have with this many other samples. */
static double likely_bound(const montecarlo_side *d, double log_failure, double samples) {
    const double bet = best_bet(d, log_failure, samples);
    return fmin((d->mean + 0.5 * bet * d->square + log_failure / (bet * samples)) * exp(d->log_most), 1);
}

static double larger_likely(const montecarlo_side d[2], double log_failure, double samples) {
    return fmax(likely_bound(&d[0], log_failure, samples), likely_bound(&d[1], log_failure, samples));
}

/* Returns the number of samples after which the bound is within 5 % of the mean, at most `cap`. */
static int64_t enough(const montecarlo_side d[2], double log_failure, int64_t cap) {
    const double mean = fmax(d[0].mean * exp(d[0].log_most), d[1].mean * exp(d[1].log_most));
    int64_t samples = 1 << 16;
    while (samples < cap && larger_likely(d, log_failure, (double)samples) > 1.05 * mean)
        samples += samples / 4;
    return samples < cap ? samples : cap;
}

/* It takes some ten seconds on two processors, but is no less than delta needs (log 1/alpha over N is well below). */
int64_t montecarlo_default_cap(const montecarlo_draws *draws, double delta) {
    const double by_work = fmin(fmax(0x1p30 / (double)draws->dimension, 0x1p22), 0x1p25);
    return (int64_t)fmax(by_work, 30 / delta);
}

dpmf_status montecarlo_check_options(const montecarlo_options *options) {
    if (!(options->confidence > 0 && options->confidence < 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "a confidence of %g: (0, 1) is accepted", options->confidence);
    if (options->samples < 0 || options->samples > MONTECARLO_SAMPLES_MAX) {
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " samples: 0 (chosen from delta) to %" PRId64 " are accepted",
                         options->samples, MONTECARLO_SAMPLES_MAX);
    }
    return DPMF_OK;
}

dpmf_status montecarlo_check_epsilon(double epsilon) {
    if (epsilon >= 0 && isfinite(epsilon)) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "epsilon = %g: 0 or more is accepted", epsilon);
}

static dpmf_status check_delta(double delta) {
    if (delta >= 1e-6 && delta < 1) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "delta = %g by Monte Carlo: [1e-6, 1) is accepted", delta);
}

/* ---- room for the test of a claim (account/montecarlo/claim.c) ---- */

static const double LOG_MISS = -14.508657738524219; /* ln(1e-6 / 2), of one direction */
static const double SHOWN_FAILURE = 1e-3;           /* 1 - confidence that calibration expects of the reader */

/* The most samples of a claim's test. */
double montecarlo_claim_samples(const montecarlo_draws *draws, double delta) {
    return 4 * (double)montecarlo_default_cap(draws, delta);
}

/* ln of the bound on the probability that the claim c is not shown by N samples. */
static double log_miss(double c, double m, double s, double samples) {
    const double level = log(MONTECARLO_BETS / SHOWN_FAILURE);
    double best = 0;
    for (int i = 0; i < MONTECARLO_BETS; i++) {
        const double bet = montecarlo_bet(i);
        for (double theta = 0.125; theta <= 8; theta *= M_SQRT2) {
            const double k = expm1(-theta * log1p(-bet)) - theta * bet;
            const double step = log1p(theta * bet * m + k * s) + theta * log1p(-bet * c);
            best = fmin(best, samples * step + theta * level);
        }
    }
    return best;
}

/* The least delta that may be claimed where mu is at most `bound`/M, if a test of `samples` samples is to show it. */
static double claimable(const montecarlo_side *d, double bound, double drawn, double log_failure, double samples) {
    const double most = exp(d->log_most), m = bound / most, half = 0.5 * log_failure / drawn;
    const double root = sqrt(d->square + half) + sqrt(half), s = fmin(root * root, m);
    double low = m, high = 1;
    if (m >= 1 || log_miss(1, m, s, samples) > LOG_MISS) return fmin(most, 1); /* M itself needs no samples */
    while (high - low > 1e-4 * high) {
        const double middle = 0.5 * (low + high);
        *(log_miss(middle, m, s, samples) <= LOG_MISS ? &high : &low) = middle;
    }
    return most * high;
}

dpmf_status montecarlo_delta(const montecarlo_scheme *scheme, double epsilon, const montecarlo_options *options,
                             double *delta) {
    TRY(montecarlo_check_options(options));
    TRY(montecarlo_check_epsilon(epsilon));
    montecarlo_passes a;
    TRY(montecarlo_passes_open(scheme, options->seed, options->run, &a));
    const double log_failure = -log(0.5 * (1 - options->confidence));
    int64_t samples = options->samples > 0 ? options->samples / 8 + 1 : 1 << 20;
    if (samples > 1 << 20) samples = 1 << 20;
    double bet[2] = {0, 0};
    montecarlo_side found[2];
    dpmf_status status = DPMF_OK;
    montecarlo_draws_aim(&a.draws, scheme->sigma, epsilon, 1);
    TRY_DONE(montecarlo_passes_draw(&a, 0, bet, &samples, found));
    samples = options->samples > 0 ? options->samples : enough(found, log_failure, montecarlo_default_cap(&a.draws, 1));
    for (int d = 0; d < 2; d++)
        bet[d] = best_bet(&found[d], log_failure, (double)samples);
    TRY_DONE(montecarlo_passes_draw(&a, 1, bet, &samples, found));
    const double bound = fmax(proven_bound(&found[0], bet[0], log_failure, (double)samples),
                              proven_bound(&found[1], bet[1], log_failure, (double)samples));
    *delta = fmin(bound, exp(account_gaussian_log_delta(sqrt(a.draws.largest) / scheme->sigma, epsilon)));
done:
    montecarlo_passes_close(&a);
    return status;
}

/* ---- the search over x = epsilon, or x = ln(scale of sigma) ---- */

typedef struct search {
    montecarlo_passes *owner;
    const montecarlo_options *options;
    double sigma, epsilon, delta; /* those that do not move */
    int over_sigma;               /* and then what is found is a claim, which others must be able to show */
    double log_failure;           /* of one direction, first attempt */
} search;

typedef struct point {
    double x, excess; /* excess: ln(likely bound / delta); the point is good if it is at most 0 */
    double slope;     /* of the excess, downwards in x; 0: not known */
    int64_t samples;  /* that a confirmation here would take */
    montecarlo_side found[2];
} point;

/* The delta that may be said of bounds of both directions: of a claim, with room for the samples of others. */
static double answerable(const search *s, const montecarlo_side d[2], const double bound[2], double drawn) {
    double delta = 0;
    for (int i = 0; i < 2; i++) {
        const double samples = montecarlo_claim_samples(&s->owner->draws, s->delta);
        delta = fmax(delta, s->over_sigma ? claimable(&d[i], bound[i], drawn, s->log_failure, samples) : bound[i]);
    }
    return delta;
}

static void aim(const search *s, double x) {
    montecarlo_draws_aim(&s->owner->draws, s->over_sigma ? s->sigma * exp(x) : s->sigma, s->over_sigma ? s->epsilon : x,
                         1);
}

/* Is delta clearly above the one wanted, so that the point only ends the search on its side? */
static int is_far(const montecarlo_side d[2], double samples, double delta) {
    for (int i = 0; i < 2; i++) {
        const double most = exp(d[i].log_most), error = sqrt(d[i].square / samples);
        if (most * (d[i].mean - 5 * error) > 3 * delta) return 1;
    }
    return 0;
}

static dpmf_status look_at_point(const search *s, double x, point *out) {
    const double unused[2] = {0, 0};
    const montecarlo_draws *draws = &s->owner->draws;
    point at = {.x = x};
    aim(s, x);
    /* 30 plain hits of full value each: enough to lead, and the confirmation decides */
    const double most = exp(fmax(draws->log_most_remove, draws->log_most_add));
    int64_t samples = FIRST_LOOK, wanted = (int64_t)fmin(fmax(30 * most / s->delta, (double)FIRST_LOOK), 0x1p23);
    if (s->options->samples > 0 && wanted > s->options->samples) wanted = s->options->samples;
    if (samples > wanted) samples = wanted;
    TRY(montecarlo_passes_draw(s->owner, 0, unused, &samples, at.found));
    if (samples < wanted && !is_far(at.found, (double)samples, s->delta)) { /* too near for a decision by few samples */
        samples = wanted;
        TRY(montecarlo_passes_draw(s->owner, 0, unused, &samples, at.found));
    }
    at.samples = s->options->samples > 0 ? s->options->samples
                                         : enough(at.found, s->log_failure, montecarlo_default_cap(draws, s->delta));
    /* 1.3 standard deviations of the difference between two samples' means: nine of ten first attempts succeed. */
    const double spread = 1.3 * sqrt(1 / (double)samples + 1 / (double)at.samples);
    double likely[2];
    for (int d = 0; d < 2; d++)
        likely[d] = likely_bound(&at.found[d], s->log_failure, (double)at.samples) +
                    spread * sqrt(at.found[d].square) * exp(at.found[d].log_most);
    at.excess = log(answerable(s, at.found, likely, (double)at.samples) / s->delta);
    *out = at;
    return DPMF_OK;
}

/* Finds the least good x by false position (Illinois), within 0.2 % of `scale` or with the likely bound within 2 % of delta. */
static dpmf_status narrow(const search *s, const point *bad, double scale, point *good) {
    double low = bad->x, bad_excess = bad->excess, low_excess = bad_excess, high_excess = good->excess;
    int last = 0; /* which end stayed: its weight is halved */
    for (int step = 0; step < 40 && good->x - low > 2e-3 * scale && good->excess < -0.02; step++) {
        double x = good->x - (good->x - low) * high_excess / (high_excess - low_excess);
        const double margin = 0.02 * (good->x - low); /* never stuck at an end */
        x = fmin(fmax(x, low + margin), good->x - margin);
        point next;
        TRY(look_at_point(s, x, &next));
        if (next.excess <= 0) {
            *good = next;
            high_excess = next.excess;
            if (last == 1) low_excess *= 0.5;
            last = 1;
        } else {
            low = x;
            low_excess = bad_excess = next.excess;
            if (last == -1) high_excess *= 0.5;
            last = -1;
        }
    }
    good->slope = (bad_excess - good->excess) / (good->x - low);
    return DPMF_OK;
}

/* Fresh samples at x, then at larger x (by the slope, or `step`, doubling) until the bound holds; `limit` needs no samples. */
static dpmf_status confirm(const search *s, const point *at, double step, double limit, double *out) {
    double x = at->x, more = 0.01;
    for (int attempt = 0; attempt < ATTEMPTS && x < limit; attempt++, more *= 2) {
        const double log_failure = s->log_failure + attempt * log(4.0);
        double bet[2], bound[2];
        montecarlo_side found[2];
        int64_t samples = at->samples;
        for (int d = 0; d < 2; d++)
            bet[d] = best_bet(&at->found[d], log_failure, (double)samples);
        aim(s, x);
        TRY(montecarlo_passes_draw(s->owner, 1 + attempt, bet, &samples, found));
        for (int d = 0; d < 2; d++)
            bound[d] = proven_bound(&found[d], bet[d], log_failure, (double)samples);
        const double excess = log(answerable(s, found, bound, (double)samples) / s->delta);
        if (excess <= 0) {
            *out = x;
            return DPMF_OK;
        }
        x += at->slope > 0 ? (excess + more) / at->slope : step * more / 0.01;
    }
    *out = limit;
    return DPMF_OK;
}

static search search_of(montecarlo_passes *a, const montecarlo_options *options, double sigma, double delta) {
    /* 3/4 of the failures belong to the first attempt, half of those to each montecarlo_side */
    return (search){.owner = a,
                    .options = options,
                    .sigma = sigma,
                    .delta = delta,
                    .log_failure = -log(0.375 * (1 - options->confidence))};
}

dpmf_status montecarlo_epsilon(const montecarlo_scheme *scheme, double delta, const montecarlo_options *options,
                               double *epsilon) {
    TRY(montecarlo_check_options(options));
    TRY(check_delta(delta));
    montecarlo_passes a;
    TRY(montecarlo_passes_open(scheme, options->seed, options->run, &a));
    const search s = search_of(&a, options, scheme->sigma, delta);
    const double limit = account_gaussian_epsilon(sqrt(a.draws.largest) / scheme->sigma, log(delta));
    double answer = limit;
    point bad, good;
    dpmf_status status = DPMF_OK;
    TRY_DONE(look_at_point(&s, limit, &good));
    if (good.excess <= 0 && limit > 0) {
        TRY_DONE(look_at_point(&s, 0, &bad));
        if (bad.excess <= 0)
            good = bad;
        else
            TRY_DONE(narrow(&s, &bad, limit, &good));
        TRY_DONE(confirm(&s, &good, 0.01 * good.x + 1e-4, limit, &answer));
    }
    *epsilon = answer;
done:
    montecarlo_passes_close(&a);
    return status;
}

dpmf_status montecarlo_scale(const montecarlo_scheme *scheme, double epsilon, double delta,
                             const montecarlo_options *options, double *scale) {
    TRY(montecarlo_check_options(options));
    TRY(montecarlo_check_epsilon(epsilon));
    TRY(check_delta(delta));
    montecarlo_passes a;
    TRY(montecarlo_passes_open(scheme, options->seed, options->run, &a));
    search s = search_of(&a, options, scheme->sigma, delta);
    s.over_sigma = 1;
    s.epsilon = epsilon;
    const double limit = log(sqrt(a.draws.largest) / (scheme->sigma * account_gaussian_mu(epsilon, log(delta))));
    double answer = limit;
    point bad, good;
    dpmf_status status = DPMF_OK;
    TRY_DONE(look_at_point(&s, limit, &bad));
    if (bad.excess <= 0) {
        do { /* ends: without noise delta is 1 - pi(no step joined) or more, and the bound is above 1e-6 */
            good = bad;
            TRY_DONE(look_at_point(&s, good.x - log(2.0), &bad));
        } while (bad.excess <= 0 && bad.x > limit - 50);
        if (bad.excess > 0) TRY_DONE(narrow(&s, &bad, 1, &good));
        TRY_DONE(confirm(&s, &good, 0.005, limit, &answer));
    }
    *scale = exp(answer);
done:
    montecarlo_passes_close(&a);
    return status;
}

/*
 * ---- passes over samples ----
 *
 * Threads share the chunks of blocks, and their sums are added in order: the same answer for any number of threads.
 */

enum { LANES = MONTECARLO_LANES, CHUNKS_A_ROUND = 64 };

typedef struct sums {
    double mean[2], square[2], log_bet[2]; /* remove, add */
    double log_bets[2][MONTECARLO_BETS];
} sums;

typedef struct pass {
    montecarlo_passes *owner;
    int64_t number, chunk, first_chunk, blocks; /* number: of the run; chunk: blocks in one */
    double bet[2];
    sums results[CHUNKS_A_ROUND];
} pass;

void montecarlo_passes_close(montecarlo_passes *a) {
    base_pool_free(a->pool);
    base_free(a->scratch);
    montecarlo_draws_free(&a->draws);
}

dpmf_status montecarlo_passes_open(const montecarlo_scheme *scheme, uint64_t seed, const dpmf_run *run,
                                   montecarlo_passes *out) {
    montecarlo_passes a = {.seed = seed, .run = run};
    dpmf_status status = DPMF_OK;
    TRY_DONE(montecarlo_draws_create(scheme, &a.draws));
    TRY_DONE(base_pool_create(run == NULL ? 0 : run->threads, &a.pool));
    TRY_DONE(base_alloc_doubles(base_pool_threads(a.pool) * a.draws.scratch, "samples", &a.scratch));
    *out = a;
done:
    if (status != DPMF_OK) montecarlo_passes_close(&a);
    return status;
}

static void add_bets(const double y[LANES], double log_bets[MONTECARLO_BETS]) {
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < MONTECARLO_BETS && y[i] > 0; j++)
            log_bets[j] -= log1p(-montecarlo_bet(j) * y[i]);
}

static void add_up(const double y[LANES], double bet, double *mean, double *square, double *log_bet) {
    for (int i = 0; i < LANES; i++) {
        if (y[i] == 0) continue; /* nearly all, as a rule */
        *mean += y[i];
        *square += y[i] * y[i];
        *log_bet -= log1p(-bet * y[i]);
    }
}

static dpmf_status one_chunk(void *context, int64_t item, int worker) {
    pass *p = context;
    const montecarlo_passes *a = p->owner;
    double remove[LANES], add[LANES];
    sums s = {{0}, {0}, {0}, {{0}, {0}}};
    const int64_t first = (p->first_chunk + item) * p->chunk;
    const int64_t last = first + p->chunk < p->blocks ? first + p->chunk : p->blocks;
    for (int64_t block = first; block < last; block++) {
        montecarlo_draws_block(&a->draws, a->seed, p->number, block, a->scratch + worker * a->draws.scratch, remove,
                               add);
        add_up(remove, p->bet[0], &s.mean[0], &s.square[0], &s.log_bet[0]);
        add_up(add, p->bet[1], &s.mean[1], &s.square[1], &s.log_bet[1]);
        if (!a->counts_bets) continue;
        add_bets(remove, s.log_bets[0]);
        add_bets(add, s.log_bets[1]);
    }
    p->results[item] = s;
    return DPMF_OK;
}

dpmf_status montecarlo_passes_draw(montecarlo_passes *a, int64_t number, const double bet[2], int64_t *samples,
                                   montecarlo_side found[2]) {
    const char *what = number == 0 ? "sampling privacy losses, to search" : "sampling privacy losses, to confirm";
    pass p = {.owner = a, .number = number, .bet = {bet[0], bet[1]}};
    base_running total[3][2] = {{{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}};
    const int64_t unit = LANES * a->draws.blocks; /* whole rounds over the bins */
    base_running bets[2][MONTECARLO_BETS] = {{{0, 0}}, {{0, 0}}};
    p.blocks = (*samples + unit - 1) / unit * a->draws.blocks;
    p.chunk = (1 << 18) / (LANES * a->draws.dimension); /* some milliseconds; from the scheme alone */
    p.chunk = p.chunk < 1 ? 1 : p.chunk > 256 ? 256 : p.chunk;
    const int64_t chunks = (p.blocks + p.chunk - 1) / p.chunk;
    for (; p.first_chunk < chunks; p.first_chunk += CHUNKS_A_ROUND) {
        const int64_t left = chunks - p.first_chunk, count = left < CHUNKS_A_ROUND ? left : CHUNKS_A_ROUND;
        TRY(base_progress(a->run, what, (double)p.first_chunk / (double)chunks));
        TRY(base_pool_run(a->pool, count, one_chunk, &p));
        for (int64_t i = 0; i < count; i++) {
            for (int d = 0; d < 2; d++) {
                base_running_add(&total[0][d], p.results[i].mean[d]);
                base_running_add(&total[1][d], p.results[i].square[d]);
                base_running_add(&total[2][d], p.results[i].log_bet[d]);
                for (int j = 0; j < MONTECARLO_BETS; j++)
                    base_running_add(&bets[d][j], p.results[i].log_bets[d][j]);
            }
        }
    }
    *samples = p.blocks * LANES;
    for (int d = 0; d < 2; d++) {
        found[d].log_most = d == 0 ? a->draws.log_most_remove : a->draws.log_most_add;
        found[d].mean = base_running_value(&total[0][d]) / (double)*samples;
        found[d].square = base_running_value(&total[1][d]) / (double)*samples;
        found[d].log_bet = base_running_value(&total[2][d]) / (double)*samples;
        for (int j = 0; j < MONTECARLO_BETS; j++)
            found[d].log_bets[j] = base_running_value(&bets[d][j]) / (double)*samples;
    }
    return DPMF_OK;
}
