/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies read from a mechanism file: {"class": how it is held, "family": its name, ...}, the arrays beside it. A
 * normalized strategy holds the inner one and its norms are computed again, so that they cannot disagree with it.
 */
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <string.h>

static dpmf_status read_normalized(const strategy_source *source, dpmf_strategy **out) {
    const cJSON *object = NULL;
    dpmf_strategy *inner = NULL;
    TRY(base_json_get_object(source->object, "inner", "strategy", &object));
    TRY(strategy_read(object, source->steps, source->workload, source->tensors, &inner));
    dpmf_status status = dpmf_strategy_create_normalized(inner, out);
    dpmf_strategy_free(inner);
    return status;
}

static dpmf_status read_stamped(const strategy_source *source, dpmf_strategy **out) {
    const cJSON *object = NULL;
    dpmf_strategy *inner = NULL;
    int64_t stamps = 0;
    TRY(base_json_get_object(source->object, "inner", "strategy", &object));
    TRY(base_json_get_integer(source->object, "stamps", "strategy", 2, source->steps, &stamps));
    if (source->steps % stamps != 0)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: %lld stamps do not divide the steps", (long long)stamps);
    TRY(strategy_read(object, source->steps / stamps, source->workload, source->tensors, &inner));
    dpmf_status status = dpmf_strategy_create_stamped(inner, stamps, out);
    dpmf_strategy_free(inner);
    return status;
}

dpmf_status strategy_read(const cJSON *object, int64_t steps, const dpmf_workload *workload,
                          const base_tensors *tensors, dpmf_strategy **out) {
    const char *class_name = NULL, *family = NULL;
    strategy_source source = {.object = object, .tensors = tensors, .workload = workload, .steps = steps};
    TRY(base_json_get_text(object, "class", "strategy", &class_name));
    TRY(base_json_get_text(object, "family", "strategy", &family));
    const dpmf_family *known = dpmf_family_info(strategy_family_find(family, strlen(family)));
    if (known == NULL) return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the strategy's family is not known");
    source.family = known->name;
    if (strcmp(class_name, "normalized") == 0) return read_normalized(&source, out);
    if (strcmp(class_name, "stamped") == 0) return read_stamped(&source, out);
    strategy_reader read = strategy_family_reader(class_name);
    if (read == NULL) return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the strategy's class is not known");
    return read(&source, out);
}
