/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf audit: a run with its own canaries, the bound that follows, and a page with two pictures of it. */
#include "dpmf_train.h"
#include "options/verbs.h"
#include "output.h"
#include "problem.h"
#include "report/page.h"

#include <inttypes.h>
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

/* ---- the results ---- */

static void add_figures(text_buffer *t, const arguments *given, const dpmf_audit_result *r) {
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
}

static void print_table(text_buffer *t, const dpmf_audit_result *r) {
    text_add(t, "%s\n", verdict(r));
    text_add(t, "  epsilon claimed       %.6g at delta = %.6g\n", safe_digits(r->epsilon_claimed, 6, 1),
             safe_digits(r->delta, 6, 1));
    text_add(t,
             "  epsilon at least      %.6g with confidence %g\n"
             "                        (a true claim is accused by at most %g of all audits)\n",
             safe_digits(r->epsilon_lower, 6, -1), r->confidence, 1.0 - r->confidence);
    text_add(t, "    from the guesses    %.6g: %" PRId64 " of %" PRId64 " right, for any kind of noise\n",
             safe_digits(r->epsilon_guesses, 6, -1), r->correct, r->guesses);
    text_add(t, "    from the noise      %.6g: if the noise is normal\n", safe_digits(r->epsilon_gaussian, 6, -1));
    text_add(t, "  sigma                 %.6g claimed, %.6g measured, at most %.6g\n",
             safe_digits(r->sigma_claimed, 6, 1), r->sigma_measured, safe_digits(r->sigma_highest, 6, 1));
    text_add(t, "  canaries              %" PRId64 ", %" PRId64 " of them in\n", r->canaries, r->included);
    text_add(t, "  TPR at FPR            %.3g of them found where %.3g of the others are accused\n", r->tpr, r->fpr);
    text_add(t, "The run, its key and its data were made for this audit and are gone.\n");
}

/* ---- the page ---- */

typedef struct ordered {
    double score;
    bool in;
} ordered;

static int compare_scores(const void *a, const void *b) {
    const double x = ((const ordered *)a)->score, y = ((const ordered *)b)->score;
    return x > y ? -1 : x < y;
}

/* Numbers of canaries by score, [middle of the bin, in, out]. */
static void add_scores(text_buffer *t, const ordered *all, int64_t count) {
    enum { BINS = 40 };
    int64_t bars[2][BINS] = {{0}};
    const double low = all[count - 1].score, width = (all[0].score - low) / BINS;
    for (int64_t i = 0; i < count; i++) {
        const int bin = width > 0.0 ? (int)((all[i].score - low) / width) : 0;
        bars[all[i].in][bin < BINS ? bin : BINS - 1]++;
    }
    json_open(t, "scores", '[');
    for (int b = 0; b < BINS; b++) {
        json_open(t, NULL, '[');
        json_double(t, NULL, low + (b + 0.5) * width);
        json_integer(t, NULL, bars[1][b]);
        json_integer(t, NULL, bars[0][b]);
        json_close(t, ']');
    }
    json_close(t, ']');
}

/* The canaries from the highest score down, 1 for each that was in, as text; and the share of those in that is found. */
static int add_ranking(page *p, const ordered *all, const dpmf_audit_result *r) {
    const int64_t count = r->canaries;
    double *found = allocate(count + 1, sizeof *found);
    char *ranking = allocate(count + 1, 1);
    int code = found == NULL || ranking == NULL ? fail_memory() : 0;
    if (code == 0) {
        for (int64_t i = 0; i < count; i++) {
            ranking[i] = all[i].in ? '1' : '0';
            found[i + 1] = found[i] + (all[i].in ? 1.0 / (double)r->included : 0.0);
        }
        json_text(&p->object, "ranking", ranking);
        const sequence curve = {"found", found};
        plain_picture(&p->plain, "Share of the canaries that were in, among this many with the highest scores",
                      count + 1, true, 1, &curve);
    }
    free(found);
    free(ranking);
    return code;
}

static int make_page(page *p, const arguments *given, const dpmf_audit *audit, const dpmf_audit_result *r) {
    text_buffer words = {0}, *t = &p->object;
    ordered *all = allocate(r->canaries, sizeof *all);
    if (all == NULL) return fail_memory();
    for (int64_t i = 0; i < r->canaries; i++)
        all[i] = (ordered){dpmf_audit_get(audit).scores[i], dpmf_audit_get(audit).included[i] != 0};
    qsort(all, (size_t)r->canaries, sizeof *all, compare_scores);
    print_table(&words, r);
    text_add(&p->title, "dpmf audit");
    text_add(&p->plain, "<h1>Audit</h1>\n<section>\n<pre>%s</pre>\n", words.failed ? "" : words.bytes);
    json_begin(t);
    json_text(t, "page", "audit");
    add_figures(t, given, r);
    json_text(t, "words", words.failed ? "" : words.bytes);
    add_scores(t, all, r->canaries);
    int code = words.failed ? fail_memory() : add_ranking(p, all, r);
    json_close(t, '}');
    text_add(&p->plain, "</section>\n");
    text_free(&words);
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
    how.run = run_with((int)given->count[OPTION_THREADS]);
    if (option_is(given, OPTION_CONFIDENCE, "unconditional"))
        return fail(EXIT_USAGE,
                    "--confidence unconditional is for account: audit accepts a number from 0.5 to below 1");
    if (option_given(given, OPTION_CONFIDENCE)) how.confidence = given->number[OPTION_CONFIDENCE];
    if (option_given(given, OPTION_EPSILON)) how.epsilon = given->number[OPTION_EPSILON];
    how.delta = option_given(given, OPTION_DELTA) ? given->number[OPTION_DELTA] : dpmf_mechanism_get(mechanism).delta;
    if (!(dpmf_mechanism_get(mechanism).sigma > 0.0)) return check_calibrated(given, mechanism);
    if (!(how.delta > 0.0)) return fail(EXIT_USAGE, "--delta is required: the file claims no epsilon and delta");
    if (option_given(given, OPTION_TESTING_SEED)) {
        status = dpmf_key_testing((uint64_t)given->count[OPTION_TESTING_SEED], key);
        how.key = key; /* no data in this run need protection, so anybody may compute it */
    }
    if (status == DPMF_OK) status = dpmf_audit_create(mechanism, &how, out);
    progress_clear();
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int cmd_audit(const arguments *given) {
    dpmf_mechanism *mechanism = NULL;
    dpmf_audit *audit = NULL;
    text_buffer t = {0};
    page p = {0};
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* until a file is written */
    /* The file's claim is tested here, so it is not confirmed first. */
    int code = load_mechanism(given->operand, &mechanism);
    if (code == 0) code = run_audit(given, mechanism, &audit);
    if (code == 0) {
        const dpmf_audit_result r = dpmf_audit_get(audit).result;
        if (option_given(given, OPTION_JSON)) {
            json_begin(&t);
            add_figures(&t, given, &r);
            json_end(&t);
        } else {
            print_table(&t, &r);
        }
        if (option_given(given, OPTION_OUT)) {
            code = make_page(&p, given, audit, &r);
            if (code == 0) code = page_write(&p, given->text[OPTION_OUT]);
        }
        if (code == 0) code = text_print(&t);
        if (code == 0 && is_broken(&r)) code = EXIT_NEGATIVE;
    }
    text_free(&t);
    page_free(&p);
    dpmf_audit_free(audit);
    dpmf_mechanism_free(mechanism);
    return code;
}
