/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that keeps the features of a data set.
 *
 *     16 bytes   "dpmf features 1\n"
 *     64 bytes   the digest of the data set that they make, in hexadecimal digits: what it was made from, and how
 *     24 bytes   examples, features, examples per block: 64-bit integers
 *     24 bytes   zeros
 *     numbers    of half precision, one example after the other
 *     32 bytes   per block: SHA-256 of its numbers
 *     32 bytes   SHA-256 of everything before the numbers and of the digests of the blocks
 *
 * Integers and numbers are little-endian. Every byte is covered by a digest, so a file that was changed or cut is
 * found out; blocks are checked by several threads. The digests hold no secret, so a person who can write the file can make
 * them again: a file of another user, or that others can write, is not read. The last digest goes into the data set's (train/features.c),
 * so that other numbers are other data, with other noise. The file is as private as the data: its mode is 0600.
 */
#include "train/scattering.h"

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 128, SUM = 32 };
static const char WHAT[] = "features file";

static void fill_head(const train_features_name *name, uint8_t out[HEAD]) {
    const int64_t sizes[3] = {name->count, name->features, TRAIN_FEATURES_BLOCK};
    memset(out, 0, HEAD);
    memcpy(out, "dpmf features 1\n", 16);
    memcpy(out + 16, name->digest, 64);
    memcpy(out + 80, sizes, sizeof sizes);
}

static int64_t blocks_of(const train_features_name *name) {
    return (name->count + TRAIN_FEATURES_BLOCK - 1) / TRAIN_FEATURES_BLOCK;
}

static int64_t block_size(const train_features_name *name, int64_t index) {
    const int64_t left = name->count - index * TRAIN_FEATURES_BLOCK;
    return left < TRAIN_FEATURES_BLOCK ? left : TRAIN_FEATURES_BLOCK;
}

/* Of the head and the digests of the blocks. */
static dpmf_status sum_up(const train_features_name *name, const uint8_t *sums, uint8_t out[SUM]) {
    uint8_t head[HEAD];
    fill_head(name, head);
    const base_part parts[] = {{head, HEAD}, {sums, (size_t)blocks_of(name) * SUM}};
    return base_sha256_bytes(2, parts, out);
}

dpmf_status train_features_path(const char *directory, const train_features_name *name, char out[TRAIN_FEATURES_PATH]) {
    const int length = snprintf(out, TRAIN_FEATURES_PATH, "%s/dpmf-features-%.32s", directory, name->digest);
    if (length < TRAIN_FEATURES_PATH) return DPMF_OK;
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_ARGUMENT, "the name of the directory '%s' has %zu bytes, accepted: up to %d",
                     base_show_path(directory, shown), strlen(directory), TRAIN_FEATURES_PATH - 48);
}

/* ---- writing ---- */

struct train_features_writer {
    train_features_name name;
    int kept; /* 1: there is a file; else the numbers are summed up only */
    atomic_file file;
    char path[TRAIN_FEATURES_PATH];
    uint8_t *sums;
    int64_t written; /* blocks */
};

static void leave_file(train_features_writer *writer) {
    if (writer->kept) atomic_file_close(&writer->file);
    writer->kept = 0;
}

void train_features_close(train_features_writer *writer) {
    if (writer == NULL) return;
    leave_file(writer);
    base_free(writer->sums);
    base_free(writer);
}

static dpmf_status put(train_features_writer *w, const void *bytes, size_t size) {
    return atomic_file_write(&w->file, bytes, size) ? DPMF_OK : base_atomic_fail(&w->file, WHAT);
}

dpmf_status train_features_begin(const char *path, const train_features_name *name, train_features_writer **out) {
    dpmf_status status = DPMF_OK;
    train_features_writer *made = NULL;
    uint8_t head[HEAD];
    TRY(base_alloc(1, sizeof *made, "the features file", (void **)&made));
    made->file.file = -1;
    made->name = *name;
    TRY_DONE(base_alloc(blocks_of(name), SUM, "the features file", (void **)&made->sums));
    if (path == NULL) goto done;
    snprintf(made->path, sizeof made->path, "%s", path);
    if (!atomic_file_open(&made->file, made->path, true)) {
        status = base_atomic_fail(&made->file, WHAT);
        goto done;
    }
    made->kept = 1;
    fill_head(name, head);
    TRY_DONE(put(made, head, HEAD));
done:
    if (status == DPMF_OK)
        *out = made;
    else
        train_features_close(made);
    return status;
}

dpmf_status train_features_write(train_features_writer *w, int64_t count, const uint16_t *numbers, int *lost) {
    *lost = 0;
    while (count > 0) {
        const int64_t many = block_size(&w->name, w->written);
        const size_t size = (size_t)(many * w->name.features) * sizeof *numbers;
        const base_part part = {numbers, size};
        TRY(base_sha256_bytes(1, &part, w->sums + w->written * SUM));
        if (w->kept && put(w, numbers, size) != DPMF_OK) {
            leave_file(w);
            *lost = 1;
        }
        w->written++;
        numbers += many * w->name.features;
        count -= many;
    }
    return DPMF_OK;
}

