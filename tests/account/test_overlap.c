/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisson sampling of a C of several bands: never below the exact delta of two and three steps, never below a lower confidence limit
 * of simulation, DP-SGD in the limit of one band, below every bound without amplification and near every limit of participations, and refusals.
 */
#include "account/account.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 64 };

typedef struct setting {
    const char *name;
    int n;
    double q, sigma;
    double c[STEPS_MAX][STEPS_MAX]; /* lower triangular, not negative */
} setting;

/* ---- random numbers and matrices of the test's own ---- */

static uint64_t word_state;

static double uniform(void) {
    word_state += 0x9e3779b97f4a7c15u;
    uint64_t z = word_state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

typedef enum shape { ROOT, BANDS, BLT, ONES, DENSE, SHAPES } shape;

static const char *const SHAPE_NAMES[] = {"square root", "bands", "BLT", "ones", "dense"};

static void fill(setting *s, shape how, int n, double q, double sigma) {
    *s = (setting){.name = SHAPE_NAMES[how], .n = n, .q = q, .sigma = sigma};
    double root = 1;
    for (int lag = 0; lag < n; lag++) {
        if (lag > 0) root *= (lag - 0.5) / lag;
        const double of = how == ROOT    ? root
                          : how == BANDS ? (lag < 4 ? root : 0)
                          : how == BLT   ? (lag == 0 ? 1 : 0.4 * pow(0.6, lag - 1) + 0.1 * pow(0.97, lag - 1))
                                         : 1;
        for (int t = lag; t < n; t++)
            s->c[t][t - lag] = how == DENSE ? (lag == 0 ? 1 : pow(uniform(), 4)) : of;
    }
}

static void strategy_of(const setting *s, dpmf_strategy **out) {
    double matrix[STEPS_MAX * STEPS_MAX];
    for (int i = 0; i < s->n; i++)
        memcpy(matrix + i * s->n, s->c[i], (size_t)s->n * sizeof *matrix);
    check_ok(dpmf_strategy_create_dense(s->n, matrix, out));
}

static double largest_norm(const setting *s) {
    double most = 0;
    for (int j = 0; j < s->n; j++) {
        double sum = 0;
        for (int i = 0; i < s->n; i++)
            sum += s->c[i][j] * s->c[i][j];
        most = fmax(most, sqrt(sum));
    }
    return most;
}

static dpmf_account_options options_of(const setting *s, const dpmf_strategy *strategy) {
    dpmf_account_options o = dpmf_account_options_defaults();
    o.strategy = strategy;
    o.sampling = (dpmf_sampling){.kind = DPMF_SAMPLING_POISSON, .probability = s->q, .count = 1};
    return o;
}

static double account_delta(const setting *s, const dpmf_strategy *strategy, double epsilon) {
    const dpmf_account_options o = options_of(s, strategy);
    dpmf_privacy found;
    check_ok(dpmf_account_delta(s->sigma, epsilon, &o, &found));
    return found.delta;
}

/* ---- two and three steps: exact, by a grid over the outcomes ---- */

static void exact_deltas(const setting *s, double epsilon, double *remove, double *add) {
    enum { HALF = 35 };
    const double width = 0.25, scale = s->sigma * largest_norm(s), a = exp(epsilon);
    const int n = s->n, points = n == 3 ? 2 * HALF + 1 : 1;
    *remove = *add = 0;
    for (int i = -HALF; i <= HALF; i++)
        for (int j = -HALF; j <= HALF; j++)
            for (int k = 0; k < points; k++) {
                const double z[3] = {i * width, j * width, (k - HALF) * width};
                double ratio = 0, log_density = 0;
                for (int t = 0; t < n; t++)
                    log_density += -0.5 * z[t] * z[t] - log(2.5066282746310002 / width);
                for (unsigned x = 0; x < 1u << n; x++) {
                    double chance = 1, exponent = 0;
                    for (int t = 0; t < n; t++) {
                        double mean = 0;
                        for (int u = 0; u <= t; u++)
                            mean += x >> u & 1 ? s->c[t][u] / scale : 0;
                        chance *= x >> t & 1 ? s->q : 1 - s->q;
                        exponent += mean * z[t] - 0.5 * mean * mean;
                    }
                    ratio += chance * exp(exponent);
                }
                const double density = exp(log_density);
                *remove += density * fmax(ratio - a, 0);
                *add += density * fmax(1 - a * ratio, 0);
            }
}

static void test_never_below_two_and_three_steps(void **state) {
    (void)state;
    static const double sigmas[] = {0.6, 1, 3}, probabilities[] = {0.01, 0.1, 0.5}, epsilons[] = {0.05, 0.5, 2};
    double nearest = INFINITY;
    int cases = 0;
    word_state = 11;
    for (int i = 0; i < 36; i++) {
        setting s;
        dpmf_strategy *strategy = NULL;
        fill(&s, (shape)(i % SHAPES), i % 4 == 0 ? 3 : 2, probabilities[i / 3 % 3], sigmas[i % 3]);
        strategy_of(&s, &strategy);
        for (int e = 0; e < 3; e++) {
            double remove = 0, add = 0;
            exact_deltas(&s, epsilons[e], &remove, &add);
            const double bound = account_delta(&s, strategy, epsilons[e]), exact = fmax(remove, add);
            if (exact < 1e-12) continue;
            /* the grid over the outcomes is within 1e-2 of delta here: kinks */
            if (bound < exact * (1 - 1e-2)) fail_msg("%s, case %d: %g < %g", s.name, i, bound, exact);
            nearest = fmin(nearest, bound / exact);
            cases++;
        }
        dpmf_strategy_free(strategy);
    }
    print_message("%d cases, the nearest %.4g times the exact delta\n", cases, nearest);
    assert_true(cases > 70);
}

/* ---- up to 64 steps: a test of P against Q gives a lower limit of delta ---- */

typedef struct tester {
    const setting *s;
    double scale, gram[STEPS_MAX][STEPS_MAX], pair[STEPS_MAX][STEPS_MAX], odds;
} tester;

static void prepare(tester *t, const setting *s) {
    *t = (tester){.s = s, .scale = s->sigma * largest_norm(s), .odds = s->q / (1 - s->q)};
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->n; j++) {
            for (int r = 0; r < s->n; r++)
                t->gram[i][j] += s->c[r][i] * s->c[r][j] / (t->scale * t->scale);
            t->pair[i][j] = exp(-t->gram[i][j]);
        }
}

