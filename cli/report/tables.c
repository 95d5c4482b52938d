/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: the title, the statement, the key figures and the comparison. */
#include "letters/letters.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- title ---- */

void section_head(const report *r, text_buffer *t) {
    static const char *const parts[][2] = {{"privacy", "Privacy"},        {"comparison", "Comparison"},
                                           {"matrices", "Matrices"},      {"coefficients", "Coefficients"},
                                           {"steps", "Step by step"},     {"sweeps", "Bands and buffers"},
                                           {"curve", "ε and δ"},          {"cost", "Cost"},
                                           {"assumptions", "Assumptions"}};
    char count[NUMBER];
    text_add(t, "<header>\n<p class=\"over\">Correlated-noise mechanism for differential privacy</p>\n<h1>");
    html_text(t, r->name);
    text_add(t, "</h1>\n<p class=\"under\">Family <strong>");
    html_text(t, dpmf_strategy_family(r->strategy));
    text_add(t, "</strong>, %s steps, workload ", pretty_count(r->steps, count));
    html_text(t, dpmf_workload_text(r->workload));
    text_add(t, ", participation ");
    html_text(t, dpmf_participation_text(r->participation));
    text_add(t, "</p>\n<nav aria-label=\"Contents\"><ul>");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
        text_add(t, "<li><a href=\"#%s\">%s</a></li>", parts[i][0], parts[i][1]);
    text_add(t, "</ul></nav>\n</header>\n<main>\n");
}

/* ---- privacy and key figures ---- */

/* One sentence; numbers are kept in one piece, since browsers break lines at the hyphen of 1e-06. */
static void statement_line(text_buffer *t, char *line) {
    text_add(t, "<p>");
    for (char *word = line; *word != '\0';) {
        size_t length = strcspn(word, " ");
        char after = word[length];
        word[length] = '\0';
        bool number = strpbrk(word, "0123456789") != NULL;
        text_add(t, number ? "<span class=\"nb\">" : "");
        html_text(t, word);
        text_add(t, number ? "</span>" : "");
        if (after == ' ') text_add(t, " ");
        word += length + (after == ' ');
    }
    text_add(t, "</p>\n");
}

static void statement(const report *r, text_buffer *t) {
    text_add(t, "<div class=\"statement\">");
    if (!r->accounted) {
        text_add(t, "<p><strong>This mechanism has no noise multiplier yet.</strong> It promises no privacy until you "
                    "choose σ; figures of noise on this page are for σ = 1.</p></div>\n");
        return;
    }
    text_buffer letters = {0};
    add_words(&letters, ALPHABET_GREEK, "%s", r->statement);
    for (char *line = letters.bytes; line != NULL && *line != '\0';) {
        char *end = line + strcspn(line, "\n");
        const bool more = *end == '\n';
        *end = '\0';
        statement_line(t, line);
        line = end + more;
    }
    t->failed = t->failed || letters.failed;
    text_free(&letters);
    if (!r->claimed) text_add(t, "<p>The file has σ but claims no ε: δ = %g was chosen for this page.</p>\n", r->delta);
    text_add(t, "</div>\n");
}

static void tile_begin(text_buffer *t, const char *what, const char *value) {
    text_add(t, "<li><span class=\"what\">%s</span><span class=\"big\">%s</span><span class=\"why\">", what, value);
}

static void tile_end(text_buffer *t) {
    text_add(t, "</span></li>\n");
}

static void privacy_tiles(const report *r, text_buffer *t) {
    char text[NUMBER];
    if (!r->accounted) {
        tile_begin(t, "epsilon ε", "none");
        text_add(t, "not calibrated");
        tile_end(t);
        return;
    }
    tile_begin(t, "epsilon ε", pretty(r->claimed ? dpmf_mechanism_epsilon(r->mechanism) : r->privacy.epsilon, 5, text));
    text_add(t, r->claimed ? "claimed by the file; computed again: %s " : "%s ", pretty(r->privacy.epsilon, 6, text));
    html_kind(t, r->privacy.kind);
    if (r->privacy.confidence > 0.0) text_add(t, " at confidence %g", r->privacy.confidence);
    tile_end(t);
    tile_begin(t, "delta δ", pretty(r->delta, 4, text));
    text_add(t, r->claimed ? "of the guarantee" : "chosen for this page");
    tile_end(t);
    tile_begin(t, "noise multiplier σ", pretty(r->sigma, 5, text));
    text_add(t, "per unit of sensitivity ");
    html_badge(t, "", "given");
    tile_end(t);
}

