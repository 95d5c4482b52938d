/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification: all mechanisms of this library agree, by every route; the routes themselves are compared with brute
 * force and closed forms; every single change of a mechanism is found; a stream that is not that of its strategy is
 * found; files that do not hold together. A verification of good noise fails by chance with probability below 2e-10
 * (verify/law.c); there are fewer than 2000 here, most of which do not get that far.
 */
#include "account/account.h"
#include "mechanism/mechanism.h"
#include "support/check.h"
#include "support/failing_allocator.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- making mechanisms ---- */

typedef struct recipe {
    const char *family; /* after '@': optimized */
    int64_t steps;
    const char *workload, *participation;
    int64_t size; /* bands or buffers */
    const char *sampling;
    double epsilon; /* 0: not calibrated */
} recipe;

static dpmf_strategy *make_strategy(const recipe *r, const dpmf_workload *a, const dpmf_participation *p) {
    dpmf_strategy *c = NULL;
    if (r->family[0] != '@') {
        dpmf_strategy_options o = dpmf_strategy_options_defaults();
        o.bands = r->size;
        check_ok(dpmf_strategy_create(r->family, a, &o, &c));
        return c;
    }
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization result;
    if (strstr(r->family, "blt") != NULL)
        o.buffers = (int)r->size;
    else
        o.bands = r->size;
    if (strcmp(r->family, "@lowrank") == 0) o.buffers = 3;
    check_ok(dpmf_optimize(r->family + 1, a, p, &o, &c, &result));
    return c;
}

static dpmf_mechanism *make(const recipe *r) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    check_ok(dpmf_workload_parse(r->workload, r->steps, &a));
    check_ok(dpmf_participation_parse(r->participation, r->steps, &p));
    check_ok(dpmf_sampling_parse(r->sampling, &o.sampling));
    dpmf_strategy *c = make_strategy(r, a, p);
    if (r->epsilon > 0) {
        dpmf_account_options how = dpmf_account_options_defaults();
        dpmf_privacy found;
        how.sampling = o.sampling;
        if (how.sampling.kind != DPMF_SAMPLING_NONE) how.strategy = c;
        check_ok(dpmf_calibrate_sigma(r->epsilon, 1e-6, &how, &found));
        o.sigma = found.sigma;
        o.epsilon = r->epsilon;
        o.delta = 1e-6;
    }
    check_ok(dpmf_mechanism_create(a, p, c, &o, &m));
    dpmf_workload_free(a);
    dpmf_participation_free(p);
    dpmf_strategy_free(c);
    return m;
}

static const dpmf_check *find(const dpmf_verification *v, const char *name) {
    for (int64_t i = 0; i < dpmf_verification_get(v).count; i++)
        if (strcmp(dpmf_verification_check(v, i)->name, name) == 0) return dpmf_verification_check(v, i);
    return NULL;
}

static void must_agree(const dpmf_mechanism *m) {
    dpmf_verification *v = NULL;
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = m}, NULL, &v));
    for (int64_t i = 0; i < dpmf_verification_get(v).count; i++) {
        const dpmf_check *check = dpmf_verification_check(v, i);
        if (check->ok == 0)
            fail_msg("%s, %s: %s: claimed %.17g, found %.17g (%s)", dpmf_strategy_get(m->strategy).family,
                     dpmf_participation_get(m->problem.participation).text, check->name, check->claimed, check->found,
                     check->how);
        assert_true(strlen(check->how) > 0 && strlen(check->how) < sizeof check->how - 1);
    }
    assert_true(dpmf_verification_get(v).ok);
    dpmf_verification_free(v);
}

static void must_be(const dpmf_verification *v, const char *name, int ok) {
    const dpmf_check *check = find(v, name);
    if (check == NULL) fail_msg("%s is not checked", name);
    if (check->ok != ok) fail_msg("%s: ok = %d, expected %d (%s)", name, check->ok, ok, check->how);
}

