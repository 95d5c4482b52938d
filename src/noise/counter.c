/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counter computes private running sums of a stream of rows, in a program that may end at any moment and be resumed.
 *
 * Noise is a pure function of (key, mechanism, clip, columns, label, the state file's salt, row, column), and the state file
 * holds everything else that depends on the rows so far: running sums with their noise, the stream's buffers, the number of rows. So a resumed program computes the
 * same bits without reading an earlier row again. Sums are published in this order: the rows are prepared; everything is
 * written to the disk, with a note of the caller (for example the lines to be printed); then the caller may publish them.
 */
#include "noise/counter.h"

#include "base/memory.h"
#include "mechanism/mechanism.h"
#include "workload/workload.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

static const char SUMS[8] = "sums\0\0\0"; /* a note of dpmf_counter_add begins with this; then rows, then doubles */

dpmf_counter_options dpmf_counter_options_defaults(void) {
    return (dpmf_counter_options){.run = dpmf_run_defaults()};
}

static dpmf_status check_mechanism(const dpmf_mechanism *mechanism, int64_t columns) {
    int q = 0, r = 0;
    if (mechanism == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "counter: the mechanism is NULL");
    if (columns < 1 || columns > 1000000)
        return base_fail(DPMF_ERROR_ARGUMENT, "columns = %" PRId64 ", accepted 1 to 1000000", columns);
    TRY(mechanism_check_columns(mechanism, columns));
    workload_inverse_bands(mechanism->problem.workload, &q, &r);
    if (q < 0)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "the workload of the mechanism is a matrix or a sum: counting takes the named ones (prefix, ...)");
    if (!dpmf_sampling_is_none(&mechanism->sampling))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "the mechanism's epsilon rests on secret sampling of the data, and counting draws "
                         "nothing: a mechanism without sampling is accepted");
    return DPMF_OK;
}

/* The exact release rounds rows to the counter's grid: a unit's norm grows by less than grid x sqrt(columns). */
static dpmf_status choose_release(const dpmf_counter *c, const dpmf_mechanism *m, dpmf_release release,
                                  dpmf_noise_options *wanted, double *clip) {
    const double sigma = m->sigma > 0 ? m->sigma : 1, scale = c->clip * sigma * m->problem.evaluation.sensitivity.value;
    dpmf_exact exact;
    *clip = c->clip;
    if ((int)release < DPMF_RELEASE_AUTO || release > DPMF_RELEASE_PLAIN)
        return base_fail(DPMF_ERROR_ARGUMENT, "release %d, accepted 0 (exact where possible), 1 (exact), 2 (plain)",
                         (int)release);
    if (release == DPMF_RELEASE_PLAIN || !(c->clip > 0 && isfinite(scale))) return DPMF_OK;
    const double grid = noise_counter_exact_grid(scale);
    const double wider = c->clip + grid * sqrt((double)c->columns);
    const dpmf_status status = dpmf_exact_plan(m, c->columns, wider, grid, &wanted->run, &exact);
    const int without = status == DPMF_ERROR_UNSUPPORTED || status == DPMF_ERROR_ARGUMENT; /* the grid is too fine */
    if (without && release == DPMF_RELEASE_AUTO) return DPMF_OK;
    if (status == DPMF_ERROR_ARGUMENT)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "exact noise: rows of this mechanism's noise are so much larger than its scale, %.6g, that they "
            "do not fit the grid of the sums, %.3g",
            scale, grid);
    if (status != DPMF_OK) return status;
    wanted->exact = 1;
    wanted->grid = grid;
    *clip = wider;
    return DPMF_OK;
}

typedef struct keeping {
    dpmf_counter *counter;
    const dpmf_counter_options *options;
} keeping;

/* Opens the counter's own state file for its stream. The file and the noise are bound to the clip norm that was requested. */
static dpmf_status keep_state(void *context, noise_binding *binding) {
    const keeping *k = context;
    const dpmf_counter_options *o = k->options;
    char *path = NULL;
    binding->clip = k->counter->clip;
    TRY(noise_state_path(o->state, o->key_file, o->rows_may_repeat, &path));
    dpmf_status status = path != NULL ? noise_counter_open(k->counter, path, binding) : DPMF_OK;
    base_free(path);
    return o->state == NULL ? noise_state_explain(status) : status;
}

