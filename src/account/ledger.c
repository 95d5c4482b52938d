/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ledger: different runs on the same data, composed.
 *
 * Runs that are Gaussian as a whole (no sampling) add their mu^2, exactly. Equal samplings add their steps. What is left, if
 * different, is composed as a list of pairs (account/grid/grid.c): removing with removing, adding with adding, the larger
 * result last. Mechanisms that are known by a guarantee or a curve (account/generic/) are such pairs too; guarantees alone have a
 * closed form. The privacy loss of a list does not depend on its order; entries are kept sorted, so that neither does the last
 * digit. Which runs there are must not depend on what earlier ones released: composition of a fixed list is what is proven.
 */
#include "account/question.h"

#include "account/allocation/allocation.h"
#include "account/capped/capped.h"
#include "account/capped/counted.h"
#include "account/generic/generic.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

struct dpmf_ledger {
    dpmf_adjacency adjacency;
    int64_t group;   /* of the runs that say so; 0: none has been added */
    double gaussian; /* the sum of mu^2 of all that is Gaussian */
    int64_t count, room;
    double budget_epsilon, budget_delta; /* of a ledger on disk; 0: none */
    int64_t runs;                        /* entries of a ledger on disk */
    account_question *entries; /* owned: steps in `compositions`; no two alike, in an order that does not depend on
                                * that of adding */
    int64_t other_count;
    generic_mechanism *others; /* owned, in the same way */
};

static const char METHOD_LIST[] = "a list of runs, connect-the-dots discretisation, one tilted FFT each";
static const char METHOD_OPTIMAL[] = "optimal composition of the guarantees, Kairouz, Oh and Viswanath 2015";
static const double SLACK = 2e-5; /* a tight sum of tight accounts */

dpmf_status dpmf_ledger_create(dpmf_adjacency adjacency, dpmf_ledger **out) {
    dpmf_ledger *ledger = NULL;
    if ((unsigned)adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return base_fail(DPMF_ERROR_ARGUMENT, "adjacency %d, accepted 0 to 2", (int)adjacency);
    TRY(base_alloc(1, sizeof *ledger, "a ledger", (void **)&ledger));
    ledger->adjacency = adjacency;
    *out = ledger;
    return DPMF_OK;
}

static void free_others(int64_t count, generic_mechanism *others) {
    for (int64_t i = 0; i < count; i++)
        generic_free(&others[i]);
    base_free(others);
}

void dpmf_ledger_free(dpmf_ledger *ledger) {
    if (ledger == NULL) return;
    free_others(ledger->other_count, ledger->others);
    base_free(ledger->entries);
    base_free(ledger);
}

/* Compares everything but the number of compositions; adjacency and engine are the ledger's. */
static int compare(const account_question *a, const account_question *b) {
    const double x[] = {a->sigma,         a->probability,    (double)a->picks, (double)a->bins,     (double)a->cap,
                        (double)a->units, (double)a->blocks, (double)a->draws, (double)a->replaced, (double)a->group};
    const double y[] = {b->sigma,         b->probability,    (double)b->picks, (double)b->bins,     (double)b->cap,
                        (double)b->units, (double)b->blocks, (double)b->draws, (double)b->replaced, (double)b->group};
    int order = 0;
    for (size_t i = 0; i < sizeof x / sizeof *x && order == 0; i++)
        order = (x[i] > y[i]) - (x[i] < y[i]);
    return order;
}

static dpmf_status make_room(dpmf_ledger *ledger) {
    if (ledger->count < ledger->room) return DPMF_OK;
    account_question *more = NULL;
    const int64_t room = 2 * ledger->room + 8;
    TRY(base_alloc(room, sizeof *more, "the entries of a ledger", (void **)&more));
    if (ledger->count > 0) memcpy(more, ledger->entries, (size_t)ledger->count * sizeof *more);
    base_free(ledger->entries);
    ledger->entries = more;
    ledger->room = room;
    return DPMF_OK;
}

static dpmf_status add_run(dpmf_ledger *ledger, const account_question *run) {
    int64_t at = 0;
    while (at < ledger->count && compare(&ledger->entries[at], run) < 0)
        at++;
    if (at < ledger->count && compare(&ledger->entries[at], run) == 0) {
        int64_t *steps = &ledger->entries[at].compositions;
        if (run->compositions > ACCOUNT_COMPOSITIONS_MAX - *steps)
            return base_fail(DPMF_ERROR_ARGUMENT, "a ledger holds at most %lld steps of a kind",
                             (long long)ACCOUNT_COMPOSITIONS_MAX);
        *steps += run->compositions;
        return DPMF_OK;
    }
    TRY(make_room(ledger));
    memmove(ledger->entries + at + 1, ledger->entries + at, (size_t)(ledger->count - at) * sizeof *ledger->entries);
    ledger->entries[at] = *run;
    ledger->entries[at].run = NULL;
    ledger->count++;
    return DPMF_OK;
}

/* Takes the mechanism if it succeeds. */
static dpmf_status add_other(dpmf_ledger *ledger, generic_mechanism *m) {
    generic_mechanism *more = NULL;
    int64_t at = 0;
    while (at < ledger->other_count && generic_compare(&ledger->others[at], m) < 0)
        at++;
    if (at < ledger->other_count && generic_compare(&ledger->others[at], m) == 0) {
        if (m->times > ACCOUNT_COMPOSITIONS_MAX - ledger->others[at].times)
            return base_fail(DPMF_ERROR_ARGUMENT, "a ledger holds at most %lld steps of a kind",
                             (long long)ACCOUNT_COMPOSITIONS_MAX);
        ledger->others[at].times += m->times;
        generic_free(m);
        return DPMF_OK;
    }
    TRY(base_alloc(ledger->other_count + 1, sizeof *more, "the entries of a ledger", (void **)&more));
    for (int64_t i = 0; i < ledger->other_count; i++)
        more[i + (i >= at)] = ledger->others[i];
    more[at] = *m;
    base_free(ledger->others);
    ledger->others = more;
    ledger->other_count++;
    return DPMF_OK;
}

static dpmf_status check_times(int64_t times) {
    if (times >= 1 && times <= 1000000000) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "%lld times, accepted 1 to 1e9", (long long)times);
}