/* Does it disagree, and for this reason? */
static void must_not_agree(const dpmf_mechanism *m, const char *name) {
    dpmf_verification *v = NULL;
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = m}, NULL, &v));
    assert_false(dpmf_verification_get(v).ok);
    must_be(v, name, 0);
    dpmf_verification_free(v);
}

static const recipe RECIPES[] = {
    {"@banded-toeplitz", 60, "prefix", "cyclic:3,20", 6, "block-cyclic:0.05,6", 2},
    {"@banded", 48, "momentum:0.9,cooldown:0.25:0.05", "minsep:3,16", 10, "none", 2},
    {"@banded", 48, "prefix", "cyclic:3,16", 8, "none", 2},
    {"@blt", 100, "prefix", "minsep:4,25", 3, "none", 2},
    {"@tvblt", 64, "prefix", "single", 8, "none", 2},
    {"@dense", 40, "prefix", "single", 0, "none", 1},
    {"@dense", 40, "nesterov:0.9", "cyclic:4,10", 0, "none", 1},
    {"@toeplitz", 50, "momentum:0.5", "minsep:5,10", 0, "none", 1},
    {"@lowrank", 64, "prefix", "single", 4, "none", 1},
    {"toeplitz", 50, "prefix", "full", 0, "none", 1},
    {"bsr", 70, "decay:0.01", "shuffled:5,14", 4, "none", 1},
    {"bisr", 70, "prefix", "cyclic:5,14", 4, "none", 1},
    {"tree", 70, "prefix", "minsep:5,14", 0, "none", 1},
    {"tree-online", 70, "momentum:0.9", "cyclic:5,14", 0, "none", 1},
    {"tree-full", 70, "prefix", "single", 0, "none", 1},
    {"fft", 30, "prefix", "cyclic:3,10", 0, "none", 1},
    {"fft-opt", 30, "momentum:0.9", "single", 0, "none", 1},
    {"identity", 1, "prefix", "single", 0, "none", 1},
    {"identity", 200, "prefix", "cyclic:2,100", 0, "poisson:0.01", 1},
    {"workload", 40, "prefix", "minsep:2,20", 0, "none", 0},
    {"bsr", 2500, "prefix", "minsep:5,500", 20, "none", 1},
    {"tree", 2500, "prefix", "single", 0, "none", 1},
    {"fft", 1100, "prefix", "single", 0, "none", 1},
};
enum { RECIPES_COUNT = sizeof RECIPES / sizeof RECIPES[0] };

static void test_what_we_make_agrees(void **unused) {
    (void)unused;
    for (int i = 0; i < RECIPES_COUNT; i++) {
        dpmf_mechanism *m = make(&RECIPES[i]);
        must_agree(m);
        dpmf_mechanism_free(m);
    }
}

/*
 * Complete matrices up to DPMF_VERIFY_WHOLE_STEPS; other routes above, and few of them for a W that must be complete.
 */
static void test_what_is_checked_depends_on_the_steps(void **unused) {
    static const char *const whole[] = {"sensitivity",     "rms_loss",
                                        "max_loss",        "total_squared_loss",
                                        "response",        "sigma",
                                        "delta",           "stream.left_inverse",
                                        "stream.rms_loss", "stream.sensitivity",
                                        "stream.response", "noise.mean",
                                        "noise.variance",  "noise.correlation",
                                        "noise.tail",      "lower_bound.rms_loss"};
    dpmf_verification *v = NULL;
    (void)unused;
    dpmf_mechanism *m = make(&RECIPES[1]);
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = m}, NULL, &v));
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        must_be(v, whole[i], 1);
    }
    dpmf_verification_free(v);
    dpmf_mechanism_free(m);
    m = make(&RECIPES[RECIPES_COUNT - 3]);
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = m}, NULL, &v));
    must_be(v, "stream.response", 1);
    must_be(v, "stream.left_inverse", 1);
    must_be(v, "stream.sensitivity", 1);
    must_be(v, "stream.rms_loss", 1);
    must_be(v, "stream.max_loss", 1);
    must_be(v, "stream.total_squared_loss", 1);
    dpmf_verification_free(v);
    dpmf_mechanism_free(m);
    m = make(&RECIPES[RECIPES_COUNT - 1]);
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = m}, NULL, &v));
    must_be(v, "stream.response", -1);
    must_be(v, "noise", -1);
    must_be(v, "stream.rms_loss", -1);
    must_be(v, "stream.sensitivity", 1);
    assert_null(dpmf_verification_check(v, dpmf_verification_get(v).count));
    assert_null(dpmf_verification_check(v, -1));
    dpmf_verification_free(v);
    dpmf_mechanism_free(m);
}

