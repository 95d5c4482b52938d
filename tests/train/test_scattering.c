/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattering features against their definition: circular convolutions in space, in double, with filters from the formula
 * and the functions of the C library. Nothing of the library's own route is used: no transforms, no lanes, no tables.
 */
#include "base/memory.h"
#include "support/check.h"
#include "train/kernels/half/half.h"
#include "train/scattering.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const sets[] = {"ref", "avx2", "avx512"};
enum { SETS = sizeof sets / sizeof *sets, IMAGES = 3, PATHS_MOST = 81 };
static const double PI = 3.14159265358979323846;

/* ---- the definition ---- */

typedef struct shape {
    int channels, height, width, scales, angles;
    int padded[2], outputs[2]; /* worked out by hand, rows and columns */
} shape;

static int reflected(int i, int size) {
    while (i < 0 || i >= size)
        i = i < 0 ? -i : 2 * (size - 1) - i;
    return i;
}

/* A filter over one period, as the sum over seven periods either way. */
static void make_filter(const shape *s, int j, int t, double complex *out) {
    const double sigma = 0.8 * pow(2, j), xi = 0.75 * PI / pow(2, j), slant = 4.0 / s->angles;
    const double theta = (s->angles / 2 - 1 - t) * PI / s->angles, c = cos(theta), d = sin(theta);
    const int rows = s->padded[0], columns = s->padded[1], size = rows * columns;
    double *gauss = calloc((size_t)size, sizeof *gauss);
    double complex wave = 0;
    double mass = 0;
    assert_non_null(gauss);
    for (int i = 0; i < size; i++) {
        out[i] = 0;
        for (int p = -7; p <= 7; p++)
            for (int q = -7; q <= 7; q++) {
                const double y = i / columns + p * rows, x = i % columns + q * columns;
                const double a = c * y + d * x, b = slant * (c * x - d * y);
                const double g = slant / (2 * PI * sigma * sigma) * exp(-(a * a + b * b) / (2 * sigma * sigma));
                gauss[i] += g;
                out[i] += g * cexp(I * xi * a);
            }
        wave += out[i];
        mass += gauss[i];
    }
    for (int i = 0; i < size; i++)
        out[i] -= gauss[i] * wave / mass;
    free(gauss);
}

static void make_low_pass(const shape *s, double complex *out) {
    const double sigma = 0.8 * pow(2, s->scales - 1);
    for (int i = 0; i < s->padded[0] * s->padded[1]; i++) {
        out[i] = 0;
        for (int p = -7; p <= 7; p++)
            for (int q = -7; q <= 7; q++) {
                const double y = i / s->padded[1] + p * s->padded[0], x = i % s->padded[1] + q * s->padded[1];
                out[i] += exp(-(y * y + x * x) / (2 * sigma * sigma)) / (2 * PI * sigma * sigma);
            }
    }
}

/* sum over places q of x(q) f(p - q), at one place p */
static double complex convolve(const shape *s, const double *x, const double complex *f, int row, int column) {
    const int rows = s->padded[0], columns = s->padded[1];
    double complex sum = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            sum += x[i * columns + j] * f[(row - i + rows) % rows * columns + (column - j + columns) % columns];
    return sum;
}

static void take_modulus(const shape *s, const double *x, const double complex *f, double *out) {
    for (int i = 0; i < s->padded[0] * s->padded[1]; i++)
        out[i] = cabs(convolve(s, x, f, i / s->padded[1], i % s->padded[1]));
}

/* One path: its outputs, the outermost ones left out where the image was padded beyond them. */
static double *add_path(const shape *s, const double *x, const double complex *phi, double *out) {
    const int step = 1 << s->scales;
    const int first[2] = {(s->padded[0] / step - s->outputs[0]) / 2, (s->padded[1] / step - s->outputs[1]) / 2};
    for (int i = 0; i < s->outputs[0]; i++)
        for (int j = 0; j < s->outputs[1]; j++)
            *out++ = creal(convolve(s, x, phi, (first[0] + i) * step, (first[1] + j) * step));
    return out;
}

static int features_of(const shape *s) {
    const int j = s->scales, l = s->angles;
    return s->channels * (1 + j * l + j * (j - 1) / 2 * l * l) * s->outputs[0] * s->outputs[1];
}

