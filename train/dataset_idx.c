/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX, the format of MNIST and its successors: big-endian, two zero bytes, the type (8: unsigned bytes), the number of
 * dimensions, each dimension in 32 bits, then the bytes. Often in gzip.
 *
 * Nothing is trusted: the header gives the size of the payload, and exactly that is read. A gzip
 * file is opened for its header first; deflate cannot shrink by more than 1032, so that a header which promises more than
 * its file can hold is refused before any memory is taken for it.
 */
#include "train/train.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "train/packed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEADER_MAX = 16 };

static int64_t big_endian(const uint8_t *bytes) {
    return (int64_t)bytes[0] << 24 | (int64_t)bytes[1] << 16 | (int64_t)bytes[2] << 8 | (int64_t)bytes[3];
}

static dpmf_status read_header(train_packed *s, int dimensions, int64_t shape[3], int64_t *total) {
    uint8_t header[HEADER_MAX];
    const size_t wanted = 4 + 4 * (size_t)dimensions;
    size_t got = 0;
    TRY(train_packed_read(s, header, wanted, &got));
    if (got < 4 || big_endian(header) != 0x800 + dimensions)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' begins with 0x%08" PRIx64 ", accepted: 0x%08x (IDX, bytes, %d %s)",
                         s->name, got < 4 ? 0 : big_endian(header), 0x800u + (unsigned)dimensions, dimensions,
                         dimensions == 1 ? "dimension" : "dimensions");
    if (got < wanted) return base_fail(DPMF_ERROR_FORMAT, "'%s' is cut short in its header", s->name);
    *total = 1;
    for (int i = 0; i < dimensions; i++) {
        shape[i] = big_endian(header + 4 + 4 * i);
        if (shape[i] < 1 || shape[i] > INT64_MAX / 8 / *total)
            return base_fail(DPMF_ERROR_FORMAT,
                             "'%s' has dimension %d of size %" PRId64 ", accepted: at least 1, and "
                             "less than 2^60 bytes in all",
                             s->name, i, shape[i]);
        *total *= shape[i];
    }
    const int64_t most = s->gzip ? (int64_t)(s->size * TRAIN_PACKED_RATIO) : (int64_t)(s->size - s->used);
    if (*total > most)
        return base_fail(DPMF_ERROR_FORMAT,
                         "'%s' is cut short: its header announces %" PRId64 " bytes, and a file of %zu bytes%s cannot "
                         "hold them",
                         s->name, *total, s->size, s->gzip ? " in gzip" : "");
    return DPMF_OK;
}

dpmf_status train_idx_decode(const uint8_t *bytes, size_t size, const char *name, int dimensions, int64_t shape[3],
                             uint8_t **payload) {
    dpmf_status status = DPMF_OK;
    uint8_t *made = NULL;
    int64_t total = 0, found[3] = {1, 1, 1};
    size_t got = 0;
    train_packed s;
    TRY(train_packed_open(bytes, size, name, &s));
    TRY_DONE(read_header(&s, dimensions, found, &total));
    TRY_DONE(base_alloc(total, 1, "a data file", (void **)&made));
    TRY_DONE(train_packed_read(&s, made, (size_t)total, &got));
    if ((int64_t)got < total) {
        status = base_fail(DPMF_ERROR_FORMAT, "'%s' is cut short: %zu of %" PRId64 " bytes", name, got, total);
        goto done;
    }
    TRY_DONE(train_packed_end(&s));
    memcpy(shape, found, sizeof found);
    *payload = made;
done:
    train_packed_close(&s);
    if (status != DPMF_OK) base_free(made);
    return status;
}

/* One file whole; `name` is the path as messages show it. */
static dpmf_status load(const char *path, int dimensions, char name[64], int64_t shape[3], uint8_t **payload) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    TRY(train_packed_load(path, name, &bytes, &size));
    dpmf_status status = train_idx_decode(bytes, size, name, dimensions, shape, payload);
    base_free(bytes);
    return status;
}

dpmf_status dpmf_dataset_load_idx(const char *images, const char *labels, dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    char image_name[64], label_name[64];
    int64_t image_shape[3], label_shape[3];
    uint8_t *pixels = NULL, *classes = NULL;
    dpmf_dataset *made = NULL;
    if (images == NULL || labels == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_dataset_load_idx: a path or out is NULL");
    TRY_DONE(load(images, 3, image_name, image_shape, &pixels));
    TRY_DONE(load(labels, 1, label_name, label_shape, &classes));
    if (image_shape[0] != label_shape[0]) {
        status = base_fail(DPMF_ERROR_FORMAT, "'%s' has %" PRId64 " images and '%s' %" PRId64 " labels", image_name,
                           image_shape[0], label_name, label_shape[0]);
        goto done;
    }
    TRY_DONE(train_dataset_allocate(image_shape[0], image_shape[1] * image_shape[2], 0, &made));
    for (int64_t i = 0; i < made->count * made->features; i++)
        made->x[i] = (float)pixels[i] / 255.0f;
    for (int64_t i = 0; i < made->count; i++)
        made->label[i] = classes[i];
    made->channels = 1;
    made->height = image_shape[1];
    made->width = image_shape[2];
    train_dataset_count_classes(made);
    const int64_t head[] = {made->count, made->features};
    const base_part parts[] = {{"dpmf idx 1", 10},
                               {head, sizeof head},
                               {pixels, (size_t)(made->count * made->features)},
                               {classes, (size_t)made->count}};
    TRY_DONE(base_sha256(4, parts, made->digest));
    train_dataset_finish(made);
done:
    base_free(pixels);
    base_free(classes);
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_dataset_free(made);
    return status;
}
