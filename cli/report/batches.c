/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf report --units N: noise per epoch of progress against the batch size, at the epochs and the privacy of the file: the best
 * mechanism with and without secret sampling, and DP-SGD (Pillutla, Upadhyay, Choquette-Choo et al. 2025, Figure 3.5). The points
 * are those of two plans. A file does not record the number of units, and a plan takes seconds, so the picture is drawn
 * where --units gives it.
 */
#include "report/report.h"

#include <math.h>

/* Limits on the steps of the file and of a point, so that a page takes some seconds more. */
enum { STEPS_MOST = 8192, POINT_MOST = 16384, SMALLER = 4, LARGER = 16 };

/* Passes over the data, below 1 for a part of one; 0: batches of this participation have no single size. */
static double epochs_of(const report *r) {
    const dpmf_participation_info p = dpmf_participation_get(r->participation);
    const dpmf_sampling *s = &r->sampling;
    if (!r->sampled) return p.is_single ? 1.0 : p.kind == DPMF_PARTICIPATION_CYCLIC ? (double)p.count : 0.0;
    if (s->picks > 0) return (double)r->steps * (double)s->picks / (double)s->count;
    if (!dpmf_sampling_describe(s->kind)->composes) return 0.0;
    const double expected = s->probability * (double)r->steps, whole = round(expected);
    return fabs(expected - whole) <= 1e-9 * expected ? whole : expected;
}

/* The plans with any sampling and without; their points have the same steps. */
static dpmf_status make_plans(const report *r, double epochs, dpmf_plan *plans[2]) {
    dpmf_plan_options how = dpmf_plan_options_defaults();
    dpmf_status status = DPMF_OK;
    how.units = r->given->count[OPTION_UNITS];
    const double own = epochs * (double)how.units / (double)r->steps;
    const double smaller = (double)r->steps * SMALLER <= POINT_MOST ? SMALLER : 1;
    how.epochs_low = how.epochs_high = epochs;
    how.batch_low = (int64_t)fmax(1, round(own / smaller));
    how.batch_high = (int64_t)fmin((double)how.units, fmax(1, round(own * LARGER)));
    how.workload = dpmf_workload_get(r->workload).text;
    how.design.epsilon = dpmf_mechanism_get(r->mechanism).epsilon;
    how.design.delta = r->delta;
    how.design.dim = r->limits.dim;
    how.design.memory = r->limits.memory;
    how.design.loss = r->limits.loss;
    how.design.max_overhead = r->limits.max_overhead > 0.0 ? r->limits.max_overhead : INFINITY;
    how.design.adjacency = dpmf_mechanism_get(r->mechanism).adjacency;
    how.design.run = r->run;
    for (int i = 0; i < 2 && status == DPMF_OK; ++i) {
        how.design.any_sampling = i == 0;
        status = dpmf_plan_create(&how, &plans[i]);
    }
    return status;
}

static void add_points(const report *r, double epochs, const dpmf_plan *sampled, const dpmf_plan *ordered,
                       text_buffer *t) {
    const double noise = r->limits.loss == DPMF_LOSS_MAX ? r->held.max_loss : r->held.rms_loss;
    json_open(t, "batches", '{');
    json_integer(t, "units", r->given->count[OPTION_UNITS]);
    json_double(t, "epochs", epochs);
    json_double(t, "batch", epochs * (double)r->given->count[OPTION_UNITS] / (double)r->steps);
    json_double(t, "noise_per_epoch", r->scale * noise / epochs);
    json_open(t, "points", '[');
    for (int64_t i = 0; i < dpmf_plan_get(sampled).count; ++i) {
        const dpmf_plan_row *row = &dpmf_plan_get(sampled).rows[i], *other = &dpmf_plan_get(ordered).rows[i];
        json_open(t, NULL, '{');
        json_integer(t, "steps", row->steps);
        json_double(t, "batch", row->batch);
        json_text(t, "family", row->chosen.family);
        json_double(t, "noise_per_epoch", row->noise_per_epoch);
        json_text(t, "fixed_family", other->chosen.family);
        json_double(t, "fixed_noise_per_epoch", other->noise_per_epoch);
        json_double(t, "independent_noise_per_epoch", row->independent_noise_per_epoch);
        json_close(t, '}');
    }
    json_close(t, ']');
    json_close(t, '}');
}

int report_batches(report *r, text_buffer *t) {
    dpmf_plan *plans[2] = {NULL, NULL};
    dpmf_status status = DPMF_ERROR_UNSUPPORTED;
    int code = 0;
    if (option_given(r->given, OPTION_UNITS)) {
        const double epochs = epochs_of(r);
        const bool can = r->claimed && epochs > 0.0 && (epochs < 1.0 || epochs == floor(epochs)) &&
                         epochs <= (double)r->steps && dpmf_mechanism_get(r->mechanism).weights == NULL;
        if (!can)
            report_note(r, "Noise against batch sizes is not drawn: the picture is for files with epsilon and delta, "
                           "without weights, in whole epochs or a part of one.");
        else if (r->steps > STEPS_MOST)
            report_note(r,
                        "Noise against batch sizes is not drawn above %d steps, where it takes too long: dpmf plan "
                        "computes it.",
                        STEPS_MOST);
        else {
            status = make_plans(r, epochs, plans);
            if (status == DPMF_OK)
                add_points(r, epochs, plans[0], plans[1], t);
            else
                code = report_without(r, status, "noise against batch sizes");
        }
    }
    if (status != DPMF_OK) json_null(t, "batches");
    dpmf_plan_free(plans[0]);
    dpmf_plan_free(plans[1]);
    return code;
}
