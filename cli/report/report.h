/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf report: the figures about a mechanism file. cmd_report.c gathers them into a `report`, in the order of the
 * functions below, and writes them as one JSON object, from which the script of the page (report.js) draws everything.
 */
#ifndef DPMF_CLI_REPORT_H
#define DPMF_CLI_REPORT_H

#include "options/options.h"
#include "output.h"
#include "report/page.h"

enum { CURVE_MOST = 17, RATES = 12, STATEMENT_MOST = 4096, DEFAULT_DIM = 1000000 };

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
    uint64_t memory, memory_buffers; /* of a noise stream of `dim` numbers per row; 0: not known */

    /* privacy */
    bool claimed;   /* the file says (epsilon, delta) */
    bool accounted; /* `privacy` holds what was computed here, at `delta` */
    double delta;   /* the file's, or one chosen for this page */
    dpmf_privacy privacy;
    char statement[STATEMENT_MOST];
    dpmf_account_options how; /* that it was accounted for with */
    int curve_points;
    double curve_delta[CURVE_MOST], curve_epsilon[CURVE_MOST],
        curve_known[CURVE_MOST]; /* known: without the sampling */

    dpmf_risk risk;
    bool risky; /* `risk` and the rates are known */
    double rate_fpr[RATES], rate_tpr[RATES];

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

    text_buffer notes; /* strings of a JSON array: what the user must take care of */
} report;

void report_note(report *r, const char *format, ...) PRINTF_LIKE(2, 3);

/* A part of the page that could not be made becomes a note, and 0 is returned; a cancelled call is the exit code. */
int report_without(report *r, dpmf_status status, const char *part);

/* Each: 0, or the exit code after a message. */
int report_gather(report *r);                            /* privacy, memory, the losses of every step, the optimum's */
int report_compare(report *r);                           /* the rivals */
int report_object(report *r, text_buffer *object);       /* all of it as JSON */
int report_matrices(report *r, text_buffer *object);     /* the member "matrices" of it */
int report_batches(report *r, text_buffer *object);      /* and "batches": noise against the batch size, with --units */
void report_parts(const report *r, text_buffer *object); /* and "parts": epsilon of a part of the run, and of several */
void report_plain(const report *r, text_buffer *plain);  /* the main figures as HTML, for readers without script */
void report_free(report *r);

#endif
