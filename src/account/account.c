/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls: epsilon from sigma, delta from sigma, rho. A request is opened: its options are checked, defaults are
 * filled in, and sampling and strategy become compositions, a probability and a sensitivity (account/amplify.c). The
 * question that follows is answered by simulation (account/sampled.c) or by the account that the sampling needs.
 */
#include "account/question.h"

#include "account/allocation/allocation.h"
#include "account/capped/capped.h"
#include "account/capped/counted.h"
#include "account/contour/contour.h"
#include "account/overlap.h"
#include "base/memory.h"
#include "strategy/strategy.h"

#include <math.h>

dpmf_account_options dpmf_account_options_defaults(void) {
    return (dpmf_account_options){.run = dpmf_run_defaults(), .covered.done = -1};
}

static const double EPSILON_MAX = 1e6, SIGMA_MIN = 1e-6, SIGMA_MAX = 1e12;

dpmf_status account_check_sigma(double sigma) {
    if (sigma >= SIGMA_MIN && sigma <= SIGMA_MAX) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "sigma %g, accepted %g to %g", sigma, SIGMA_MIN, SIGMA_MAX);
}

dpmf_status account_check_epsilon(double epsilon) {
    if (epsilon >= 0 && epsilon <= EPSILON_MAX) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "epsilon %g, accepted 0 to %g", epsilon, EPSILON_MAX);
}

dpmf_status account_check_delta(double delta) {
    if (delta >= 1e-300 && delta < 1) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "delta %g, accepted 1e-300 to below 1", delta);
}

static dpmf_status check_options(const dpmf_account_options *o) {
    TRY(account_sampling_check(&o->sampling));
    TRY(account_unit_check(o->covered.unit));
    if ((unsigned)o->adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return base_fail(DPMF_ERROR_ARGUMENT, "adjacency %d, accepted 0 to 2", (int)o->adjacency);
    if ((unsigned)o->engine > DPMF_ENGINE_MONTE_CARLO)
        return base_fail(DPMF_ERROR_ARGUMENT, "engine %d, accepted 0 to 4", (int)o->engine);
    if (o->compositions < 0 || o->compositions > ACCOUNT_COMPOSITIONS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld compositions, accepted 1 to %lld", (long long)o->compositions,
                         (long long)ACCOUNT_COMPOSITIONS_MAX);
    if (!(o->sigma_unit >= 0 && isfinite(o->sigma_unit)))
        return base_fail(DPMF_ERROR_ARGUMENT, "sigma_unit %g, accepted: above 0, or 0 for 1", o->sigma_unit);
    if (o->slack != 0 && !(o->slack >= 1e-8 && o->slack <= 0.1))
        return base_fail(DPMF_ERROR_ARGUMENT, "slack %g, accepted 1e-8 to 0.1", o->slack);
    if (o->confidence != 0 && !(o->confidence >= 0.5 && o->confidence < 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "confidence %g, accepted 0.5 to below 1", o->confidence);
    if (o->group < 0 || o->group > ACCOUNT_GROUP_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "a group of %lld units, accepted 1 to %lld", (long long)o->group,
                         (long long)ACCOUNT_GROUP_MAX);
    if (o->samples < 0 || o->samples > 10000000000)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld samples, accepted 1 to 1e10", (long long)o->samples);
    return DPMF_OK;
}

/* The default grid is finer than the 1e-4 of other accountants where few steps lose much each: it costs little there. */
static const double SLACK = 5e-5, STEP_MAX = 0.8e-4;

/* Is the account a simulation where noise is correlated? */
static int is_simulated(const dpmf_account_options *o) {
    return dpmf_sampling_describe(o->sampling.kind)->simulated;
}

/*
 * Is a unit used in one of several steps with independent noise, which needs no simulation? That is allocation, and balls in
 * bins without a C, whose bins are fixed (a unit then has ceil(steps/bins) uses at once) or are drawn freshly in each epoch.
 */
static int is_allocation(const dpmf_account_options *o) {
    if (!account_sampling_allocates(&o->sampling)) return 0;
    return !is_simulated(o) ||
           (o->engine != DPMF_ENGINE_MONTE_CARLO && (o->strategy == NULL || strategy_bands(o->strategy) == 1));
}

static int is_monte_carlo(const dpmf_account_options *o) {
    return is_simulated(o) && !is_allocation(o);
}

static dpmf_status check_combination(const dpmf_account_options *o) {
    char text[64];
    TRY(dpmf_sampling_format(&o->sampling, text));
    int needs = is_monte_carlo(o);
    const int bounded = account_sampling_allocates(&o->sampling) && o->engine == DPMF_ENGINE_CONNECT_THE_DOTS;
    const int drawn = account_sampling_draws(&o->sampling, NULL) > 0;
    if (drawn && o->engine != DPMF_ENGINE_AUTO)
        return base_fail(DPMF_ERROR_ARGUMENT, "engine %s does not support sampling %s; auto does",
                         account_engine_name(o->engine), text);
    if (needs && !bounded && o->engine != DPMF_ENGINE_AUTO && o->engine != DPMF_ENGINE_MONTE_CARLO)
        return base_fail(DPMF_ERROR_ARGUMENT, "engine %s does not support sampling %s; auto and monte-carlo do",
                         account_engine_name(o->engine), text);
    if (!needs && o->engine == DPMF_ENGINE_MONTE_CARLO)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "engine monte-carlo is for balls-in-bins and min-sep sampling, not for %s", text);
    if (is_allocation(o) && o->engine != DPMF_ENGINE_AUTO)
        return base_fail(DPMF_ERROR_ARGUMENT, "engine %s does not support sampling %s; auto does",
                         account_engine_name(o->engine), text);
    if (o->epochs < 0 || o->epochs > ACCOUNT_EPOCHS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld epochs, accepted 1 to %lld", (long long)o->epochs,
                         (long long)ACCOUNT_EPOCHS_MAX);
    if (o->epochs > 0 && !is_allocation(o))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "epochs are for allocation and, with independent noise, balls-in-bins, not for %s", text);
    if ((needs || is_allocation(o)) && o->adjacency == DPMF_ADJACENCY_REPLACE_ONE)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "sampling %s is accounted for under zero-out and add-remove "
                         "adjacency only",
                         text);
    if (o->strategy != NULL && !dpmf_sampling_is_none(&o->sampling) && o->compositions != o->strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld compositions, but the strategy has %lld steps",
                         (long long)o->compositions, (long long)o->strategy->steps);
    return DPMF_OK;
}