dpmf_status dpmf_ledger_add_gaussian(dpmf_ledger *ledger, double mu, int64_t times) {
    TRY(check_times(times));
    if (!(mu >= 0 && mu <= 1e6)) return base_fail(DPMF_ERROR_ARGUMENT, "mu %g, accepted 0 to 1e6", mu);
    ledger->gaussian += mu * mu * (double)times;
    return DPMF_OK;
}

/* Does the account rest on the noise alone, since a unit may be in every batch of a fixed size? */
static int is_known(const account_question *run) {
    counted_sizes sizes;
    return run->draws > 0 && !counted_make(run, &sizes);
}

dpmf_status dpmf_ledger_add_sampled(dpmf_ledger *ledger, double sigma, const dpmf_account_options *options,
                                    int64_t times) {
    account_request r;
    dpmf_status status = DPMF_OK;
    TRY(check_times(times));
    TRY(account_check_sigma(sigma));
    TRY(account_open(options, &r));
    account_question run = r.question;
    const int64_t group = r.options.group > 1 ? r.options.group : 1;
    run.sigma = sigma * r.options.sigma_unit;
    if (ledger->group > 0 && group != ledger->group) {
        status =
            base_fail(DPMF_ERROR_ARGUMENT, "the run is accounted for groups of %lld units, but the ledger for %lld",
                      (long long)group, (long long)ledger->group);
    } else if (r.simulated) {
        status = base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "a ledger takes proven accounts, not simulated ones: balls-in-bins with a C and min-sep are not composed");
    } else if (run.overlap > 1) {
        status = base_fail(DPMF_ERROR_UNSUPPORTED,
                           "a ledger composes poisson sampling of strategies of one band, not of several (%s)",
                           dpmf_strategy_get(r.options.strategy).family);
    } else if (run.adjacency != ledger->adjacency) {
        status = base_fail(DPMF_ERROR_ARGUMENT, "the run is accounted for under %s adjacency, but the ledger under %s",
                           dpmf_adjacency_name(run.adjacency), dpmf_adjacency_name(ledger->adjacency));
    } else if (run.compositions > ACCOUNT_COMPOSITIONS_MAX / times) {
        status = base_fail(DPMF_ERROR_ARGUMENT, "%lld steps %lld times, accepted %lld in all",
                           (long long)run.compositions, (long long)times, (long long)ACCOUNT_COMPOSITIONS_MAX);
    } else if ((run.probability >= 1 && !account_cap_binds(&run)) || is_known(&run)) {
        const double mu = account_unsampled_mu(&run);
        ledger->gaussian += mu * mu * (double)times;
    } else if (run.probability > 0) {
        run.compositions *= times;
        status = add_run(ledger, &run);
    }
    if (status == DPMF_OK) ledger->group = group;
    account_close(&r);
    return status;
}

