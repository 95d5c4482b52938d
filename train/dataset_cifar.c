/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CIFAR-10's binary format: records of 3073 bytes without a header. The first byte is the class, 0 to 9; then come 32 x 32
 * bytes of red, of green and of blue, row by row (Krizhevsky 2009). A file may be in gzip.
 *
 * The size of a file is known only at its end, so the memory for the records grows with what was read.
 */
#include "train/train.h"

#include "base/file.h"
#include "base/memory.h"
#include "train/packed.h"

#include <inttypes.h>
#include <string.h>

enum { CHANNELS = 3, SIDE = 32, PIXELS = CHANNELS * SIDE * SIDE, RECORD = 1 + PIXELS, CLASSES = 10, FIRST = 8 };

/* Records of all files so far. */
typedef struct records {
    uint8_t *bytes;
    int64_t count, room;
} records;

static dpmf_status grow(records *r, int64_t more) {
    uint8_t *made = NULL;
    TRY(base_alloc(r->room + more, RECORD, "a data file", (void **)&made));
    if (r->count > 0) memcpy(made, r->bytes, (size_t)r->count * RECORD);
    base_free(r->bytes);
    r->bytes = made;
    r->room += more;
    return DPMF_OK;
}

/* Whole records to the end of a file. */
static dpmf_status read_records(train_packed *s, records *r) {
    const int64_t first = r->count;
    size_t asked = 0, got = 0;
    do {
        /* Of a plain file all; of a packed one as many again as there are. One more finds the end. */
        if (r->count == r->room) {
            const int64_t doubled = r->count > FIRST ? r->count : FIRST;
            TRY(grow(r, s->gzip ? doubled : (int64_t)((s->size - s->used) / RECORD) + 1));
        }
        asked = (size_t)(r->room - r->count) * RECORD;
        TRY(train_packed_read(s, r->bytes + r->count * RECORD, asked, &got));
        r->count += (int64_t)(got / RECORD);
        if (got % RECORD != 0)
            return base_fail(DPMF_ERROR_FORMAT,
                             "'%s' is cut short: %zu bytes follow its %" PRId64 " whole records of %d bytes", s->name,
                             got % RECORD, r->count - first, RECORD);
    } while (got == asked);
    TRY(train_packed_end(s));
    if (r->count == first) return base_fail(DPMF_ERROR_FORMAT, "'%s' has no records", s->name);
    for (int64_t i = first; i < r->count; i++)
        if (r->bytes[i * RECORD] >= CLASSES)
            return base_fail(DPMF_ERROR_FORMAT, "'%s' has label %d in record %" PRId64 ", accepted: 0 to %d", s->name,
                             r->bytes[i * RECORD], i - first, CLASSES - 1);
    return DPMF_OK;
}

static dpmf_status add_file(const uint8_t *bytes, size_t size, const char *name, records *r) {
    train_packed s = {0};
    TRY(train_packed_open(bytes, size, name, &s));
    dpmf_status status = read_records(&s, r);
    train_packed_close(&s);
    return status;
}

static dpmf_status make_dataset(const records *r, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    dpmf_dataset *made = NULL;
    TRY(train_dataset_allocate(r->count, PIXELS, 0, &made));
    made->channels = CHANNELS;
    made->height = made->width = SIDE;
    made->classes = CLASSES;
    for (int64_t i = 0; i < r->count; i++) {
        const uint8_t *record = r->bytes + i * RECORD;
        made->label[i] = record[0];
        for (int64_t j = 0; j < PIXELS; j++)
            made->x[i * PIXELS + j] = (float)record[1 + j] / 255.0f;
    }
    const base_part parts[] = {{"dpmf cifar 1", 12}, {r->bytes, (size_t)r->count * RECORD}};
    TRY_DONE(base_sha256(2, parts, made->digest));
    train_dataset_finish(made);
done:
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_dataset_free(made);
    return status;
}

dpmf_status train_cifar_decode(const uint8_t *bytes, size_t size, const char *name, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    records r = {0};
    TRY_DONE(add_file(bytes, size, name, &r));
    TRY_DONE(make_dataset(&r, out));
done:
    base_free(r.bytes);
    return status;
}

static dpmf_status load_file(const char *path, records *r) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    char name[64];
    TRY(train_packed_load(path, name, &bytes, &size));
    dpmf_status status = add_file(bytes, size, name, r);
    base_free(bytes);
    return status;
}

dpmf_status dpmf_dataset_load_cifar(int64_t files, const char *const *paths, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    records r = {0};
    if (paths == NULL || out == NULL || files < 1)
        return base_fail(
            DPMF_ERROR_ARGUMENT,
            "dpmf_dataset_load_cifar: %" PRId64 " files, accepted: at least 1; or the paths or out are NULL", files);
    for (int64_t i = 0; i < files; i++) {
        if (paths[i] == NULL) {
            status = base_fail(DPMF_ERROR_ARGUMENT, "dpmf_dataset_load_cifar: path %" PRId64 " is NULL", i);
            goto done;
        }
        TRY_DONE(load_file(paths[i], &r));
    }
    TRY_DONE(make_dataset(&r, out));
done:
    base_free(r.bytes);
    return status;
}
