/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a data file, plain or in gzip, a piece at a time and with the library's own memory. */
#include "train/packed.h"

#include "base/file.h"
#include "base/memory.h"

#include <string.h>

enum { GZIP_WINDOW = 15 + 16 };

static void *take_memory(void *context, unsigned items, unsigned size) {
    void *memory = NULL;
    (void)context;
    return base_alloc((int64_t)items, size, "decompression", &memory) == DPMF_OK ? memory : NULL;
}

static void give_memory(void *context, void *memory) {
    (void)context;
    base_free(memory);
}

dpmf_status train_packed_open(const uint8_t *bytes, size_t size, const char *name, train_packed *s) {
    memset(s, 0, sizeof *s);
    s->bytes = bytes;
    s->size = size;
    s->name = name;
    s->gzip = size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
    if (!s->gzip) return DPMF_OK;
    s->stream.zalloc = take_memory;
    s->stream.zfree = give_memory;
    if (inflateInit2(&s->stream, GZIP_WINDOW) != Z_OK)
        return base_fail(DPMF_ERROR_MEMORY, "no memory to decompress '%s'", name);
    return DPMF_OK;
}

/* Up to `size` bytes; *got is less at the end only. zlib counts in 32 bits, so both sides go in pieces. */
static dpmf_status read_gzip(train_packed *s, uint8_t *out, size_t size, size_t *got) {
    const size_t piece = (size_t)1 << 30;
    size_t done = 0;
    while (done < size && !s->ended) {
        const size_t room = size - done < piece ? size - done : piece;
        const size_t left = s->size - s->used < piece ? s->size - s->used : piece;
        s->stream.next_in = (Bytef *)(uintptr_t)(s->bytes + s->used);
        s->stream.avail_in = (uInt)left;
        s->stream.next_out = out + done;
        s->stream.avail_out = (uInt)room;
        const int code = inflate(&s->stream, Z_NO_FLUSH);
        s->used += left - s->stream.avail_in;
        done += room - s->stream.avail_out;
        if (code == Z_STREAM_END) s->ended = 1;
        if (code == Z_MEM_ERROR) return base_fail(DPMF_ERROR_MEMORY, "no memory to decompress '%s'", s->name);
        if (code == Z_BUF_ERROR || (code == Z_OK && left == 0 && s->stream.avail_out == room))
            return base_fail(DPMF_ERROR_FORMAT, "'%s' is cut short: its gzip stream does not end", s->name);
        if (code != Z_OK && code != Z_STREAM_END)
            return base_fail(DPMF_ERROR_FORMAT, "'%s' is damaged: its gzip stream cannot be read", s->name);
    }
    *got = done;
    return DPMF_OK;
}

dpmf_status train_packed_read(train_packed *s, uint8_t *out, size_t size, size_t *got) {
    if (s->gzip) return read_gzip(s, out, size, got);
    *got = s->size - s->used < size ? s->size - s->used : size;
    memcpy(out, s->bytes + s->used, *got);
    s->used += *got;
    return DPMF_OK;
}

dpmf_status train_packed_end(train_packed *s) {
    uint8_t one;
    size_t got = 0;
    TRY(train_packed_read(s, &one, 1, &got));
    if (got != 0 || s->used != s->size)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' has more bytes than belong to it", s->name);
    return DPMF_OK;
}

void train_packed_close(train_packed *s) {
    if (s->gzip) inflateEnd(&s->stream);
    s->gzip = 0;
}

dpmf_status train_packed_load(const char *path, char name[64], uint8_t **bytes, size_t *size) {
    TRY(base_file_read(path, "data file", bytes, size));
    const size_t length = strlen(path);
    base_show(length > 60 ? path + (length - 60) : path, length > 60 ? 60 : length, name);
    return DPMF_OK;
}
