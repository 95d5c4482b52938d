/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Design: what its parts share, and what the families' searches for candidates call. Every family that applies adds
 * candidates: the table of families has the functions and their order (strategy_candidates). The choice among the
 * candidates and the sentences about it (design/choice.c) are the same for all.
 */
#ifndef DPMF_DESIGN_H
#define DPMF_DESIGN_H

#include "base/status.h"
#include "noise/noise.h"
#include "problem/problem.h"
#include "strategy/strategy.h"

enum { DESIGN_SKIPPED = 1000, DESIGN_WHY = 3000, DESIGN_WARNINGS = 8, DESIGN_WARNING = 500 };

/* Candidates within this of the least noise are as good: the fewest buffers decide among them. */
#define DESIGN_CLOSE 1.001

/* One strategy with one sampling, calibrated to the privacy that is wanted. */
typedef struct candidate {
    dpmf_candidate info;     /* as the public calls show it */
    dpmf_strategy *strategy; /* owned by the list */
    dpmf_privacy privacy;    /* of its calibration */
    double compared;         /* the noise that candidates are ordered by */
    double squared_errors;   /* without the sensitivity: their sum over the steps, and the largest error */
    double max_error;
    double asked_error; /* the same for a loss that is neither RMS nor max */
    int64_t kept;       /* rows that its stream keeps from step to step */
    double slack;       /* of its account, relative in epsilon; 0: the account's own */
    char made_by[160];
} candidate;

/* The loss that decides, without the sensitivity; and is it searched for by the max loss (lp with a large power is)? */
double design_error(const dpmf_design *d, const candidate *c);
int design_searches_max(const dpmf_design *d);

typedef struct search_request {
    const char *family;
    int64_t bands;
    int buffers;
    int is_search_point;      /* the candidate is a point of a search, and not the family's best */
    int for_rms_loss;         /* for the RMS loss even if the max loss is requested: that can be the better search */
    int without_schedule;     /* for the workload without its schedule, even if the family can use one */
    int single_participation; /* instead of the problem's participation */
    int shared_seeds;         /* tvblt over several epochs */
    double tolerance;         /* 0: the design's */
    double rms_tolerance;     /* where the RMS loss is searched beside the max loss; 0: the same */
    int damped;               /* toeplitz: the square root with the best damping */
} search_request;

struct dpmf_design {
    problem_facts problem;       /* held; federated: min-sep at separation_low */
    dpmf_design_options options; /* with the presets filled in: dim, max_overhead, tolerance */
    double probability;          /* q: epochs/steps; less if a part of an epoch is planned */
    int part_of_epoch;           /* 1: a unit takes part at most once, with a probability below 1 */
    dpmf_privacy unsampled;      /* the calibration that all candidates without sampling share: sigma, exact */
    dpmf_lower_bound proven;     /* without sampling, with adjacency: the problem's bound, or an optimizer's that is
                                  * stronger or came first; scope NULL: none is known */
    dpmf_workload *plain;        /* the workload without its schedule: for families that are not optimized for one */
    int threads;                 /* of a noise stream, on which its memory depends */
    int64_t count, capacity;
    candidate *candidates;
    char skipped_for_time[DESIGN_SKIPPED];        /* searches that were cut short or left out, in sentences */
    char skipped_for_steps[DESIGN_SKIPPED];       /* families not tried for this many steps, with their limits */
    char skipped_for_steps_names[DESIGN_SKIPPED]; /* the same, as --families takes them */
    char skipped_by_bound[DESIGN_SKIPPED];        /* what cannot have less noise than a candidate with sampling has */
    const char *skipped_by_family;                /* the family of that candidate */
    double skipped_by_times;                      /* what is proven for all without sampling, over its noise */
    int64_t chosen;
    double baseline_plain,
        baseline_sampled;  /* noise of independent noise, without sampling and with Poisson's; 0: unknown */
    double sampling_saves; /* the noise that secret sampling is known to reach, over that of the choice; 0: unknown */
    dpmf_mechanism *mechanism;
    char why[DESIGN_WHY];
    int64_t warnings;
    char warning[DESIGN_WARNINGS][DESIGN_WARNING];
};