static dpmf_status open_noise(dpmf_counter *c, const dpmf_mechanism *mechanism, const uint8_t key[DPMF_KEY_SIZE],
                              const dpmf_counter_options *o) {
    keeping k = {c, o};
    dpmf_noise_options wanted = dpmf_noise_options_defaults();
    double clip = 0;
    wanted.precision = DPMF_FLOAT64;
    wanted.label = o->label;
    wanted.uncalibrated = o->uncalibrated;
    wanted.run = o->run;
    wanted.run.threads = 1; /* rows are short */
    TRY(choose_release(c, mechanism, o->release, &wanted, &clip));
    return noise_create_kept(mechanism, c->columns, clip, key, &wanted, keep_state, &k, &c->noise);
}

/* The largest standard deviation of a row of a workload, without the scale. Past 2^27 steps only the ends are read. */
static double largest_error(error_lookup *errors, int64_t steps) {
    const int64_t apart = steps > (int64_t)1 << 27 ? steps - 1 : 1;
    double most = 0;
    for (int64_t t = 0; t < steps; t += apart)
        most = fmax(most, error_lookup_at(errors, t));
    return most;
}

/*
 * Plain noise is a double of 53 bits, but it is added to numbers on the grid in 128 bits: if it were so large that its last
 * bit is above a step of the grid, the digits below would be those of the data. Up to a standard deviation of 2^50 steps
 * that needs more than eight deviations. A row x of noise follows from the noise o of the answers by R x = Q o, so that a
 * bound for every o bounds every x; the standard deviation itself needs a matrix, and is computed only where the bound is
 * too large.
 */
static dpmf_status bound_rows(const dpmf_counter *c, double *out) {
    const double answers = largest_error(c->error, c->steps);
    double row = 0, q[3] = {0}, r[2] = {1, 0};
    *out = 0;
    for (int64_t t = 0; t < c->steps; t++) {
        double sum = 0;
        TRY(dpmf_workload_inverse_row(c->workload, t, q, r));
        for (int j = 0; j <= c->q_bands; j++)
            sum += fabs(q[j]) * answers;
        row = (sum + (c->r_bands > 0 ? fabs(r[1]) * row : 0)) / fabs(r[0]);
        *out = fmax(*out, row);
        if (dpmf_workload_get(c->workload).is_toeplitz && c->r_bands == 0 && t >= c->q_bands)
            break; /* the rest is equal */
    }
    return DPMF_OK;
}

static dpmf_status check_bits(dpmf_counter *c, const dpmf_mechanism *mechanism, const dpmf_run *run) {
    const double scale = dpmf_noise_get(c->noise).release.scale, most = ldexp(0x1p50, -c->places);
    dpmf_status status = DPMF_OK;
    dpmf_workload *rows = NULL;
    error_lookup *of_rows = NULL;
    if (dpmf_noise_get(c->noise).grid > 0) return DPMF_OK; /* exact: whole numbers of steps */
    double bound = 0;
    TRY(bound_rows(c, &bound));
    if (bound * scale <= most) return DPMF_OK;
    TRY_DONE(dpmf_workload_parse("window:1", c->steps, &rows));
    TRY_DONE(error_lookup_create(rows, mechanism->strategy, run, &of_rows));
    const double found = largest_error(of_rows, c->steps) * scale;
    if (!(found <= most))
        status =
            base_fail(DPMF_ERROR_UNSUPPORTED,
                      "the noise of a row has a standard deviation of %.3g, accepted: up to %.3g, for floating-point "
                      "noise on the grid of the sums; the last digits of the sums would have no noise",
                      found, most);
done:
    error_lookup_free(of_rows);
    dpmf_workload_free(rows);
    return status;
}