dpmf_status dpmf_ledger_add_guarantee(dpmf_ledger *ledger, const char *text, int64_t times) {
    generic_mechanism m = {0};
    TRY(check_times(times));
    if (ledger->group > 1)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "the ledger is for groups of %lld units; a guarantee or a curve of one unit has none for groups",
            (long long)ledger->group);
    TRY(generic_parse(text, ledger->adjacency, &m));
    m.times = times;
    const dpmf_status status = add_other(ledger, &m);
    if (status != DPMF_OK) generic_free(&m);
    if (status == DPMF_OK) ledger->group = 1;
    return status;
}

static dpmf_status add_others(dpmf_ledger *sum, const dpmf_ledger *from) {
    for (int64_t i = 0; i < from->other_count; i++) {
        generic_mechanism copy = {0};
        TRY(generic_copy(&from->others[i], &copy));
        const dpmf_status status = add_other(sum, &copy);
        if (status != DPMF_OK) {
            generic_free(&copy);
            return status;
        }
    }
    return DPMF_OK;
}

dpmf_status dpmf_ledger_add_ledger(dpmf_ledger *ledger, const dpmf_ledger *other) {
    if (ledger->adjacency != other->adjacency && (other->count > 0 || other->gaussian > 0 || other->other_count > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "cannot add a ledger under %s adjacency to one under %s",
                         dpmf_adjacency_name(other->adjacency), dpmf_adjacency_name(ledger->adjacency));
    if (ledger->group > 0 && other->group > 0 && ledger->group != other->group)
        return base_fail(DPMF_ERROR_ARGUMENT, "cannot add a ledger for groups of %lld units to one for %lld",
                         (long long)other->group, (long long)ledger->group);
    dpmf_ledger sum = *ledger;
    dpmf_status status = DPMF_OK;
    if (sum.group == 0) sum.group = other->group;
    sum.entries = NULL;
    sum.others = NULL;
    sum.count = sum.room = sum.other_count = 0;
    sum.gaussian += other->gaussian;
    for (int64_t i = 0; i < ledger->count; i++)
        TRY_DONE(add_run(&sum, &ledger->entries[i]));
    for (int64_t i = 0; i < other->count; i++)
        TRY_DONE(add_run(&sum, &other->entries[i]));
    TRY_DONE(add_others(&sum, ledger));
    TRY_DONE(add_others(&sum, other));
    base_free(ledger->entries);
    free_others(ledger->other_count, ledger->others);
    *ledger = sum;
    return DPMF_OK;
done:
    base_free(sum.entries);
    free_others(sum.other_count, sum.others);
    return status;
}

/* ---- the file ---- */

dpmf_ledger_info dpmf_ledger_get(const dpmf_ledger *ledger) {
    return (dpmf_ledger_info){.entries = ledger->runs,
                              .budget_epsilon = ledger->budget_epsilon,
                              .budget_delta = ledger->budget_delta,
                              .adjacency = ledger->adjacency};
}
void ledger_set_budget(dpmf_ledger *ledger, double epsilon, double delta) {
    ledger->budget_epsilon = epsilon;
    ledger->budget_delta = delta;
}

void ledger_count(dpmf_ledger *ledger) {
    ledger->runs++;
}

/* ---- the entries as parts of a list, each kind of run given by its curve ---- */

/* Blocks that the units do not fill equally have two sizes: this is the larger curve of both. */
typedef struct block_sizes {
    int count;
    capped_scheme sizes[2];
} block_sizes;

typedef struct part_numbers {
    grid_gaussian gaussian;
    grid_poisson poisson;
    block_sizes capped;
    counted_sizes counted;
    allocation_blocks allocation;
} part_numbers;

typedef struct list_parts {
    int count;
    int64_t most;          /* the number that there is room for */
    grid_part *parts;      /* owned */
    part_numbers *numbers; /* owned: what the parts borrow */
} list_parts;

static dpmf_status fill_capped(const void *of, int reversed, int64_t count, double step, double mass,
                               const dpmf_run *run, double *out) {
    const block_sizes *blocks = of;
    (void)mass;
    (void)run;
    for (int64_t i = 0; i < count; i++) {
        out[i] = 0;
        for (int j = 0; j < blocks->count; j++)
            out[i] = fmax(out[i], capped_curve(&blocks->sizes[j], reversed, expm1((double)i * step)));
    }
    return DPMF_OK;
}

static double reach_capped(const void *of, int reversed, double mass) {
    const block_sizes *blocks = of;
    double far = 0;
    for (int j = 0; j < blocks->count; j++) {
        const grid_part part = capped_part(&blocks->sizes[j], 1);
        far = fmax(far, part.reach(part.of, reversed, mass));
    }
    return far;
}

static void parts_free(list_parts *parts) {
    for (int64_t i = 0; parts->numbers != NULL && i < parts->most; i++)
        allocation_blocks_free(&parts->numbers[i].allocation);
    base_free(parts->parts);
    base_free(parts->numbers);
    *parts = (list_parts){0};
}

static dpmf_status parts_create(const dpmf_ledger *ledger, list_parts *out) {
    const int64_t most = ALLOCATION_PARTS * ledger->count + ledger->other_count + 1;
    list_parts p = {.most = most};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(most, sizeof *p.parts, "the parts of a ledger", (void **)&p.parts));
    TRY_DONE(base_alloc(most, sizeof *p.numbers, "the numbers of a ledger", (void **)&p.numbers));
    if (ledger->gaussian > 0) {
        p.numbers[0].gaussian.mu = sqrt(ledger->gaussian);
        p.parts[p.count++] = grid_gaussian_part(&p.numbers[0].gaussian, 1);
    }
    for (int64_t i = 0; i < ledger->count; i++) {
        const account_question *c = &ledger->entries[i];
        part_numbers *n = &p.numbers[p.count];
        if (c->picks > 0) {
            TRY_DONE(allocation_blocks_create(c, &n->allocation));
            for (int k = 0; k < n->allocation.count; k++)
                p.parts[p.count++] = n->allocation.parts[k];
        } else if (counted_applies(c) && counted_make(c, &n->counted)) {
            p.parts[p.count++] = counted_part(&n->counted, c->compositions);
        } else if (account_cap_binds(c)) {
            const int64_t small = c->units / c->blocks, large = small + (c->units % c->blocks != 0);
            n->capped.count = 0;
            for (int64_t size = large; size >= small; size--) {
                /* Where the cap cannot bind, a cap without effect is used: the curve is then that of Poisson sampling. */
                const int64_t cap = c->cap < size ? c->cap : size - 1;
                capped_scheme *s = &n->capped.sizes[n->capped.count++];
                capped_make(c->probability, c->sigma, cap, size, c->adjacency, s);
                if (c->cap >= size) s->binding = 0;
            }
            p.parts[p.count++] = (grid_part){&n->capped, fill_capped, reach_capped, c->compositions};
        } else {
            n->poisson = (grid_poisson){c->probability, 1 / c->sigma, c->adjacency == DPMF_ADJACENCY_REPLACE_ONE};
            p.parts[p.count++] = grid_poisson_part(&n->poisson, c->compositions);
        }
    }
    for (int64_t i = 0; i < ledger->other_count; i++)
        p.parts[p.count++] = generic_part(&ledger->others[i]);
    *out = p;
    return DPMF_OK;
done:
    parts_free(&p);
    return status;
}

