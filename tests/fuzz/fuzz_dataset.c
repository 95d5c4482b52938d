/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readers of data sets on any bytes: the first chooses the reader (i: IDX images, l: IDX labels, b: CIFAR-10, c: CSV), the rest
 * is the file. Accepted data must be complete and within bounds, and no memory may be left in use.
 */
#include "fuzz.h"

#include "base/memory.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

uint64_t fuzz_accepted;

static dpmf_status read_idx(const uint8_t *data, size_t size, int dimensions) {
    int64_t shape[3] = {-1, -1, -1};
    uint8_t *payload = NULL;
    dpmf_status status = train_idx_decode(data, size, "fuzz", dimensions, shape, &payload);
    if (status != DPMF_OK) {
        REQUIRE(payload == NULL && shape[0] == -1);
        return status;
    }
    REQUIRE(shape[0] > 0 && shape[1] > 0 && shape[2] > 0);
    uint64_t sum = 0;
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; i++)
        sum += payload[i]; /* every byte is there to be read */
    REQUIRE(sum <= (uint64_t)(shape[0] * shape[1] * shape[2]) * 255);
    base_free(payload);
    return status;
}

static dpmf_status read_cifar(const uint8_t *data, size_t size) {
    dpmf_dataset *made = NULL;
    dpmf_status status = train_cifar_decode(data, size, "fuzz", &made);
    if (status != DPMF_OK) {
        REQUIRE(made == NULL);
        return status;
    }
    REQUIRE(made->count > 0 && made->features == 3072 && made->classes == 10);
    for (int64_t i = 0; i < made->count; i++) {
        REQUIRE(made->label[i] >= 0 && made->label[i] < made->classes);
        for (int64_t j = 0; j < made->features; j++)
            REQUIRE(made->x[i * made->features + j] >= 0 && made->x[i * made->features + j] <= 1);
    }
    dpmf_dataset_free(made);
    return status;
}

static dpmf_status read_csv(const uint8_t *data, size_t size) {
    dpmf_dataset *made = NULL;
    const char *unit = size > 0 && data[size - 1] % 2 == 0 ? "u" : NULL;
    dpmf_status status = train_csv_decode((const char *)data, size, "fuzz", "label", unit, &made);
    if (status != DPMF_OK) {
        REQUIRE(made == NULL);
        return status;
    }
    REQUIRE(made->count > 0 && made->features > 0 && (uint64_t)(made->count * made->features) <= size);
    for (int64_t i = 0; i < made->count; i++) {
        REQUIRE(made->label[i] >= 0 && made->label[i] < made->classes);
        REQUIRE(unit == NULL || (made->unit[i] >= 0 && made->unit[i] < made->units));
        for (int64_t j = 0; j < made->features; j++)
            REQUIRE(isfinite(made->x[i * made->features + j]));
    }
    dpmf_dataset_free(made);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dpmf_memory_set_limit(FUZZ_MEMORY_LIMIT);
    const uint64_t before = dpmf_memory_in_use();
    if (size == 0) return 0;
    dpmf_status status = data[0] == 'c'   ? read_csv(data + 1, size - 1)
                         : data[0] == 'b' ? read_cifar(data + 1, size - 1)
                         : data[0] == 'l' ? read_idx(data + 1, size - 1, 1)
                                          : read_idx(data + 1, size - 1, 3);
    if (status != DPMF_OK) {
        REQUIRE(status == DPMF_ERROR_FORMAT || status == DPMF_ERROR_MEMORY || status == DPMF_ERROR_ARGUMENT);
        REQUIRE(dpmf_last_error()[0] != '\0' && strchr(dpmf_last_error(), '\n') == NULL);
    } else {
        fuzz_accepted++;
    }
    REQUIRE(dpmf_memory_in_use() == before);
    return 0;
}