/* A score: the likelihood ratio, of at most two participations. */
static double draw_score(const tester *t, int with) {
    const int n = t->s->n;
    double y[STEPS_MAX], single[STEPS_MAX], score = 1;
    for (int r = 0; r < n; r++)
        y[r] = normal();
    for (int j = 0; with && j < n; j++)
        if (uniform() < t->s->q)
            for (int r = j; r < n; r++)
                y[r] += t->s->c[r][j] / t->scale;
    for (int j = 0; j < n; j++) {
        double dot = -0.5 * t->gram[j][j];
        for (int r = j; r < n; r++)
            dot += t->s->c[r][j] / t->scale * y[r];
        single[j] = t->odds * exp(dot);
    }
    for (int j = 0; j < n; j++) {
        double sum = 1;
        for (int i = 0; i < j; i++)
            sum += t->pair[j][i] * single[i];
        score += single[j] * sum;
    }
    return score;
}

static int rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The largest of mean(P) - a mean(Q) less five standard deviations over tests {score > threshold}, thresholds from other samples. */
static double lower_limit(int count, const double *p, const double *q, double a, int add) {
    double best = 0;
    for (int i = 0; i < 40; i++) {
        const int from =
            (int)(count * pow(0.8, i)) - 1; /* thresholds that share * count samples of the first half of P pass */
        if (from < 20) break;
        const double threshold = p[add ? from / 2 : count / 2 - from / 2 - 1];
        double in_p = 0, in_q = 0;
        for (int j = count / 2; j < count; j++) {
            in_p += add ? p[j] < threshold : p[j] > threshold;
            in_q += add ? q[j] < threshold : q[j] > threshold;
        }
        const double half = count / 2, of_p = in_p / half, of_q = in_q / half;
        const double first = add ? of_q : of_p, second = add ? of_p : of_q;
        /* of a count: five deviations, with room for none at all */
        const double down = first - 5 * sqrt(first * (1 - first) / half);
        const double up = second + 5 * sqrt((second + 13 / half) / half);
        best = fmax(best, down - a * up);
    }
    return best;
}