/* With `usual`, the mean and 1/deviation of each path, scaled by them; else in groups. */
static void define_features(const shape *s, const float *image, const float *usual, double *out) {
    const int size = s->padded[0] * s->padded[1], filters = s->scales * s->angles;
    double complex *f = calloc((size_t)((filters + 1) * size), sizeof *f), *phi = f + filters * size;
    double *x = calloc((size_t)(3 * size), sizeof *x), *first = x + size, *second = first + size, *next = out;
    assert_true(f != NULL && x != NULL);
    for (int k = 0; k < filters; k++)
        make_filter(s, k / s->angles, k % s->angles, f + k * size);
    make_low_pass(s, phi);
    for (int c = 0; c < s->channels; c++) {
        const float *plane = image + c * s->height * s->width;
        for (int i = 0; i < s->padded[0]; i++)
            for (int j = 0; j < s->padded[1]; j++)
                x[i * s->padded[1] + j] =
                    (double)plane[reflected(i - (s->padded[0] - s->height) / 2, s->height) * s->width +
                                  reflected(j - (s->padded[1] - s->width) / 2, s->width)];
        next = add_path(s, x, phi, next);
        for (int k = 0; k < filters; k++) {
            take_modulus(s, x, f + k * size, first);
            next = add_path(s, first, phi, next);
            for (int l = (k / s->angles + 1) * s->angles; l < filters; l++) {
                take_modulus(s, first, f + l * size, second);
                next = add_path(s, second, phi, next);
            }
        }
    }
    assert_int_equal(next - out, features_of(s));
    const int group = 3 * s->outputs[0] * s->outputs[1];
    const int places = s->outputs[0] * s->outputs[1], paths = features_of(s) / s->channels / places;
    for (int i = 0; usual != NULL && i < features_of(s); i++)
        out[i] = (out[i] - (double)usual[i / places % paths]) * (double)usual[paths + i / places % paths];
    for (int from = 0; usual == NULL && from < features_of(s); from += group) {
        const int many = features_of(s) - from < group ? features_of(s) - from : group;
        double mean = 0, variance = 0;
        for (int i = 0; i < many; i++)
            mean += out[from + i] / many;
        for (int i = 0; i < many; i++)
            variance += (out[from + i] - mean) * (out[from + i] - mean) / (many - 1);
        for (int i = 0; i < many; i++)
            out[from + i] = (out[from + i] - mean) / sqrt(variance + 1e-5);
    }
    free(f);
    free(x);
}

/* ---- the library ---- */

static void fill_images(int count, float *x) {
    uint64_t seed = 11;
    for (int i = 0; i < count; i++)
        x[i] = (float)(0.5 + 0.5 * check_random(&seed));
}

/* Normalised features of the images, an image a row. With `pink` the mean and 1/deviation of each path go there. */
static void apply(const shape *s, const char *set_name, int images, const float *x, float *pink, float *out) {
    const kernels_scatter_set *set = kernels_scatter_find(set_name);
    train_scattering *plan = NULL;
    float *room = NULL;
    const int pixels = s->channels * s->height * s->width;
    check_ok(train_scattering_create(s->channels, s->height, s->width, s->scales, s->angles, &plan));
    assert_int_equal(plan->features, features_of(s));
    assert_true(plan->kernel.rows.length == s->padded[0] && plan->kernel.columns.length == s->padded[1]);
    if (pink != NULL) {
        check_ok(train_scattering_measure(plan, set));
        memcpy(pink, plan->usual, 2 * sizeof *pink * (size_t)kernels_scatter_paths(&plan->kernel));
    }
    check_ok(train_scattering_room(plan, set, &room));
    for (int first = 0; first < images; first += (int)set->lanes) {
        const int64_t count = images - first < set->lanes ? images - first : set->lanes;
        train_scattering_apply(plan, set, count, x + first * pixels, room);
        for (int64_t l = 0; l < count; l++)
            for (int64_t i = 0; i < plan->features; i++)
                out[(first + l) * plan->features + i] = room[i * set->lanes + l];
    }
    base_free(room);
    train_scattering_free(plan);
}

