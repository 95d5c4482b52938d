/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lazy stream: noise for a table of which a step reads and writes few rows. A row of the table gets the noise that it has
 * missed when it is read, in one draw (noise/lazy_law.c), and all rows get theirs at a flush. Between flushes the rows that were
 * drawn tell which ones were read, which depends on the data: only what was flushed may leave.
 *
 * The draw of table row v at step t takes the normals x_k = Z[t (1 + r) + k, v stride + column], k = 0 .. r. A row that has its
 * noise up to t is not drawn again at t, so that a normal serves one draw. The key of Z is that of a stream with a label of its
 * own, so that no other stream shares it.
 *
 * What the noise of a flush is depends on the history: on the rows touched at each step, and on the factors. If a program that
 * resumes repeated steps with another history, or another table, the normals would serve two draws, and a second noise would lie
 * over the same sums. So the history is hashed into a chain, touch by touch; flush k is row k of the state file, and its mark is
 * that of (chain, step, table before the noise). As with rows of a stream, flush k is on the disk before it is given, and is
 * given again for the same mark only. By induction every flush of a state file belongs to one history, in which one process of
 * noise was drawn. What happens after the last flush has not been seen, and may be repeated otherwise.
 */
#include "noise/lazy.h"
#include "noise/noise.h"

#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"
#include "mechanism/mechanism.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <openssl/crypto.h>
#include <string.h>

enum {
    LIST = 1 << 16, /* table rows that are drawn in one pass over the steps */
    STEPS = 256,    /* steps whose laws are held at a time */
    PIECE = 512,    /* numbers of a row that a worker draws at a time; a multiple of 64, as seeds like it */
    ITEM = 16,      /* rows of the list that a worker takes at a time */
    DIGEST = 32,
    HEAD = NOISE_RECORD + 16 + DIGEST /* of a checkpoint: record, step, flushes, chain; then buffers and an HMAC */
};

typedef struct late_row {
    int64_t row, since; /* it has its noise up to this step */
} late_row;

/* The law from one step to now, as noise_lazy_law has it; `used`: bit k is set where normal k matters. */
typedef struct late_law {
    uint32_t used;
    double p[NOISE_LAZY_OUTPUTS * NOISE_LAZY_BUFFERS], l[NOISE_LAZY_OUTPUTS * NOISE_LAZY_OUTPUTS];
} late_law;

struct dpmf_lazy {
    dpmf_noise *noise; /* key, binding, state file and pool; its `step` counts flushes */
    noise_lazy_law law;
    int64_t rows, width, stride;
    size_t size;           /* of a number of the table and the buffers */
    int64_t step, flushed; /* now; and all rows have their noise up to here */
    uint8_t chain[DIGEST]; /* of the history; zeros without a state file */
    int64_t *since;        /* of each row */
    double *factor;        /* of each step before this one */
    char *buffers;         /* rows x r x width */
    late_row *list;
    late_law *laws;
    char *scratch;
    int64_t buffer_bytes, scratch_bytes; /* all; of a worker */
};

/* ---- set-up ---- */

static dpmf_status check_options(const dpmf_noise_options *o) {
    if (o->exact || o->grid != 0)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "lazy noise has no exact release: its guarantee is proven for the rounded rows of each step, and the "
            "sum of several steps that is drawn at once is no sum of rounded rows");
    if (o->maker != NULL || o->prefetch || o->lookahead != 0 || o->scratch != NULL)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "lazy noise is made when a row is touched: the options maker, prefetch, lookahead and scratch must "
            "not be set");
    if (o->offset != 0 || o->count != 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "lazy noise: offset %" PRId64 ", count %" PRId64 ", accepted 0 and 0: a table has no shards",
                         o->offset, o->count);
    return DPMF_OK;
}

static dpmf_status check_table(int64_t rows, int64_t width) {
    const int64_t most = (int64_t)1 << 40;
    if (rows < 1 || rows > most) return base_fail(DPMF_ERROR_ARGUMENT, "rows = %" PRId64 ", accepted 1 to 2^40", rows);
    if (width < 1 || width > most / rows)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "width = %" PRId64 ", accepted 1 to %" PRId64 " (2^40 numbers in the table)", width,
                         most / rows);
    return DPMF_OK;
}

