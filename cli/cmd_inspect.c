/* SPDX-License-Identifier: Apache-2.0 */
#include "options/verbs.h"
#include "output.h"
#include "problem.h"

#include <stdio.h>

static void print_json(text_buffer *t, const dpmf_mechanism *m, const char *sampling) {
    const dpmf_strategy *strategy = dpmf_mechanism_get(m).strategy;
    dpmf_evaluation held = dpmf_mechanism_get(m).evaluation;
    json_begin(t);
    json_text(t, "family", dpmf_strategy_get(strategy).family);
    json_integer(t, "steps", dpmf_strategy_get(strategy).steps);
    json_integer(t, "bands", dpmf_strategy_get(strategy).bands);
    json_integer(t, "buffers", dpmf_strategy_get(strategy).buffers);
    json_double(t, "normals_per_number", dpmf_strategy_get(strategy).normals);
    json_bool(t, "normalized", dpmf_strategy_get(strategy).is_normalized != 0);
    json_text(t, "workload", dpmf_workload_get(dpmf_mechanism_get(m).workload).text);
    json_text(t, "participation", dpmf_participation_get(dpmf_mechanism_get(m).participation).text);
    json_text(t, "adjacency", dpmf_adjacency_name(dpmf_mechanism_get(m).adjacency));
    json_text(t, "sampling", sampling);
    json_known(t, "sigma", dpmf_mechanism_get(m).sigma);
    json_known(t, "epsilon", dpmf_mechanism_get(m).epsilon);
    json_known(t, "delta", dpmf_mechanism_get(m).delta);
    json_sensitivity(t, held.sensitivity);
    json_losses(t, &held);
    json_lower_bound(t, held.lower_bound);
    json_text(t, "digest", dpmf_mechanism_get(m).digest);
    json_text(t, "made_by", dpmf_mechanism_get(m).made_by);
    json_integer(t, "stamps", dpmf_strategy_get(strategy).stamps);
    if (dpmf_strategy_get(strategy).branching > 0) json_integer(t, "branching", dpmf_strategy_get(strategy).branching);
    json_bool(t, "weighted", dpmf_mechanism_get(m).weights != NULL);
    const dpmf_design_limits d = dpmf_mechanism_get(m).designed; /* under which a design chose it, if one did */
    char loss[LOSS_SHOWN];
    if (d.dim == 0) {
        json_null(t, "designed");
    } else {
        json_open(t, "designed", '{');
        json_integer(t, "dim", d.dim);
        json_count_known(t, "memory", (int64_t)d.memory);
        json_known(t, "max_overhead", d.max_overhead);
        json_text(t, "loss", loss_words(&d, loss));
        json_count_known(t, "separation_high", d.separation_high);
        json_close(t, '}');
    }
    const dpmf_account_options how = dpmf_mechanism_account_options(m);
    json_text(t, "unit", dpmf_mechanism_get(m).unit);
    json_protected(t, &how);
    json_end(t);
}

static void print_table(text_buffer *t, const dpmf_mechanism *m, const char *sampling) {
    const dpmf_strategy *strategy = dpmf_mechanism_get(m).strategy;
    dpmf_evaluation held = dpmf_mechanism_get(m).evaluation;
    table_text(t, "family", dpmf_strategy_get(strategy).family);
    table_text(t, "made by", dpmf_mechanism_get(m).made_by);
    const dpmf_design_limits d = dpmf_mechanism_get(m).designed;
    char words[DESIGNED_MAX];
    if (d.dim > 0) table_text(t, "designed for", designed_words(&d, words));
    table_integer(t, "steps", dpmf_strategy_get(strategy).steps);
    table_integer(t, "stamps", dpmf_strategy_get(strategy).stamps);
    if (dpmf_strategy_get(strategy).branching > 2) table_integer(t, "branching", dpmf_strategy_get(strategy).branching);
    table_integer(t, "bands", dpmf_strategy_get(strategy).bands);
    table_integer(t, "buffers", dpmf_strategy_get(strategy).buffers);
    if (dpmf_strategy_get(strategy).normals > 1)
        table_double(t, "normals", dpmf_strategy_get(strategy).normals,
                     "normal numbers per number of noise, on average");
    table_text(t, "columns", dpmf_strategy_get(strategy).is_normalized ? "normalized" : "as they are");
    table_text(t, "workload", dpmf_workload_get(dpmf_mechanism_get(m).workload).text);
    table_text(t, "weights", dpmf_mechanism_get(m).weights != NULL ? "given" : "none");
    table_text(t, "participation", dpmf_participation_get(dpmf_mechanism_get(m).participation).text);
    const dpmf_participation_info taken = dpmf_participation_get(dpmf_mechanism_get(m).participation);
    char listed[120];
    snprintf(listed, sizeof listed, "in steps of one of the listed patterns, at most %lld of them",
             (long long)taken.count);
    if (taken.kind == DPMF_PARTICIPATION_PATTERNS) table_text(t, "one unit", listed);
    table_text(t, "adjacency", dpmf_adjacency_name(dpmf_mechanism_get(m).adjacency));
    table_text(t, "unit", dpmf_mechanism_get(m).unit != NULL ? dpmf_mechanism_get(m).unit : "not recorded");
    table_text(t, "sampling", sampling);
    if (dpmf_mechanism_get(m).sigma > 0.0)
        table_upper(t, "sigma", dpmf_mechanism_get(m).sigma, NULL);
    else
        table_text(t, "sigma", "not calibrated");
    if (dpmf_mechanism_get(m).epsilon > 0.0) {
        table_upper(t, "epsilon", dpmf_mechanism_get(m).epsilon, "claimed");
        table_upper(t, "delta", dpmf_mechanism_get(m).delta, "claimed");
    }
    table_sensitivity(t, held.sensitivity);
    table_losses(t, strategy, &held);
    table_lower_bound(t, held.lower_bound);
    table_text(t, "digest", dpmf_mechanism_get(m).digest);
}

int cmd_inspect(const arguments *given) {
    dpmf_mechanism *mechanism = NULL;
    text_buffer t = {0};
    char sampling[64] = "none";
    int code = load_mechanism(given->operand, &mechanism);
    if (code != 0) return code;
    dpmf_sampling held = dpmf_mechanism_get(mechanism).sampling;
    dpmf_status status = dpmf_sampling_format(&held, sampling);
    if (status == DPMF_OK && option_given(given, OPTION_JSON))
        print_json(&t, mechanism, sampling);
    else if (status == DPMF_OK)
        print_table(&t, mechanism, sampling);
    code = status == DPMF_OK ? text_print(&t) : fail_status(status, NULL);
    text_free(&t);
    dpmf_mechanism_free(mechanism);
    return code;
}
