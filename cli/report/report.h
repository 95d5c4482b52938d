/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf report: one HTML page about a mechanism file. cmd_report.c gathers everything into a `report`, in the order of
 * the functions below, and then lets each part write its section into one text.
 */
#ifndef DPMF_CLI_REPORT_H
#define DPMF_CLI_REPORT_H

#include "options/options.h"
#include "output.h"
#include "report/html.h"

enum { CURVE_MOST = 17, STATEMENT_MOST = 4096, DEFAULT_DIM = 1000000 };

/* A mechanism of the comparison. */
typedef struct rival {
    dpmf_candidate is;
    bool own;    /* that of the file */
    bool chosen; /* by the design, or the file's where it has less noise than that */
} rival;

typedef struct report {
    const arguments *given;
    const char *name; /* of the file, without its directory */
    dpmf_run run;
    dpmf_mechanism *mechanism;
    const dpmf_workload *workload;
    const dpmf_participation *participation;
    const dpmf_strategy *strategy;
    dpmf_evaluation held;
    int64_t steps, dim;
    dpmf_design_limits designed; /* the constraints of the design that chose the mechanism; dim 0: none is recorded */
    dpmf_design_limits limits;   /* those of the comparison: the same, but for what the page's own options say */
    double sigma;                /* 0: not calibrated */
    double scale;                /* what losses are multiplied by on this page: sigma, or 1 */
    dpmf_sampling sampling;
    char sampling_text[64];
    bool sampled;
    uint64_t memory, memory_buffers; /* of a noise stream of `dim` numbers a row; 0: not known */

    /* privacy */
    bool claimed;   /* the file says (epsilon, delta) */
    bool accounted; /* `privacy` holds what was computed here, at `delta` */
    double delta;   /* the file's, or one chosen for this page */
    dpmf_privacy privacy;
    char statement[STATEMENT_MOST];
    int curve_points;
    double curve_delta[CURVE_MOST], curve_epsilon[CURVE_MOST],
        curve_known[CURVE_MOST]; /* known: without the sampling */

    /* step by step, times `scale`; `best` is NULL where no optimum is shown */
    double *per_step, *best;
    double best_rms, best_scale, best_gap; /* gap: how far from the least, relative, at most */
    char best_name[200], best_scope[200];

    /* the comparison */
    dpmf_design *design; /* NULL: rivals were evaluated one by one */
    rival *rivals;       /* least noise first */
    int64_t rival_count;
    bool equal_privacy;  /* else losses are compared */
    double least_proven; /* RMS noise that no mechanism without sampling can beat; 0: not known */
    char compared[1200]; /* what is compared, in sentences */

    text_buffer notes; /* list items, HTML: what to see to */
} report;

/* A note of plain text for the last section. */
void report_note(report *r, const char *format, ...) PRINTF_LIKE(2, 3);

/* A part of the page that could not be made becomes a note, and 0 is returned; a cancelled call is the exit code. */
int report_without(report *r, dpmf_status status, const char *part);

/* Each: 0, or the exit code after a message. */
int report_gather(report *r);  /* privacy, memory, the losses of every step, the optimum's */
int report_compare(report *r); /* the rivals */
void report_free(report *r);

/* Sections, in the order of the page. */
void section_head(const report *r, text_buffer *t);
void section_figures(const report *r, text_buffer *t);
void section_comparison(const report *r, text_buffer *t);
int section_matrices(report *r, text_buffer *t);     /* heat maps and coefficients */
void section_steps(const report *r, text_buffer *t); /* the error of each step */
void section_sweeps(const report *r, text_buffer *t);
/* Rows of that section: a part of the run, and several runs (parts.c). */
void table_parts(const report *r, text_buffer *t);
void section_curve(const report *r, text_buffer *t);
void section_cost(const report *r, text_buffer *t);
void section_assumptions(const report *r, text_buffer *t);
void section_foot(const report *r, text_buffer *t);

/* The two pictures of coefficients (report/coefficients.c), from columns of C and of W. */
typedef struct column_pair {
    int64_t rows, steps;  /* of C */
    const double *first;  /* column 0 */
    const double *middle; /* column steps/2, NULL where it is the same shifted */
} column_pair;
void picture_coefficients(text_buffer *t, const column_pair *pair, bool inverse);

/* Parts of sections. `lead` is HTML of this program's own. */
void page_begin(text_buffer *t, const char *title);
void page_end(text_buffer *t);
int page_write(const char *path, const text_buffer *t); /* when it is complete; 0, or the exit code after a message */
void section_begin(text_buffer *t, const char *id, const char *title, const char *lead);
void section_end(text_buffer *t);
void figure_begin(text_buffer *t);
void figure_caption(text_buffer *t, const char *format, ...) PRINTF_LIKE(2, 3); /* plain text; then perhaps details */
void figure_end(text_buffer *t);

/* A table in its own scrolling frame; `heads` are joined by '|', a leading '#' marks a column of numbers. */
void table_begin(text_buffer *t, const char *label, const char *heads);
void table_end(text_buffer *t);
void details_begin(text_buffer *t, const char *heads); /* the numbers behind a picture */
void details_row(text_buffer *t, int count, const double *values);
void details_end(text_buffer *t);

/* What a rival is called: family, and what tells it from others of the family. Plain text. */
const char *rival_name(const dpmf_candidate *c, char out[160]);

/* A whole page about a stream that count has written (report/stream.c): 0, or the exit code after a message. */
int report_stream(const arguments *given, text_buffer *t);

#endif