static void optimum_tile(const report *r, text_buffer *t) {
    char text[NUMBER], value[NUMBER + 8];
    double bound = r->held.lower_bound.rms_loss, over = 100.0 * (r->held.rms_loss / bound - 1.0);
    if (!(bound > 0.0)) {
        tile_begin(t, "from the proven optimum", "not known");
        text_add(t, r->sampled ? "no bound is proven with sampling" : "no bound is known for this setting");
        tile_end(t);
        return;
    }
    snprintf(value, sizeof value, "+%s %%", pretty(over > 0.0 ? over : 0.0, 3, text));
    tile_begin(t, "from the proven optimum", value);
    text_add(t, "RMS noise, at most ");
    html_kind(t, DPMF_UPPER_BOUND);
    tile_end(t);
}

static void tiles(const report *r, text_buffer *t) {
    char text[NUMBER];
    dpmf_kind kind = r->held.sensitivity.kind;
    bool held_column = r->held.sensitivity.of == DPMF_SENSITIVITY_COLUMN;
    text_add(t, "<ul class=\"tiles%s\">\n", r->accounted ? "" : " few");
    privacy_tiles(r, t);
    tile_begin(t, "noise, RMS over steps", pretty(r->scale * r->held.rms_loss, 5, text));
    text_add(t, r->sigma > 0.0 ? "σ × loss, clip norm 1 " : "at σ = 1 and clip norm 1 ");
    html_kind(t, kind);
    tile_end(t);
    tile_begin(t, "noise, largest step", pretty(r->scale * r->held.max_loss, 5, text));
    text_add(t, r->sigma > 0.0 ? "σ × loss, clip norm 1 " : "at σ = 1 and clip norm 1 ");
    html_kind(t, kind);
    tile_end(t);
    optimum_tile(r, t);
    tile_begin(t, held_column ? "sensitivity, column" : "sensitivity", pretty(r->held.sensitivity.value, 5, text));
    text_add(t, "%s ", held_column ? "largest column norm of C" : "of C under the participation");
    html_kind(t, kind);
    tile_end(t);
    if (r->memory > 0) {
        tile_begin(t, "memory of the noise", pretty_bytes(r->memory, text));
        text_add(t, "%s numbers per row, float32 ", pretty_count(r->dim, text));
        html_badge(t, "sure", "exact");
        tile_end(t);
    }
    text_add(t, "</ul>\n");
}

static void fact(text_buffer *t, const char *name, const char *value) {
    text_add(t, "<dt>%s</dt><dd>", name);
    html_text(t, value);
    text_add(t, "</dd>\n");
}

static void fact_number(text_buffer *t, const char *name, double value, dpmf_kind kind, const char *why) {
    char text[NUMBER];
    text_add(t, "<dt>%s</dt><dd>%s ", name, pretty(value, 9, text));
    html_kind(t, kind);
    if (why != NULL) {
        text_add(t, " <span class=\"lead\">");
        html_text(t, why);
        text_add(t, "</span>");
    }
    text_add(t, "</dd>\n");
}

