/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Design: what its parts share. A problem is the question with its presets filled in; every part that knows some
 * families offers strategies, and design_add makes a candidate of each: its losses, its sigma, its memory. The
 * choice (design/choice.c) is the same for all of them.
 */
#ifndef DPMF_DESIGN_H
#define DPMF_DESIGN_H

#include "base/status.h"
#include "noise/noise.h"

enum { DESIGN_LIMITS = 1000 };

/* A candidate as the public calls show it, and what it takes to make a mechanism of it. */
typedef struct design_entry {
    dpmf_candidate shown;
    dpmf_strategy *strategy;     /* owned */
    dpmf_privacy privacy;        /* of its calibration */
    double compared;             /* the noise that candidates are ordered by */
    double rms_error, max_error; /* losses without the sensitivity */
    char made_by[160];
} design_entry;

typedef struct design_list {
    int64_t count, capacity;
    design_entry *entry;
} design_list;

typedef struct design_problem {
    const dpmf_workload *workload;
    dpmf_design_options options; /* with the presets filled in: dim, max_overhead, tolerance */
    int64_t steps;
    double probability;                /* q: epochs/steps */
    dpmf_participation *participation; /* what the guarantee assumes; federated: min-sep at separation_low */
    dpmf_privacy unsampled;            /* the calibration that all candidates without sampling share: sigma, exact */
    dpmf_lower_bound bound;            /* without sampling, under `participation`, with adjacency; 0: none is known */
    dpmf_workload *plain;         /* `workload` without its schedule: for families that are not optimized for one */
    int threads;                  /* of a noise stream, whose memory is asked for */
    char limits[DESIGN_LIMITS];   /* what was not tried because it takes too long, in sentences */
    char too_many[DESIGN_LIMITS]; /* families that are not tried for so many steps, with their limits */
    char too_many_names[DESIGN_LIMITS]; /* the same, as --families takes them */
    char beaten[DESIGN_LIMITS];         /* what was not tried because a candidate with sampling has less noise */
    const char *beaten_by;              /* its family */
    double beaten_times;                /* what is proven for all without sampling, over its noise */
    design_list list;
} design_problem;

/* One strategy that could serve. */
typedef struct design_offer {
    const dpmf_strategy *strategy; /* shared, not taken */
    dpmf_sampling sampling;        /* none; poisson (bands 1) or block-cyclic: amplified */
    int swept;                     /* 1: a point of a sweep, never chosen */
    double compared;     /* federated: by its worst ratio over the range; 0: sigma x the loss that is asked for */
    double worst_ratio;  /* that ratio, over a range; 0: there is none */
    int64_t worst_at;    /* its separation */
    const char *made_by; /* for the mechanism file, at most 159 bytes */
} design_offer;

/*
 * Evaluates and calibrates the offer and appends it to p->list. Its noise (sigma x the loss that is asked for) goes to
 * *noise unless that is NULL. A strategy whose loss is beyond the range of a double is passed over: *noise is infinite.
 */
DPMF_MUST_CHECK dpmf_status design_add(design_problem *p, const design_offer *offer, double *noise);

/*
 * design/problem.c. The checks come first, without a problem; an opened one is closed in any case, a zeroed one may be.
 * o->families stays the caller's.
 */
DPMF_MUST_CHECK dpmf_status design_problem_check(const dpmf_workload *workload, const dpmf_design_options *o);
DPMF_MUST_CHECK dpmf_status design_problem_open(const dpmf_workload *workload, const dpmf_design_options *o,
                                                design_problem *p);
void design_problem_close(design_problem *p);

/* Is this family (a name of --family) asked for, or not excluded; and is it named, so that it may take its time? */
int design_wants(const design_problem *p, const char *family);
int design_names(const design_problem *p, const char *family);

/* Is it asked for, and named or tried at all for so many steps? Where the steps are the reason, the answer says so. */
int design_worth(design_problem *p, const char *family, int64_t steps_max);

/* How a candidate's privacy is accounted for. */
dpmf_account_options design_account(const design_problem *p, const dpmf_sampling *sampling,
                                    const dpmf_strategy *strategy);