static void test_never_below_simulation(void **state) {
    (void)state;
    enum { SAMPLES = 12000 };
    static const int lengths[] = {8, 16, 32, 64};
    static const double probabilities[] = {0.005, 0.02, 0.05, 0.2}, sigmas[] = {0.5, 0.8, 1.2};
    static double p[SAMPLES], q[SAMPLES];
    int seen = 0, above_independent = 0;
    double nearest = INFINITY;
    word_state = 5;
    for (int i = 0; i < 30; i++) {
        static setting s;
        static tester t;
        dpmf_strategy *strategy = NULL;
        fill(&s, (shape)(i % SHAPES), lengths[i % 4], probabilities[i / 2 % 4], sigmas[i % 3]);
        strategy_of(&s, &strategy);
        prepare(&t, &s);
        for (int j = 0; j < SAMPLES; j++) {
            p[j] = draw_score(&t, 1);
            q[j] = draw_score(&t, 0);
        }
        qsort(p, SAMPLES / 2, sizeof *p, rising);
        for (int e = 0; e < 4; e++) {
            static const double epsilons[] = {0.02, 0.2, 0.7, 1.5};
            const double limit =
                fmax(lower_limit(SAMPLES, p, q, exp(epsilons[e]), 0), lower_limit(SAMPLES, p, q, exp(epsilons[e]), 1));
            if (!(limit > 0)) continue;
            const double bound = account_delta(&s, strategy, epsilons[e]);
            if (bound < limit) fail_msg("%s, setting %d, epsilon %g: %g < %g", s.name, i, epsilons[e], bound, limit);
            dpmf_account_options independent = options_of(&s, NULL);
            dpmf_privacy alone;
            independent.compositions = s.n;
            check_ok(dpmf_account_delta(s.sigma, epsilons[e], &independent, &alone));
            above_independent += limit > alone.delta;
            nearest = fmin(nearest, bound / limit);
            seen++;
        }
        dpmf_strategy_free(strategy);
    }
    print_message(
        "%d limits above 0, the nearest bound %.4g times its limit; %d limits exceed independent noise's delta\n", seen,
        nearest, above_independent);
    /* the limits can tell a wrong account: that of independent noise with the same sigma */
    assert_true(seen >= 40 && above_independent >= 10);
}

/* ---- reductions, and what it must beat ---- */

static void test_nearly_one_band_is_nearly_independent_noise(void **state) {
    (void)state;
    static const double sigmas[] = {0.8, 1, 2};
    for (int i = 0; i < 3; i++) {
        const double alone[2] = {1, 0}, beside[2] = {1, 1e-9};
        dpmf_strategy *one = NULL, *two = NULL;
        dpmf_privacy exact, plain, found;
        setting s = {.q = 0.01, .sigma = sigmas[i]};
        check_ok(dpmf_strategy_create_toeplitz(1000, DPMF_TOEPLITZ_BANDED, 1, alone, &one));
        check_ok(dpmf_strategy_create_toeplitz(1000, DPMF_TOEPLITZ_BANDED, 2, beside, &two));
        dpmf_account_options o = options_of(&s, NULL);
        o.compositions = 1000;
        check_ok(dpmf_account_epsilon(s.sigma, 1e-6, &o, &exact));
        o = options_of(&s, one);
        check_ok(dpmf_account_epsilon(s.sigma, 1e-6, &o, &plain));
        assert_true(plain.epsilon == exact.epsilon);
        static setting diagonal;
        fill(&diagonal, BANDS, 40, 0.01, sigmas[i]);
        for (int t = 0; t < diagonal.n; t++)
            for (int u = 0; u <= t; u++)
                diagonal.c[t][u] = u < t ? 0 : t < 20 ? 1 : 0.5; /* a dense C that is diagonal has one band */
        dpmf_strategy *dense = NULL;
        dpmf_privacy few;
        strategy_of(&diagonal, &dense);
        o = options_of(&s, dense);
        check_ok(dpmf_account_epsilon(s.sigma, 1e-6, &o, &found));
        o = options_of(&s, NULL);
        o.compositions = diagonal.n;
        check_ok(dpmf_account_epsilon(s.sigma, 1e-6, &o, &few));
        assert_true(found.epsilon == few.epsilon);
        dpmf_strategy_free(dense);
        o = options_of(&s, two);
        check_ok(dpmf_account_epsilon(s.sigma, 1e-6, &o, &found));
        print_message("sigma %g: %.6g, Poisson %.6g\n", s.sigma, found.epsilon, exact.epsilon);
        assert_true(found.epsilon >= exact.epsilon && found.epsilon < 1.35 * exact.epsilon);
        dpmf_strategy_free(one);
        dpmf_strategy_free(two);
    }
}