static void facts(const report *r, text_buffer *t) {
    char text[NUMBER], words[DESIGNED_MAX];
    const dpmf_evaluation *held = &r->held;
    dpmf_kind kind = held->sensitivity.kind;
    text_add(t, "<dl class=\"facts\">\n");
    fact(t, "Family", dpmf_strategy_family(r->strategy));
    fact(t, "Made by", dpmf_mechanism_made_by(r->mechanism));
    if (r->designed.dim > 0) fact(t, "Designed for", designed_words(&r->designed, words));
    fact(t, "Steps", pretty_count(r->steps, text));
    if (dpmf_strategy_stamps(r->strategy) > 1) fact(t, "Stamps", pretty_count(dpmf_strategy_stamps(r->strategy), text));
    fact(t, "Columns of C", dpmf_strategy_is_normalized(r->strategy) ? "normalized" : "as they are");
    fact(t, "Buffers", pretty_count(dpmf_strategy_buffers(r->strategy), text));
    fact(t, "Workload", dpmf_workload_text(r->workload));
    if (dpmf_mechanism_weights(r->mechanism) != NULL) fact(t, "Weights of the steps", "given");
    fact(t, "Participation", dpmf_participation_text(r->participation));
    fact(t, "Sampling", r->sampling_text);
    fact(t, "Adjacency", dpmf_adjacency_name(dpmf_mechanism_adjacency(r->mechanism)));
    fact_number(t, held->sensitivity.of == DPMF_SENSITIVITY_COLUMN ? "Sensitivity (largest column)" : "Sensitivity",
                held->sensitivity.value, kind, held->sensitivity.method);
    fact_number(t, "RMS loss", held->rms_loss, kind, NULL);
    fact_number(t, "Max loss", held->max_loss, kind, NULL);
    if (held->lower_bound.rms_loss > 0.0)
        fact_number(t, "RMS loss of any mechanism", held->lower_bound.rms_loss, DPMF_LOWER_BOUND,
                    held->lower_bound.scope);
    if (held->lower_bound.max_loss > 0.0)
        fact_number(t, "Max loss of any mechanism", held->lower_bound.max_loss, DPMF_LOWER_BOUND,
                    held->lower_bound.scope);
    text_add(t, "<dt class=\"wide\">Digest (SHA-256)</dt><dd class=\"wide\"><code>");
    html_text(t, dpmf_mechanism_digest(r->mechanism));
    text_add(t, "</code></dd>\n</dl>\n");
}

void section_figures(const report *r, text_buffer *t) {
    section_begin(t, "privacy", "Privacy and key figures", NULL);
    statement(r, t);
    tiles(r, t);
    facts(r, t);
    section_end(t);
}

/* ---- comparison ---- */

enum { BAR_MOST = 3 }; /* bars of noise end at so many times the least: one bad rival must not make the others equal */

const char *rival_name(const dpmf_candidate *c, char out[160]) {
    int length = snprintf(out, 160, "%s", c->family);
    if (c->bands > 0) length += snprintf(out + length, 160 - (size_t)length, ", %lld bands", (long long)c->bands);
    if (c->normalized) length += snprintf(out + length, 160 - (size_t)length, ", normalized");
    return out;
}

static void rival_heading(text_buffer *t, const rival *v) {
    char text[160];
    text_add(t, "<th scope=\"row\">");
    html_text(t, rival_name(&v->is, text));
    text_add(t, v->own || v->chosen ? " " : "");
    if (v->own) html_badge(t, "mine", "this file");
    if (v->chosen) html_badge(t, "sure", "best eligible");
    if (!dpmf_sampling_is_none(&v->is.sampling) && dpmf_sampling_format(&v->is.sampling, text) == DPMF_OK) {
        text_add(t, "<span class=\"sub\">sampled: ");
        html_text(t, text);
        text_add(t, "</span>");
    }
    if (v->is.reason[0] != '\0') {
        text_add(t, "<span class=\"sub reason\">");
        html_text(t, v->is.reason);
        text_add(t, "</span>");
    }
    text_add(t, "</th>");
}

/* A product is of the weaker kind of its factors. */
static dpmf_kind noise_kind(const dpmf_candidate *c) {
    return c->sigma_kind == DPMF_ESTIMATE || c->sensitivity.kind == DPMF_EXACT ? c->sigma_kind : c->sensitivity.kind;
}