/* A ledger with one kind of run is answered as that run alone. */
static int is_plain(const dpmf_ledger *ledger) {
    if (ledger->other_count > 0) return 0;
    return ledger->count == 0 || (ledger->count == 1 && ledger->gaussian == 0);
}

static account_question plain_run(const dpmf_ledger *ledger) {
    account_question run = {.sigma = 1, .probability = 0, .compositions = 1};
    if (ledger->count > 0) {
        run = ledger->entries[0];
    } else if (ledger->gaussian > 0) { /* sigma so that mu is right under this adjacency */
        run = (account_question){.sigma = 1 / sqrt(ledger->gaussian), .probability = 1, .compositions = 1};
    }
    run.blocks = run.blocks > 0 ? run.blocks : 1;
    return run;
}

/* Have both directions the same curve? */
static int is_symmetric(const dpmf_ledger *ledger) {
    int symmetric = ledger->count == 0 || ledger->adjacency == DPMF_ADJACENCY_REPLACE_ONE;
    for (int64_t i = 0; i < ledger->other_count; i++)
        symmetric = symmetric && generic_is_symmetric(&ledger->others[i]);
    return symmetric;
}

static double step_of(const dpmf_ledger *ledger) {
    double step = INFINITY;
    for (int64_t i = 0; i < ledger->other_count; i++)
        step = fmin(step, generic_step(&ledger->others[i]));
    return step;
}

