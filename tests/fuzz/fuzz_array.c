/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf_array_decode on any bytes. An accepted array must be sound, it must be read back as the same numbers from its
 * plainest form, and no memory may be left in use.
 */
#include "fuzz.h"

#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

uint64_t fuzz_accepted;

/* Our own writing of version 1 with '<f8', not the library's. */
static void check_round_trip(const dpmf_array *array, int64_t count) {
    char text[128];
    int length =
        array->dimensions == 1
            ? snprintf(text, sizeof text, "{'descr':'<f8','fortran_order':False,'shape':(%" PRId64 ",)}\n",
                       array->shape[0])
            : snprintf(text, sizeof text, "{'descr':'<f8','fortran_order':False,'shape':(%" PRId64 ",%" PRId64 ")}\n",
                       array->shape[0], array->shape[1]);
    size_t header = (size_t)length, data = 8 * (size_t)count;
    uint8_t *bytes = malloc(10 + header + data);
    REQUIRE(bytes != NULL);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (uint8_t)header;
    bytes[9] = 0;
    memcpy(bytes + 10, text, header);
    memcpy(bytes + 10 + header, array->values, data);
    dpmf_array back = {0};
    dpmf_status status = dpmf_array_decode(bytes, 10 + header + data, &back);
    REQUIRE(status == DPMF_OK);
    REQUIRE(back.dimensions == array->dimensions && memcmp(back.shape, array->shape, sizeof back.shape) == 0);
    REQUIRE(memcmp(back.values, array->values, data) == 0);
    dpmf_array_free(&back);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dpmf_memory_set_limit(FUZZ_MEMORY_LIMIT);
    const uint64_t before = dpmf_memory_in_use();
    dpmf_array array = {.dimensions = -1};
    dpmf_status status = dpmf_array_decode(data, size, &array);
    if (status != DPMF_OK) {
        REQUIRE(status == DPMF_ERROR_FORMAT || status == DPMF_ERROR_MEMORY);
        REQUIRE(array.dimensions == -1 && array.values == NULL);
        REQUIRE(dpmf_last_error()[0] != '\0' && strchr(dpmf_last_error(), '\n') == NULL);
    } else {
        fuzz_accepted++;
        REQUIRE(array.dimensions == 1 || array.dimensions == 2);
        REQUIRE(array.shape[0] > 0 && array.shape[1] > 0 && (array.dimensions == 2 || array.shape[1] == 1));
        REQUIRE((uint64_t)array.shape[0] <= size && (uint64_t)array.shape[1] <= size);
        const int64_t count = array.shape[0] * array.shape[1];
        REQUIRE((uint64_t)count <= size / 4);
        for (int64_t i = 0; i < count; i++)
            REQUIRE(isfinite(array.values[i]));
        check_round_trip(&array, count);
        dpmf_array_free(&array);
    }
    REQUIRE(dpmf_memory_in_use() == before);
    return 0;
}