static const shape shapes[] = {
    {1, 28, 28, 2, 8, {32, 32}, {8, 8}},   /* Fashion-MNIST; transforms of 8 x 4 */
    {3, 32, 12, 2, 3, {40, 16}, {8, 4}},   /* 8 x 5, 8 x 2; 16 paths of each colour: 48 channels */
    {1, 20, 24, 3, 2, {32, 32}, {4, 4}},   /* three scales; 19 channels: a last group of one */
    {2, 25, 41, 1, 4, {28, 44}, {14, 22}}, /* 4 x 7, 4 x 11; 10 channels: a last group of one */
    {1, 9, 7, 1, 1, {12, 12}, {6, 4}},     /* 4 x 3; 2 channels in one group */
};

static void test_features_are_direct_convolutions(void **unused) {
    (void)unused;
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        const shape *s = &shapes[n];
        const int pixels = s->channels * s->height * s->width, features = features_of(s);
        float *x = calloc((size_t)(2 * pixels), sizeof *x), *got = calloc((size_t)(2 * features), sizeof *got);
        double *want = calloc((size_t)features, sizeof *want), worst = 0;
        assert_true(x != NULL && got != NULL && want != NULL);
        fill_images(2 * pixels, x);
        for (int pink = 0; pink < 2; pink++) {
            float usual[2 * PATHS_MOST];
            apply(s, "ref", 2, x, pink ? usual : NULL, got);
            for (int image = 0; image < 2; image++) {
                define_features(s, x + image * pixels, pink ? usual : NULL, want);
                for (int i = 0; i < features; i++)
                    worst = fmax(worst, fabs((double)got[image * features + i] - want[i]));
            }
        }
        if (worst > 1e-5) fail_msg("shape %zu differs by %g", n, worst);
        free(x);
        free(got);
        free(want);
    }
}

static void test_every_kernel_set_gives_the_same_bits(void **unused) {
    (void)unused;
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        const shape *s = &shapes[n];
        enum { MANY = 19 }; /* more than the lanes of any set, and no multiple */
        const size_t pixels = (size_t)(s->channels * s->height * s->width), all = (size_t)(MANY * features_of(s));
        float *x = calloc(MANY * pixels, sizeof *x), *first = calloc(2 * all, sizeof *first), usual[2 * PATHS_MOST];
        assert_true(x != NULL && first != NULL);
        fill_images(MANY * (int)pixels, x);
        for (int pink = 0; pink < 2; pink++) {
            apply(s, "ref", MANY, x, pink ? usual : NULL, first);
            for (int v = 1; v < SETS; v++) {
                if (kernels_scatter_find(sets[v]) == NULL) continue;
                apply(s, sets[v], MANY, x, pink ? usual : NULL, first + all);
                assert_memory_equal(first, first + all, all * sizeof *first);
            }
        }
        free(x);
        free(first);
    }
    assert_null(kernels_scatter_find("none"));
}

/* Pink noise on 32 x 32 places by the formula, with the C library's functions and other random numbers. */
static void make_pink(uint64_t *seed, int64_t lanes, float *out) {
    enum { SIDE = 32 };
    static double complex wave[SIDE * SIDE], rows[SIDE * SIDE], turn[SIDE];
    double power = 0;
    for (int i = 0; i < SIDE; i++)
        turn[i] = cexp(2 * PI * I * i / SIDE);
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int y = i / SIDE <= SIDE / 2 ? i / SIDE : i / SIDE - SIDE;
        const int x = i % SIDE <= SIDE / 2 ? i % SIDE : i % SIDE - SIDE;
        const double amplitude = 1 / fmax(1, hypot(x, y)), uniform = 0.5 + 0.5 * check_random(seed);
        wave[i] = amplitude * sqrt(-2 * log(fmax(uniform, 1e-12))) * cexp(I * PI * check_random(seed));
        power += amplitude * amplitude;
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        rows[i] = 0;
        for (int k = 0; k < SIDE; k++)
            rows[i] += wave[i / SIDE * SIDE + k] * turn[k * i % SIDE];
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        double complex sum = 0;
        for (int k = 0; k < SIDE; k++)
            sum += rows[k * SIDE + i % SIDE] * turn[k * (i / SIDE) % SIDE];
        out[i * lanes] = (float)(0.5 + 0.25 * creal(sum) / sqrt(power));
    }
}