static const char METHOD_LARGEST[] = "the sum of the largest privacy losses";

/*
 * Where all losses are bounded, epsilon is at most their sum E, if delta covers the infinite ones, and at least E + ln(1 - delta/p), p the
 * probability of E. *made 1: that is near enough, so that no composition is needed.
 */
static double largest_loss(const dpmf_ledger *ledger, const account_question *q, int *made) {
    *made = 0;
    if (!q->of_epsilon || ledger->count > 0 || ledger->gaussian > 0) return INFINITY;
    const generic_end end = generic_end_of(ledger->other_count, ledger->others);
    const double delta = exp(q->given) * (1 - 1e-12), part = (delta - end.infinite) / exp(end.log_mass);
    if (!(delta >= end.infinite)) return INFINITY;
    *made = part < 1 && -log1p(-part) <= account_slack(q, end.loss);
    return end.loss;
}

/*
 * ln of delta near the largest loss E and above it, where (1 - e^(x - L))_+ <= 1 - e^(x - E): at most the infinite mass, and above E no
 * more. *tight 1: delta a slack before x is not below that.
 */
static double log_delta_at_end(const dpmf_ledger *ledger, const account_question *q, int *tight) {
    *tight = 0;
    if (q->of_epsilon || ledger->count > 0 || ledger->gaussian > 0 || ledger->other_count == 0) return 0;
    const generic_end end = generic_end_of(ledger->other_count, ledger->others);
    const double left = fmax(end.loss - q->given, 0);
    *tight = left <= 0.5 * exp(end.log_mass) * account_slack(q, q->given);
    return fmin(log(end.infinite - expm1(-left)), 0) + 1e-15;
}

static dpmf_status answer_list(const dpmf_ledger *ledger, const account_question *q, account_answer *out) {
    const int directions = is_symmetric(ledger) ? 1 : 2;
    int near = 0, tight = 0;
    const double largest = largest_loss(ledger, q, &near), at_end = log_delta_at_end(ledger, q, &tight);
    list_parts p;
    dpmf_status status = DPMF_OK;
    *out =
        (account_answer){near ? largest : account_least(q), DPMF_UPPER_BOUND, near ? METHOD_LARGEST : METHOD_LIST, 1};
    if (tight) *out = (account_answer){fmax(at_end, account_least(q)), DPMF_UPPER_BOUND, METHOD_LARGEST, 1};
    if (near || tight) return DPMF_OK;
    TRY(parts_create(ledger, &p));
    for (int i = 0; i < directions; i++) {
        account_answer found;
        const double enough = i > 0 && !q->of_epsilon && isfinite(out->value) ? fmin(out->value, -1e-3) : 0;
        const grid_source source = {
            .count = p.count, .reversed = i, .parts = p.parts, .step_max = step_of(ledger), .enough = enough};
        TRY_DONE(grid_answer(&source, q, &found));
        account_take_worse(out, &found);
    }
    const double other = q->of_epsilon ? largest : at_end;
    if (out->value > other) {
        out->value = other;
        out->method = METHOD_LARGEST;
    }
done:
    parts_free(&p);
    return status;
}

