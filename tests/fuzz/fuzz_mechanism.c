/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf_mechanism_decode on any bytes. What it accepts must be encoded again to the same bytes, and no memory may be
 * left in use.
 *
 * A digest protects every byte, so blind changes are all refused at the same place. The mutator below therefore takes
 * the container apart, changes the record or the arrays, and puts it together again with the digest that fits.
 */
#include "fuzz.h"

#include "base/memory.h"
#include "base/safetensors.h"
#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

#include <string.h>

uint64_t fuzz_accepted;

/* A mechanism that was accepted can be used: one column of C and of W, where that is little work. */
static void use(const dpmf_mechanism *mechanism) {
    const dpmf_strategy *strategy = dpmf_mechanism_get(mechanism).strategy;
    const int64_t n = dpmf_strategy_get(strategy).steps;
    REQUIRE(n > 0 && n == dpmf_workload_get(dpmf_mechanism_get(mechanism).workload).steps);
    REQUIRE(strlen(dpmf_mechanism_get(mechanism).digest) == 64);
    REQUIRE(dpmf_mechanism_get(mechanism).sigma >= 0);
    if (n > 1000) return;
    const int64_t rows = dpmf_strategy_get(strategy).rows;
    REQUIRE(rows >= n);
    double *x = calloc(2 * (size_t)rows, sizeof *x), *y = x + rows;
    REQUIRE(x != NULL);
    x[0] = 1;
    dpmf_status applied = dpmf_strategy_apply(strategy, x, y), solved = dpmf_strategy_solve(strategy, x, y);
    REQUIRE(applied == DPMF_OK || applied == DPMF_ERROR_NUMERICAL || applied == DPMF_ERROR_MEMORY);
    REQUIRE(solved == DPMF_OK || solved == DPMF_ERROR_NUMERICAL || solved == DPMF_ERROR_MEMORY);
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dpmf_memory_set_limit(FUZZ_MEMORY_LIMIT);
    const uint64_t before = dpmf_memory_in_use();
    dpmf_mechanism *mechanism = NULL;
    dpmf_status status = dpmf_mechanism_decode(data, size, &mechanism);
    if (status != DPMF_OK) {
        REQUIRE(mechanism == NULL);
        REQUIRE(dpmf_last_error()[0] != '\0' && strchr(dpmf_last_error(), '\n') == NULL);
    } else {
        uint8_t *again = NULL;
        size_t again_size = 0;
        fuzz_accepted++;
        use(mechanism);
        status = dpmf_mechanism_encode(mechanism, &again, &again_size);
        REQUIRE(status == DPMF_OK);
        REQUIRE(again_size == size && memcmp(again, data, size) == 0);
        dpmf_bytes_free(again);
        dpmf_mechanism_free(mechanism);
    }
    REQUIRE(dpmf_memory_in_use() == before);
    return 0;
}

/* ---- the mutator ---- */

enum { TEXT_ROOM = 4096, ARRAY_ROOM = 1 << 16 };

/* A container taken apart: the arrays are copies that may be changed. */
typedef struct parts {
    char *text;
    size_t text_room; /* without the last zero */
    base_tensors tensors;
    double *values[BASE_TENSORS_MAX];
} parts;

static int64_t value_count(const base_tensor *t) {
    return t->shape[0] * (t->dimensions == 2 ? t->shape[1] : 1);
}

/* 1 if the bytes are a container; free with put_away. */
static int take_apart(const uint8_t *data, size_t size, parts *out) {
    char digest[65], *text = NULL;
    void *aligned = malloc(size + 1); /* malloc gives what doubles need */
    memset(out, 0, sizeof *out);
    REQUIRE(aligned != NULL);
    memcpy(aligned, data, size);
    int ok = size < ARRAY_ROOM && base_safetensors_read(aligned, size, &text, digest, &out->tensors) == DPMF_OK;
    if (ok) {
        out->text_room = strlen(text) + TEXT_ROOM;
        out->text = calloc(1, out->text_room + 1);
        REQUIRE(out->text != NULL);
        memcpy(out->text, text, strlen(text));
    }
    for (int i = 0; ok && i < out->tensors.count; i++) {
        base_tensor *t = &out->tensors.tensor[i];
        out->values[i] = malloc(8 * (size_t)value_count(t));
        REQUIRE(out->values[i] != NULL);
        memcpy(out->values[i], t->values, 8 * (size_t)value_count(t));
        t->values = out->values[i];
    }
    base_free(text);
    free(aligned);
    return ok;
}

static void put_away(parts *p) {
    free(p->text);
    for (int i = 0; i < BASE_TENSORS_MAX; i++)
        free(p->values[i]);
}

