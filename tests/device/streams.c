/* SPDX-License-Identifier: Apache-2.0 */
#include "device/streams.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check_device_(dpmf_status got, dpmf_status expected, const char *part, const char *call, const char *file,
                   int line) {
    if (got != expected) {
        print_error("%s:%d: %s: status %d: %s\n", file, line, call, (int)got, dpmf_device_last_error());
        _fail(file, line);
    }
    if (part != NULL && strstr(dpmf_device_last_error(), part) == NULL) {
        print_error("%s:%d: %s: '%s' is not in '%s'\n", file, line, call, part, dpmf_device_last_error());
        _fail(file, line);
    }
}

static dpmf_device *opened;

dpmf_device *the_device(void) {
    const char *name = getenv("DPMF_TEST_DEVICE"); /* test_cuda.py names another */
    if (opened == NULL && dpmf_device_open(name == NULL ? "opencl" : name, NULL, &opened) != DPMF_OK) {
        const char *why = dpmf_device_last_error();
        print_message("no OpenCL device to test with: %s\n", why);
        /* Only where there is nothing to test: a device that is there and differs is a failure. */
        assert_true(strstr(why, "no OpenCL library") != NULL || strstr(why, "there are 0 OpenCL devices") != NULL);
        skip();
    }
    return opened;
}

void *a_stream(int64_t t) {
    const char *name = getenv("DPMF_TEST_DEVICE");
    return name == NULL ? NULL : (void *)(uintptr_t)(1 + t % 2); /* a driver that runs here does not look at them */
}

void close_the_device(void) {
    dpmf_device_close(opened);
    opened = NULL;
}

/* ---- mechanisms ---- */

const char *const case_names[CASES] = {"identity",
                                       "bisr",
                                       "toeplitz",
                                       "bsr",
                                       "bsr, normalized",
                                       "bsr, stamped",
                                       "blt",
                                       "blt, normalized and stamped",
                                       "tvblt",
                                       "tvblt of order 2",
                                       "tvblt, seeds made again",
                                       "tvblt, shared seeds",
                                       "taps"};

static dpmf_strategy *blt_of(int64_t steps, int stamps) {
    static const double scale[] = {0.31, 0.17, 0.05}, decay[] = {0.93, 0.5, 0.21};
    dpmf_strategy *inner = NULL, *normal = NULL, *out = NULL;
    check_ok(dpmf_strategy_create_blt(steps / stamps, 3, scale, decay, NULL, &inner));
    if (stamps == 1) return inner;
    check_ok(dpmf_strategy_create_normalized(inner, &normal));
    check_ok(dpmf_strategy_create_stamped(normal, stamps, &out));
    dpmf_strategy_free(inner);
    dpmf_strategy_free(normal);
    return out;
}

static dpmf_strategy *tvblt_of(const dpmf_workload *workload, const dpmf_participation *participation, int buffers,
                               int shared) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    dpmf_strategy *out = NULL;
    o.buffers = buffers;
    o.shared_seeds = shared;
    check_ok(dpmf_optimize("tvblt", workload, participation, &o, &out, &found));
    return out;
}

/* Gaps between its taps, and one near the step of the epoch before. */
static dpmf_strategy *taps_of(const dpmf_workload *workload, const dpmf_participation *participation) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    dpmf_strategy *out = NULL;
    o.bands = 4;
    check_ok(dpmf_optimize("taps", workload, participation, &o, &out, &found));
    return out;
}

dpmf_mechanism *case_mechanism(int which, int64_t steps) {
    static const char *const family[] = {"identity", "bisr", "toeplitz", "bsr", "bsr", "bsr"};
    dpmf_workload *workload = workload_of(which == 3 || which == 9 ? "momentum:0.9" : "prefix", steps);
    dpmf_participation *participation = NULL;
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *out = NULL;
    char text[40];
    snprintf(text, sizeof text, "cyclic:3,%lld", (long long)(steps / 3));
    if (which >= 10) check_ok(dpmf_participation_parse(text, steps, &participation));
    if (which == 1 || which >= 3) o.bands = which == 5 ? 3 : 5;
    o.column_normalize = which == 4;
    o.stamps = which == 5 ? 3 : 1;
    if (which < 6)
        check_ok(dpmf_strategy_create(family[which], workload, &o, &strategy));
    else if (which < 8)
        strategy = blt_of(steps, which == 6 ? 1 : 2);
    else if (which == 12)
        strategy = taps_of(workload, participation);
    else
        strategy = tvblt_of(workload, participation, which == 8 ? 4 : 2, which == 11 ? 2 : 0);
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    about.sigma = 1;
    check_ok(dpmf_mechanism_create(workload, participation, strategy, &about, &out));
    dpmf_strategy_free(strategy);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
    return out;
}

/* ---- types: the digits after the point, the least exponent, the largest ---- */

static const struct { int digits, least, most; } types[] = {{0, 0, 0}, {23, -126, 127}, {7, -126, 127}, {10, -14, 15}};

size_t size_of_type(dpmf_device_type type) {
    return type == DPMF_DEVICE_FLOAT32 ? 4 : 2;
}

