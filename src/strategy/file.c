/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies in a mechanism file: {"class": how it is held, "family": its name, ...}, the arrays beside it. A
 * normalized strategy holds the inner one and its norms are computed again, so that they cannot disagree with it.
 */
#include "strategy/blt.h"
#include "strategy/strategy.h"
#include "strategy/tvblt.h"
#include "workload/workload.h"

#include <string.h>

static const char *const FAMILIES[] = {"identity", "workload", "toeplitz", "banded-toeplitz", "bsr",       "bisr",
                                       "banded",   "dense",    "tree",     "tree-online",     "tree-full", "fft",
                                       "fft-opt",  "tvblt",    "blt",      "lowrank"};

void dpmf_i_strategy_write(const dpmf_strategy *s, dpmf_i_base_writer *w, dpmf_i_base_tensors *tensors) {
    if (!dpmf_i_strategy_can(s, DPMF_I_STRATEGY_CAN_SAVE)) {
        w->status = dpmf_i_base_fail(DPMF_ERROR_UNSUPPORTED, "family %s: it cannot be saved in a file", s->family);
        return;
    }
    dpmf_i_base_json_text(w, "class", s->ops->class_name);
    dpmf_i_base_json_text(w, "family", s->family);
    s->ops->write(s, w, tensors);
}

dpmf_status dpmf_i_strategy_array(const dpmf_i_strategy_source *source, const char *name, int64_t rows, int64_t columns,
                                  const dpmf_i_base_tensor **out) {
    const dpmf_i_base_tensor *t = dpmf_i_base_tensors_find(source->tensors, name);
    if (t == NULL) return dpmf_i_base_fail(DPMF_ERROR_FORMAT, "mechanism file: the array %s is missing", name);
    int fits = t->dimensions == (columns == 0 ? 1 : 2) && (rows < 0 || t->shape[0] == rows) &&
               (columns <= 0 || t->shape[1] == columns);
    if (!fits) return dpmf_i_base_fail(DPMF_ERROR_FORMAT, "mechanism file: the array %s has the wrong shape", name);
    *out = t;
    return DPMF_OK;
}

/* C = A: its own workload object, which is usually the mechanism's. */
static dpmf_status read_own(const dpmf_i_strategy_source *source, dpmf_strategy **out) {
    const cJSON *object = NULL;
    dpmf_workload *workload = NULL;
    TRY(dpmf_i_base_json_get_object(source->object, "workload", "strategy", &object));
    TRY(dpmf_i_workload_read(object, source->steps, "strategy.workload", source->tensors, &workload));
    dpmf_status status = dpmf_i_strategy_create_workload(workload, out);
    dpmf_workload_free(workload);
    return status;
}

static dpmf_status read_normalized(const dpmf_i_strategy_source *source, dpmf_strategy **out) {
    const cJSON *object = NULL;
    dpmf_strategy *inner = NULL;
    TRY(dpmf_i_base_json_get_object(source->object, "inner", "strategy", &object));
    TRY(dpmf_i_strategy_read(object, source->steps, source->workload, source->tensors, &inner));
    dpmf_status status = dpmf_strategy_create_normalized(inner, out);
    dpmf_strategy_free(inner);
    return status;
}

static dpmf_status read_stamped(const dpmf_i_strategy_source *source, dpmf_strategy **out) {
    const cJSON *object = NULL;
    dpmf_strategy *inner = NULL;
    int64_t stamps = 0;
    TRY(dpmf_i_base_json_get_object(source->object, "inner", "strategy", &object));
    TRY(dpmf_i_base_json_get_integer(source->object, "stamps", "strategy", 2, source->steps, &stamps));
    if (source->steps % stamps != 0)
        return dpmf_i_base_fail(DPMF_ERROR_FORMAT, "mechanism file: %lld stamps do not divide the steps",
                                (long long)stamps);
    TRY(dpmf_i_strategy_read(object, source->steps / stamps, source->workload, source->tensors, &inner));
    dpmf_status status = dpmf_strategy_create_stamped(inner, stamps, out);
    dpmf_strategy_free(inner);
    return status;
}

typedef struct reader {
    const char *class_name;
    dpmf_status (*read)(const dpmf_i_strategy_source *source, dpmf_strategy **out);
} reader;

static const reader READERS[] = {{"toeplitz", dpmf_i_strategy_toeplitz_read},
                                 {"banded", dpmf_i_strategy_banded_read},
                                 {"dense", dpmf_i_strategy_dense_read},
                                 {"tree", dpmf_i_strategy_tree_read},
                                 {"fft", dpmf_i_strategy_fft_read},
                                 {"tvblt", dpmf_i_strategy_tvblt_read},
                                 {"blt", dpmf_i_strategy_blt_read},
                                 {"lowrank", dpmf_i_strategy_lowrank_read},
                                 {"workload", read_own},
                                 {"normalized", read_normalized},
                                 {"stamped", read_stamped}};

dpmf_status dpmf_i_strategy_read(const cJSON *object, int64_t steps, const dpmf_workload *workload,
                                 const dpmf_i_base_tensors *tensors, dpmf_strategy **out) {
    const char *class_name = NULL, *family = NULL;
    dpmf_i_strategy_source source = {.object = object, .tensors = tensors, .workload = workload, .steps = steps};
    TRY(dpmf_i_base_json_get_text(object, "class", "strategy", &class_name));
    TRY(dpmf_i_base_json_get_text(object, "family", "strategy", &family));
    for (size_t i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0]; i++)
        if (strcmp(family, FAMILIES[i]) == 0) source.family = FAMILIES[i];
    if (source.family == NULL)
        return dpmf_i_base_fail(DPMF_ERROR_FORMAT, "mechanism file: the strategy's family is not known");
    for (size_t i = 0; i < sizeof READERS / sizeof READERS[0]; i++)
        if (strcmp(class_name, READERS[i].class_name) == 0) return READERS[i].read(&source, out);
    return dpmf_i_base_fail(DPMF_ERROR_FORMAT, "mechanism file: the strategy's class is not known");
}