/* The cap may be given in the sampling or beside it; afterwards both have it. */
static dpmf_status join_cap(dpmf_account_options *o) {
    dpmf_sampling *s = &o->sampling;
    if (o->batch_cap == 0) o->batch_cap = s->cap;
    if (o->units == 0) o->units = s->units;
    if ((s->cap != 0 && s->cap != o->batch_cap) || (s->cap != 0 && s->units != 0 && s->units != o->units))
        return base_fail(
            DPMF_ERROR_ARGUMENT,
            "a cap of %lld on %lld units, but the sampling itself has %lld on %lld: give the same, or only one of them",
            (long long)o->batch_cap, (long long)o->units, (long long)s->cap, (long long)s->units);
    if (o->batch_cap == 0) return DPMF_OK; /* the number of units alone has no effect here */
    s->cap = o->batch_cap;
    s->units = o->units;
    return account_sampling_check(s);
}

static dpmf_status check_cap(const dpmf_account_options *o) {
    if (o->batch_cap == 0) return DPMF_OK;
    if (o->engine != DPMF_ENGINE_AUTO &&
        o->engine != (is_simulated(o) ? DPMF_ENGINE_MONTE_CARLO : DPMF_ENGINE_CONNECT_THE_DOTS))
        return base_fail(DPMF_ERROR_ARGUMENT, "engine %s does not support a cap on the batch; auto does",
                         account_engine_name(o->engine));
    const int64_t blocks = account_sampling_blocks(&o->sampling);
    if (o->batch_cap < 1 || o->units < 2 * blocks || o->units > (int64_t)1000000000000)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a cap of %lld on batches from %lld units in %lld blocks: accepted: a cap of 1 or "
                         "more, and 2 or more units per block",
                         (long long)o->batch_cap, (long long)o->units, (long long)blocks);
    return DPMF_OK;
}