static void test_delta_is_never_zero(void **state) {
    (void)state;
    static const double two[] = {1, 0.5}, sigmas[] = {1, 10, 1e3, 1e10};
    dpmf_strategy *strategy = NULL;
    check_ok(dpmf_strategy_create_toeplitz(3, DPMF_TOEPLITZ_BANDED, 2, two, &strategy));
    for (int i = 0; i < 4; i++) { /* Gaussian tails have no end: e^-500000 for the third */
        const setting s = {.q = 0.2, .sigma = sigmas[i]};
        assert_true(account_delta(&s, strategy, 1) > 0);
    }
    dpmf_strategy_free(strategy);
}

static double gaussian_delta(double mu, double epsilon) {
    dpmf_privacy found;
    if (mu == 0) return 0;
    check_ok(dpmf_account_delta(1 / mu, epsilon, NULL, &found));
    return found.delta;
}

/* The least over s of P[more than s participations] + the Gaussian delta of the worst s steps, from below: the s first or last. */
static double unamplified(const setting *s, double epsilon) {
    const double scale = s->sigma * largest_norm(s);
    double least = 1, left = 1, chance = pow(1 - s->q, s->n);
    for (int k = 0; k <= s->n; k++) {
        double most = 0;
        left -= chance;
        chance *= (double)(s->n - k) / (k + 1) * s->q / (1 - s->q);
        for (int end = 0; end < 2; end++) {
            double sum = 0;
            for (int t = 0; t < s->n; t++) {
                double row = 0;
                for (int u = end ? s->n - k : 0; u < (end ? s->n : k); u++)
                    row += s->c[t][u];
                sum += row * row;
            }
            most = fmax(most, sqrt(sum));
        }
        least = fmin(least, fmax(left, 0) + gaussian_delta(most / scale, epsilon));
    }
    return least;
}

static void test_beats_no_amplification(void **state) {
    (void)state;
    static const int lengths[] = {8, 16, 32, 64};
    static const double probabilities[] = {0.001, 0.01, 0.05}, sigmas[] = {0.5, 1, 3, 10}, epsilons[] = {0.1, 1, 4};
    int cases = 0;
    double nearest = 0;
    word_state = 3;
    for (int i = 0; i < 60; i++) {
        static setting s;
        dpmf_strategy *strategy = NULL;
        fill(&s, (shape)(i % SHAPES), lengths[i / 5 % 4], probabilities[i / 2 % 3], sigmas[i / 3 % 4]);
        strategy_of(&s, &strategy);
        for (int e = 0; e < 3; e++) {
            const double none = unamplified(&s, epsilons[e]), found = account_delta(&s, strategy, epsilons[e]);
            if (none < 1e-13) continue;
            if (!(found < none))
                fail_msg("%s, case %d, epsilon %g: %g, unamplified %g", s.name, i, epsilons[e], found, none);
            nearest = fmax(nearest, found / none);
            cases++;
        }
        dpmf_strategy_free(strategy);
    }
    print_message("%d cases, at most %.4g of delta without amplification\n", cases, nearest);
    assert_true(cases > 90);
}