/* ---- every figure and every given number, changed where it is held ---- */

static void change_double(dpmf_mechanism *m, double *figure, const char *name) {
    const double before = *figure;
    for (int sign = -1; sign <= 1; sign += 2) {
        *figure = before * (1 + sign * 1e-6);
        must_not_agree(m, name);
    }
    *figure = before;
}

/* Above the steps that are verified whole, the other routes find figures that are wrong too. */
static void test_a_changed_claim_of_many_steps_is_found(void **unused) {
    dpmf_mechanism *m = make(&RECIPES[RECIPES_COUNT - 3]);
    dpmf_evaluation *e = &m->problem.evaluation;
    (void)unused;
    change_double(m, &e->rms_loss, "stream.rms_loss");
    change_double(m, &e->max_loss, "stream.max_loss");
    change_double(m, &e->total_squared_loss, "stream.total_squared_loss");
    change_double(m, &m->response, "stream.response");
    e->sensitivity.value *= 1 - 1e-6; /* a bound from below finds a claim that is too small */
    must_not_agree(m, "stream.sensitivity");
    dpmf_mechanism_free(m);
}

/* An earlier ascent ended lower: its bound is still valid, but never a higher one, and never one of more digits. */
static void test_the_weaker_bound_of_an_earlier_file_agrees(void **unused) {
    dpmf_mechanism *m = make(&RECIPES[2]);
    dpmf_lower_bound *bound = &m->problem.evaluation.lower_bound;
    const double before = bound->rms_loss, unit = ldexp(1, ilogb(before) - 19); /* of the last of its 20 bits */
    (void)unused;
    must_agree(m);
    bound->rms_loss = before - 2000 * unit;
    must_agree(m);
    bound->rms_loss = before + 2000 * unit;
    must_not_agree(m, "lower_bound.rms_loss");
    bound->rms_loss = before - 2000.5 * unit;
    must_not_agree(m, "lower_bound.rms_loss");
    dpmf_mechanism_free(m);
}

static void test_a_changed_claim_is_found(void **unused) {
    static const int which[] = {0, 1, 13};
    (void)unused;
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        dpmf_mechanism *m = make(&RECIPES[which[i]]);
        dpmf_evaluation *e = &m->problem.evaluation;
        change_double(m, &e->sensitivity.value, "sensitivity");
        change_double(m, &e->rms_loss, "rms_loss");
        change_double(m, &e->max_loss, "max_loss");
        change_double(m, &e->total_squared_loss, "total_squared_loss");
        if (e->lower_bound.scope != NULL) {
            change_double(m, &e->lower_bound.rms_loss, "lower_bound.rms_loss");
            change_double(m, &e->lower_bound.max_loss, "lower_bound.max_loss");
        }
        change_double(m, &m->response, "response");
        /* under sampling a little more noise than needed is an older account's: the response detects the change */
        const int sampled = !dpmf_sampling_is_none(&m->sampling);
        const char *finds = sampled ? "response" : "sigma";
        change_double(m, &m->sigma, finds);
        change_double(m, &m->problem.epsilon, finds);
        change_double(m, &m->problem.delta, finds);
        if (sampled) {
            const double sigma = m->sigma;
            change_double(m, &m->sampling.probability, finds);
            m->sampling.count++;
            must_not_agree(m, finds);
            m->sampling.count--;
            m->sigma = sigma * (1 - 1e-6);
            must_not_agree(m, "sigma");
            m->sigma = sigma * 1.002;
            must_not_agree(m, "sigma");
            m->sigma = sigma;
        }
        e->sensitivity.kind = DPMF_UPPER_BOUND;
        must_not_agree(m, "sensitivity");
        e->sensitivity.kind = DPMF_EXACT;
        must_agree(m);
        dpmf_mechanism_free(m);
    }
}

