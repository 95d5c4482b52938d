/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf audit: a run with canaries of its own, the bound that follows, and a page with two pictures of it. */
#include "dpmf_train.h"
#include "options/verbs.h"
#include "output.h"
#include "progress.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>

static bool is_broken(const dpmf_audit_result *r) {
    return r->epsilon_lower > r->epsilon_claimed;
}

static const char *statistic(const dpmf_audit_result *r) {
    if (r->epsilon_lower <= 0.0) return "none";
    return r->epsilon_gaussian > r->epsilon_guesses ? "gaussian" : "guesses";
}

static const char *verdict(const dpmf_audit_result *r) {
    return is_broken(r) ? "BROKEN: the bound is above the claim" : "not broken, which proves nothing";
}

/* ---- answers ---- */

static void print_json(text_buffer *t, const arguments *given, const dpmf_audit_result *r) {
    json_begin(t);
    json_bool(t, "ok", !is_broken(r));
    json_double(t, "epsilon_lower", r->epsilon_lower);
    json_double(t, "epsilon_claimed", r->epsilon_claimed);
    json_double(t, "delta", r->delta);
    json_double(t, "confidence", r->confidence);
    json_double(t, "false_alarm", 1.0 - r->confidence);
    json_text(t, "statistic", statistic(r));
    json_double(t, "epsilon_guesses", r->epsilon_guesses);
    json_double(t, "epsilon_gaussian", r->epsilon_gaussian);
    json_double(t, "tpr", r->tpr);
    json_double(t, "fpr", r->fpr);
    json_text(t, "through", option_text(given, OPTION_THROUGH));
    json_integer(t, "canaries", r->canaries);
    json_integer(t, "included", r->included);
    json_integer(t, "guesses", r->guesses);
    json_integer(t, "correct", r->correct);
    json_double(t, "sigma_claimed", r->sigma_claimed);
    json_double(t, "sigma_measured", r->sigma_measured);
    json_double(t, "sigma_highest", r->sigma_highest);
    json_double(t, "noise_factor", given->number[OPTION_NOISE_FACTOR]);
    json_end(t);
}

static void print_table(text_buffer *t, const dpmf_audit_result *r) {
    text_add(t, "%s\n", verdict(r));
    text_add(t, "  epsilon claimed       %.6g at delta = %g\n", r->epsilon_claimed, r->delta);
    text_add(t,
             "  epsilon at least      %.6g with confidence %g\n"
             "                        (a true claim is accused by at most %g of all audits)\n",
             r->epsilon_lower, r->confidence, 1.0 - r->confidence);
    text_add(t, "    from the guesses    %.6g: %lld of %lld right, for any kind of noise\n", r->epsilon_guesses,
             (long long)r->correct, (long long)r->guesses);
    text_add(t, "    from the noise      %.6g: if the noise is normal\n", r->epsilon_gaussian);
    text_add(t, "  sigma                 %.6g claimed, %.6g measured, at most %.6g\n", r->sigma_claimed,
             r->sigma_measured, r->sigma_highest);
    text_add(t, "  canaries              %lld, %lld of them in\n", (long long)r->canaries, (long long)r->included);
    text_add(t, "  TPR at FPR            %.3g of them found where %.3g of the others are accused\n", r->tpr, r->fpr);
    text_add(t, "The run, its key and its data were made for this audit and are gone.\n");
}

/* ---- pictures ---- */

typedef struct ordered {
    double score;
    bool in;
} ordered;

static int compare_scores(const void *a, const void *b) {
    const double x = ((const ordered *)a)->score, y = ((const ordered *)b)->score;
    return x > y ? -1 : x < y;
}

enum { BINS = 40 };

static void draw_scores(text_buffer *t, const ordered *all, int64_t count) {
    double low = all[count - 1].score, high = all[0].score, middle[BINS], bars[2][BINS] = {{0}};
    const double width = (high - low) / BINS;
    plot p = {.x = axis_start("score: logarithm of the likelihood ratio of in and out", false),
              .y = axis_start("canaries", false)};
    for (int64_t i = 0; i < count; ++i) {
        const int bin = width > 0.0 ? (int)((all[i].score - low) / width) : 0;
        bars[all[i].in][bin < BINS ? bin : BINS - 1] += 1.0;
    }
    for (int b = 0; b < BINS; ++b) {
        middle[b] = low + (b + 0.5) * width;
        axis_cover(&p.x, middle[b]);
        axis_cover(&p.y, fmax(bars[0][b], bars[1][b]));
    }
    axis_round(&p.x, false);
    axis_round(&p.y, true);
    figure_begin(t);
    plot_begin(&p, t, "Number of canaries by score, for those that were in and those that were not");
    plot_line(&p, 1, BINS, middle, bars[1]);
    plot_line(&p, 2, BINS, middle, bars[0]);
    plot_end(&p);
    legend_begin(t);
    legend_line(t, 1, "in");
    legend_line(t, 2, "out");
    legend_end(t);
    figure_caption(t, "Scores of the canaries. The better the noise hides them, the more the two curves overlap.");
    figure_end(t);
}