/* H(subkey | bytes): without the key the hash reveals nothing about the bytes. */
static dpmf_status begin_hash(dpmf_counter *c) {
    if (c->input == NULL) c->input = EVP_MD_CTX_new();
    if (c->scratch == NULL) c->scratch = EVP_MD_CTX_new();
    c->input_size = 0;
    if (c->input == NULL || c->scratch == NULL || EVP_DigestInit_ex(c->input, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(c->input, c->noise->binding.sum_key, sizeof c->noise->binding.sum_key) != 1)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute a SHA-256");
    return DPMF_OK;
}

static dpmf_status check_state(const dpmf_counter_options *o) {
    if (o->state != NULL && *o->state == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "state: the path is empty");
    if (o->state != NULL && o->rows_may_repeat)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "rows_may_repeat: it is for streams without a state file, but one is given");
    if (o->state_now && o->state == NULL && (o->key_file == NULL || o->rows_may_repeat))
        return base_fail(DPMF_ERROR_ARGUMENT, "state_now: it needs a state file, and none is given");
    return DPMF_OK;
}

dpmf_status dpmf_counter_create(const dpmf_mechanism *mechanism, int64_t columns, double clip,
                                const uint8_t key[DPMF_KEY_SIZE], const dpmf_counter_options *options,
                                dpmf_counter **out) {
    const dpmf_counter_options o = options == NULL ? dpmf_counter_options_defaults() : *options;
    dpmf_status status = DPMF_OK;
    dpmf_counter *c = NULL;
    TRY(check_mechanism(mechanism, columns));
    TRY(check_state(&o));
    TRY(base_alloc(1, sizeof *c, "a counter", (void **)&c));
    c->columns = columns;
    c->clip = clip;
    c->clip_rows = o.clip_rows != 0;
    c->workload = workload_retain(mechanism->problem.workload);
    c->steps = mechanism->problem.steps;
    workload_inverse_bands(c->workload, &c->q_bands, &c->r_bands);
    assert(c->q_bands < NOISE_COUNTER_HISTORY && c->r_bands < NOISE_COUNTER_HISTORY);
    TRY_DONE(open_noise(c, mechanism, key, &o));
    TRY_DONE(noise_counter_grid(c));
    const int64_t kept = NOISE_COUNTER_HISTORY * c->columns;
    TRY_DONE(base_alloc_doubles(c->columns, "a row of noise", &c->noisy));
    TRY_DONE(base_alloc(c->columns, sizeof *c->sum, "a row of sums", (void **)&c->sum));
    if (strcmp(c->workload->text, "prefix") == 0) {
        TRY_DONE(base_alloc(c->columns, sizeof *c->total, "running sums", (void **)&c->total));
    } else {
        TRY_DONE(base_alloc_doubles(kept, "rows of a counter", &c->x));
        TRY_DONE(base_alloc_doubles(kept, "rows of a counter", &c->o));
    }
    TRY_DONE(begin_hash(c));
    TRY_DONE(error_lookup_create(c->workload, mechanism->strategy, &o.run, &c->error));
    TRY_DONE(check_bits(c, mechanism, &o.run));
    TRY_DONE(noise_counter_resume(c));
    if (o.state_now && c->file != NULL && c->file->file < 0) TRY_DONE(noise_counter_write(c, NULL, 0));
    *out = c;
    c = NULL;
done:
    dpmf_counter_free(c);
    return status;
}

void dpmf_counter_free(dpmf_counter *c) {
    if (c == NULL) return;
    const int64_t kept = NOISE_COUNTER_HISTORY * c->columns * (int64_t)sizeof(double);
    if (c->file != NULL) noise_journal_close(c->file);
    base_free(c->file);
    error_lookup_free(c->error); /* before the workload and the strategy, which the noise holds */
    dpmf_noise_free(c->noise);
    dpmf_workload_free(c->workload);
    crypto_wipe_free(c->noisy, c->columns * (int64_t)sizeof *c->noisy);
    crypto_wipe_free(c->sum, c->columns * (int64_t)sizeof *c->sum);
    crypto_wipe_free(c->total, c->columns * (int64_t)sizeof *c->total);
    crypto_wipe_free(c->x, kept);
    crypto_wipe_free(c->o, kept);
    base_free(c->note_memory);
    EVP_MD_CTX_free(c->input);
    EVP_MD_CTX_free(c->scratch);
    crypto_wipe(c, sizeof *c);
    base_free(c);
}

