/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shift of docs/exactness.md by brute force. Two data sets whose sums differ by Delta release the same numbers y if
 * their seeds differ by s. The stream itself shows s: seeds of our choice give m, and for the other data set the test
 * finds, step by step, the seeds that give m + Delta. Over small runs, all families with an exact release, grids so
 * coarse that rounding is large, every contribution of a unit on the grid and hostile seeds, |s| never exceeds the
 * sensitivity of the exact release; and without the allowance it would.
 */
#include "kernels/seed/seed.h"
#include "mechanism/mechanism.h"
#include "noise/plan.h"
#include "support/stream_cases.h"

enum { STEPS = 6, WIDTH = 3 };

static double table[STEPS][WIDTH]; /* the seeds, in grid steps */

static dpmf_status open_table(const uint8_t key[32], kernels_seed_key *out) {
    (void)key;
    memset(out, 0, sizeof *out);
    return DPMF_OK;
}

static void close_table(kernels_seed_key *key) {
    (void)key;
}

static int read_table(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, double scale,
                      double *out) {
    (void)key, (void)scale;
    assert_true(group == 0 && groups == 1 && row < STEPS);
    memset(out, 0, KERNELS_SEED_GROUP * sizeof *out);
    memcpy(out, table[row], sizeof table[row]);
    return 1;
}

static const kernels_seed_set TABLE = {.name = "table", .open = open_table, .close = close_table, .wholes = read_table};

typedef struct small_run {
    const dpmf_strategy *strategy;
    crypto_seed *seed;
    noise_stream *stream;
} small_run;

/* Row t for the seeds of the table; rows before it come first. */
static void row_at(const small_run *r, int64_t t, double row[WIDTH]) {
    const noise_segment segment = {row, WIDTH};
    for (int64_t u = 0; u <= t; u++)
        check_ok(noise_stream_emit(r->stream, 1, NOISE_STORE, 1, &segment));
    check_ok(noise_stream_seek(r->stream, 0, NULL));
}

/* Rows made ahead saw the seeds of their time: a fresh start each time. */
static void open_again(small_run *r) {
    const noise_stream_options o = {.precision = DPMF_FLOAT64, .count = WIDTH, .lookahead = 1, .exact = 1};
    noise_stream_free(r->stream);
    check_ok(noise_stream_create(r->strategy, r->seed, &o, NULL, &r->stream));
}

/* The norm of the shift: steps weighted by C[t,t], because seed t has 1/C[t,t] of the standard deviation. */
static double shift_of(small_run *r, const double diagonal[STEPS], const double seeds[STEPS][WIDTH],
                       const double delta[STEPS][WIDTH]) {
    double m[STEPS][WIDTH], row[WIDTH], squares = 0;
    memcpy(table, seeds, sizeof table);
    open_again(r);
    for (int64_t t = 0; t < STEPS; t++)
        row_at(r, t, m[t]);
    for (int64_t t = 0; t < STEPS; t++) {
        memset(table[t], 0, sizeof table[t]);
        open_again(r);
        row_at(r, t, row); /* what is fed back alone */
        for (int i = 0; i < WIDTH; i++) {
            table[t][i] = m[t][i] + delta[t][i] - row[i];
            const double s = (table[t][i] - seeds[t][i]) * diagonal[t];
            squares += s * s;
        }
    }
    return sqrt(squares);
}

static void draw_seeds(uint64_t *x, double size, double seeds[STEPS][WIDTH]) {
    for (int t = 0; t < STEPS; t++)
        for (int i = 0; i < WIDTH; i++)
            seeds[t][i] = rint(size * (2 * check_random(x) - 1));
}

/* The next vector of whole numbers of norm at most `most`; 0: that was the last. */
static int next_contribution(int most, double delta[WIDTH]) {
    for (;;) {
        int i = 0;
        while (i < WIDTH && delta[i] == most)
            delta[i++] = -most;
        if (i == WIDTH) return 0;
        delta[i]++;
        if (delta[0] * delta[0] + delta[1] * delta[1] + delta[2] * delta[2] <= most * most) return 1;
    }
}

