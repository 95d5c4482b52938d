/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns recipes into launches of the kernel; holds the buffers on the device.
 *
 * The coordinates in memory start and end at multiples of 32, the size of a unit of the seeds, so that vectors are
 * aligned in every shard: buffer j has coordinate c at j x padded + c - base. Coordinates outside of the shard are
 * never emitted. A row takes one launch per segment. The seeds of a unit are made twice if a segment ends inside it,
 * but each coordinate still advances its own buffers once.
 *
 * Where the strategy feeds outputs back, the buffers are a ring of rows, and a checkpoint of libdpmf may hold rows that it made
 * ahead: those are emitted from the ring. A row that is made ahead here has separate memory.
 */
#include "shared.h"

#include <inttypes.h>
#include <string.h>

/*
 * ---- the AES key schedule ----
 *
 * AES-256 (FIPS 197) for the kernel: the table of a round and the expanded key. The S-box is computed: the inverse in
 * GF(2^8) by powers of the generator 3, then the affine map of the standard.
 *
 *     T[s] = (2 S[s], S[s], S[s], 3 S[s]),   lowest byte first
 *
 * Words are columns, their lowest byte in row 0.
 */

static uint32_t doubled(uint32_t x) {
    return (x << 1 ^ (0x11B & (0u - (x >> 7)))) & 255;
}

static uint32_t affine(uint32_t x) {
    uint32_t sum = x;
    for (int k = 1; k < 5; k++)
        sum ^= (x << k | x >> (8 - k)) & 255;
    return sum ^ 0x63;
}

static void make_box(uint8_t box[256]) {
    uint32_t power[255], x = 1;
    for (int i = 0; i < 255; i++) {
        power[i] = x;
        x ^= doubled(x); /* times 3 */
    }
    box[0] = 0x63; /* 0 has no inverse and counts as its own inverse */
    for (int i = 0; i < 255; i++)
        box[power[i]] = (uint8_t)affine(power[(255 - i) % 255]);
}

void device_aes_table(uint32_t table[DEVICE_TABLE_WORDS]) {
    uint8_t box[256];
    make_box(box);
    for (int i = 0; i < 256; i++) {
        const uint32_t s = box[i], two = doubled(s);
        table[i] = two | s << 8 | s << 16 | (two ^ s) << 24;
    }
}

static uint32_t substitute(const uint8_t box[256], uint32_t w) {
    return (uint32_t)box[w & 255] | (uint32_t)box[w >> 8 & 255] << 8 | (uint32_t)box[w >> 16 & 255] << 16 |
           (uint32_t)box[w >> 24] << 24;
}

/* ---- rows ---- */

enum { UNIT = 32 };

static uint64_t bytes_of(int64_t numbers, size_t size) {
    return (uint64_t)numbers * size;
}

static uint64_t state_bytes(const device_rows *rows) {
    return bytes_of(rows->buffers * rows->padded, sizeof(float));
}

void device_rows_free(device_rows *rows) {
    if (rows->device == NULL) return;
    const device_backend *b = rows->device->backend;
    void *context = rows->device->context;
    b->release(context, rows->weight, rows->weight_bytes);
    b->release(context, rows->seed, rows->seed_bytes);
    b->release(context, rows->state, state_bytes(rows));
    b->release(context, rows->ahead, bytes_of(rows->padded, sizeof(float)));
    b->free_program(context, rows->program);
    memset(rows, 0, sizeof *rows);
}

static dpmf_status load_key(device_rows *rows) {
    uint8_t key[DPMF_KEY_SIZE];
    uint32_t words[DEVICE_KEY_WORDS];
    DEVICE_TRY(device_took(dpmf_noise_subkey(rows->noise, key)));
    uint8_t box[256];
    uint32_t constant = 1;
    make_box(box);
    for (int i = 0; i < 8; i++)
        words[i] = (uint32_t)key[4 * i] | (uint32_t)key[4 * i + 1] << 8 | (uint32_t)key[4 * i + 2] << 16 |
                   (uint32_t)key[4 * i + 3] << 24;
    for (int i = 8; i < DEVICE_KEY_WORDS; i++) {
        uint32_t w = words[i - 1];
        if (i % 8 == 0) {
            w = substitute(box, w >> 8 | w << 24) ^ constant;
            constant = doubled(constant);
        } else if (i % 8 == 4) {
            w = substitute(box, w);
        }
        words[i] = words[i - 8] ^ w;
    }
    dpmf_key_wipe(key);
    dpmf_status status = rows->device->backend->set_key(rows->device->context, rows->program, words);
    explicit_bzero(words, sizeof words);
    return status;
}