static int draw_rates(text_buffer *t, const ordered *all, int64_t count, const dpmf_audit_result *r) {
    double *x = allocate(count + 1, sizeof *x), *y = allocate(count + 1, sizeof *y);
    plot p = {.x = axis_start("fraction of the others that is accused (FPR)", false),
              .y = axis_start("fraction of the canaries that is found (TPR)", false)};
    int code = x == NULL || y == NULL ? fail_memory() : 0;
    for (int64_t i = 0; i < count && code == 0; ++i) {
        x[i + 1] = x[i] + (all[i].in ? 0.0 : 1.0 / (double)(r->canaries - r->included));
        y[i + 1] = y[i] + (all[i].in ? 1.0 / (double)r->included : 0.0);
    }
    if (code == 0) {
        const double corner[2] = {0.0, 1.0};
        p.x.low = p.y.low = 0.0;
        p.x.high = p.y.high = 1.0;
        figure_begin(t);
        plot_begin(&p, t, "Canaries found against others accused");
        plot_line(&p, 1, count + 1, x, y);
        plot_line(&p, 2, 2, corner, corner);
        plot_mark(&p, r->fpr, r->tpr, "1%");
        plot_end(&p);
        legend_begin(t);
        legend_line(t, 1, "this attack");
        legend_line(t, 2, "a coin");
        legend_end(t);
        figure_caption(t, "Result of the attack. At most 1%% of the others accused: %.3g of the canaries found.",
                       r->tpr);
        figure_end(t);
    }
    free(x);
    free(y);
    return code;
}

static int make_page(text_buffer *t, const dpmf_audit *audit, const dpmf_audit_result *r) {
    ordered *all = allocate(r->canaries, sizeof *all);
    if (all == NULL) return fail_memory();
    for (int64_t i = 0; i < r->canaries; ++i)
        all[i] = (ordered){dpmf_audit_scores(audit)[i], dpmf_audit_included(audit)[i] != 0};
    qsort(all, (size_t)r->canaries, sizeof *all, compare_scores);
    page_begin(t, "dpmf audit");
    text_add(t, "<header><h1>Audit</h1></header>\n<main>\n");
    section_begin(t, "found", "What was found", NULL);
    text_add(t, "<pre>");
    print_table(t, r);
    text_add(t, "</pre>\n");
    section_end(t);
    section_begin(t, "scores", "Scores", NULL);
    draw_scores(t, all, r->canaries);
    section_end(t);
    section_begin(t, "rates", "Found and accused", NULL);
    int code = draw_rates(t, all, r->canaries, r);
    section_end(t);
    text_add(t, "</main>\n");
    page_end(t);
    free(all);
    return code;
}

/* ---- */

static int run_audit(const arguments *given, const dpmf_mechanism *mechanism, dpmf_audit **out) {
    dpmf_audit_options how = dpmf_audit_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_status status = DPMF_OK;
    how.train = option_is(given, OPTION_THROUGH, "train") ? dpmf_trainer_audit : NULL;
    how.canaries = given->count[OPTION_CANARIES];
    how.noise_factor = given->number[OPTION_NOISE_FACTOR];
    how.run = run_with((int)given->count[OPTION_THREADS]);
    if (option_given(given, OPTION_CONFIDENCE)) how.confidence = given->number[OPTION_CONFIDENCE];
    if (option_given(given, OPTION_EPSILON)) how.epsilon = given->number[OPTION_EPSILON];
    how.delta = option_given(given, OPTION_DELTA) ? given->number[OPTION_DELTA] : dpmf_mechanism_delta(mechanism);
    if (!(how.delta > 0.0)) return fail(EXIT_USAGE, "--delta is required: the file claims no epsilon and delta");
    if (option_given(given, OPTION_TESTING_SEED)) {
        status = dpmf_key_testing((uint64_t)given->count[OPTION_TESTING_SEED], key);
        how.key = key; /* anybody can compute it: there is nothing to protect in this run */
    }
    if (status == DPMF_OK) status = dpmf_audit_create(mechanism, &how, out);
    progress_clear();
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int cmd_audit(const arguments *given) {
    dpmf_mechanism *mechanism = NULL;
    dpmf_audit *audit = NULL;
    text_buffer t = {0}, page = {0};
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* until a file is written */
    /* What the file claims is believed by nobody: that is what is tested. */
    dpmf_status status = dpmf_mechanism_load(given->operand, &mechanism);
    if (status != DPMF_OK) return fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_FORMAT : status, NULL);
    int code = run_audit(given, mechanism, &audit);
    if (code == 0) {
        const dpmf_audit_result r = dpmf_audit_outcome(audit);
        if (option_given(given, OPTION_JSON))
            print_json(&t, given, &r);
        else
            print_table(&t, &r);
        if (option_given(given, OPTION_OUT)) {
            code = make_page(&page, audit, &r);
            if (code == 0) code = page_write(given->text[OPTION_OUT], &page);
        }
        if (code == 0) code = text_print(&t);
        if (code == 0 && is_broken(&r)) code = EXIT_NEGATIVE;
    }
    text_free(&t);
    text_free(&page);
    dpmf_audit_free(audit);
    dpmf_mechanism_free(mechanism);
    return code;
}