/*
 * dpmf_design_create in two halves: design_find chooses, and design_finish makes the mechanism of the choice. The families and
 * the unit of the options are borrowed until then. A `part` of an epoch, above 0 and below 1, needs options.epochs = 1; 0 means
 * whole epochs.
 */
DPMF_MUST_CHECK dpmf_status design_find(const dpmf_workload *workload, const dpmf_design_options *options, double part,
                                        dpmf_design **out);
DPMF_MUST_CHECK dpmf_status design_finish(dpmf_design *d);

/* Frees all candidates except the chosen one, which becomes number 0. */
void design_keep_chosen(dpmf_design *d);

/* The seconds that a row takes by the model on one thread of the reference machine, from its overhead. */
double design_seconds(const dpmf_design *d, double overhead);

/*
 * design/exclude.c: is delta of independent noise under random allocation, one step of each epoch, certainly above this one? Above
 * DESIGN_EXCLUDED_EPSILON the answer is always no: e^epsilon times the rounding of the tails is not far below delta there.
 */
#define DESIGN_EXCLUDED_EPSILON 20.0
int design_allocation_exceeds(int64_t steps, int64_t epochs, double sigma, double epsilon, double delta);

/* Is this family (a name of --family) named, or not excluded? A named family may take longer. */
int design_is_named(const dpmf_design *d, const char *family);
int design_is_allowed(const dpmf_design *d, const char *family);

/* Is it named, or allowed and tried for this many steps? If the steps are the reason, the design reports that. */
int design_is_tried(dpmf_design *d, const char *family, int64_t steps_max);