/* ---- a stream that is not its strategy's ---- */

enum { CHEATING = 256 };

/* W = I, and 2 % more for many coordinates at once, as a noise stream calls it. */
static void cheat(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    for (int64_t i = 0; i < count; i++)
        y[i] = count >= CHEATING ? 1.02 * x[i] : x[i];
}

static void test_a_stream_of_something_else_is_found(void **unused) {
    const dpmf_operator cheating = {.buffers = 0, .step = cheat};
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_verification *v = NULL;
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", 300, &a));
    check_ok(dpmf_strategy_create_operator(300, &cheating, 1, &c));
    check_ok(dpmf_mechanism_create(a, NULL, c, NULL, &m));
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = m}, NULL, &v));
    must_be(v, "rms_loss", 1);
    must_be(v, "stream.left_inverse", 0);
    must_be(v, "stream.rms_loss", 0);
    must_be(v, "noise.variance", 0);
    must_be(v, "noise.mean", 1);
    must_be(v, "response", -1);
    dpmf_verification_free(v);
    dpmf_mechanism_free(m);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
}

/* ---- the routes ---- */

static void test_the_gaussian_by_quadrature_is_the_exact_one(void **unused) {
    static const double mus[] = {1e-3, 0.05, 0.3, 1, 2.5, 8, 20}, epsilons[] = {1e-3, 0.1, 1, 4, 12};
    (void)unused;
    for (size_t i = 0; i < sizeof mus / sizeof *mus; i++)
        for (size_t j = 0; j < sizeof epsilons / sizeof *epsilons; j++) {
            const double exact = account_gaussian_log_delta(mus[i], epsilons[j]);
            if (exact < -600) continue;
            check_near(log(verify_gaussian_delta(mus[i], epsilons[j])), exact, 1e-12);
        }
}

static void test_impulses_give_w(void **unused) {
    (void)unused;
    for (int i = 0; i < RECIPES_COUNT; i++) {
        if (RECIPES[i].steps > 100) continue;
        dpmf_mechanism *m = make(&RECIPES[i]);
        const int64_t n = m->problem.steps, rows = dpmf_strategy_get(m->strategy).rows;
        double *w = malloc((size_t)(n * rows) * sizeof *w), *expected = check_strategy_inverse(m->strategy);
        float *single = malloc((size_t)(n * rows) * sizeof *single);
        assert_non_null(w);
        assert_non_null(single);
        check_ok(verify_stream_impulses(m->strategy, DPMF_FLOAT64, n, rows, NULL, NULL, w));
        check_ok(verify_stream_impulses(m->strategy, DPMF_FLOAT32, n, rows, NULL, NULL, single));
        for (int64_t j = 0; j < n * rows; j++) {
            check_near(w[j], expected[j], 1e-11);
            check_near(single[j], expected[j], 2e-5);
        }
        free(w);
        free(single);
        free(expected);
        dpmf_mechanism_free(m);
    }
}

/* Patterns one by one: steps from `from` on, `left` more of them, X summed with signs that make it largest. */
typedef struct brute {
    int64_t n, k, b;
    int shuffled;
    double x[16][16];
    int64_t step[16];
    double best;
} brute;

static void value_pattern(brute *g, int64_t count) {
    for (unsigned signs = 0; signs < 1u << count; signs++) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < count; j++)
                sum += ((signs >> i ^ signs >> j) & 1 ? -1 : 1) * g->x[g->step[i]][g->step[j]];
        g->best = fmax(g->best, sum);
    }
}