/* Guarantees alone. *made 0: it is not such a list, or it is too long. */
static dpmf_status answer_optimal(const dpmf_ledger *ledger, const account_question *q, account_answer *out,
                                  int *made) {
    generic_law law = {0};
    double most = 0;
    *made = 0;
    if (ledger->count > 0 || ledger->gaussian > 0 || ledger->other_count == 0) return DPMF_OK;
    TRY(generic_compose(ledger->other_count, ledger->others, &law, &most, made));
    if (!*made) return DPMF_OK;
    const double value = q->of_epsilon ? generic_law_epsilon(&law, q->given) : log(generic_law_curve(&law, q->given));
    const double epsilon = law.infinite <= 1e-289 ? fmin(value, most) : value; /* pure: never more than the sum */
    *out = (account_answer){q->of_epsilon ? epsilon : fmin(value + 1e-15 * fabs(value), 0), DPMF_UPPER_BOUND,
                            METHOD_OPTIMAL, 1};
    generic_law_free(&law);
    return DPMF_OK;
}

static dpmf_status answer(const dpmf_ledger *ledger, int of_epsilon, double given, const dpmf_run *run,
                          dpmf_privacy *out) {
    account_question q = {.relative = SLACK, .absolute = SLACK};
    account_answer found;
    if (is_plain(ledger)) q = plain_run(ledger);
    q.of_epsilon = of_epsilon;
    q.given = given;
    q.run = run;
    int made = 0;
    TRY(answer_optimal(ledger, &q, &found, &made));
    if (!made) TRY(is_plain(ledger) ? account_answer_question(&q, &found) : answer_list(ledger, &q, &found));
    const double delta = of_epsilon ? 0 : account_read_delta(&found);
    *out = (dpmf_privacy){.kind = found.kind,
                          .method = found.method,
                          .slack_met = found.met,
                          .compositions = 1,
                          .probability = 1,
                          .epsilon = of_epsilon ? found.value : given,
                          .delta = delta};
    if (ledger->count > 0 || ledger->other_count > 0) return DPMF_OK;
    out->total_mu = sqrt(ledger->gaussian);
    out->total_rho = 0.5 * ledger->gaussian;
    return DPMF_OK;
}

/* One use of one guarantee: both of its numbers hold as they are, without rounding. NULL: the ledger is another. */
static const generic_mechanism *only_guarantee(const dpmf_ledger *ledger) {
    const generic_mechanism *one = ledger->others;
    if (ledger->count > 0 || ledger->gaussian > 0 || ledger->other_count != 1) return NULL;
    return one->kind == GENERIC_APPROXIMATE && one->probability >= 1 && one->times == 1 ? one : NULL;
}

dpmf_status dpmf_ledger_epsilon(const dpmf_ledger *ledger, double delta, const dpmf_run *run, dpmf_privacy *out) {
    TRY(account_check_delta(delta));
    TRY(answer(ledger, 1, log(delta), run, out));
    const generic_mechanism *one = only_guarantee(ledger);
    if (one != NULL && delta >= one->delta) out->epsilon = fmin(out->epsilon, one->epsilon);
    out->delta = delta;
    return DPMF_OK;
}

dpmf_status dpmf_ledger_delta(const dpmf_ledger *ledger, double epsilon, const dpmf_run *run, dpmf_privacy *out) {
    TRY(account_check_epsilon(epsilon));
    TRY(answer(ledger, 0, epsilon, run, out));
    const generic_mechanism *one = only_guarantee(ledger);
    if (one != NULL && epsilon >= one->epsilon) out->delta = fmin(out->delta, one->delta);
    return DPMF_OK;
}