/*
 * C of ones, also where more participations count than one mixture holds, and where the likelihood ratio overflows: at most four times
 * the least over s of P[S > s] + the Gaussian delta of f(s).
 */
static void test_at_most_every_limit_of_participations(void **state) {
    (void)state;
    static const struct {
        int n;
        double q, sigma, epsilon;
    } cases[] = {{64, 0.01, 1, 70}, {64, 0.3, 4, 30}, {600, 0.5, 100, 9}, {2000, 0.2, 500, 5}, {20000, 0.05, 3000, 2}};
    static double ones[20000];
    for (int i = 0; i < 20000; i++)
        ones[i] = 1;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const int n = cases[i].n;
        const double q = cases[i].q;
        double p = 1, whole = 0, least = 1, below = 0;
        for (int t = 0; t < n; t++) { /* G_tu = n - max(t, u), t and u from 0 */
            p = fmax(p, 1 + ((double)t * (n - t) + 0.5 * (n - t) * (n - t - 1.0)) / n);
            whole += (t + 1.0) * (t + 1.0) / n;
        }
        for (int s = 0; s <= n; s++) {
            below += exp(lgamma(n + 1.0) - lgamma(s + 1.0) - lgamma(n - s + 1.0) + s * log(q) + (n - s) * log1p(-q));
            if (below < 0.9) continue;
            const double mu = sqrt(fmin(s * fmin(s, p), whole)) / cases[i].sigma;
            least =
                fmin(least, fmax(1 - below, 0) + 1e-10 + gaussian_delta(mu, cases[i].epsilon)); /* 1e-10: roundings */
        }
        dpmf_strategy *strategy = NULL;
        dpmf_privacy found;
        check_ok(dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ, n, ones, &strategy));
        setting s = {.q = q, .sigma = cases[i].sigma};
        const dpmf_account_options o = options_of(&s, strategy);
        check_ok(dpmf_account_delta(s.sigma, cases[i].epsilon, &o, &found));
        print_message("n = %d: delta %.4g, %.4g of the limits\n", n, found.delta, least);
        assert_true(found.delta <= 4 * least);
        check_ok(dpmf_account_epsilon(s.sigma, 4 * least, &o, &found));
        print_message("epsilon %.5g, %.5g (%s)\n", found.epsilon, cases[i].epsilon, found.method);
        assert_true(found.epsilon <= cases[i].epsilon);
        dpmf_strategy_free(strategy);
    }
}

static void test_what_has_no_proof_is_refused(void **state) {
    (void)state;
    setting s;
    dpmf_strategy *strategy = NULL;
    dpmf_privacy found;
    fill(&s, BLT, 16, 0.02, 1);
    strategy_of(&s, &strategy);
    dpmf_account_options o = options_of(&s, strategy);
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_account_epsilon(1, 1e-6, &o, &found));
    o = options_of(&s, strategy);
    o.group = 2;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_account_epsilon(1, 1e-6, &o, &found));
    o = options_of(&s, strategy);
    o.engine = DPMF_ENGINE_FOURIER;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_epsilon(1, 1e-6, &o, &found));
    o = options_of(&s, strategy);
    o.batch_cap = 20;
    o.units = 1000;
    assert_true(dpmf_account_epsilon(1, 1e-6, &o, &found) != DPMF_OK);
    dpmf_strategy_free(strategy);
    s.c[3][1] = -0.1;
    strategy_of(&s, &strategy);
    o = options_of(&s, strategy);
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_account_epsilon(1, 1e-6, &o, &found));
    assert_true(strstr(dpmf_last_error(), "-0.1") != NULL);
    dpmf_strategy_free(strategy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_below_two_and_three_steps),
        cmocka_unit_test(test_never_below_simulation),
        cmocka_unit_test(test_nearly_one_band_is_nearly_independent_noise),
        cmocka_unit_test(test_delta_is_never_zero),
        cmocka_unit_test(test_beats_no_amplification),
        cmocka_unit_test(test_at_most_every_limit_of_participations),
        cmocka_unit_test(test_what_has_no_proof_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