static void rival_row(const report *r, text_buffer *t, const rival *v, double least, double most) {
    char text[NUMBER];
    const dpmf_candidate *c = &v->is;
    text_add(t, "<tr%s>",
             v->own        ? " class=\"own\""
             : v->chosen   ? " class=\"best\""
             : c->eligible ? ""
                           : " class=\"out\"");
    rival_heading(t, v);
    text_add(t, "<td class=\"num\">%s<span class=\"sub\">%s</span>", pretty(c->noise_rms, 5, text),
             dpmf_kind_name(noise_kind(c)));
    text_add(t, "<span class=\"meter%s\" style=\"width:%.0f%%\"></span></td>", c->noise_rms > most ? " over" : "",
             100.0 * fmin(1.0, c->noise_rms / most));
    if (r->limits.separation_high > 0)
        text_add(t, "<td class=\"num\">%s</td>", c->worst_ratio > 0.0 ? pretty(c->worst_ratio, 6, text) : "–");
    text_add(t, "<td class=\"num\">%s</td>", pretty(c->noise_rms / least, 4, text));
    text_add(t, "<td class=\"num\">%s</td>", pretty(c->noise_max, 5, text));
    if (r->equal_privacy) text_add(t, "<td class=\"num\">%s</td>", pretty(c->sigma, 5, text));
    text_add(t, "<td class=\"num\">%s<span class=\"sub\">%s%s</span></td>", pretty(c->sensitivity.value, 5, text),
             dpmf_kind_name(c->sensitivity.kind), c->sensitivity.of == DPMF_SENSITIVITY_COLUMN ? ", column" : "");
    text_add(t, "<td class=\"num\">%s</td>", pretty_count(c->buffers, text));
    text_add(t, "<td class=\"num\">%s</td>", c->memory_bytes > 0 ? pretty_bytes(c->memory_bytes, text) : "–");
    text_add(t, "<td class=\"num\">%s</td>", c->ratio > 0.0 ? pretty(c->ratio, 6, text) : "–");
    text_add(t, "</tr>\n");
}

/* Each line of a text as an item of a list. */
static void list_lines(text_buffer *t, const char *text) {
    text_add(t, "<ul class=\"notes\">\n");
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        char line[1000];
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        if (length > 0) {
            text_add(t, "<li>");
            html_words(t, line);
            text_add(t, "</li>\n");
        }
        text += length + (text[length] == '\n');
    }
    text_add(t, "</ul>\n");
}

static void comparison_words(const report *r, text_buffer *t) {
    if (r->compared[0] != '\0') {
        text_add(t, "<p>");
        html_words(t, r->compared);
        text_add(t, "</p>\n");
    }
    if (r->design == NULL || !r->claimed) return;
    text_add(t, "<h3>Notes of a new design for this setting</h3>\n");
    list_lines(t, dpmf_design_why(r->design));
}

void section_comparison(const report *r, text_buffer *t) {
    double least = HUGE_VAL, most = 0.0;
    section_begin(t, "comparison", r->equal_privacy ? "Compared at equal privacy" : "Compared by loss",
                  r->equal_privacy ? "Every mechanism below is calibrated to the same ε and δ, for the same steps, "
                                     "workload and data. Only the noise differs: lower is better."
                                   : "The file claims no ε, so losses are compared, as noise at σ = 1. Without "
                                     "sampling the same σ gives every mechanism the same privacy: lower is better.");
    for (int64_t i = 0; i < r->rival_count; ++i) {
        if (r->rivals[i].is.is_search_point) continue;
        least = fmin(least, r->rivals[i].is.noise_rms);
        most = fmax(most, r->rivals[i].is.noise_rms);
    }
    most = fmin(most, BAR_MOST * least);
    char heads[300];
    snprintf(heads, sizeof heads,
             "Mechanism|#Noise, RMS|%s#× least|#Noise, max|%s#Sensitivity|#Buffers|#Memory|#Loss / bound",
             r->limits.separation_high > 0 ? "#Worst ratio|" : "", r->equal_privacy ? "#σ|" : "");
    table_begin(t, "comparison of mechanisms", heads);
    for (int64_t i = 0; i < r->rival_count; ++i)
        if (!r->rivals[i].is.is_search_point) rival_row(r, t, &r->rivals[i], least, most);
    table_end(t);
    text_add(t,
             "<p class=\"lead\">Noise is σ × loss, for clip norm 1. Loss / bound is over the proven lower bound for "
             "any mechanism without sampling; 1 is optimal, and with sampling less than 1 is possible. Memory is that "
             "of a noise stream as float32. Bars end at %d times the least noise; a dotted bar is longer.</p>\n",
             BAR_MOST);
    comparison_words(r, t);
    section_end(t);
}