/* The last step takes as many seeds and weights as any. */
static dpmf_status take_memory(device_rows *rows, int ahead) {
    const device_backend *b = rows->device->backend;
    void *context = rows->device->context;
    dpmf_recipe last;
    uint64_t sum = 0;
    DEVICE_TRY(device_took(dpmf_noise_recipe(rows->noise, rows->steps - 1, &last)));
    rows->buffers = last.buffers;
    if (__builtin_mul_overflow((uint64_t)(rows->buffers + 1) * sizeof(float), (uint64_t)rows->padded, &sum))
        return device_fail(DPMF_ERROR_MEMORY, "%" PRId64 " buffers of %" PRId64 " numbers are beyond any memory",
                           rows->buffers, rows->count);
    rows->weight_bytes =
        bytes_of(last.weights + rows->buffers, sizeof(float)); /* a ring that is not full yet has fewer */
    rows->seed_bytes = bytes_of(last.seeds, sizeof(uint64_t));
    DEVICE_TRY(b->allocate(context, rows->weight_bytes, &rows->weight));
    DEVICE_TRY(b->allocate(context, rows->seed_bytes, &rows->seed));
    if (rows->buffers > 0) DEVICE_TRY(b->allocate(context, state_bytes(rows), &rows->state));
    if (ahead) DEVICE_TRY(b->allocate(context, bytes_of(rows->padded, sizeof(float)), &rows->ahead));
    return DPMF_OK;
}

dpmf_status device_rows_create(dpmf_device *device, dpmf_noise *noise, int64_t steps, int64_t first, int64_t count,
                               int ahead, device_rows *rows) {
    dpmf_status status = DPMF_OK;
    *rows =
        (device_rows){.device = device, .noise = noise, .steps = steps, .first = first, .count = count, .ahead_of = -1};
    rows->base = first / UNIT * UNIT;
    rows->padded = (first + count + UNIT - 1) / UNIT * UNIT - rows->base;
    DEVICE_TRY_DONE(device->backend->create_program(device->context, &rows->program));
    DEVICE_TRY_DONE(take_memory(rows, ahead));
    DEVICE_TRY_DONE(load_key(rows));
    return DPMF_OK;
done:
    device_rows_free(rows);
    return status;
}

/* Prepares a launch for row t, except its target: weights and seeds are on the device afterwards. */
static dpmf_status prepare(device_rows *rows, int64_t t, void *stream, device_launch *l) {
    const device_backend *b = rows->device->backend;
    dpmf_recipe recipe;
    *l = (device_launch){.table = rows->device->table,
                         .weight = rows->weight,
                         .seed = rows->seed,
                         .state = rows->state,
                         .base = (uint64_t)rows->base,
                         .stride = (uint64_t)rows->padded,
                         .buffers = (int32_t)rows->buffers,
                         .kind = DEVICE_HELD};
    if (rows->buffers > 0) l->slot = (int32_t)(t % rows->buffers);
    if (rows->ahead_of == t) {
        l->state = rows->ahead;
        l->slot = 0;
    }
    if (t < rows->made) return DPMF_OK;
    DEVICE_TRY(device_took(dpmf_noise_recipe(rows->noise, t, &recipe)));
    l->kind = (int32_t)recipe.kind;
    l->seeds = (int32_t)recipe.seeds;
    l->weights = (int32_t)recipe.weights;
    l->fresh = t == recipe.start;
    if (bytes_of(recipe.weights, sizeof(float)) > rows->weight_bytes ||
        bytes_of(recipe.seeds, sizeof(uint64_t)) > rows->seed_bytes)
        return device_fail(DPMF_ERROR_UNSUPPORTED, "row %" PRId64 " takes more seeds than the last one", t);
    DEVICE_TRY(b->write(rows->device->context, rows->weight, 0, recipe.weight, bytes_of(recipe.weights, sizeof(float)),
                        stream));
    return b->write(rows->device->context, rows->seed, 0, recipe.seed, bytes_of(recipe.seeds, sizeof(uint64_t)),
                    stream);
}

static dpmf_status emit_segment(const device_rows *rows, device_launch *l, const dpmf_segment *segment, int64_t before,
                                void *stream) {
    const device_backend *b = rows->device->backend;
    void *context = rows->device->context;
    const size_t number_size = l->type == DPMF_DEVICE_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
    const uint64_t bytes = bytes_of(segment->count, number_size);
    if (segment->count == 0) return DPMF_OK;
    l->from = (uint64_t)(rows->first + before);
    l->to = l->from + (uint64_t)segment->count;
    DEVICE_TRY(b->lend(context, segment->memory, bytes, &l->out));
    dpmf_status status = b->launch(context, rows->program, l, stream), back = b->give_back(context, l->out, bytes);
    return status != DPMF_OK ? status : back;
}