/* A worker's numbers: r buffers, 1 + r normals and one output in double; one seed as it is made. */
static int64_t scratch_numbers(int64_t r) {
    return (r + (1 + r) + 1 + 1) * PIECE;
}

static dpmf_status allocate(dpmf_lazy *lazy, const dpmf_strategy *strategy) {
    const int threads = base_pool_threads(lazy->noise->pool);
    TRY(base_alloc_doubles(strategy->steps, "the factors of the steps", &lazy->factor));
    TRY(noise_lazy_open(strategy, lazy->factor, &lazy->law));
    const int64_t r = lazy->law.buffers;
    lazy->buffer_bytes = lazy->rows * lazy->width * r * (int64_t)lazy->size; /* below 2^48 */
    lazy->scratch_bytes = scratch_numbers(r) * (int64_t)sizeof(double);
    TRY(base_alloc(lazy->rows, sizeof *lazy->since, "the steps of a table's rows", (void **)&lazy->since));
    TRY(base_alloc(lazy->buffer_bytes, 1, "the buffers of a table", (void **)&lazy->buffers));
    TRY(base_alloc(lazy->rows < LIST ? lazy->rows : LIST, sizeof *lazy->list, "a list of rows", (void **)&lazy->list));
    TRY(base_alloc(STEPS, sizeof *lazy->laws, "the laws of late noise", (void **)&lazy->laws));
    return base_alloc(lazy->scratch_bytes * threads, 1, "the scratch of late noise", (void **)&lazy->scratch);
}

dpmf_status dpmf_lazy_create(const dpmf_mechanism *mechanism, int64_t rows, int64_t width, double clip,
                             const uint8_t key[DPMF_KEY_SIZE], const dpmf_noise_options *options, dpmf_lazy **out) {
    dpmf_noise_options o = options == NULL ? dpmf_noise_options_defaults() : *options;
    dpmf_status status = DPMF_OK;
    dpmf_lazy *lazy = NULL;
    if (mechanism == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "lazy noise: the mechanism or the result is NULL");
    TRY(check_options(&o));
    TRY(check_table(rows, width));
    TRY(noise_lazy_check(mechanism->strategy));
    TRY(base_alloc(1, sizeof *lazy, "a lazy noise stream", (void **)&lazy));
    lazy->rows = rows;
    lazy->width = width;
    lazy->stride = noise_round_up(width, 64);
    lazy->size = o.precision == DPMF_FLOAT64 ? sizeof(double) : sizeof(float);
    TRY_DONE(noise_create_lazy(mechanism, rows, width, clip, key, &o, &lazy->noise));
    lazy->noise->step = lazy->noise->in_doubt = 0; /* the marks decide, not the caller */
    TRY_DONE(allocate(lazy, mechanism->strategy));
    *out = lazy;
    lazy = NULL;
done:
    dpmf_lazy_free(lazy);
    return status;
}

void dpmf_lazy_free(dpmf_lazy *lazy) {
    if (lazy == NULL) return;
    const int threads = lazy->noise == NULL ? 0 : base_pool_threads(lazy->noise->pool);
    crypto_wipe_free(lazy->scratch, lazy->scratch_bytes * threads);
    crypto_wipe_free(lazy->buffers, lazy->buffer_bytes);
    base_free(lazy->laws);
    base_free(lazy->list);
    base_free(lazy->since);
    base_free(lazy->factor);
    noise_lazy_close(&lazy->law);
    dpmf_noise_free(lazy->noise);
    crypto_wipe(lazy, sizeof *lazy);
    base_free(lazy);
}