static dpmf_status keep_note(dpmf_counter *c, const void *note, int64_t size) {
    if (size > c->note_room) {
        uint8_t *room = NULL;
        TRY(base_alloc(size + size / 2, 1, "a note", (void **)&room));
        base_free(c->note_memory);
        c->note_memory = room;
        c->note_room = size + size / 2;
    }
    if (size > 0) memcpy(c->note_memory, note, (size_t)size);
    c->note = c->note_memory;
    c->note_size = size;
    return DPMF_OK;
}

dpmf_status dpmf_counter_commit(dpmf_counter *c, const void *note, int64_t size) {
    if (c == NULL || size < 0 || (size > 0 && note == NULL))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "counter: the counter or the note is NULL, or the note's size is below 0");
    if (c->ended) return base_fail(DPMF_ERROR_IO, "this counter has ended: rows or its state file failed before");
    if (c->input_wanted > 0) /* the hash of a part of the input must not replace that of all */
        return base_fail(DPMF_ERROR_ARGUMENT, "give the input that was counted first: DPMF_INPUT_VERIFY");
    TRY(noise_check_usable(c->noise));
    dpmf_status status = c->file != NULL ? noise_counter_write(c, note, size) : keep_note(c, note, size);
    if (status == DPMF_OK)
        c->committed = c->step;
    else
        c->ended = 1; /* it is not known what is on the disk now */
    return status;
}

const void *dpmf_counter_note(const dpmf_counter *c, int64_t *size) {
    if (size != NULL) *size = c->note_size;
    return c->note_size > 0 ? c->note : NULL;
}

static dpmf_status hash_bytes(dpmf_counter *c, const void *bytes, int64_t size) {
    if (size > 0 && EVP_DigestUpdate(c->input, bytes, (size_t)size) != 1)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute a SHA-256");
    c->input_size += size;
    return DPMF_OK;
}

static dpmf_status check_digest(dpmf_counter *c) {
    uint8_t digest[32];
    if (EVP_MD_CTX_copy_ex(c->scratch, c->input) != 1 || EVP_DigestFinal_ex(c->scratch, digest, NULL) != 1)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute a SHA-256");
    if (CRYPTO_memcmp(digest, c->input_digest, sizeof digest) != 0) {
        TRY(begin_hash(c));
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the first %" PRId64
                         " bytes of the input differ from those that were counted: nothing is released",
                         c->input_wanted);
    }
    c->input_wanted = 0;
    return DPMF_OK;
}

dpmf_status dpmf_counter_input(dpmf_counter *c, dpmf_input input, const void *bytes, int64_t size) {
    if (c == NULL || size < 0 || (size > 0 && bytes == NULL))
        return base_fail(DPMF_ERROR_ARGUMENT, "counter: the counter or the input is NULL, or the size is below 0");
    const int64_t left = c->input_wanted - c->input_size;
    switch (input) {
    case DPMF_INPUT_COUNT:
        if (c->input_wanted > 0)
            return base_fail(DPMF_ERROR_ARGUMENT, "give the input that was counted first: DPMF_INPUT_VERIFY");
        return hash_bytes(c, bytes, size);
    case DPMF_INPUT_VERIFY:
        if (size > left)
            return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " bytes again, accepted: 0 to %" PRId64, size, left);
        TRY(hash_bytes(c, bytes, size));
        return c->input_wanted > 0 && c->input_size == c->input_wanted ? check_digest(c) : DPMF_OK;
    case DPMF_INPUT_RESTART:
        TRY(begin_hash(c));
        if (c->input_wanted > 0) c->recorded = c->input_wanted; /* else a restart before this one has it */
        c->input_wanted = 0;
        return hash_bytes(c, bytes, size);
    }
    return base_fail(DPMF_ERROR_ARGUMENT, "counter: input %d, accepted: DPMF_INPUT_COUNT, _VERIFY or _RESTART",
                     (int)input);
}