static void to_hexadecimal(const uint8_t sum[SUM], char out[2 * SUM + 1]) {
    for (int i = 0; i < SUM; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

dpmf_status train_features_sum(const train_features_writer *w, char out[65]) {
    uint8_t sum[SUM];
    TRY(sum_up(&w->name, w->sums, sum));
    to_hexadecimal(sum, out);
    return DPMF_OK;
}

int train_features_kept(const train_features_writer *w) {
    return w->kept;
}

dpmf_status train_features_commit(train_features_writer *w) {
    uint8_t sum[SUM];
    assert(w->kept);
    TRY(sum_up(&w->name, w->sums, sum));
    TRY(put(w, w->sums, (size_t)blocks_of(&w->name) * SUM));
    TRY(put(w, sum, SUM));
    return atomic_file_commit(&w->file, true) ? DPMF_OK : base_atomic_fail(&w->file, WHAT);
}

/* ---- reading ---- */

struct train_features_reader {
    train_features_name name;
    int file;
    uint8_t *sums;
    char sum[65]; /* of everything */
};

void train_features_read_sum(const train_features_reader *r, char out[65]) {
    memcpy(out, r->sum, sizeof r->sum);
}

void train_features_done(train_features_reader *reader) {
    if (reader == NULL) return;
    if (reader->file >= 0) close(reader->file);
    base_free(reader->sums);
    base_free(reader);
}

static dpmf_status get(const train_features_reader *r, int64_t place, void *bytes, size_t size) {
    size_t got = 0;
    const int error = file_get(r->file, place, bytes, size, &got);
    if (error != 0) return base_fail(DPMF_ERROR_IO, "cannot read the features file: %s", strerror(error));
    return got == size ? DPMF_OK : base_fail(DPMF_ERROR_FORMAT, "it is cut short");
}

static dpmf_status read_frame(train_features_reader *r) {
    const int64_t numbers = r->name.count * r->name.features * (int64_t)sizeof(uint16_t);
    const int64_t sums = blocks_of(&r->name) * SUM, size = HEAD + numbers + sums + SUM;
    uint8_t head[HEAD], wanted[HEAD], sum[SUM], found[SUM];
    struct stat info;
    if (fstat(r->file, &info) != 0 || !S_ISREG(info.st_mode))
        return base_fail(DPMF_ERROR_FORMAT, "it is no regular file");
    if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "it belongs to another user, or others may write to it");
    if (info.st_size != size)
        return base_fail(DPMF_ERROR_FORMAT, "it has %lld bytes instead of %" PRId64, (long long)info.st_size, size);
    fill_head(&r->name, wanted);
    TRY(get(r, 0, head, HEAD));
    if (memcmp(head, wanted, HEAD) != 0) return base_fail(DPMF_ERROR_FORMAT, "its head is not that of these features");
    TRY(get(r, HEAD + numbers, r->sums, (size_t)sums));
    TRY(get(r, HEAD + numbers + sums, found, SUM));
    TRY(sum_up(&r->name, r->sums, sum));
    to_hexadecimal(sum, r->sum);
    return memcmp(sum, found, SUM) == 0 ? DPMF_OK : base_fail(DPMF_ERROR_FORMAT, "its table of digests was changed");
}

dpmf_status train_features_open(const char *path, const train_features_name *name, train_features_reader **out) {
    dpmf_status status = DPMF_OK;
    train_features_reader *made = NULL;
    TRY(base_alloc(1, sizeof *made, "the features file", (void **)&made));
    made->name = *name;
    TRY_DONE(base_alloc(blocks_of(name), SUM, "the features file", (void **)&made->sums));
    made->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not be waited for */
    if (made->file < 0) {
        status = base_file_fail("read", WHAT, path, errno);
        goto done;
    }
    TRY_DONE(read_frame(made));
done:
    if (status == DPMF_OK)
        *out = made;
    else
        train_features_done(made);
    return status;
}

dpmf_status train_features_read(const train_features_reader *r, int64_t index, uint16_t *numbers) {
    const size_t row = (size_t)r->name.features * sizeof *numbers, size = (size_t)block_size(&r->name, index) * row;
    const base_part part = {numbers, size};
    uint8_t sum[SUM];
    TRY(get(r, HEAD + index * TRAIN_FEATURES_BLOCK * (int64_t)row, numbers, size));
    TRY(base_sha256_bytes(1, &part, sum));
    if (memcmp(sum, r->sums + index * SUM, SUM) == 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT, "examples from %" PRId64 " on were changed", index * TRAIN_FEATURES_BLOCK);
}
