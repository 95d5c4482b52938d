/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies in a mechanism file: {"class": how it is held, "family": its name, ...}, the arrays beside it. Each class
 * writes and reads its own numbers.
 */
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <string.h>

void strategy_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    if (!strategy_can(s, STRATEGY_CAN_SAVE)) {
        w->status = base_fail(DPMF_ERROR_UNSUPPORTED, "family %s: it cannot be saved in a file", s->family);
        return;
    }
    base_json_text(w, "class", s->ops->class_name);
    base_json_text(w, "family", s->family);
    s->ops->write(s, w, tensors);
}

dpmf_status strategy_array(const strategy_source *source, const char *name, int64_t rows, int64_t columns,
                           const base_tensor **out) {
    const base_tensor *t = base_tensors_find(source->tensors, name);
    if (t == NULL) return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the array %s is missing", name);
    int fits = t->dimensions == (columns == 0 ? 1 : 2) && (rows < 0 || t->shape[0] == rows) &&
               (columns <= 0 || t->shape[1] == columns);
    if (!fits) return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the array %s has the wrong shape", name);
    *out = t;
    return DPMF_OK;
}

dpmf_status strategy_read(const cJSON *object, int64_t steps, const dpmf_workload *workload,
                          const base_tensors *tensors, dpmf_strategy **out) {
    const char *class_name = NULL, *family = NULL;
    strategy_source source = {.object = object, .tensors = tensors, .workload = workload, .steps = steps};
    TRY(base_json_get_text(object, "class", "strategy", &class_name));
    TRY(base_json_get_text(object, "family", "strategy", &family));
    const strategy_family *known = strategy_family_find(family, strlen(family));
    if (known == NULL) return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the strategy's family is not known");
    source.family = known->shown.name;
    for (int64_t i = 0; i < families_table.classes; i++)
        if (strcmp(class_name, families_table.class[i].name) == 0) return families_table.class[i].read(&source, out);
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the strategy's class is not known");
}