/* Sampling none: a strategy is one release, so its steps are not compositions. */
static void compose(account_request *r, int64_t compositions, double probability) {
    const dpmf_account_options *o = &r->options;
    int replaced = 0;
    r->question = (account_question){.probability = probability,
                                     .compositions = compositions,
                                     .cap = o->batch_cap,
                                     .units = o->units,
                                     .blocks = account_sampling_blocks(&o->sampling),
                                     .draws = account_sampling_draws(&o->sampling, &replaced),
                                     .replaced = replaced,
                                     .adjacency = o->adjacency,
                                     .engine = o->engine,
                                     .relative = o->slack,
                                     .absolute = 0.1 * o->slack,
                                     .step_max = r->default_slack ? STEP_MAX : 0,
                                     .run = &r->options.run};
}

/* What account/overlap.c has no proof for is refused. */
static dpmf_status check_overlap(const dpmf_account_options *o) {
    const char *family = o->strategy->family;
    const long long bands = (long long)strategy_bands(o->strategy);
    if (o->engine != DPMF_ENGINE_AUTO)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "engine %s does not support poisson sampling with the strategy (%s) of %lld bands; auto does",
                         account_engine_name(o->engine), family, bands);
    if (o->batch_cap == 0 && o->group <= 1 && o->adjacency != DPMF_ADJACENCY_REPLACE_ONE) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "poisson sampling: the strategy (%s) has %lld bands, accepted at most 1 %s", family, bands,
                     o->batch_cap > 0 ? "with a cap on the batch"
                     : o->group > 1   ? "for a group of units"
                                      : "under replace-one adjacency");
}

static dpmf_status open_composed(account_request *r) {
    const dpmf_account_options *o = &r->options;
    account_amplification found;
    if (dpmf_sampling_is_none(&o->sampling)) {
        compose(r, o->compositions, 1);
        return DPMF_OK;
    }
    if (o->strategy != NULL) {
        TRY(account_amplify(o->strategy, &o->sampling, 0, &found));
        compose(r, found.compositions, found.probability);
        r->question.overlap = found.overlap;
        r->question.whole = found.whole;
        return found.overlap > 1 ? check_overlap(o) : DPMF_OK;
    }
    int64_t blocks = account_sampling_blocks(&o->sampling);
    compose(r, o->compositions / blocks + (o->compositions % blocks != 0), account_sampling_turn(&o->sampling));
    return DPMF_OK;
}

/* Fixed bins: ceil(steps/bins) uses in one bin equal one use with less noise; sigma_unit carries the factor. */
static dpmf_status open_allocation(account_request *r) {
    const dpmf_account_options *o = &r->options;
    const int64_t bins = o->sampling.count;
    int64_t epochs = o->epochs > 0 ? o->epochs : 1, given = r->default_steps ? bins * epochs : o->compositions;
    const int stays = is_simulated(o) && o->epochs == 0;
    if (o->strategy != NULL && strategy_bands(o->strategy) != 1)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "allocation sampling is accounted for with independent noise: the strategy (%s) has %lld "
                         "bands, accepted 1",
                         o->strategy->family, (long long)strategy_bands(o->strategy));
    if (stays && given < bins)
        return base_fail(DPMF_ERROR_ARGUMENT, "balls-in-bins: %lld bins, accepted 1 to %lld (the steps)",
                         (long long)bins, (long long)given);
    if (!stays && o->epochs == 0) epochs = given / bins;
    if (!stays && (epochs < 1 || epochs * bins != given))
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld steps are not %lld epochs of %lld", (long long)given,
                         (long long)(o->epochs > 0 ? o->epochs : epochs), (long long)bins);
    const int64_t picks = is_simulated(o) ? 1 : o->sampling.picks;
    compose(r, stays ? 1 : epochs, (double)picks / (double)bins);
    r->question.picks = picks;
    r->question.bins = bins;
    r->options.compositions = given;
    if (stays) r->options.sigma_unit /= sqrt((double)(given / bins + (given % bins != 0)));
    return DPMF_OK;
}

