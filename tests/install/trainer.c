/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program with the trainer: its data are counted in libdpmf's memory, and its failures set libdpmf's message. */
#include <dpmf_train.h>
#define DPMF_EXPERIMENTAL
#include <dpmf_experimental.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    const float x[4] = {0, 1, 1, 0};
    const int32_t label[2] = {0, 1};
    dpmf_dataset *data = NULL, *none = NULL;
    const uint64_t before = dpmf_memory_in_use();
    if (dpmf_dataset_create(2, 2, 2, x, label, NULL, &data) != DPMF_OK) {
        fprintf(stderr, "%s\n", dpmf_last_error());
        return 1;
    }
    const int counted = dpmf_memory_in_use() > before;
    dpmf_dataset_free(data);
    const int refused = dpmf_dataset_load_idx("none", "none", &none) == DPMF_ERROR_IO;
    return counted && dpmf_memory_in_use() == before && refused && strstr(dpmf_last_error(), "none") != NULL ? 0 : 1;
}