/* The library's mean and deviation of each path, against those over other images. Fixed seeds: no chance of a false alarm. */
static void test_the_scale_of_pink_noise_is_that_of_other_noise(void **unused) {
    enum { NOISY = 400, PLACES = 64, PIXELS = 1024 };
    const kernels_scatter_set *set = kernels_scatter_find("ref");
    const int64_t lanes = set->lanes;
    train_scattering *plan = NULL;
    double sum[PATHS_MOST] = {0}, square[PATHS_MOST] = {0};
    uint64_t seed = 21;
    (void)unused;
    check_ok(train_scattering_create(1, 28, 28, 2, 8, &plan)); /* padded to 32 x 32 */
    check_ok(train_scattering_measure(plan, set));
    const size_t room = (size_t)(PATHS_MOST * PLACES + kernels_scatter_room(&plan->kernel)), all = (size_t)lanes;
    float *image = calloc(PIXELS * all, sizeof *image), *out = NULL;
    check_ok(base_alloc((int64_t)(room * all), sizeof *out, "a test", (void **)&out));
    assert_non_null(image);
    for (int i = 0; i < NOISY; i++) {
        make_pink(&seed, lanes, image);
        set->scatter(&plan->kernel, image, out + PATHS_MOST * PLACES * all, out);
        for (int j = 0; j < PATHS_MOST * PLACES; j++) {
            const double v = (double)out[(size_t)j * all];
            sum[j / PLACES] += v / (NOISY * PLACES);
            square[j / PLACES] += v * v / (NOISY * PLACES);
        }
    }
    for (int p = 0; p < PATHS_MOST; p++) {
        const double mean = (sum[p] - (double)plan->usual[p]) * (double)plan->usual[PATHS_MOST + p];
        const double deviation = sqrt(square[p] - sum[p] * sum[p]) * (double)plan->usual[PATHS_MOST + p];
        if (!(fabs(mean) < 0.1 && fabs(deviation - 1) < 0.1))
            fail_msg("path %d: mean %g, deviation %g", p, mean, deviation);
    }
    base_free(out);
    free(image);
    train_scattering_free(plan);
}

/* Shifted by two pixels, some rectangles on a dark ground, which stay inside. */
static void test_a_shift_changes_features_less_than_pixels(void **unused) {
    const shape *s = &shapes[0];
    const int features = features_of(s), side = 28;
    float *x = calloc((size_t)(2 * side * side), sizeof *x), *out = calloc((size_t)(2 * features), sizeof *out);
    uint64_t seed = 5;
    (void)unused;
    assert_true(x != NULL && out != NULL);
    for (int trial = 0; trial < 6; trial++) {
        double pixel[2] = {0}, feature[2] = {0};
        memset(x, 0, (size_t)(2 * side * side) * sizeof *x);
        for (int k = 0; k < 5; k++) {
            const int top = 4 + (int)(4 + 4 * check_random(&seed)), left = 4 + (int)(4 + 4 * check_random(&seed));
            const int tall = 3 + (int)(4 + 4 * check_random(&seed)), wide = 3 + (int)(4 + 4 * check_random(&seed));
            const float level = (float)(0.6 + 0.4 * check_random(&seed));
            for (int i = top; i < top + tall; i++)
                for (int j = left; j < left + wide; j++)
                    x[i * side + j] = x[side * side + (i + (trial % 2) * 2) * side + j + (1 - trial % 2) * 2] = level;
        }
        apply(s, "ref", 2, x, NULL, out);
        for (int i = 0; i < side * side; i++) {
            pixel[0] += pow((double)x[i], 2);
            pixel[1] += pow((double)(x[i] - x[side * side + i]), 2);
        }
        for (int i = 0; i < features; i++) {
            feature[0] += pow((double)out[i], 2);
            feature[1] += pow((double)(out[i] - out[features + i]), 2);
        }
        assert_true(pixel[1] > 0.01 * pixel[0]);
        if (!(feature[1] / feature[0] < pixel[1] / pixel[0]))
            fail_msg("features change by %g of their size, pixels by %g", sqrt(feature[1] / feature[0]),
                     sqrt(pixel[1] / pixel[0]));
    }
    free(x);
    free(out);
}