static dpmf_status open_scheme(account_request *r) {
    const dpmf_account_options *o = &r->options;
    const dpmf_strategy *strategy = o->strategy;
    r->simulated = 1;
    if (strategy == NULL) {
        TRY(strategy_create_identity(o->compositions, &r->identity));
        strategy = r->identity;
    }
    compose(r, o->compositions, o->sampling.probability); /* for the answer's figures */
    TRY(account_amplify_scheme(strategy, &o->sampling, o->warm, &o->run, &r->scheme));
    if (o->batch_cap == 0 || o->batch_cap >= o->units) return DPMF_OK;
    if (o->adjacency == DPMF_ADJACENCY_ADD_REMOVE) r->scheme.sensed.value *= 2; /* another takes the place */
    return capped_separated(&r->scheme.scheme, o->batch_cap, o->units, &r->missed);
}

/*
 * A group of G units. Without sampling the G patterns add, so that the sensitivity is at most G times one unit's: this is exact where
 * all of them can have the same pattern. Poisson sampling, and batches of a fixed size: account/capped/counted.c. Units that are
 * sampled independently of each other in any other way: the noise of the run has the law of a sum of G independent parts, of
 * variance sigma^2/G each. The outputs of every unit with its own part reveal more than their sum, and they are a composition of
 * G runs with sigma/sqrt(G). Units of a group in different blocks of one C of several bands are covered by this too.
 */
static dpmf_status open_group(account_request *r) {
    const dpmf_account_options *o = &r->options;
    const double group = (double)o->group;
    char text[64];
    if (o->group <= 1) return DPMF_OK;
    TRY(dpmf_sampling_format(&o->sampling, text));
    if (r->simulated || o->batch_cap > 0)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "a group of %lld units under sampling %s: there is no account of groups for simulated samplings and "
            "for a cap on the batch",
            (long long)o->group, text);
    if (r->question.draws > 0 && r->question.blocks > 1)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "a group of %lld units under sampling %s: its units may be in different blocks, accepted: one block",
            (long long)o->group, text);
    if (!dpmf_sampling_is_none(&o->sampling) && o->group > COUNTED_GROUP_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "a group of %lld units, accepted under sampling %s: 1 to %d",
                         (long long)o->group, text, COUNTED_GROUP_MAX);
    if (o->engine != DPMF_ENGINE_AUTO && !dpmf_sampling_is_none(&o->sampling))
        return base_fail(DPMF_ERROR_ARGUMENT, "engine %s does not support a group under sampling; auto does",
                         account_engine_name(o->engine));
    /* one band: units in different steps only lower the Gram matrix of the group's patterns, so that one block is the worst */
    const int one_band = r->question.blocks == 1 || (o->strategy != NULL && strategy_bands(o->strategy) == 1);
    if (dpmf_sampling_is_none(&o->sampling)) {
        r->options.sigma_unit /= group;
    } else if (r->question.picks > 0 || !one_band) {
        if (r->question.compositions > ACCOUNT_COMPOSITIONS_MAX / o->group)
            return base_fail(DPMF_ERROR_ARGUMENT, "%lld compositions for a group of %lld, accepted %lld in all",
                             (long long)r->question.compositions, (long long)o->group,
                             (long long)ACCOUNT_COMPOSITIONS_MAX);
        r->question.compositions *= o->group;
        r->options.sigma_unit /= sqrt(group);
    } else {
        r->question.group = o->group;
    }
    return DPMF_OK;
}

