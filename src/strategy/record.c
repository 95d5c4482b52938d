/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two things that a family's file needs of the mechanism file: an inner strategy written, whatever it is, and an
 * array taken back in the shape that is expected. Who reads what is in strategy/file.c.
 */
#include "strategy/strategy.h"

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
