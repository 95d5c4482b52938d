/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan for people: the table and the sentences. They are made here, so that the program and the Python package show the same.
 * Noise and memory are rounded up, factors that speak for the recommended mechanism down.
 */
#include "design/plan.h"

#include "base/memory.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef base_text text;
#define add base_text_add /* short, because every line below uses it */

static const char *loss_name(const dpmf_plan *p) {
    return p->options.design.loss == DPMF_LOSS_MAX ? "max" : "RMS";
}

static int is_independent(const dpmf_candidate *c) {
    return strategy_family_find(c->family, strlen(c->family))->candidates.baseline != NULL;
}

/* "banded-toeplitz with 44 bands, block-cyclic sampling" */
static void name(text *t, const dpmf_candidate *c) {
    add(t, "%s", is_independent(c) ? "independent noise" : c->family);
    if (c->bands > 0)
        add(t, " with %lld bands", (long long)c->bands);
    else if (c->buffers > 0)
        add(t, " with %lld buffer%s", (long long)c->buffers, c->buffers == 1 ? "" : "s");
    if (dpmf_sampling_is_none(&c->sampling))
        add(t, ", in a fixed order");
    else
        add(t, ", %s sampling", dpmf_sampling_describe(c->sampling.kind)->name);
}

static void add_run(text *t, const dpmf_plan_row *row) {
    add(t, "%g epoch%s in %lld step%s of %.6g units%s", row->epochs, row->epochs == 1 ? "" : "s", (long long)row->steps,
        row->steps == 1 ? "" : "s", row->batch, dpmf_sampling_is_none(&row->chosen.sampling) ? "" : " on average");
}

/* The point of the rule for the next smaller number of epochs, -1: none. */
static int64_t fewer_epochs(const dpmf_plan *p) {
    int64_t i = p->recommended;
    while (i >= 0 && (p->rows[i].epochs == p->rows[p->recommended].epochs || !p->rows[i].best_of_epochs))
        i--;
    return i;
}

static int same_epochs(const dpmf_plan *p, int64_t i) {
    return i >= 0 && i < p->count && p->rows[i].epochs == p->rows[p->recommended].epochs;
}

/* What more steps would cost, and fewer would save. */
static void add_neighbours(text *t, const dpmf_plan *p) {
    const int64_t at = p->recommended;
    const dpmf_plan_row *here = &p->rows[at];
    const int more = same_epochs(p, at + 1), fewer = same_epochs(p, at - 1);
    if (!more && !fewer) return;
    if (more)
        add(t, "With %lld steps the noise is %.4g times as large%s", (long long)here[1].steps,
            here[1].noise_per_epoch / here->noise_per_epoch, fewer ? ", " : ".\n");
    if (fewer)
        add(t, "%s %lld steps%s %.4g times as large.\n", more ? "with" : "With", (long long)here[-1].steps,
            more ? "" : " the noise is", here[-1].noise_per_epoch / here->noise_per_epoch);
    if (!more) add(t, "This is the smallest batch of the plan: a smaller one may be within the rule too.\n");
}

static void add_independent(text *t, const dpmf_plan *p) {
    const dpmf_plan_row *here = &p->rows[p->recommended];
    const double times = here->independent_noise_per_epoch / here->noise_per_epoch;
    if (is_independent(&here->chosen))
        add(t,
            "So independent noise is the best here, and correlated noise has no advantage in this run. With Poisson "
            "sampling (DP-SGD) it has %.4g times this noise.",
            base_safe_digits(times, 4, -1));
    else
        add(t, "There DP-SGD (independent noise, Poisson sampling) has %.4g times the noise.",
            base_safe_digits(times, 4, -1));
    int64_t i = p->recommended;
    while (same_epochs(p, i) && p->rows[i].independent_noise_per_epoch > here->noise_per_epoch)
        i--;
    if (i == p->recommended)
        add(t, "\n");
    else if (same_epochs(p, i))
        add(t, " Of the batches above, DP-SGD has as little noise with %lld steps or fewer.\n",
            (long long)p->rows[i].steps);
    else
        add(t, " With none of the batches above does DP-SGD have as little noise in these epochs.\n");
}