dpmf_lazy_info dpmf_lazy_get(const dpmf_lazy *lazy) {
    const dpmf_noise_info noise = dpmf_noise_get(lazy->noise);
    dpmf_lazy_info info = {.step = lazy->step,
                           .flushed = lazy->flushed,
                           .flushes = lazy->noise->step,
                           .reserved = noise.reserved,
                           .buffers = lazy->law.buffers,
                           .calibrated = noise.calibrated,
                           .scale = noise.release.scale};
    memcpy(info.salt, noise.salt, sizeof info.salt);
    return info;
}

/* ---- draws ---- */

static void widen(const dpmf_lazy *lazy, const char *from, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] = lazy->size == sizeof(float) ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static void add_product(int64_t count, double factor, const double *x, double *y) {
    for (int64_t i = 0; i < count && factor != 0; i++)
        y[i] += factor * x[i];
}

/* Row q of (P m + L x), in double, the terms in order. */
static void combine(const late_law *law, int64_t r, int64_t q, int64_t count, const double *m, const double *x,
                    double *y) {
    memset(y, 0, (size_t)count * sizeof *y);
    for (int64_t j = 0; j < r; j++)
        add_product(count, law->p[q * r + j], m + j * PIECE, y);
    for (int64_t k = 0; k <= q; k++)
        add_product(count, law->l[q * (1 + r) + k], x + k * PIECE, y);
}

static void put_buffer(const dpmf_lazy *lazy, int64_t count, const double *y, char *to) {
    for (int64_t i = 0; i < count; i++)
        if (lazy->size == sizeof(float))
            ((float *)to)[i] = (float)y[i];
        else
            ((double *)to)[i] = y[i];
}

/* The scale enters here; table + scale x S is rounded once. */
static void add_sum(const dpmf_lazy *lazy, int64_t count, const double *y, char *to) {
    const double scale = lazy->noise->release.scale;
    for (int64_t i = 0; i < count; i++)
        if (lazy->size == sizeof(float))
            ((float *)to)[i] = (float)((double)((float *)to)[i] + scale * y[i]);
        else
            ((double *)to)[i] += scale * y[i];
}

/* Numbers from .. from+count-1 of a row of the table. */
static void draw_piece(const dpmf_lazy *lazy, const late_law *law, int64_t row, int64_t from, int64_t count,
                       char *table, double *scratch) {
    const int64_t r = lazy->law.buffers, size = (int64_t)lazy->size, first_row = lazy->step * (1 + r);
    double *m = scratch, *x = m + r * PIECE, *y = x + (1 + r) * PIECE, *seed = y + PIECE;
    char *buffer = lazy->buffers + (row * r * lazy->width + from) * size;
    for (int64_t j = 0; j < r; j++)
        widen(lazy, buffer + j * lazy->width * size, count, m + j * PIECE);
    for (int64_t k = 0; k <= r; k++) {
        if ((law->used >> k & 1) == 0) continue;
        crypto_seed_fill(lazy->noise->seed, lazy->noise->binding.precision, (uint64_t)(first_row + k),
                         (uint64_t)(row * lazy->stride + from), (size_t)count, seed);
        widen(lazy, (const char *)seed, count, x + k * PIECE);
    }
    combine(law, r, 0, count, m, x, y);
    add_sum(lazy, count, y, table + (row * lazy->width + from) * size);
    for (int64_t j = 0; j < r; j++) {
        combine(law, r, 1 + j, count, m, x, y);
        put_buffer(lazy, count, y, buffer + j * lazy->width * size);
    }
}

typedef struct task {
    const dpmf_lazy *lazy;
    char *table;
    int64_t count;    /* of the list */
    int64_t from, to; /* rows that have their noise up to one of these steps are drawn: the laws are held */
} task;

static dpmf_status draw_item(void *context, int64_t item, int worker) {
    const task *job = context;
    const dpmf_lazy *lazy = job->lazy;
    double *scratch = (double *)(lazy->scratch + worker * lazy->scratch_bytes);
    const int64_t last = noise_at_most((item + 1) * ITEM, job->count);
    for (int64_t i = item * ITEM; i < last; i++) {
        const late_row *late = &lazy->list[i];
        if (late->since < job->from || late->since >= job->to) continue;
        for (int64_t at = 0; at < lazy->width; at += PIECE)
            draw_piece(lazy, &lazy->laws[job->to - 1 - late->since], late->row, at,
                       noise_at_most(PIECE, lazy->width - at), job->table, scratch);
    }
    return DPMF_OK;
}