static void try_patterns(brute *g, int64_t count) {
    value_pattern(g, count);
    if (count == g->k) return;
    int64_t from = count == 0 ? 0 : g->shuffled ? count * g->b : g->step[count - 1] + g->b, to = g->n;
    if (g->shuffled && (count + 1) * g->b < to) to = (count + 1) * g->b;
    for (int64_t t = from; t < to; t++) {
        g->step[count] = t;
        try_patterns(g, count + 1);
    }
}

/* Random banded C of both signs; programs are exact where columns meet neighbours alone, else not above. */
static void test_patterns_agree_with_brute_force(void **unused) {
    static const char *const kinds[] = {"minsep:3,3", "minsep:4,2", "shuffled:3,4", "cyclic:3,4", "minsep:2,5", "full"};
    enum { N = 11 };
    uint64_t seed = 5;
    (void)unused;
    for (int round = 0; round < 60; round++) {
        const int64_t bands = 1 + round % 5;
        double rows[N * 5] = {0}, columns[N * N] = {0};
        dpmf_mechanism m = {.problem.steps = N};
        dpmf_participation *participation = NULL;
        verify_reach found = {0};
        brute g = {.n = N};
        for (int64_t t = 0; t < N; t++)
            for (int64_t j = 0; j < bands && j <= t; j++)
                columns[(t - j) * N + t] = rows[t * bands + j] = j == 0 ? 2 : check_random(&seed);
        for (int64_t t = 0; t < N; t++)
            for (int64_t u = 0; u < N; u++)
                for (int64_t i = 0; i < N; i++)
                    g.x[t][u] += columns[t * N + i] * columns[u * N + i];
        check_ok(dpmf_participation_parse(kinds[round % 6], N, &participation));
        m.problem.participation = participation;
        check_ok(dpmf_strategy_create_banded(N, bands, rows, &m.strategy));
        g.k = dpmf_participation_get(m.problem.participation).count;
        g.b = dpmf_participation_get(m.problem.participation).separation;
        const dpmf_participation_kind kind = dpmf_participation_get(m.problem.participation).kind;
        g.shuffled = kind == DPMF_PARTICIPATION_SHUFFLED;
        check_ok(verify_reach_of(&m, N, columns, NULL, &found));
        if (kind == DPMF_PARTICIPATION_MIN_SEPARATION || g.shuffled) {
            try_patterns(&g, 0);
            const int64_t near = g.shuffled ? g.b + 1 : 2 * g.b;
            assert_int_equal(found.exact, bands <= near);
            if (found.exact) check_near(found.value * found.value, g.best, 1e-12);
            assert_true(found.value * found.value <= g.best * (1 + 1e-12));
        }
        dpmf_sensitivity claimed;
        check_ok(dpmf_sensitivity_compute(m.strategy, m.problem.participation, NULL, &claimed));
        assert_true(found.value <= claimed.value * (1 + 1e-12));
        if (claimed.kind == DPMF_EXACT && found.exact) check_near(found.value, claimed.value, 1e-12);
        dpmf_participation_free(participation);
        dpmf_strategy_free(m.strategy);
    }
}

/* ---- files ---- */

static void test_changed_bytes_fail_the_digest_and_others_are_no_container(void **unused) {
    dpmf_mechanism *m = make(&RECIPES[3]);
    dpmf_verification *v = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)unused;
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    uint8_t *moved = malloc(size + 1);
    assert_non_null(moved);
    memcpy(moved + 1, bytes, size);
    check_ok(dpmf_verify(&(dpmf_verify_source){.bytes = moved + 1, .size = size}, NULL, &v)); /* not aligned */
    assert_true(dpmf_verification_get(v).ok);
    assert_string_equal(dpmf_verification_check(v, 0)->name, "digest");
    assert_string_equal(dpmf_verification_check(v, 1)->name, "description");
    dpmf_verification_free(v);
    v = NULL;
    moved[size] ^= 1;
    check_ok(dpmf_verify(&(dpmf_verify_source){.bytes = moved + 1, .size = size}, NULL, &v));
    assert_false(dpmf_verification_get(v).ok);
    assert_int_equal(dpmf_verification_get(v).count, 1);
    assert_non_null(strstr(dpmf_verification_check(v, 0)->how, "digest"));
    dpmf_verification_free(v);
    v = NULL;
    check_fails(DPMF_ERROR_FORMAT, dpmf_verify(&(dpmf_verify_source){.bytes = moved + 1, .size = size - 8}, NULL, &v));
    check_fails(DPMF_ERROR_FORMAT,
                dpmf_verify(&(dpmf_verify_source){.bytes = (const uint8_t *)"not a container", .size = 15}, NULL, &v));
    check_fails(DPMF_ERROR_FORMAT, dpmf_verify(&(dpmf_verify_source){.bytes = bytes, .size = 0}, NULL, &v));
    assert_null(v);
    free(moved);
    dpmf_bytes_free(bytes);
    dpmf_mechanism_free(m);
}