/* ---- numbers in, numbers out ---- */

static dpmf_status round_rows(const dpmf_counter *c, int64_t rows, const double *values, dpmf_int128 *out) {
    for (int64_t i = 0; i < rows * c->columns; i++)
        if (!noise_counter_round(c, values[i], &out[i]))
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "row %" PRId64 ", number %" PRId64 ": finite numbers below %.3g in size are accepted",
                             c->step + i / c->columns, i % c->columns, ldexp((double)c->limit, -c->places));
    return DPMF_OK;
}

dpmf_status dpmf_counter_add(dpmf_counter *c, int64_t rows, const double *values, double *sums) {
    dpmf_status status = DPMF_OK;
    dpmf_int128 *grid = NULL;
    uint8_t *note = NULL;
    if (c == NULL || (rows > 0 && (values == NULL || sums == NULL)))
        return base_fail(DPMF_ERROR_ARGUMENT, "counter: the counter, the values or memory for the sums is NULL");
    TRY(noise_counter_fits(c, rows));
    if (rows == 0) return DPMF_OK;
    const int64_t count = rows * c->columns, size = (int64_t)(sizeof SUMS + sizeof rows) + 8 * count;
    TRY_DONE(base_alloc(count, sizeof *grid, "rows of a counter", (void **)&grid));
    TRY_DONE(base_alloc(size, 1, "rows of a counter", (void **)&note));
    TRY_DONE(round_rows(c, rows, values, grid));
    TRY_DONE(dpmf_counter_prepare(c, rows, grid, grid));
    memcpy(note, SUMS, sizeof SUMS);
    memcpy(note + sizeof SUMS, &rows, sizeof rows);
    for (int64_t i = 0; i < count; i++) {
        const double value = noise_counter_value(c, &grid[i]);
        memcpy(note + sizeof SUMS + sizeof rows + 8 * i, &value, 8);
    }
    TRY_DONE(dpmf_counter_commit(c, note, size));
    memcpy(sums, note + sizeof SUMS + sizeof rows, (size_t)(8 * count));
done:
    crypto_wipe_free(grid, grid != NULL ? rows * c->columns * (int64_t)sizeof *grid : 0);
    base_free(note);
    return status;
}

static int64_t last_rows(const dpmf_counter *c) {
    int64_t rows = 0;
    const int64_t head = (int64_t)(sizeof SUMS + sizeof rows);
    if (c->note_size < head || memcmp(c->note, SUMS, sizeof SUMS) != 0) return 0;
    memcpy(&rows, c->note + sizeof SUMS, sizeof rows);
    return c->note_size - head == rows * c->columns * 8 ? rows : 0;
}

dpmf_status dpmf_counter_last(const dpmf_counter *c, double *sums) {
    const int64_t rows = last_rows(c);
    if (rows == 0) return base_fail(DPMF_ERROR_ARGUMENT, "there is no last answer of dpmf_counter_add to repeat");
    memcpy(sums, c->note + sizeof SUMS + sizeof rows, (size_t)(8 * rows * c->columns));
    return DPMF_OK;
}

double dpmf_counter_error(const dpmf_counter *c, int64_t step) {
    return step >= 0 && step < c->steps ? dpmf_noise_get(c->noise).release.scale * error_lookup_at(c->error, step)
                                        : NAN;
}

dpmf_counter_info dpmf_counter_get(const dpmf_counter *c) {
    const dpmf_noise_info noise = dpmf_noise_get(c->noise);
    dpmf_counter_info info = {.step = c->step,
                              .columns = c->columns,
                              .last_rows = last_rows(c),
                              .calibrated = noise.calibrated,
                              .places = c->places,
                              .scale = noise.release.scale,
                              .grid = noise.grid,
                              .input_size = c->input_wanted > 0 ? c->input_wanted : c->input_size};
    memcpy(&info.limit, &c->limit, sizeof info.limit);
    memcpy(info.salt, noise.salt, sizeof info.salt);
    return info;
}
