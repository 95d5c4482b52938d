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

enum { CHANNELS = 3, SIDE = 32, PIXELS = CHANNELS * SIDE * SIDE, RECORD = 1 + PIXELS, CLASSES = 10, PIECE = 1024 };

/* Records of all files so far. */
typedef struct records {
    uint8_t *bytes;
    int64_t count, room;
} records;

static dpmf_status grow(records *r) {
    uint8_t *more = NULL;
    const int64_t room = r->room + (r->room / 2 > PIECE ? r->room / 2 : PIECE);
    TRY(base_alloc(room, RECORD, "a data file", (void **)&more));
    if (r->count > 0) memcpy(more, r->bytes, (size_t)r->count * RECORD);
    base_free(r->bytes);
    r->bytes = more;
    r->room = room;
    return DPMF_OK;
}

static dpmf_status read_records(train_packed *s, records *r) {
    const int64_t first = r->count;
    size_t got = 0;
    do {
        if (r->room - r->count < PIECE) TRY(grow(r));
        TRY(train_packed_read(s, r->bytes + r->count * RECORD, (size_t)PIECE * RECORD, &got));
        if (got % RECORD != 0)
            return base_fail(DPMF_ERROR_FORMAT,
                             "'%s' is cut short: %zu bytes follow its %" PRId64 " whole records of %d bytes", s->name,
                             got % RECORD, r->count - first + (int64_t)(got / RECORD), RECORD);
        r->count += (int64_t)(got / RECORD);
    } while (got == (size_t)PIECE * RECORD);
    TRY(train_packed_end(s));
    if (r->count == first) return base_fail(DPMF_ERROR_FORMAT, "'%s' has no records", s->name);
    for (int64_t i = first; i < r->count; i++)
        if (r->bytes[i * RECORD] >= CLASSES)
            return base_fail(DPMF_ERROR_FORMAT, "'%s' has label %d in record %" PRId64 ", accepted: 0 to %d", s->name,
                             r->bytes[i * RECORD], i - first, CLASSES - 1);
    return DPMF_OK;
}

static dpmf_status load_file(const char *path, records *r) {
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    size_t size = 0;
    char name[64];
    train_packed s = {0};
    TRY(train_packed_load(path, name, &bytes, &size));
    TRY_DONE(train_packed_open(bytes, size, name, &s));
    TRY_DONE(read_records(&s, r));
done:
    train_packed_close(&s);
    base_free(bytes);
    return status;
}

dpmf_status dpmf_dataset_load_cifar(int64_t files, const char *const *paths, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    records r = {0};
    dpmf_dataset *made = NULL;
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
    TRY_DONE(train_dataset_allocate(r.count, PIXELS, 0, &made));
    made->channels = CHANNELS;
    made->height = made->width = SIDE;
    made->classes = CLASSES;
    for (int64_t i = 0; i < r.count; i++) {
        const uint8_t *record = r.bytes + i * RECORD;
        made->label[i] = record[0];
        for (int64_t j = 0; j < PIXELS; j++)
            made->x[i * PIXELS + j] = (float)record[1 + j] / 255.0f;
    }
    const base_part parts[] = {{"dpmf cifar 1", 12}, {r.bytes, (size_t)r.count * RECORD}};
    TRY_DONE(base_sha256(2, parts, made->digest));
    train_dataset_finish(made);
done:
    base_free(r.bytes);
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_dataset_free(made);
    return status;
}