dpmf_status account_open(const dpmf_account_options *options, account_request *out) {
    account_request r = {.options = options == NULL ? dpmf_account_options_defaults() : *options};
    dpmf_status status = DPMF_OK;
    TRY(join_cap(&r.options));
    TRY(check_options(&r.options));
    r.default_slack = r.options.slack == 0;
    /* Simulation options imply simulation. */
    if (account_sampling_allocates(&r.options.sampling) && is_simulated(&r.options) &&
        r.options.engine == DPMF_ENGINE_AUTO &&
        (r.options.samples > 0 || r.options.unconditional || r.options.confidence > 0))
        r.options.engine = DPMF_ENGINE_MONTE_CARLO;
    r.default_steps = r.options.compositions == 0 && r.options.strategy == NULL;
    if (dpmf_sampling_is_none(&r.options.sampling) && r.options.compositions == 0) r.options.compositions = 1;
    if (r.options.sigma_unit == 0) r.options.sigma_unit = 1;
    if (r.options.slack == 0) r.options.slack = SLACK;
    if (r.options.confidence == 0) r.options.confidence = 0.999;
    if (r.options.compositions == 0)
        r.options.compositions = r.options.strategy == NULL ? 1 : r.options.strategy->steps;
    TRY(check_combination(&r.options));
    TRY(check_cap(&r.options));
    TRY_DONE(is_allocation(&r.options)    ? open_allocation(&r)
             : is_monte_carlo(&r.options) ? open_scheme(&r)
                                          : open_composed(&r));
    TRY_DONE(open_group(&r));
    *out = r;
    out->question.run = &out->options.run;
    return DPMF_OK;
done:
    account_close(&r);
    return status;
}

void account_close(account_request *r) {
    if (!r->simulated) return;
    account_amplified_free(&r->scheme);
    dpmf_strategy_free(r->identity);
    r->identity = NULL;
}

/* ---- which account it needs: of a cap that may bind, of random allocation, or of a sampled step composed ---- */

static const char METHOD_ALLOCATION[] = "random allocation, sums of likelihood ratios on a grid";
static const char METHOD_UNSAMPLED[] = "Gaussian mechanism without the sampling, closed form";

/* Where all of the steps are picked, nothing is random, and composition alone gives the account. */
static int leaves_to_chance(const account_question *q) {
    return q->picks > 0 && q->picks < q->bins;
}

dpmf_status account_answer_question(const account_question *q, account_answer *out) {
    if (q->overlap > 1) return overlap_answer(q, out);
    if (counted_applies(q)) return counted_answer(q, out);
    if (account_cap_binds(q) && q->probability > 0) return capped_answer(q, out);
    if (!leaves_to_chance(q)) return account_composed(q, out);
    account_answer found = {account_worst(q), DPMF_UPPER_BOUND, METHOD_ALLOCATION, 0};
    TRY(allocation_answer(q, &found));
    const double unsampled = account_gaussian(q, account_unsampled_mu(q));
    if (unsampled <= found.value) found = (account_answer){unsampled, DPMF_UPPER_BOUND, METHOD_UNSAMPLED, found.met};
    *out = found;
    return DPMF_OK;
}

dpmf_status account_search(const account_question *q, double *log_delta) {
    static const double COARSE = 0.02; /* slack for the beginning of a search */
    account_question coarse = *q;
    account_answer found;
    if (!leaves_to_chance(q) && !account_cap_binds(q) && !counted_applies(q) && !(q->overlap > 1))
        return account_composed_search(q, log_delta);
    coarse.relative = fmax(COARSE, q->relative);
    TRY(account_answer_question(&coarse, &found));
    *log_delta = found.value;
    return DPMF_OK;
}

dpmf_status account_request_answer(account_request *r, int of_epsilon, double sigma, double given, dpmf_privacy *out) {
    account_answer found;
    dpmf_privacy answer;
    if (r->simulated) {
        answer = account_privacy(r, sigma, of_epsilon ? INFINITY : given, of_epsilon ? given : 0);
        TRY(account_sampled_answer(r, of_epsilon, sigma, &answer));
    } else {
        r->question.of_epsilon = of_epsilon;
        r->question.given = of_epsilon ? log(given) : given;
        r->question.sigma = sigma * r->options.sigma_unit;
        TRY(account_answer_question(&r->question, &found));
        const double delta = of_epsilon ? given : account_read_delta(&found);
        answer = account_privacy(r, sigma, of_epsilon ? found.value : given, delta);
        answer.kind = found.kind;
        answer.method = found.method;
        answer.slack_met = found.met;
    }
    *out = answer;
    return DPMF_OK;
}