static void keep_law(const noise_lazy_law *law, late_law *out) {
    const int64_t size = 1 + law->buffers;
    out->used = 0;
    memcpy(out->p, law->p, sizeof out->p);
    memcpy(out->l, law->l, sizeof out->l);
    for (int64_t q = 0; q < size; q++)
        for (int64_t k = 0; k <= q; k++)
            if (law->l[q * size + k] != 0) out->used |= (uint32_t)1 << k;
}

/* Draws the rows of the list, from the law of the last step back to that of the row that missed the most. */
static void draw_list(dpmf_lazy *lazy, int64_t count, char *table) {
    int64_t oldest = lazy->step;
    for (int64_t i = 0; i < count; i++)
        oldest = noise_at_most(oldest, lazy->list[i].since);
    noise_lazy_begin(&lazy->law, lazy->step);
    for (int64_t to = lazy->step; to > oldest; to = lazy->law.from) {
        const int64_t from = to - STEPS > oldest ? to - STEPS : oldest;
        for (int64_t t = to - 1; t >= from; t--) {
            noise_lazy_back(&lazy->law);
            keep_law(&lazy->law, &lazy->laws[to - 1 - t]);
        }
        task job = {.lazy = lazy, .table = table, .count = count, .from = from, .to = to};
        dpmf_status status = base_pool_run(lazy->noise->pool, (count + ITEM - 1) / ITEM, draw_item, &job);
        assert(status == DPMF_OK), (void)status;
    }
}

/* `row` NULL: rows 0 .. count-1. A row that is named twice is drawn once. */
static void draw_rows(dpmf_lazy *lazy, int64_t count, const int64_t *row, char *table) {
    const int64_t room = lazy->rows < LIST ? lazy->rows : LIST;
    int64_t listed = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t v = row == NULL ? i : row[i];
        if (lazy->since[v] < lazy->step) {
            lazy->list[listed++] = (late_row){v, lazy->since[v]};
            lazy->since[v] = lazy->step;
        }
        if (listed == room) {
            draw_list(lazy, listed, table);
            listed = 0;
        }
    }
    draw_list(lazy, listed, table);
}

/* ---- the history ---- */

/* chain <- SHA-256(chain | event | number | bytes): of `event` there are three, of eight characters. */
static dpmf_status chain_after(const dpmf_lazy *lazy, const char event[9], int64_t number, const void *bytes,
                               int64_t size, uint8_t out[DIGEST]) {
    const base_part parts[] = {{lazy->chain, DIGEST}, {event, 8}, {&number, sizeof number}, {bytes, (size_t)size}};
    return base_sha256_bytes(size > 0 ? 4 : 3, parts, out);
}

static dpmf_status add_to_history(dpmf_lazy *lazy, const char event[9], int64_t number, const void *bytes,
                                  int64_t size) {
    uint8_t next[DIGEST];
    if (lazy->noise->state == NULL) return DPMF_OK;
    TRY(chain_after(lazy, event, number, bytes, size, next));
    memcpy(lazy->chain, next, DIGEST);
    return DPMF_OK;
}

/* Flushes that were given come again with `replay` alone. */
static dpmf_status check_usable(const dpmf_lazy *lazy) {
    if (lazy == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "lazy noise: the stream is NULL");
    TRY(noise_check_usable(lazy->noise));
    const int64_t reserved = dpmf_noise_get(lazy->noise).reserved;
    if (lazy->noise->step >= reserved || lazy->noise->replay) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "this stream has %" PRId64 " flushes behind it, and its state file %" PRId64
                     ": load the checkpoint of the last one, or repeat the run with the option replay",
                     lazy->noise->step, reserved);
}

