/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: what was assumed, what to see to, how to check it, and whose theorems it rests on. */
#include "report/report.h"

#include <string.h>

static void assumption(text_buffer *t, const char *text) {
    text_add(t, "<li>");
    html_text(t, text);
    text_add(t, "</li>\n");
}

static const char *participation_words(dpmf_participation_kind kind) {
    switch (kind) {
    case DPMF_PARTICIPATION_SINGLE:
        return "Each unit's data are used in one step at most.";
    case DPMF_PARTICIPATION_CYCLIC:
        return "The data are used in a fixed order: a unit is used in steps that are a fixed number of steps apart, "
               "and in no others.";
    case DPMF_PARTICIPATION_MIN_SEPARATION:
        return "A unit's data are used a limited number of times, and any two of them are far enough apart.";
    case DPMF_PARTICIPATION_SHUFFLED:
        return "A unit's data are used once in each pass, anywhere in it.";
    case DPMF_PARTICIPATION_FULL:
        return "A unit's data may be used in every step.";
    }
    return "";
}

static void assumptions(const report *r, text_buffer *t) {
    text_add(t, "<h3>Assumed</h3>\n<ul class=\"notes\">\n");
    assumption(
        t, "Each unit's contribution to one step has an l2 norm of at most the clip norm; the noise is scaled by it.");
    if (r->sampled)
        assumption(t, "Batches are sampled exactly as stated, with real randomness that is kept secret. A shuffled "
                      "data loader does not do this.");
    else
        assumption(t, participation_words(dpmf_participation_get_kind(r->participation)));
    assumption(t, "Every row of noise is used once, for one sum, and its key stays secret.");
    assumption(t, "The noise is taken as real-valued normal; it is made in floating point.");
    assumption(
        t, "Hyper-parameters chosen on the same data, and anything else released from them, are not accounted for.");
    if (r->held.sensitivity.kind != DPMF_EXACT)
        assumption(
            t, "The sensitivity is an upper bound: the guarantee holds, and there may be more noise than necessary.");
    if (!option_given(r->given, OPTION_DIM) && r->designed.dim == 0)
        assumption(t, "Memory is for rows of a million numbers; use --dim for the size of your model.");
    text_add(t, "</ul>\n");
}

static void notes(const report *r, text_buffer *t) {
    if (r->notes.length == 0) return;
    text_add(t, "<h3>Before you train</h3>\n"
                "<ul class=\"notes\">\n");
    text_add_bytes(t, r->notes.bytes, r->notes.length);
    text_add(t, "</ul>\n");
}

/* A file name as a shell takes it. */
static void shell_name(text_buffer *t, const char *name) {
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+=,@%") == strlen(name) &&
        *name != '-' && *name != '\0') {
        html_text(t, name);
        return;
    }
    text_add(t, "&#39;");
    for (const char *c = name; *c != '\0';) {
        size_t length = strcspn(c, "'");
        char part[1024];
        if (length >= sizeof part) length = sizeof part - 1;
        memcpy(part, c, length);
        part[length] = '\0';
        html_text(t, part);
        c += length;
        if (*c == '\'') {
            text_add(t, "&#39;\\&#39;&#39;");
            ++c;
        }
    }
    text_add(t, "&#39;");
}

static void checks(const report *r, text_buffer *t) {
    text_add(t, "<h3>How to verify it</h3>\n"
                "<p>You do not have to trust this page. The first command computes every figure of the file again, "
                "from its coefficients alone and by other methods where there are any. The second prints the contents "
                "of the file and its digest, which must be the one above.</p>\n"
                "<pre><code>dpmf verify ");
    shell_name(t, r->name);
    text_add(t, "\ndpmf inspect ");
    shell_name(t, r->name);
    text_add(t, "</code></pre>\n");
}

/* ---- references: those that the page rests on ---- */

static void reference(text_buffer *t, const char *text) {
    assumption(t, text);
}

static void references(const report *r, text_buffer *t) {
    const char *family = dpmf_strategy_family(r->strategy);
    text_add(t, "<h3>References</h3>\n<ul class=\"notes refs\">\n");
    reference(
        t, "Denisov, McMahan, Rush, Smith, Thakurta: Improved Differential Privacy for SGD via Optimal Private Linear "
           "Operators on Adaptive Streams. NeurIPS 2022.");
    reference(
        t, "Choquette-Choo, McMahan, Rush, Thakurta: Multi-Epoch Matrix Factorization Mechanisms for Private Machine "
           "Learning. ICML 2023.");
    reference(t, "McKenna: Scaling up the Banded Matrix Factorization Mechanism for Differentially Private ML. 2024; "
                 "ICLR 2025.");
    reference(
        t, "Pillutla, Upadhyay, Choquette-Choo, Dvijotham, Ganesh, Henzinger, Katz, McKenna, McMahan, Rush, Steinke, "
           "Thakurta: Correlated Noise Mechanisms for Differentially Private Learning: A Tutorial on Mathematical "
           "Foundations and "
           "Practical Aspects. 2025.");
    reference(
        t, "Balle, Wang: Improving the Gaussian Mechanism for Differential Privacy: Analytical Calibration and Optimal "
           "Denoising. ICML 2018.");
    if (r->sigma > 0.0)
        reference(t, "Papernot, Steinke: Hyperparameter Tuning with Renyi Differential Privacy. ICLR 2022.");
    if (strncmp(family, DPMF_FAMILY_TREE, 4) == 0)
        reference(t, "Honaker: Efficient Use of Differentially Private Binary Trees. TPDP 2015.");
    if (strcmp(family, DPMF_FAMILY_BSR) == 0)
        reference(
            t, "Kalinin, Lampert: Banded Square Root Matrix Factorization for Differentially Private Model Training. "
               "NeurIPS 2024.");
    text_add(t, "</ul>\n");
}

void section_assumptions(const report *r, text_buffer *t) {
    section_begin(t, "assumptions", "Assumptions, verification, references", NULL);
    notes(r, t);
    assumptions(r, t);
    checks(r, t);
    references(r, t);
    section_end(t);
}

void section_foot(const report *r, text_buffer *t) {
    text_add(
        t, "</main>\n<footer><p>Made by dpmf %s from the mechanism with digest <code>%.16s…</code>. Kinds of figures: ",
        dpmf_version(), dpmf_mechanism_digest(r->mechanism));
    html_kind(t, DPMF_EXACT);
    text_add(t, " computed without a bound in between, to rounding; ");
    html_kind(t, DPMF_UPPER_BOUND);
    text_add(t, " proven not to be exceeded; ");
    html_kind(t, DPMF_LOWER_BOUND);
    text_add(t, " proven not to be beaten; ");
    html_kind(t, DPMF_ESTIMATE);
    text_add(t, " neither.</p></footer>\n");
}