/* design/words.c: one more sentence about what was left out. */
void design_limit(design_problem *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* design/offer.c: dpmf_optimize_options with the problem's loss, tolerance and run. */
dpmf_optimize_options design_optimize_options(const design_problem *p);

/* What a family's function may say and still not end the design: it does not know this workload, or diverged. */
int design_may_skip(dpmf_status status);

/*
 * design/federated.c: adds the candidates of the federated case (p->options.federated). p->participation is min-sep
 * with options.epochs and options.separation_low; p->unsampled is filled in, and the options have been checked: 1 <= separation_low <= separation_high, (epochs - 1) separation_low < steps, sampling none.
 */
DPMF_MUST_CHECK dpmf_status design_federated(design_problem *p);

/* design/families.c, design/tvblt.c, design/bands.c: the candidates of all other cases; the closed forms come first, with the bound. */
DPMF_MUST_CHECK dpmf_status design_closed_forms(design_problem *p);
DPMF_MUST_CHECK dpmf_status design_families(design_problem *p);
DPMF_MUST_CHECK dpmf_status design_tvblt(design_problem *p);
DPMF_MUST_CHECK dpmf_status design_bands(design_problem *p);
/* After all others: where nobody is better, as many bands as a row's time allows. */
DPMF_MUST_CHECK dpmf_status design_bands_in_time(design_problem *p);

/* design/samplings.c: candidates under allocation, balls-in-bins and min-sep, of strategies that the others have found. */
DPMF_MUST_CHECK dpmf_status design_samplings(design_problem *p);
/* design/caps.c: a cap that is to be found, found: once for each number of blocks. Does sigma follow from the sampling alone? */
DPMF_MUST_CHECK dpmf_status design_settle_cap(const design_problem *p, dpmf_sampling *sampling);
int design_sampling_alone(const dpmf_sampling *sampling);

/*
 * The best strategy of a family for the problem's participation (`single` = 1: for single participation), offered. The
 * workload without its schedule stands in where the family is not optimized for one. A family that does not know the
 * workload is passed over: *noise is infinite. `noise` may be NULL.
 */
typedef struct design_wish {
    const char *family;
    int64_t bands;
    int buffers, swept;
    int rms;   /* 1: for the RMS loss, whatever is asked for: that can be the better search */
    int plain; /* 1: for the workload without its schedule, whatever the family can do */
    double wanted_ratio;
    int shared_seeds;     /* tvblt over several epochs */
    double tolerance;     /* 0: the problem's */
    double rms_tolerance; /* where the RMS loss is searched beside the max loss; 0: the same */
} design_wish;
DPMF_MUST_CHECK dpmf_status design_optimize(const design_problem *p, const design_wish *wish, int single,
                                            dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status design_offer_best(design_problem *p, const design_wish *wish, double *noise);

/* design/bench.c: seconds that a row of noise of p->options.dim numbers takes, and over those of independent noise. */
DPMF_MUST_CHECK dpmf_status design_bench(const design_problem *p, const dpmf_strategy *strategy, double *seconds,
                                         double *overhead);

/* design/cost.c: the time of a row over that of independent noise, by the model. */
double design_model(noise_work work);

/* The memory of a noise stream of this strategy and its overhead by the model; is that memory allowed? */
DPMF_MUST_CHECK dpmf_status design_cost(const design_problem *p, const dpmf_strategy *strategy, uint64_t *bytes,
                                        double *overhead);
int design_fits(const design_problem *p, uint64_t bytes);

/* One family, sampled alike: their streams differ in the number of buffers alone. */
int design_same_group(const dpmf_candidate *a, const dpmf_candidate *b);

/* Is entry i fast enough? By the model, or by a measurement that is made on the first call. */
DPMF_MUST_CHECK dpmf_status design_ask_time(design_problem *p, int64_t i, int *enough);

/*
 * design/offer.c: the proven lower bound, once, unless a family has found it on its way; the noise that no mechanism
 * without sampling goes below by it, 0 where none is known; and every candidate's ratio to that.
 */
DPMF_MUST_CHECK dpmf_status design_find_bound(design_problem *p);
double design_bound_noise(const design_problem *p);
void design_fill_ratios(design_problem *p);

/* Without sampling, the least noise of those that fit the memory; and is that within 0.1 % of what is proven for any? */
double design_least(const design_problem *p);
int design_is_proven(const design_problem *p);

/*
 * design/choice.c: is there a candidate with sampling, eligible, that is chosen before any without, because what is proven
 * for all of those is more noise? Then the answer names `what` as left out; NULL: it does not.
 */
DPMF_MUST_CHECK dpmf_status design_is_beaten(design_problem *p, const char *what, int *beaten);

/* design/choice.c: orders p->list, finds out who is eligible, chooses. DPMF_ERROR_UNSUPPORTED if nobody is. */
DPMF_MUST_CHECK dpmf_status design_choose(design_problem *p, int64_t *chosen);

/* design/words.c: reasons of all candidates; why this one; what to see to. */
enum { DESIGN_WHY = 3000, DESIGN_WARNINGS = 8, DESIGN_WARNING = 500 };
void design_reasons(design_problem *p, int64_t chosen);
void design_why(const design_problem *p, int64_t chosen, char out[DESIGN_WHY]);
int64_t design_warn(const design_problem *p, int64_t chosen, char out[DESIGN_WARNINGS][DESIGN_WARNING]);

/* Candidates within this of the least noise are as good: the fewest buffers decide among them. */
#define DESIGN_CLOSE 1.001

#endif