static void test_shapes_that_cannot_be_scattered_are_refused(void **unused) {
    train_scattering *plan = NULL;
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, train_scattering_create(0, 0, 0, 2, 8, &plan));
    check_message("without a shape");
    for (int scales = 0; scales <= 7; scales += 7) {
        check_fails(DPMF_ERROR_ARGUMENT, train_scattering_create(1, 128, 128, scales, 8, &plan));
        check_message("accepted: 1 to 6");
    }
    check_fails(DPMF_ERROR_ARGUMENT, train_scattering_create(1, 32, 7, 3, 8, &plan));
    check_message("32 x 7");
    for (int angles = 0; angles <= 17; angles += 17) {
        check_fails(DPMF_ERROR_ARGUMENT, train_scattering_create(1, 28, 28, 2, angles, &plan));
        check_message("accepted: 1 to 16");
    }
    check_fails(DPMF_ERROR_ARGUMENT, train_scattering_create(1, 513, 28, 2, 8, &plan));
    check_message("up to 512");
    check_fails(DPMF_ERROR_ARGUMENT, train_scattering_create(1 << 20, 16, 16, 2, 8, &plan));
    check_message("2^24");
}

/* ---- half precision ---- */

/* By the definition of the format. */
static double half_value(unsigned half) {
    const int exponent = (int)(half >> 10) & 31, fraction = (int)half & 1023;
    const double size = exponent > 0 ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return half & 0x8000u ? -size : size;
}

static void test_halves_are_the_nearest_and_even_in_every_set(void **unused) {
    enum { HALVES = 65536 };
    float *x = calloc(HALVES, sizeof *x), *back = calloc(HALVES, sizeof *back);
    uint16_t *half = calloc(HALVES, sizeof *half);
    (void)unused;
    assert_true(x != NULL && back != NULL && half != NULL);
    for (int v = 0; v < SETS; v++) {
        const kernels_half_set *set = kernels_half_find(sets[v]);
        if (set == NULL) continue;
        for (int i = 0; i < HALVES; i++)
            half[i] = (uint16_t)i;
        set->widen(HALVES, half, 1.0f, x);
        for (int i = 0; i < HALVES; i++) { /* every finite half, with its sign */
            if ((i & 0x7c00) == 0x7c00) continue;
            assert_true((double)x[i] == half_value((unsigned)i) && !signbit(x[i]) == !(i & 0x8000));
        }
        assert_true(isinf(x[0x7c00]) && isinf(x[0xfc00]) && x[0xfc00] < 0 && isnan(x[0x7e00]) && isnan(x[0x7c01]));
        set->narrow(HALVES, x, half);
        for (int i = 0; i < HALVES; i++)
            assert_int_equal(half[i], isnan(x[i]) ? 0x7e00 : i);
        /* The middle between two neighbours goes to the even one, and a float beside the middle to the nearer one. */
        for (int step = -1; step <= 1; step++) {
            for (int i = 0; i < 0x7c00; i++) {
                const double next = i + 1 < 0x7c00 ? half_value((unsigned)i + 1) : 65536;
                const float middle = (float)((half_value((unsigned)i) + next) / 2);
                x[i] = step == 0 ? middle : nextafterf(middle, step < 0 ? 0.0f : INFINITY);
                x[i + 0x8000] = -x[i];
            }
            set->narrow(HALVES, x, half);
            for (int i = 0; i < 0x7c00; i++) {
                assert_int_equal(half[i], step == 0 ? i + i % 2 : i + (step > 0));
                assert_int_equal(half[i + 0x8000], half[i] + 0x8000);
            }
        }
        set->widen(3, (const uint16_t[]){0x3c00, 0xc000, 0x0001}, 0.1f, back);
        assert_true(back[0] == 0.1f && back[1] == -2.0f * 0.1f && back[2] == 0x1p-24f * 0.1f);
    }
    assert_null(kernels_half_find("none"));
    free(x);
    free(back);
    free(half);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_are_direct_convolutions),
        cmocka_unit_test(test_every_kernel_set_gives_the_same_bits),
        cmocka_unit_test(test_the_scale_of_pink_noise_is_that_of_other_noise),
        cmocka_unit_test(test_a_shift_changes_features_less_than_pixels),
        cmocka_unit_test(test_shapes_that_cannot_be_scattered_are_refused),
        cmocka_unit_test(test_halves_are_the_nearest_and_even_in_every_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