static dpmf_status answer_at(double sigma, int of_epsilon, double given, const dpmf_account_options *options,
                             dpmf_privacy *out) {
    account_request r;
    TRY(account_check_sigma(sigma));
    TRY(of_epsilon ? account_check_delta(given) : account_check_epsilon(given));
    TRY(account_open(options, &r));
    const dpmf_status status = account_request_answer(&r, of_epsilon, sigma, given, out);
    account_close(&r);
    return status;
}

dpmf_status dpmf_account_epsilon(double sigma, double delta, const dpmf_account_options *options, dpmf_privacy *out) {
    return answer_at(sigma, 1, delta, options, out);
}

dpmf_status dpmf_account_delta(double sigma, double epsilon, const dpmf_account_options *options, dpmf_privacy *out) {
    return answer_at(sigma, 0, epsilon, options, out);
}

dpmf_status account_confirm(double sigma, double epsilon, double delta, const dpmf_account_options *options,
                            dpmf_privacy *out, int *asked, int *shown) {
    account_request r;
    TRY(account_check_sigma(sigma));
    TRY(account_check_epsilon(epsilon));
    TRY(account_check_delta(delta));
    TRY(account_open(options, &r));
    *asked = *shown = 0;
    const dpmf_status status =
        r.simulated ? account_sampled_claim(&r, sigma, epsilon, delta, out, asked, shown) : DPMF_OK;
    account_close(&r);
    return status;
}

dpmf_status account_estimate_epsilon(double sigma, double delta, const dpmf_account_options *options, double *epsilon,
                                     int *found) {
    account_request r;
    account_question *const q = &r.question;
    dpmf_status status = DPMF_OK;
    *found = 0;
    TRY(account_check_sigma(sigma));
    TRY(account_check_delta(delta));
    TRY(account_open(options, &r));
    q->of_epsilon = 1;
    q->given = log(delta);
    q->sigma = sigma * r.options.sigma_unit;
    *found = !r.simulated && !account_cap_binds(q) && !counted_applies(q) && !(q->overlap > 1) && q->picks == 0 &&
             q->probability > 0;
    account_pair pairs[ACCOUNT_DIRECTIONS_MAX];
    const int count = account_directions(q, pairs);
    *epsilon = 0;
    for (int i = 0; i < count && *found; i++) {
        double here = 0, error = INFINITY;
        TRY_DONE(contour_answer(&pairs[i], q, &here, &error));
        *found = error <= 1e-3 * fmax(here, 1e-3);
        *epsilon = fmax(*epsilon, here);
    }
done:
    account_close(&r);
    return status;
}

dpmf_status dpmf_account_zcdp(double rho, double delta, int gaussian, int64_t compositions, dpmf_privacy *out) {
    if (!(rho > 0 && rho <= 1e9)) return base_fail(DPMF_ERROR_ARGUMENT, "rho %g, accepted: above 0, to 1e9", rho);
    if (compositions < 1 || compositions > ACCOUNT_COMPOSITIONS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld compositions, accepted 1 to %lld", (long long)compositions,
                         (long long)ACCOUNT_COMPOSITIONS_MAX);
    TRY(account_check_delta(delta));
    double total = rho * (double)compositions, mu = sqrt(2 * rho), total_mu = sqrt(2 * total);
    *out = (dpmf_privacy){
        .epsilon = gaussian ? account_gaussian_epsilon(total_mu, log(delta)) : account_zcdp_epsilon(total, log(delta)),
        .delta = delta,
        .sigma = gaussian ? 1 / mu : 0,
        .mu = gaussian ? mu : 0,
        .rho = rho,
        .total_mu = gaussian ? total_mu : 0,
        .total_rho = total,
        .kind = gaussian ? DPMF_EXACT : DPMF_UPPER_BOUND,
        .compositions = compositions,
        .probability = 1,
        .method = gaussian ? "Gaussian mechanism, closed form" : "zero-concentrated privacy at the best order",
        .slack_met = 1,
    };
    return DPMF_OK;
}