uint32_t round_to_type(double x, dpmf_device_type type) {
    const int digits = types[type].digits, least = types[type].least, most = types[type].most;
    const uint32_t one = 1u << digits, infinite = (uint32_t)(most - least + 2) << digits;
    const uint32_t sign = signbit(x) ? (type == DPMF_DEVICE_FLOAT32 ? 1u << 31 : 1u << 15) : 0;
    int exponent = 0;
    x = fabs(x);
    if (isnan(x)) return sign | infinite | one >> 1;
    if (isinf(x)) return sign | infinite;
    frexp(x, &exponent);
    exponent = x == 0 || exponent - 1 < least ? least : exponent - 1;
    const uint32_t steps = (uint32_t)nearbyint(ldexp(x, digits - exponent)); /* ties to even */
    const uint32_t bits = ((uint32_t)(exponent - least) << digits) + steps;
    return sign | (bits < infinite ? bits : infinite);
}

double number_of_type(uint32_t bits, dpmf_device_type type) {
    const int digits = types[type].digits, least = types[type].least, most = types[type].most;
    const int top = type == DPMF_DEVICE_FLOAT32 ? 31 : 15;
    const uint32_t field = (bits & ((1u << top) - 1)) >> digits, low = bits & ((1u << digits) - 1);
    const double sign = bits >> top & 1 ? -1 : 1;
    if (field == (uint32_t)(most - least + 2)) return low != 0 ? NAN : sign * INFINITY;
    if (field == 0) return sign * ldexp(low, least - digits);
    return sign * ldexp((1u << digits) + low, least - digits + (int)field - 1);
}

/* ---- the comparison ---- */

enum { PERIOD = 2003 };

static void fill_pattern(int64_t count, int64_t t, dpmf_device_type type, float *sum, char *out) {
    uint32_t bits[PERIOD];
    float number[PERIOD];
    for (int64_t i = 0; i < PERIOD; i++) {
        bits[i] = round_to_type((double)((i * 7919 + t * 104729) % PERIOD - PERIOD / 2) / 97, type);
        number[i] = (float)number_of_type(bits[i], type);
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(out + (size_t)i * size_of_type(type), &bits[i % PERIOD], size_of_type(type)); /* little-endian */
        sum[i] = number[i % PERIOD];
    }
}

static void compare_row(const comparison *c, int64_t t, const float *sum, const char *out) {
    if (c->type == DPMF_DEVICE_FLOAT32 && memcmp(sum, out, (size_t)c->count * sizeof *sum) == 0) return;
    for (int64_t i = 0; i < c->count; i++) {
        const uint32_t wanted = round_to_type(sum[i], c->type);
        uint32_t got = 0;
        memcpy(&got, out + (size_t)i * size_of_type(c->type), size_of_type(c->type));
        if (got == wanted) continue;
        print_error("%s, type %d, offset %lld, resumed at %lld: row %lld, number %lld: 0x%x, and 0x%x by the library\n",
                    case_names[c->which], (int)c->type, (long long)c->offset, (long long)c->resume, (long long)t,
                    (long long)i, got, wanted);
        fail();
    }
}

void compare_streams(const comparison *c) {
    dpmf_device *device = the_device();
    dpmf_mechanism *mechanism = case_mechanism(c->which, c->steps);
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_noise *own = NULL;
    dpmf_device_noise *other = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    float *sum = malloc((size_t)c->count * sizeof *sum);
    char *out = malloc((size_t)c->count * size_of_type(c->type));
    assert_non_null(sum);
    assert_non_null(out);
    check_ok(dpmf_key_testing(17, key));
    o.offset = c->offset;
    o.count = c->count;
    check_ok(dpmf_noise_create(mechanism, c->dim, 0.75, key, &o, &own));
    o.prefetch = c->ahead;
    check_device_ok(dpmf_device_noise_create(device, mechanism, c->dim, 0.75, key, &o, &other));
    check_ok(dpmf_noise_seek(own, c->resume));
    if (c->resume > 0) check_device_ok(dpmf_device_noise_seek(other, c->resume));
    for (int64_t t = c->resume; t < c->steps; t++) {
        const dpmf_segment whole = {sum, c->count};
        const dpmf_segment parts[] = {
            {out, c->cut}, {NULL, 0}, {out + (size_t)c->cut * size_of_type(c->type), c->count - c->cut}};
        fill_pattern(c->count, t, c->type, sum, out);
        check_ok(dpmf_noise_add(own, 0.5, 1, &whole));
        if (c->ahead && t % 3 != 1) check_device_ok(dpmf_device_noise_ahead(other, a_stream(t + 1)));
        check_device_ok(dpmf_device_noise_add(other, 0.5, c->type, c->cut > 0 ? 3 : 1, c->cut > 0 ? parts : parts + 2,
                                              a_stream(t)));
        assert_int_equal(dpmf_device_noise_step(other), t + 1);
        compare_row(c, t, sum, out);
    }
    check_device_fails(DPMF_ERROR_ARGUMENT, "the mechanism has",
                       dpmf_device_noise_next(other, c->type, out, NULL)); /* past the last row */
    dpmf_device_noise_free(other);
    dpmf_noise_free(own);
    dpmf_mechanism_free(mechanism);
    free(sum);
    free(out);
}