/* Refuses flush k of the state file for another history than its own, and reserves it where it is new. */
static dpmf_status reserve_flush(dpmf_lazy *lazy, const uint8_t digest[DIGEST]) {
    dpmf_noise *noise = lazy->noise;
    uint8_t held[NOISE_MAC];
    int found = 0;
    TRY(noise_state_mark(noise->state, noise->step, digest, noise->mark));
    if (noise->step < noise_state_reserved(noise->state)) {
        TRY(noise_state_marked(noise->state, noise->step, held, &found));
        if (!found || CRYPTO_memcmp(held, noise->mark, sizeof held) != 0)
            return base_fail(
                DPMF_ERROR_ARGUMENT,
                "flush %" PRId64 " was given with another history than now: other rows were touched before step "
                "%" PRId64 ", with other factors, or the table was another. Two noises over the same sums would "
                "protect neither, and nothing is released",
                noise->step, lazy->step);
        return DPMF_OK;
    }
    noise->bound = 1;
    dpmf_status status = noise_reserve(noise);
    noise->bound = 0;
    return status;
}

/* ---- the calls ---- */

dpmf_status dpmf_lazy_touch(dpmf_lazy *lazy, int64_t count, const int64_t *row, void *table) {
    TRY(check_usable(lazy));
    if (count < 0 || (count > 0 && (row == NULL || table == NULL)))
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " rows, accepted 0 or more, with their list and the table",
                         count);
    for (int64_t i = 0; i < count; i++)
        if (row[i] < 0 || row[i] >= lazy->rows)
            return base_fail(DPMF_ERROR_ARGUMENT, "row %" PRId64 " of the table, accepted 0 to %" PRId64, row[i],
                             lazy->rows - 1);
    TRY(add_to_history(lazy, "touched ", count, row, count * (int64_t)sizeof *row));
    draw_rows(lazy, count, row, table);
    return DPMF_OK;
}

dpmf_status dpmf_lazy_next(dpmf_lazy *lazy, double factor) {
    TRY(check_usable(lazy));
    const double scale = fabs(factor * lazy->noise->release.scale);
    if (lazy->step >= lazy->noise->binding.steps)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "step %" PRId64 ", accepted 0 to %" PRId64 ": the mechanism has %" PRId64 " steps", lazy->step,
                         lazy->noise->binding.steps - 1, lazy->noise->binding.steps);
    if (factor != 0 && !(scale >= 0x1p-100 && scale <= 0x1p100))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "factor x clip x sigma x sensitivity = %g, accepted: 0, or %g to %g in size", scale, 0x1p-100,
                         0x1p100);
    TRY(add_to_history(lazy, "next    ", lazy->step, &factor, sizeof factor));
    lazy->factor[lazy->step++] = factor;
    return DPMF_OK;
}