typedef struct worst_case {
    double shift, bound, plain;
} worst_case;

/*
 * A participation at `step` of every contribution of norm at most `radius` grid steps; with `again` > 0 another, that
 * many steps later, of the same one or its negative.
 */
static worst_case search_step(small_run *r, const double diagonal[STEPS], const dpmf_exact *exact, double sensitivity,
                              int64_t step, int64_t again, int radius, uint64_t *x) {
    worst_case w = {0, exact->sensitivity * radius, sensitivity * radius};
    double delta[STEPS][WIDTH] = {{0}}, seeds[STEPS][WIDTH];
    for (int i = 0; i < WIDTH; i++)
        delta[step][i] = -radius;
    while (next_contribution(radius, delta[step])) {
        const double sign = check_random(x) < 0.7 ? 1 : -1;
        for (int i = 0; i < WIDTH && again > 0; i++)
            delta[step + again][i] = sign * delta[step][i];
        draw_seeds(x, check_random(x) < 0.5 ? 3 : 1e6, seeds);
        w.shift = fmax(w.shift, shift_of(r, diagonal, seeds, delta));
    }
    return w;
}

static void check_family(const char *name, const dpmf_strategy *s, int64_t again, int *needed, uint64_t *x) {
    dpmf_participation *p = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    dpmf_workload *a = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_exact exact;
    small_run r = {.strategy = s};
    double unit[STEPS], column[STEPS], diagonal[STEPS];
    o.sigma = 1;
    check_ok(dpmf_workload_parse("prefix", STEPS, &a));
    if (again > 0) check_ok(dpmf_participation_parse("cyclic:2,3", STEPS, &p));
    check_ok(dpmf_mechanism_create(a, p, (dpmf_strategy *)s, &o, &m));
    check_ok(crypto_seed_open_with(&TABLE, (const uint8_t[32]){0}, &r.seed));
    for (int t = 0; t < STEPS; t++) {
        memset(unit, 0, sizeof unit);
        unit[t] = 1;
        check_ok(dpmf_strategy_apply(s, unit, column));
        diagonal[t] = column[t];
    }
    for (int radius = 1; radius <= 2; radius++) {
        /* clip = radius grid steps of 1 */
        check_ok(dpmf_exact_plan(m, WIDTH, radius, 1.0, NULL, &exact));
        for (int64_t step = 0; step < STEPS - again; step += 2) {
            const worst_case w =
                search_step(&r, diagonal, &exact, m->problem.evaluation.sensitivity.value, step, again, radius, x);
            if (!(w.shift <= w.bound * (1 + 1e-9)))
                fail_msg("%s: shift %g, sensitivity of the exact release %g", name, w.shift, w.bound);
            *needed += w.shift > w.plain * (1 + 1e-9);
        }
    }
    noise_stream_free(r.stream);
    crypto_seed_close(r.seed);
    dpmf_mechanism_free(m);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

static void test_no_shift_exceeds_the_sensitivity_with_its_allowance(void **state) {
    uint64_t x = 23;
    int needed = 0, families = 0;
    (void)state;
    for (int k = 0; k < 2 * PLAIN_CASES; k++) { /* plain and normalized */
        const noise_stream_options o = {.precision = DPMF_FLOAT64, .count = WIDTH, .exact = 1};
        noise_plan plan;
        char name[96];
        dpmf_strategy *s = stream_case(k, STEPS, name);
        if (noise_plan_make(s, &o, 1, &plan) == DPMF_OK) {
            check_family(name, s, 0, &needed, &x);
            check_family(name, s, 3, &needed, &x);
            families++;
        }
        dpmf_strategy_free(s);
    }
    assert_true(families > 30);
    assert_true(needed > 20); /* the allowance is needed */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_shift_exceeds_the_sensitivity_with_its_allowance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
