/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two things that a family's file needs of the mechanism file: an inner strategy written, whatever it is, and an
 * array taken back in the shape that is expected. Who reads what is in strategy/file.c.
 */
#include "strategy/strategy.h"

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