void design_note_skipped(dpmf_design *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a family without parameters; one that does not support the workload is passed over. */
DPMF_MUST_CHECK dpmf_status design_add_closed_form(dpmf_design *d, const char *family, const dpmf_sampling *sampling);

/* Adds the family repeated options.stamps times; one that does not support the workload is passed over. */
DPMF_MUST_CHECK dpmf_status design_add_stamped(dpmf_design *d, const strategy_family *family);

/* design/samplings.c: adds candidates under samplings whose accounts are not those of a sampled step composed. */
DPMF_MUST_CHECK dpmf_status design_samplings(dpmf_design *d);

/* DP-SGD beside the choice, and, for a design without sampling, what secret sampling would save. */
DPMF_MUST_CHECK dpmf_status design_compare_samplings(dpmf_design *d);

dpmf_account_options design_account(const dpmf_design *d, const dpmf_sampling *sampling, const dpmf_strategy *strategy);

/* Evaluates and calibrates a candidate, as below, and adds it to no list. */
DPMF_MUST_CHECK dpmf_status design_evaluate(const dpmf_design *d, candidate *c, double *noise);

/*
 * Evaluates and calibrates a candidate whose strategy (shared, not taken), sampling, is_search_point, worst_ratio and
 * worst_at are set, and appends it; so is `compared`, or 0: sigma x the requested loss. Its noise goes to *noise unless
 * that is NULL. A strategy whose loss is beyond the range of a double is passed over: *noise is infinite.
 */
DPMF_MUST_CHECK dpmf_status design_add(dpmf_design *d, const candidate *given, const char *made_by, double *noise);

/* Finds the best strategy for a request; `result` may be NULL. */
DPMF_MUST_CHECK dpmf_status design_optimize(const dpmf_design *d, const search_request *request, dpmf_strategy **out,
                                            dpmf_optimization *result);

/*
 * Adds that strategy as a candidate; for the max loss it also adds the best one for the RMS loss. A family that does
 * not support the workload is passed over: *noise is infinite. `noise` may be NULL.
 */
DPMF_MUST_CHECK dpmf_status design_add_best(dpmf_design *d, const search_request *request, double *noise);

/* Returns dpmf_optimize_options with the design's loss, tolerance and run. */
dpmf_optimize_options design_optimize_options(const dpmf_design *d);

/* May a family fail with this without ending the design? Then it does not support the workload, or it diverged. */
int design_may_skip(dpmf_status status);

/* Computes the problem's bound once, unless an optimizer has one; and the noise without sampling that follows, 0: unknown. */
DPMF_MUST_CHECK dpmf_status design_find_bound(dpmf_design *d);
double design_bound_noise(const dpmf_design *d);

/* The least noise of candidates without sampling that fit the memory; and is that within 0.1 % of the proven bound? */
double design_least(const dpmf_design *d);
int design_is_proven(const dpmf_design *d);

/* The time of a row over that of independent noise, by the model. */
double design_model(noise_work work);

/* A noise stream of this strategy under the design's limit: its memory, the rows that it keeps, its work and overhead by the model. */
typedef struct design_stream {
    uint64_t bytes;
    int64_t kept;
    double normals, overhead;
} design_stream;
DPMF_MUST_CHECK dpmf_status design_cost(const dpmf_design *d, const dpmf_strategy *strategy, design_stream *out);

/* Is that memory allowed? */
int design_fits(const dpmf_design *d, uint64_t bytes, int64_t kept);
static inline int design_candidate_fits(const dpmf_design *d, const candidate *c) {
    return design_fits(d, c->info.memory_bytes, c->kept);
}

/* Is candidate i fast enough? By the model, or by a measurement that is made on the first call. */
DPMF_MUST_CHECK dpmf_status design_ask_time(dpmf_design *d, int64_t i, int *enough);

/* design/bench.c: seconds that a row of options.dim numbers takes here, and over those of independent noise. */
DPMF_MUST_CHECK dpmf_status design_bench(const dpmf_design *d, const dpmf_strategy *strategy, double *seconds,
                                         double *overhead);

/* ---- design/federated.c: strategies and how their losses change with the separation ---- */

enum {
    DESIGN_FEDERATED_POINTS = 33, /* separations at which candidates are compared, both ends among them */
    DESIGN_FEDERATED_MADE_FOR = 5 /* separations that candidates are made for: the ends and three between */
};

typedef struct design_federated_item {
    dpmf_strategy *strategy;              /* owned */
    const char *asked;                    /* the family that was asked for it, of the table */
    double loss[DESIGN_FEDERATED_POINTS]; /* sensitivity under min-sep k, s x error: at equal privacy for each s */
    double worst;                         /* largest loss over the least loss of any candidate at the same s */
    int64_t worst_at;                     /* the s of that */
    int dominated; /* another of its family has no more buffers and is no worse, and better in one of them */
    char made_by[160];
} design_federated_item;

typedef struct design_federated_range {
    int64_t made_for[DESIGN_FEDERATED_MADE_FOR];
    int64_t points, separation[DESIGN_FEDERATED_POINTS];
    double least[DESIGN_FEDERATED_POINTS]; /* of the candidates' losses */
    int64_t count, capacity;
    design_federated_item *item;
} design_federated_range;

DPMF_MUST_CHECK dpmf_status design_federated_loss(const dpmf_design *d, const dpmf_strategy *s, int64_t separation,
                                                  double *out);

/* The optimum of a family; *out stays NULL if the family does not support this workload. */
DPMF_MUST_CHECK dpmf_status design_federated_optimum(const dpmf_design *d, const char *family, int64_t separation,
                                                     const dpmf_optimize_options *o, dpmf_strategy **out);

/* Takes the strategy over, also on failure. One whose loss is not finite is passed over: *kept = 0. */
DPMF_MUST_CHECK dpmf_status design_federated_take(const dpmf_design *d, design_federated_range *f,
                                                  dpmf_strategy *strategy, const char *made_by, int *kept);

/* Fills `out` with all candidates of the requested families, their losses and their worst ratios. */
DPMF_MUST_CHECK dpmf_status design_federated_open(dpmf_design *d, design_federated_range *out);
void design_federated_close(design_federated_range *f); /* a zeroed one is fine */

DPMF_MUST_CHECK dpmf_status design_federated(dpmf_design *d);

/*
 * Is there an eligible candidate with sampling whose noise is below the proven bound for all candidates without, so
 * that it is chosen before them? Then the answer names `what` as left out; NULL: it does not.
 */
DPMF_MUST_CHECK dpmf_status design_cannot_win(dpmf_design *d, const char *what, int *cannot_win);

/* Orders the candidates, finds which are eligible, chooses. DPMF_ERROR_UNSUPPORTED if none is eligible. */
DPMF_MUST_CHECK dpmf_status design_choose(dpmf_design *d, int64_t *chosen);

/* Writes the reasons of all candidates, why this one was chosen, and what to take care of. */
void design_explain(dpmf_design *d);

#endif