static int refuse_at(void *context, const char *what, double done) {
    (void)what, (void)done;
    return --*(int *)context < 0;
}

static void test_null_is_refused_and_a_verification_may_be_cancelled(void **unused) {
    dpmf_mechanism *m = make(&RECIPES[0]);
    dpmf_verification *v = NULL;
    int left = 0, stopped = 0;
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_verify(&(dpmf_verify_source){.mechanism = NULL}, NULL, &v));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_verify(&(dpmf_verify_source){.mechanism = m}, NULL, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_verify(&(dpmf_verify_source){.bytes = NULL, .size = 8}, NULL, &v));
    check_fails(DPMF_ERROR_ARGUMENT,
                dpmf_verify(&(dpmf_verify_source){.bytes = (const uint8_t *)"12345678", .size = 8}, NULL, NULL));
    const uint64_t before = dpmf_memory_in_use();
    dpmf_run run = {.threads = 1, .progress = refuse_at, .context = &left};
    for (int allowed = 0; v == NULL; allowed += 1 + allowed / 4, stopped++) {
        left = allowed;
        dpmf_status status = dpmf_verify(&(dpmf_verify_source){.mechanism = m}, &run, &v);
        if (status == DPMF_OK) break;
        assert_int_equal(status, DPMF_ERROR_CANCELLED);
        assert_int_equal(dpmf_memory_in_use(), before);
    }
    assert_true(stopped >= 4); /* figures, privacy, impulses, law */
    dpmf_verification_free(v);
    dpmf_verification_free(NULL);
    dpmf_mechanism_free(m);
}

static void test_any_allocation_of_a_verification_may_fail(void **unused) {
    static const recipe small = {"bsr", 6, "prefix", "minsep:2,3", 2, "none", 1};
    dpmf_run run = {.threads = 1};
    dpmf_mechanism *m = make(&small);
    dpmf_verification *v = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)unused;
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    FAIL_EACH(dpmf_verify(&(dpmf_verify_source){.bytes = bytes, .size = size}, &run, &v));
    assert_true(dpmf_verification_get(v).ok);
    dpmf_verification_free(v);
    dpmf_bytes_free(bytes);
    dpmf_mechanism_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_we_make_agrees),
        cmocka_unit_test(test_what_is_checked_depends_on_the_steps),
        cmocka_unit_test(test_the_weaker_bound_of_an_earlier_file_agrees),
        cmocka_unit_test(test_a_changed_claim_is_found),
        cmocka_unit_test(test_a_changed_claim_of_many_steps_is_found),
        cmocka_unit_test(test_a_stream_of_something_else_is_found),
        cmocka_unit_test(test_the_gaussian_by_quadrature_is_the_exact_one),
        cmocka_unit_test(test_impulses_give_w),
        cmocka_unit_test(test_patterns_agree_with_brute_force),
        cmocka_unit_test(test_changed_bytes_fail_the_digest_and_others_are_no_container),
        cmocka_unit_test(test_null_is_refused_and_a_verification_may_be_cancelled),
        cmocka_unit_test(test_any_allocation_of_a_verification_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