/* The container with the digest that fits, or 0 if it cannot be: no room, or a text that is not UTF-8. */
static size_t put_together(const parts *p, uint8_t *data, size_t max_size) {
    char digest[65];
    uint8_t *header = NULL;
    size_t used = 0;
    if (base_safetensors_digest(p->text, &p->tensors, digest) != DPMF_OK) return 0;
    if (base_safetensors_header(p->text, digest, &p->tensors, &header, &used) != DPMF_OK) return 0;
    size_t total = used;
    for (int i = 0; i < p->tensors.count; i++)
        total += 8 * (size_t)value_count(&p->tensors.tensor[i]);
    if (total <= max_size) {
        memcpy(data, header, used);
        for (int i = 0; i < p->tensors.count; i++) {
            size_t size = 8 * (size_t)value_count(&p->tensors.tensor[i]);
            memcpy(data + used, p->tensors.tensor[i].values, size);
            used += size;
        }
    }
    base_free(header);
    return total <= max_size ? total : 0;
}

static void change_text(parts *p, uint64_t *random) {
    size_t length = strlen(p->text);
    if (fuzz_below(random, 4) == 0 && length > 0) { /* one digit: often still a valid record */
        size_t at = fuzz_below(random, length);
        for (size_t i = 0; i < length && (p->text[at] < '0' || p->text[at] > '9'); i++)
            at = (at + 1) % length;
        p->text[at] = (char)('0' + (int)fuzz_below(random, 10));
        return;
    }
    length = LLVMFuzzerMutate((uint8_t *)p->text, length, p->text_room);
    p->text[length] = '\0';
    for (size_t i = 0; i < length; i++) { /* mostly the record's own errors, not those of UTF-8 */
        if (p->text[i] == '\0' || (unsigned char)p->text[i] > 0x7e) p->text[i] = '0';
    }
}

static void change_values(parts *p, int which, uint64_t *random) {
    static const double special[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-320, 1e308, -1e308, 1e-200, 1e200, 1.0 / 0.0};
    double *values = p->values[which];
    const size_t count = (size_t)value_count(&p->tensors.tensor[which]), at = fuzz_below(random, count);
    if (fuzz_below(random, 2) == 0) {
        values[at] = special[fuzz_below(random, sizeof special / sizeof special[0])];
    } else {
        LLVMFuzzerMutate((uint8_t *)&values[at], 8, 8);
    }
}

static void change_shape(base_tensor *t, uint64_t *random) {
    const int64_t count = value_count(t);
    switch (fuzz_below(random, 4)) {
    case 0: /* a column or a row */
        t->dimensions = 2;
        t->shape[0] = fuzz_below(random, 2) == 0 ? count : 1;
        t->shape[1] = count / t->shape[0];
        break;
    case 1:
        t->dimensions = 1;
        t->shape[0] = count;
        t->shape[1] = 0;
        break;
    case 2: /* fewer rows */
        t->shape[0] = 1 + (int64_t)fuzz_below(random, (size_t)t->shape[0]);
        break;
    default:
        if (t->dimensions == 2) {
            int64_t rows = t->shape[0];
            t->shape[0] = t->shape[1];
            t->shape[1] = rows;
        }
    }
}

static void change_list(parts *p, int which, uint64_t *random) {
    base_tensors *all = &p->tensors;
    const int other = (int)fuzz_below(random, (size_t)all->count);
    base_tensor saved = all->tensor[which];
    switch (fuzz_below(random, 3)) {
    case 0: /* drop it */
        free(p->values[which]);
        all->count--;
        all->tensor[which] = all->tensor[all->count];
        p->values[which] = p->values[all->count];
        p->values[all->count] = NULL;
        break;
    case 1: /* exchange the contents of two, not their names */
        if (other == which) break;
        memcpy(saved.name, all->tensor[other].name, sizeof saved.name);
        memcpy(all->tensor[other].name, all->tensor[which].name, sizeof saved.name);
        all->tensor[which] = all->tensor[other];
        all->tensor[other] = saved;
        double *values = p->values[which];
        p->values[which] = p->values[other];
        p->values[other] = values;
        break;
    default: /* one letter of the name */
        all->tensor[which].name[fuzz_below(random, strlen(saved.name))] = (char)('a' + (int)fuzz_below(random, 26));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    uint64_t random = ((uint64_t)seed << 1 | 1) * 0x9e3779b97f4a7c15u;
    parts p;
    if (fuzz_below(&random, 8) == 0 || !take_apart(data, size, &p)) return LLVMFuzzerMutate(data, size, max_size);
    for (size_t changes = 1 + fuzz_below(&random, 2); changes > 0; changes--) {
        const size_t kind = p.tensors.count > 0 ? fuzz_below(&random, 8) : 0;
        const int which = p.tensors.count > 0 ? (int)fuzz_below(&random, (size_t)p.tensors.count) : 0;
        if (kind < 4) {
            change_text(&p, &random);
        } else if (kind < 6) {
            change_values(&p, which, &random);
        } else if (kind < 7) {
            change_shape(&p.tensors.tensor[which], &random);
        } else {
            change_list(&p, which, &random);
        }
    }
    size_t total = put_together(&p, data, max_size);
    put_away(&p);
    return total > 0 ? total : LLVMFuzzerMutate(data, size, max_size);
}