/*
 * ---- the curve as a privacy loss distribution ----
 *
 * The curve is bounded at some losses i s >= 0 in each direction, and the dots are connected (account/grid/atoms.c): the result
 * dominates everything in the ledger together, and what other accountants compose with it stays a bound. The last point is where
 * delta is about DEEP: what lies above counts as infinite.
 */
static const double DEEP = 1e-14, INTERVAL = 1e-4, EXPORT_SLACK = 1e-4, SAFE = 1e-12;
enum { DOTS = 1024 };

/* The loss where delta has fallen to DEEP, or to what has infinite loss. */
static dpmf_status find_end(const dpmf_ledger *ledger, const dpmf_run *run, double *end) {
    double infinite = 0;
    dpmf_privacy found = {.epsilon = INFINITY};
    for (int64_t i = 0; i < ledger->other_count; i++)
        infinite += (double)ledger->others[i].times * generic_infinite(&ledger->others[i]);
    for (double delta = fmax(DEEP, infinite * 1.0001); delta < 0.5 && !isfinite(found.epsilon); delta *= 2)
        TRY(answer(ledger, 1, log(delta), run, &found));
    if (!(found.epsilon <= GENERIC_EPSILON_MAX))
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "export: epsilon is %g where delta is about %g, accepted 0 to %d: other accountants have no use "
            "for such a curve",
            found.epsilon, fmax(DEEP, infinite), (int)GENERIC_EPSILON_MAX);
    *end = found.epsilon;
    return DPMF_OK;
}

static dpmf_status fill_curves(const dpmf_ledger *ledger, double step, int64_t count, double *const values[2],
                               const dpmf_run *run, int *equal) {
    const account_question q = {.relative = EXPORT_SLACK, .absolute = EXPORT_SLACK * step * 100, .run = run};
    generic_law law = {0};
    list_parts p = {0};
    double most = 0;
    int made = 0;
    dpmf_status status = DPMF_OK;
    *equal = 1;
    if (ledger->count == 0 && ledger->gaussian == 0)
        TRY(generic_compose(ledger->other_count, ledger->others, &law, &most, &made));
    if (made || (ledger->count == 0 && ledger->other_count == 0)) {
        const double mu = sqrt(ledger->gaussian);
        for (int64_t i = 0; i < count; i++) {
            const double x = (double)i * step * (1 - SAFE);
            values[0][i] = made ? generic_law_curve(&law, x) : grid_hockey(mu, exp(x)) * (1 + SAFE);
        }
        generic_law_free(&law);
        return DPMF_OK;
    }
    *equal = is_symmetric(ledger);
    TRY_DONE(parts_create(ledger, &p));
    for (int r = 0; r < (*equal ? 1 : 2); r++) {
        const grid_source source = {.count = p.count, .reversed = r, .parts = p.parts, .step_max = step_of(ledger)};
        TRY_DONE(grid_sweep(&source, &q, count, step, values[r]));
        for (int64_t i = 0; i < count; i++)
            values[r][i] = exp(values[r][i]) * (1 + SAFE);
    }
done:
    parts_free(&p);
    return status;
}

dpmf_status dpmf_ledger_export(const dpmf_ledger *ledger, const char *path, double interval, const dpmf_run *run) {
    double end = 0, *values[2] = {NULL, NULL};
    int equal = 0;
    dpmf_status status = DPMF_OK;
    if (path == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "export: the path is NULL");
    if (interval == 0) interval = INTERVAL;
    if (!(interval >= 1e-9 && interval <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "interval %g, accepted 1e-9 to 1", interval);
    if (ledger->group > 1)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "export: the ledger is for groups of %lld units, accepted: 1",
                         (long long)ledger->group);
    TRY(find_end(ledger, run, &end));
    const int64_t stride = (int64_t)fmax(ceil(end / (DOTS * interval)), 1);
    const double step = interval * (double)stride;
    const int64_t count = (int64_t)ceil(end / step) + 3;
    TRY(BASE_ARRAYS("a privacy curve", {&values[0], count}, {&values[1], count}));
    TRY_DONE(fill_curves(ledger, step, count, values, run, &equal));
    status = generic_write(path, ledger->adjacency, interval, stride, count, values[0], equal ? NULL : values[1], run);
done:
    base_free(values[0]);
    return status;
}