dpmf_status dpmf_lazy_flush(dpmf_lazy *lazy, void *table) {
    uint8_t digest[DIGEST] = {0};
    TRY(check_usable(lazy));
    if (table == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_lazy_flush: the table is NULL");
    if (lazy->flushed == lazy->step) return DPMF_OK;
    if (lazy->noise->state != NULL) {
        TRY(chain_after(lazy, "flushed ", lazy->step, table, lazy->rows * lazy->width * (int64_t)lazy->size, digest));
        TRY(reserve_flush(lazy, digest));
    }
    draw_rows(lazy, lazy->rows, NULL, table);
    memcpy(lazy->chain, digest, DIGEST);
    lazy->flushed = lazy->step;
    lazy->noise->step++;
    return DPMF_OK;
}

/* ---- checkpoints ---- */

static const char WHAT[] = "checkpoint";

dpmf_status dpmf_lazy_save(dpmf_lazy *lazy, const char *path) {
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    TRY(check_usable(lazy));
    if (path == NULL || *path == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    if (lazy->flushed != lazy->step)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "checkpoint: the noise of %" PRId64
                         " steps has not been flushed, and a table without it must not be "
                         "saved: dpmf_lazy_flush comes first",
                         lazy->step - lazy->flushed);
    if (lazy->noise->state != NULL) TRY(noise_state_begin(lazy->noise->state)); /* its salt is on the disk */
    const int64_t covered = HEAD + lazy->buffer_bytes, all = covered + NOISE_MAC;
    TRY(base_alloc(all, 1, "a checkpoint", (void **)&bytes));
    TRY_DONE(noise_record_make(&lazy->noise->binding, NOISE_RECORD_CHECKPOINT, bytes));
    memcpy(bytes + NOISE_RECORD, &lazy->step, 8);
    memcpy(bytes + NOISE_RECORD + 8, &lazy->noise->step, 8);
    memcpy(bytes + NOISE_RECORD + 16, lazy->chain, DIGEST);
    memcpy(bytes + HEAD, lazy->buffers, (size_t)lazy->buffer_bytes);
    TRY_DONE(noise_mac(lazy->noise->binding.mac_key, bytes, (size_t)covered, bytes + covered));
    TRY_DONE(crypto_secret_create(path, WHAT, bytes, (size_t)all, 1, NULL, NULL));
done:
    crypto_wipe_free(bytes, all);
    return status;
}

static dpmf_status check_bytes(const dpmf_lazy *lazy, const char *path, const uint8_t *bytes, int64_t size) {
    char shown[BASE_SHOWN_PATH];
    const int64_t wanted = HEAD + lazy->buffer_bytes + NOISE_MAC;
    base_show_path(path, shown);
    if (size < HEAD) return base_fail(DPMF_ERROR_FORMAT, "the checkpoint '%s' is too short", shown);
    TRY(noise_record_check(&lazy->noise->binding, NOISE_RECORD_CHECKPOINT, path, bytes));
    if (size != wanted)
        return base_fail(DPMF_ERROR_FORMAT,
                         "the checkpoint '%s' has %" PRId64 " bytes, accepted for this table: %" PRId64, shown, size,
                         wanted);
    return noise_mac_check(lazy->noise->binding.mac_key, WHAT, path, bytes, size);
}

static dpmf_status adopt(dpmf_lazy *lazy, const uint8_t *bytes) {
    const dpmf_noise_info noise = dpmf_noise_get(lazy->noise);
    int64_t step = 0, flushes = 0;
    memcpy(&step, bytes + NOISE_RECORD, 8);
    memcpy(&flushes, bytes + NOISE_RECORD + 8, 8);
    if (lazy->noise->state != NULL && (flushes > noise.reserved || (flushes < noise.reserved && !lazy->noise->replay)))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the checkpoint has %" PRId64 " flushes behind it, and the state file %" PRId64
                         ": an earlier one needs the option replay",
                         flushes, noise.reserved);
    lazy->step = lazy->flushed = step;
    lazy->noise->step = flushes;
    memcpy(lazy->chain, bytes + NOISE_RECORD + 16, DIGEST);
    memcpy(lazy->buffers, bytes + HEAD, (size_t)lazy->buffer_bytes);
    for (int64_t v = 0; v < lazy->rows; v++)
        lazy->since[v] = step;
    return DPMF_OK;
}

dpmf_status dpmf_lazy_load(dpmf_lazy *lazy, const char *path) {
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    int64_t size = 0;
    if (lazy == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "lazy noise: the stream is NULL");
    TRY(noise_check_usable(lazy->noise));
    if (path == NULL || *path == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "checkpoint: the path is NULL or empty");
    if (lazy->flushed != lazy->step) /* the table would count as one that has all of its noise */
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "checkpoint: the noise of %" PRId64
                         " steps has not been flushed, and would be forgotten: load "
                         "into a new stream, or after dpmf_lazy_flush",
                         lazy->step - lazy->flushed);
    TRY(crypto_secret_load(path, WHAT, &bytes, &size));
    TRY_DONE(check_bytes(lazy, path, bytes, size));
    TRY_DONE(adopt(lazy, bytes));
done:
    crypto_wipe_free(bytes, size);
    return status;
}