static dpmf_status emit(const device_rows *rows, device_launch *l, const device_target *target, void *stream) {
    int64_t before = 0;
    l->type = target->type;
    l->add = target->add;
    l->scale = (float)target->scale;
    if (target->memory != 0) {
        l->from = (uint64_t)rows->first;
        l->to = l->from + (uint64_t)rows->count;
        l->out = target->memory;
        return rows->device->backend->launch(rows->device->context, rows->program, l, stream);
    }
    for (int64_t i = 0; i < target->segments; i++) {
        DEVICE_TRY(emit_segment(rows, l, &target->segment[i], before, stream));
        before += target->segment[i].count;
    }
    return DPMF_OK;
}

/* All of the coordinates in memory, to `out`, which is on the device, or to nothing. */
static dpmf_status make_all(const device_rows *rows, device_launch *l, device_memory out, void *stream) {
    l->from = (uint64_t)rows->base;
    l->to = (uint64_t)(rows->base + rows->padded);
    l->out = out;
    l->type = out == 0 ? DEVICE_NOTHING : DPMF_DEVICE_FLOAT32;
    l->scale = 1; /* changes no number */
    return rows->device->backend->launch(rows->device->context, rows->program, l, stream);
}

/* Makes one more row; in a ring it replaces the oldest. */
static void count_made(device_rows *rows) {
    rows->made++;
    if (rows->kept < rows->made - rows->buffers) rows->kept = rows->made - rows->buffers;
}

dpmf_status device_rows_make(device_rows *rows, int64_t t, const device_target *target, void *stream) {
    const device_backend *b = rows->device->backend;
    void *context = rows->device->context;
    device_launch l;
    DEVICE_TRY(b->order(context, rows->program, stream));
    DEVICE_TRY(prepare(rows, t, stream, &l));
    if (target == NULL)
        DEVICE_TRY(make_all(rows, &l, 0, stream));
    else
        DEVICE_TRY(emit(rows, &l, target, stream));
    if (rows->made == t) count_made(rows);
    rows->ahead_of = -1;
    return b->mark(context, rows->program, stream);
}

dpmf_status device_rows_ahead(device_rows *rows, int64_t t, void *stream) {
    const device_backend *b = rows->device->backend;
    device_launch l;
    if (rows->ahead_of == t || t < rows->made) return DPMF_OK;
    DEVICE_TRY(b->order(rows->device->context, rows->program, stream));
    DEVICE_TRY(prepare(rows, t, stream, &l));
    DEVICE_TRY(make_all(rows, &l, rows->ahead, stream));
    count_made(rows);
    rows->ahead_of = t;
    return b->mark(rows->device->context, rows->program, stream);
}

dpmf_status device_rows_seek(device_rows *rows, int64_t step, void *stream) {
    dpmf_recipe recipe;
    if (rows->ahead_of == step || rows->made == step) return DPMF_OK;
    DEVICE_TRY(device_took(dpmf_noise_recipe(rows->noise, step < rows->steps ? step : rows->steps - 1, &recipe)));
    rows->ahead_of = -1;
    if (recipe.kind == DPMF_RECIPE_FEEDBACK && step >= rows->kept && step < rows->made) return DPMF_OK;
    if (recipe.buffers == 0)
        rows->made = rows->kept = step;
    else if (step < rows->made || rows->made < recipe.start)
        rows->made = rows->kept = recipe.start; /* whose row begins with buffers of 0 */
    while (rows->made < step)
        DEVICE_TRY(device_rows_make(rows, rows->made, NULL, stream));
    return DPMF_OK;
}

/* Buffer after buffer, between the device and the bytes of a checkpoint. */
static dpmf_status copy_buffers(const device_rows *rows, char *out, const char *in) {
    const device_backend *b = rows->device->backend;
    const uint64_t row = bytes_of(rows->count, sizeof(float)), skip = bytes_of(rows->first - rows->base, sizeof(float));
    DEVICE_TRY(b->wait(rows->device->context));
    for (int64_t j = 0; j < rows->buffers; j++) {
        const uint64_t place = bytes_of(j * rows->padded, sizeof(float)) + skip, at = (uint64_t)j * row;
        DEVICE_TRY(out != NULL ? b->read(rows->device->context, rows->state, place, out + at, row)
                               : b->write(rows->device->context, rows->state, place, in + at, row, NULL));
    }
    return b->wait(rows->device->context);
}

dpmf_status device_rows_read(void *context, int64_t *made, void *buffers) {
    device_rows *rows = context;
    dpmf_status status = copy_buffers(rows, buffers, NULL);
    rows->failed = status != DPMF_OK;
    if (status == DPMF_OK) *made = rows->made;
    return status;
}

dpmf_status device_rows_write(void *context, int64_t step, int64_t made, const void *buffers) {
    device_rows *rows = context;
    dpmf_status status = copy_buffers(rows, NULL, buffers);
    rows->failed = status != DPMF_OK;
    rows->made = status == DPMF_OK ? made : -1; /* some are new: the next row starts again at its block */
    rows->kept = status == DPMF_OK ? step : -1;
    rows->ahead_of = -1;
    return status;
}
