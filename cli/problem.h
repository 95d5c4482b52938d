/* SPDX-License-Identifier: Apache-2.0 */
/* The problem of a command: a workload, a participation and a strategy, from options or from a mechanism file. */
#ifndef DPMF_CLI_PROBLEM_H
#define DPMF_CLI_PROBLEM_H

#include "dpmf.h"
#include "options/options.h"
#include "output.h"

typedef struct problem {
    const dpmf_workload *workload;
    const dpmf_participation *participation;
    const dpmf_strategy *strategy;
    const double *weights; /* NULL: none */
    dpmf_adjacency adjacency;
    dpmf_sensitivity_bound sensitivity;
    int64_t columns;        /* 1: contributions are single numbers; 0: of any dimension */
    dpmf_sampling sampling; /* of a FILE: its figures are at the largest column norm */
    const char *made_by;
    const char *unit;     /* NULL: not recorded */
    const char *made_for; /* the workload of a FILE that is priced on another one; NULL: it is on its own */
    /* The owners of the above. */
    dpmf_mechanism *mechanism;
    dpmf_workload *own_workload;
    dpmf_participation *own_participation;
    dpmf_strategy *own_strategy;
    double *own_weights;
    char own_made_by[80];
} problem;

/* Each: 0, or the exit code after a message. Free the problem in any case; start from {0}. */
int problem_from_options(const arguments *given, problem *out);

/* The same without a strategy; *optimize_for is NULL or the workload of --optimize-workload, the caller's to free. */
int problem_without_strategy(const arguments *given, problem *out, dpmf_workload **optimize_for);

/* From the operand FILE; options that contradict the file are refused. */
int problem_from_file(const arguments *given, problem *out);

void problem_free(problem *p);

/* The steps of one stamp where --stamps has a number that divides them; else all. */
int64_t stamp_steps(const arguments *given, int64_t steps);

/* Each: 0, or the exit code after a message. Saving to NULL does nothing. */
int load_mechanism(const char *path, dpmf_mechanism **out);
int save_mechanism(const dpmf_mechanism *mechanism, const char *path);

/*
 * A guarantee is printed or relied on only if it holds: the sensitivity and epsilon of a file's mechanism are computed
 * again, and a file that claims less is refused. `verify` checks all other claims.
 */
int load_confirmed(const char *path, int threads, dpmf_mechanism **out);

/*
 * --unit, where it is given, beside the unit that a FILE records: another one is refused. Where the FILE records none, it is
 * the word of the caller, which a statement says.
 */
int take_unit(const arguments *given, dpmf_coverage *covered);

/*
 * The guarantee of a run of a FILE's mechanism, of which `done` steps are done with this clip norm: the account at the FILE's
 * delta, and its sentences. Of a mechanism that claims none they say so, and found->delta is 0.
 */
enum { RUN_STATEMENT_MAX = 6000 };
typedef struct run_guarantee {
    dpmf_account_options how;
    dpmf_privacy found;
    char statement[RUN_STATEMENT_MAX];
} run_guarantee;
/*
 * epsilon of a mechanism at delta, `how` its own options. Its own claim, where only a simulation can tell, is the one that was
 * confirmed: a second simulation would have another figure.
 */
dpmf_status own_epsilon(const dpmf_mechanism *mechanism, double delta, const dpmf_account_options *how,
                        dpmf_privacy *out);
int state_run(const arguments *given, const dpmf_mechanism *mechanism, double clip, int64_t done, run_guarantee *out);

/* The member "protected": the facts of a statement as fields. */
void json_protected(text_buffer *t, const dpmf_account_options *how);

/* Refuses a mechanism without sigma, whose noise promises nothing, unless --uncalibrated asks for it. */
int check_calibrated(const arguments *given, const dpmf_mechanism *mechanism);

/* The options' own objects. A NULL result means that the option was neither given nor has a default. */
int make_workload(const arguments *given, option_id id, int64_t steps, dpmf_workload **out);
int make_participation(const arguments *given, option_id id, int64_t steps, dpmf_participation **out);
int make_weights(const arguments *given, int64_t steps, double **out); /* to be freed */

/* The loss of a design as --loss has it, and its constraints: "rows of 1000 numbers, memory at most 1 GiB, ..." Both return `out`. */
enum { LOSS_SHOWN = 40, DESIGNED_MAX = 300 };
const char *loss_words(const dpmf_design_limits *d, char out[LOSS_SHOWN]);
const char *designed_words(const dpmf_design_limits *d, char out[DESIGNED_MAX]);

/* --loss as the library takes it; 0, or the exit code after a message. */
int take_loss(const arguments *given, dpmf_loss *loss, double *power);

/* --memory: bytes, or DPMF_MEMORY_NO_ROWS for 0; 0 where it is not given. */
uint64_t memory_limit(const arguments *given);
/* Is it the same workload? words: those of their options, or NULL. */
int same_workload(const dpmf_workload *a, const dpmf_workload *b, const char *words_a, const char *words_b, bool *same);

/* The exit code after the message that an option contradicts what the file holds. */
int contradiction(const arguments *given, option_id id, const char *held);

#endif