static void explain(dpmf_plan *p) {
    const dpmf_plan_row *here = &p->rows[p->recommended];
    const int64_t fewer = fewer_epochs(p);
    text rule = {p->rule, sizeof p->rule, 0}, t = {p->why, sizeof p->why, 0};
    p->rule[0] = p->why[0] = 0;
    add(&rule,
        "For each number of epochs: from the fewest steps to more, as long as each doubling of the steps costs little "
        "noise "
        "per epoch: at most %g %% for one that ends at 1000 steps, %g %% at 2000, and so on. Of these points the one "
        "with "
        "the least noise per epoch is recommended.",
        100 * p->options.within, 50 * p->options.within);
    add_run(&t, here);
    add(&t, ": ");
    name(&t, &here->chosen);
    add(&t, ". Noise per epoch %.4g (sigma %.5g x %s loss %.5g / %g epochs).\n",
        base_safe_digits(here->noise_per_epoch, 4, 1), base_safe_digits(here->chosen.sigma, 5, 1), loss_name(p),
        base_safe_digits(here->chosen.loss, 5, 1), here->epochs);
    add_neighbours(&t, p);
    if (fewer >= 0) {
        add(&t, "The best run with fewer epochs, ");
        add_run(&t, &p->rows[fewer]);
        add(&t, ", has %.4g times the noise per epoch.\n",
            base_safe_digits(p->rows[fewer].noise_per_epoch / here->noise_per_epoch, 4, 1));
    }
    add_independent(&t, p);
}

static void add_memory(text *t, uint64_t bytes) {
    static const char *const UNIT[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double shown = (double)bytes;
    int i = 0;
    for (; shown >= 1024 && i < 4; i++)
        shown /= 1024;
    char number[32];
    snprintf(number, sizeof number, "%.4g %s", base_safe_digits(shown, 4, 1), UNIT[i]);
    add(t, "%10s", number);
}

static void add_row(text *t, const dpmf_plan *p, int64_t i) {
    const dpmf_plan_row *r = &p->rows[i];
    char bands[24] = "-";
    if (r->chosen.bands > 0) snprintf(bands, sizeof bands, "%lld", (long long)r->chosen.bands);
    add(t, "%c  %6g %9lld %10.6g  %-16s %5s  %-13s ",
        i == p->recommended ? '>'
        : r->best_of_epochs ? '+'
                            : ' ',
        r->epochs, (long long)r->steps, r->batch, r->chosen.family, bands,
        dpmf_sampling_describe(r->chosen.sampling.kind)->name);
    add(t, "%11.4g %9.4g %8.4g ", base_safe_digits(r->noise_per_epoch, 4, 1),
        base_safe_digits(r->independent_noise_per_epoch, 4, 1),
        base_safe_digits(r->independent_noise_per_epoch / r->noise_per_epoch, 4, -1));
    add_memory(t, r->chosen.memory_bytes);
    add(t, " %8.2f\n", r->chosen.overhead);
}

enum { WIDTH = 110, STATEMENT = 8192 };

/* Sentences in lines of at most WIDTH characters, after two spaces; the sentences are ASCII. */
static void add_wrapped(text *t, const char *sentences) {
    while (*sentences != 0) {
        size_t line = strcspn(sentences, "\n");
        if (line > WIDTH - 2)
            for (line = WIDTH - 2; line > 1 && sentences[line] != ' ';)
                line--;
        add(t, "  %.*s\n", (int)line, sentences);
        sentences += line;
        sentences += *sentences == ' ' || *sentences == '\n';
    }
}

static size_t add_all(const dpmf_plan *p, char *out, size_t size) {
    const dpmf_design_options *o = &p->options.design;
    text t = {out, size, 0};
    char statement[STATEMENT]; /* for a clip norm of 1, whose factor cancels */
    if (size > 0) out[0] = 0;
    add(&t, "%lld units, %s, epsilon = %g, delta = %g, noise per epoch = sigma x %s loss / epochs\n\n",
        (long long)p->options.units, p->options.workload, o->epsilon, o->delta, loss_name(p));
    add(&t, "   %6s %9s %10s  %-16s %5s  %-13s %11s %9s %8s %10s %8s\n", "epochs", "steps", "batch", "family", "bands",
        "sampling", "noise/epoch", "DP-SGD's", "times", "memory", "x i.i.d.");
    for (int64_t i = 0; i < p->count; i++)
        add_row(&t, p, i);
    add(&t, "  > recommended   + the rule's point for other epochs\n\nRule:\n");
    add_wrapped(&t, p->rule);
    add(&t, "\nRecommended:\n");
    add_wrapped(&t, p->why);
    dpmf_design_statement(p->designs[p->recommended], statement, sizeof statement);
    add(&t, "\nPrivacy of the recommended run:\n");
    add_wrapped(&t, statement);
    return t.length;
}

dpmf_status plan_text_make(dpmf_plan *p) {
    explain(p);
    const size_t length = add_all(p, NULL, 0);
    TRY(base_alloc((int64_t)length + 1, 1, "the text of a plan", (void **)&p->text));
    add_all(p, p->text, length + 1);
    return DPMF_OK;
}
