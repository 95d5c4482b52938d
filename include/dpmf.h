/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf: correlated-noise mechanisms for differential privacy.
 *
 * This header is the manual. Its sections follow the data:
 *
 *   1  status, messages, memory, long work
 *   2  workload        A, the linear map whose outputs the user wants accurate
 *   3  participation   which steps one example (or user) may take part in
 *   4  strategy        C, whose left inverse W shapes the noise: row t of W Z is added at step t
 *   5  sensitivity, error, evaluation
 *   6  optimize        the best strategy of a family
 *   7  accounting      (epsilon, delta) from sigma and back, with and without sampling
 *   8  mechanism       strategy + sigma + everything that was assumed; one file
 *   9  noise           the rows that a run adds, from a key, in order, each once
 *  10  design          from a training run to the best mechanism at equal privacy
 *  11  verify          every figure of a mechanism file, computed again
 *  12  sampler         batches drawn as the guarantee assumes
 *  13  contributions   clipped on a grid and summed exactly, for any trainer
 *  14  arrays on disk  .npy
 *  15  audit           runs with planted canaries that try to break the guarantee
 *
 * Sections have up to two tiers, in this order and marked by a line:
 *
 *   simple         what a program calls that designs a run, adds its noise and states its guarantee; not marked
 *   expert         parts of the simple calls, objects from your own numbers, bytes in memory; some sections are only that
 *
 * A third tier, a user's own operators and families, is in dpmf_experimental.h: it works and is tested, but may change or
 * disappear with any version.
 *
 * How structs grow: options structs come from their `..._defaults` call, and facts come as a struct from a `..._get` call. A later
 * version may add fields to both. Before 1.0 a minor version may break the binary interface, so the shared library's name
 * carries major and minor version; compile against the header of the library that you load.
 *
 * The short version: make a workload, design a mechanism for the run, save it, and add its noise (section 9).
 *
 *     dpmf_workload *workload = NULL;
 *     dpmf_design *design = NULL;
 *     dpmf_design_options options = dpmf_design_options_defaults();
 *     options.epochs = 10, options.epsilon = 8, options.delta = 1e-5;
 *     dpmf_workload_parse("prefix", 1000, &workload);
 *     dpmf_design_create(workload, &options, &design);
 *     dpmf_mechanism_save(dpmf_design_get(design).mechanism, "run.dpmf");
 *
 * Conventions.
 *   - Every call that can fail returns a dpmf_status and must be checked; dpmf_last_error() then names the value that was
 *     refused and what is accepted. On failure outputs are unchanged.
 *   - Inputs are borrowed for the call. X_create(..., X **out) gives an object that X_free releases; X_free(NULL) is
 *     fine.
 *   - Workloads, participations, strategies and mechanisms never change once made and may be shared between threads.
 *   - Steps and coordinates are counted from 0; matrices are row-major.
 *   - The library never prints, aborts, exits or installs signal handlers.
 */
#ifndef DPMF_H
#define DPMF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DPMF_VERSION_MAJOR 0
#define DPMF_VERSION_MINOR 1
#define DPMF_VERSION_PATCH 0
#define DPMF_VERSION "0.1.0"

#if defined(__GNUC__)
#define DPMF_API __attribute__((visibility("default")))
#define DPMF_MUST_CHECK __attribute__((warn_unused_result))
#else
#define DPMF_API
#define DPMF_MUST_CHECK
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * 1  Status, messages, memory, long work
 * --------------------------------------------------------------------------------------------------------------- */

typedef enum dpmf_status {
    DPMF_OK = 0,
    DPMF_ERROR_ARGUMENT,    /* a value outside its range; the message names both */
    DPMF_ERROR_MEMORY,      /* an allocation failed, or would exceed the memory limit */
    DPMF_ERROR_IO,          /* a file could not be opened, read or written */
    DPMF_ERROR_FORMAT,      /* a file is not what it should be, or its digest does not match */
    DPMF_ERROR_NUMERICAL,   /* singular where an inverse is needed, or a result that is not finite */
    DPMF_ERROR_UNSUPPORTED, /* no theorem or no code for this combination */
    DPMF_ERROR_CANCELLED    /* the progress callback asked to stop */
} dpmf_status;

/* The version of the library that is loaded (compare with DPMF_VERSION, the one compiled against). */
DPMF_API const char *dpmf_version(void);

/* The message of the last call that failed in this thread; "" if none has. Valid until the next failure in it. */
DPMF_API const char *dpmf_last_error(void);

/*
 * Long work. `progress` is called from time to time, always from the calling thread, with the name of the work and the
 * fraction that is done (0 to 1, or negative if unknown); a non-zero answer cancels: the call returns
 * DPMF_ERROR_CANCELLED and leaves nothing behind. `threads` 0 means one per processor. Results never depend on it.
 */
typedef struct dpmf_run {
    int threads;
    int (*progress)(void *context, const char *what, double done);
    void *context;
} dpmf_run;

DPMF_API dpmf_run dpmf_run_defaults(void);

/* ---- expert ---- */

/* A short name of a status: "ok", "argument", "memory", ... */
DPMF_API const char *dpmf_status_name(dpmf_status status);

DPMF_API void dpmf_bytes_free(uint8_t *bytes);

/* ------------------------------------------------------------------------------------------------------------------
 * 2  Workload
 *
 * A is n x n and lower triangular. Row t of A g is what step t publishes or trains with: for SGD the model after step
 * t is theta_0 - (A g)_t. The named workloads are products of at most four factors, applied to the gradients g in
 * this order:
 *
 *     momentum beta    m_t = beta m_{t-1} + g_t,  u_t = m_t              (heavy ball)
 *     nesterov beta    the same m,                u_t = g_t + beta m_t   (the look-ahead form of training libraries)
 *     learning rate    eta_t, positive
 *     decay lambda     o_t = (1 - eta_t lambda) o_{t-1} + eta_t u_t      (lambda = 0: prefix sums)
 *
 * Each has A^-1 = R^-1 Q with Q of at most 2 sub-diagonals and R = I, or (1+beta) I - beta N for nesterov (N the
 * down-shift): Pillutla et al. 2025, Section 3.2.
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dpmf_workload dpmf_workload;

/*
 * From text: "prefix", "identity" (the rows themselves, decay:1), "momentum:B", "nesterov:B", "decay:L", "lr:FILE.npy", "cooldown:FRACTION:FLOOR", "linear:FLOOR",
 * "cosine:FLOOR", "warmup:FRACTION", "step:EVERY:FACTOR", joined by commas; or one of these alone: "file:PATH.npy"; "mean", of
 * all rows so far; "window:W", the sum of the last W rows; "decay-power:P", rows k steps ago with weight (k+1)^-P. (The last two
 * are held as matrices.) cooldown: with m = round(FRACTION n), the learning rate is 1 before the last m steps and then
 * 1 - (1-FLOOR) j/m for j = 1..m. linear: FLOOR + (1-FLOOR) (1 - t/n) at step t, "linear" alone with FLOOR = 0. cosine:
 * FLOOR + (1-FLOOR) (1 + cos(pi t/(n-1)))/2 at step t. warmup: j/m in step j = 1..m = round(FRACTION n), then 1. step:
 * FACTOR^floor(t/EVERY). Several schedules multiply. Learning rates are above 0, so that A has an inverse.
 *
 * Or a sum of up to 8 of all these, "W1 + 0.3*W2": the squared errors add, here 1 and 0.3 times. The spaces around + are needed. A file has
 * any real matrix with a column for each step: see dpmf_workload_options.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_workload_parse(const char *text, int64_t steps, dpmf_workload **out);

DPMF_API void dpmf_workload_free(dpmf_workload *workload);

/* ---- expert ---- */

/*
 * A named workload: `learning_rate` is NULL (all ones) or `steps` positive numbers, copied. Or, with all of these 0, a matrix of any
 * shape, or a sum, whose squared errors add. A row of a matrix is released in the step of its last non-zero column, and the error of a
 * step is the root of the sum of the squares of all that is released in it; the losses are those of these errors.
 */
typedef struct dpmf_workload_options {
    double momentum;             /* beta in [0, 1) */
    int nesterov;                /* 0 or 1 */
    double decay;                /* lambda in [0, 1], with lambda * max eta < 1 */
    const double *learning_rate; /* NULL or `steps` numbers > 0 */
    int64_t rows;                /* of `matrix`, any number */
    const double *matrix;        /* NULL or rows x steps, row-major, copied */
    int parts;                   /* of a sum, 1 to 8; no sum among them */
    const dpmf_workload *const *part;
    const double *part_weights; /* NULL (ones) or one number > 0 for each part */
} dpmf_workload_options;

DPMF_API dpmf_workload_options dpmf_workload_options_defaults(void);

/* Options NULL: prefix sums. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_workload_create(int64_t steps, const dpmf_workload_options *options,
                                                          dpmf_workload **out);

/* Facts about a workload. `text` is the text above in its shortest form; a schedule from a file is "lr", a
 * lower-triangular matrix "file", another matrix "rows", an operator "operator". */
typedef struct dpmf_workload_info {
    int64_t steps;
    const char *text;                     /* valid while the workload exists */
    int is_toeplitz;                      /* 1: A is the same at every step */
    int inverse_q_bands, inverse_r_bands; /* of A^-1, see dpmf_workload_inverse_row */
    int64_t rows;                         /* of A: the steps, but for a sum or a matrix of another shape */
} dpmf_workload_info;

DPMF_API dpmf_workload_info dpmf_workload_get(const dpmf_workload *workload);

/* Any lower-triangular matrix with a non-zero diagonal: steps x steps numbers, row-major, zero above the diagonal. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_workload_create_dense(int64_t steps, const double *matrix,
                                                                dpmf_workload **out);

/* y = A x and x = A^-1 y; `steps` numbers each, in place allowed. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_workload_apply(const dpmf_workload *workload, const double *x, double *y);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_workload_solve(const dpmf_workload *workload, const double *y, double *x);

/*
 * The bands of A^-1 = R^-1 Q. Q has `inverse_q_bands` sub-diagonals (0 to 2) and R `inverse_r_bands` (0 or 1); -1 in the first
 * means that none are known (a matrix or an operator). Row t: q[j] = Q[t,t-j] for j = 0..inverse_q_bands and
 * r[j] = R[t,t-j] for j = 0..inverse_r_bands, entries left of column 0 being 0.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_workload_inverse_row(const dpmf_workload *workload, int64_t t, double q[3],
                                                               double r[2]);

/* ------------------------------------------------------------------------------------------------------------------
 * 3  Participation: in which steps may the data of one privacy unit be used?
 *
 *     single          in one step
 *     cyclic k, b     in steps j, j+b, j+2b, ..., for one j < b: a fixed order, k passes of b steps, (k-1) b < n <= k b
 *     min-sep k, b    in at most k steps, any two at least b apart, (k-1) b < n
 *     shuffled k, b   once in each of k epochs of b steps, anywhere in it, (k-1) b < n <= k b
 *     full            in every step
 *     patterns        in the steps of one of the patterns that a file lists
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dpmf_participation dpmf_participation;

/*
 * From text: "single", "cyclic:K,B", "min-sep:K,B", "shuffled:K,B", "full". dpmf_participation_get has it as files do,
 * where min-sep is spelled "minsep"; that is read too.
 *
 * "file:PATH" reads patterns: one per line, step numbers from 0 and ranges A-B or A-B:STEP (B included), with spaces or commas
 * between; # begins a comment. Or a .npy array of rows of 0 and 1, one number for each step. A unit takes part in steps of one
 * pattern, in all or some of them. Patterns that are part of another are left out: they change nothing. Up to 100000 patterns,
 * 2^20 steps and 2e7 steps in all patterns together. The text of such a participation is "patterns:COUNT,DIGEST", the same for
 * equal sets of patterns; mechanism files hold the patterns themselves.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_participation_parse(const char *text, int64_t steps,
                                                              dpmf_participation **out);
DPMF_API void dpmf_participation_free(dpmf_participation *participation);

/* ---- expert ---- */

typedef enum dpmf_participation_kind {
    DPMF_PARTICIPATION_SINGLE = 0,
    DPMF_PARTICIPATION_CYCLIC,
    DPMF_PARTICIPATION_MIN_SEPARATION,
    DPMF_PARTICIPATION_SHUFFLED,
    DPMF_PARTICIPATION_FULL,
    DPMF_PARTICIPATION_PATTERNS /* from a file */
} dpmf_participation_kind;

typedef struct dpmf_participation_info {
    dpmf_participation_kind kind;
    int64_t steps;
    int64_t count; /* k; n for full; of patterns: the most steps that one has */
    int64_t
        separation;   /* b; n for single, 1 for full; of patterns: the least distance within one, n if there is none */
    int is_single;    /* 1: of the kind single; others may be equivalent, for example cyclic:1,N */
    const char *text; /* valid while the participation exists */
} dpmf_participation_info;

DPMF_API dpmf_participation_info dpmf_participation_get(const dpmf_participation *participation);

/* `count` is k and `separation` is b; both are ignored for single and full. Patterns have files: dpmf_participation_parse. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_participation_create(dpmf_participation_kind kind, int64_t steps,
                                                               int64_t count, int64_t separation,
                                                               dpmf_participation **out);

/* How a kind is written, "single", "cyclic:K,B", ...; NULL if there is no such kind. */
DPMF_API const char *dpmf_participation_form(dpmf_participation_kind kind);

/* ------------------------------------------------------------------------------------------------------------------
 * 4  Strategy
 *
 * C has one column per step and at least as many rows, and W is a left inverse of it: W C = I. With Z standard normal
 * (one row for each row of C), row t of W Z is the (unit) noise of step t; the mechanism answers A g with noise B Z,
 * B = A W. Most families have C square and lower triangular, and then W = C^-1; trees and the FFT mechanism have more
 * rows than steps and a choice of W. Every one of them is private under adaptive inputs, since it has a
 * lower-triangular form with the same noise (dpmf_strategy_create_triangular).
 * --------------------------------------------------------------------------------------------------------------- */

/* ---- expert ---- */

typedef struct dpmf_strategy dpmf_strategy;

/* Which left inverse, where the encoder leaves a choice. */
typedef enum dpmf_decoder {
    DPMF_DECODER_DEFAULT = 0, /* the one the family is named for */
    DPMF_DECODER_RESTART,     /* the family's own running sums, restarted in every stamp */
    DPMF_DECODER_OPTIMAL      /* the pseudo-inverse: least error for every workload */
} dpmf_decoder;

typedef struct dpmf_strategy_options {
    int64_t bands;        /* bsr, bisr: 1 to steps; 0 = not given */
    double nu;            /* toeplitz: coefficient t is multiplied by (1-nu)^t; in [0, 1) */
    int64_t stamps;       /* repeat the strategy of steps/stamps steps: a divisor of steps; 0 and 1: once */
    dpmf_decoder decoder; /* tree-online, tree-full, smooth-binary, fft, fft-opt */
    int column_normalize; /* divide each column of C by its norm */
    int64_t buffers;      /* blt-rational; blt-tree, of each level: 1 to DPMF_BLT_BUFFERS_MAX; 0: chosen */
    int64_t levels;       /* blt-tree: 1 to 53; 0: two */
    int64_t branching;    /* tree, tree-online, tree-full: children of a node, 2 to 1024; 0: 2 */
    /* Numbers of your own, for dense and recurrent (below); with stamps, those of one stamp. All 0: a closed form. */
    int64_t matrix_rows;          /* of `matrix`, 1 and up */
    const double *matrix;         /* dense: C, matrix_rows x steps; recurrent: M, matrix_rows x matrix_rows */
    const double *decoder_matrix; /* dense, or NULL: B, steps x matrix_rows, with B C = the workload */
    const double *u, *v;          /* recurrent: matrix_rows numbers each */
} dpmf_strategy_options;

DPMF_API dpmf_strategy_options dpmf_strategy_options_defaults(void);

/*
 * The families: their names, and what each takes. Every list of them, here, on the command line and in Python, is made
 * from this table. All of them take stamps and column normalization.
 */
#define DPMF_FAMILY_IDENTITY "identity"
#define DPMF_FAMILY_WORKLOAD "workload"
#define DPMF_FAMILY_DENSE "dense"
#define DPMF_FAMILY_BANDED "banded"
#define DPMF_FAMILY_TOEPLITZ "toeplitz"
#define DPMF_FAMILY_BANDED_TOEPLITZ "banded-toeplitz"
#define DPMF_FAMILY_BSR "bsr"
#define DPMF_FAMILY_BISR "bisr"
#define DPMF_FAMILY_BLT "blt"
#define DPMF_FAMILY_BLT_RATIONAL "blt-rational"
#define DPMF_FAMILY_BLT_TREE "blt-tree"
#define DPMF_FAMILY_RECURRENT "recurrent"
#define DPMF_FAMILY_TVBLT "tvblt"
#define DPMF_FAMILY_UNBOUNDED "unbounded"
#define DPMF_FAMILY_LOWRANK "lowrank"
#define DPMF_FAMILY_TAPS "taps"
#define DPMF_FAMILY_TREE "tree"
#define DPMF_FAMILY_TREE_ONLINE "tree-online"
#define DPMF_FAMILY_TREE_FULL "tree-full"
#define DPMF_FAMILY_SMOOTH_BINARY "smooth-binary"
#define DPMF_FAMILY_FFT "fft"
#define DPMF_FAMILY_FFT_OPT "fft-opt"

typedef struct dpmf_family {
    const char *name;
    const char *help;       /* one line, no full stop */
    const char *listed;     /* the same in a list of all, in order; one that starts with a comma continues the last */
    const char *parameters; /* what numbers of its own are called ("coefficients", "matrix", ...); NULL: takes none */
    int closed_form;        /* 1: dpmf_strategy_create makes it from a workload */
    int bands;              /* 1: it has a given number of diagonals: dpmf_strategy_options.bands */
    int inverse;            /* 1: they are those of C^-1 */
    int nu;                 /* 1: takes dpmf_strategy_options.nu */
    int toeplitz;           /* 1: C is Toeplitz, or is for a Toeplitz workload */
    const char *restart;    /* the family that DPMF_DECODER_RESTART makes of it, ... */
    const char *optimal;    /* ... and DPMF_DECODER_OPTIMAL; both NULL: it has one decoder; one NULL: refused */
    int optimized;          /* its place among the families that dpmf_optimize knows, from 1; 0: it does not */
    int optimize_bands;     /* 1: dpmf_optimize_options.bands is needed */
    int optimize_buffers;   /* the most that dpmf_optimize_options.buffers may be; 0: takes none */
    int optimize_chooses;   /* 1: it may be 0, and then wanted_ratio determines the number */
    int optimize_shared_seeds; /* the most shared_seeds, 0: it has none */
    int optimize_normalize;    /* 1: takes dpmf_optimize_options.normalize */
    int optimize_constraint;   /* 1: takes dpmf_optimize_options.constraint */
    int optimize_variants;     /* 1: takes sweep and taper */
    int designed;              /* its place among the families that dpmf_design_create tries, from 1; 0: it does not */
    int buffers;               /* the most that dpmf_strategy_options.buffers may be; 0: takes none */
    int levels;                /* the most that dpmf_strategy_options.levels may be; 0: takes none */
    int branching;             /* 1: takes dpmf_strategy_options.branching */
    int optimize_signs;        /* 1: takes dpmf_optimize_options.signs */
    int optimize_damped;       /* 1: takes dpmf_optimize_options.damped */
    int optimize_losses;       /* 1: it is optimized for every dpmf_loss; 0: for the RMS and the max loss */
} dpmf_family;

DPMF_API const dpmf_family *dpmf_family_info(int64_t i); /* from 0; NULL past the last one */

/*
 * A family that needs no parameters of its own, by name:
 *     identity     C = I: independent noise (DP-SGD)
 *     workload     C = A: output perturbation
 *     toeplitz     C = A^(1/2) for a Toeplitz workload; with nu > 0 damped (Pillutla et al. 2025, Eq. 2.10, 3.27)
 *     bsr          the first `bands` diagonals of A^(1/2) (Kalinin and Lampert 2024)
 *     bisr         C^-1 = the first `bands` diagonals of A^(-1/2)
 *     blt-rational a BLT for prefix sums from a formula (Pillutla et al. 2025, Theorem 2.18); by default with the fewest
 *                  buffers whose max loss is within 0.01 of the best Toeplitz mechanism's
 *     blt-tree     a tree whose nodes' sums are released by such BLTs (Dvijotham et al. 2024)
 *     unbounded    prefix sums without a horizon: docs/unbounded.md
 *     tree         binary tree, complete nodes, a prefix sum from the nodes of its binary expansion; with `branching` B a
 *                  B-ary tree and the expansion to the base B (Qardaji et al. 2013)
 *     tree-online  every touched node, each estimated from all below it (Honaker 2015; Denisov et al. 2022, App. C)
 *     tree-full    the same encoder with the best decoder
 *     smooth-binary  the smooth binary mechanism, the same variance at every step (Andersson and Pagh 2023); with
 *                  DPMF_DECODER_OPTIMAL nodes without data have no noise: less at most steps, no longer the same
 *     fft          the FFT mechanism (Choquette-Choo et al. 2023, Section 4)
 *     fft-opt      the same encoder with the best decoder
 *
 * For a workload with a learning-rate schedule the three square roots are those of the workload without it.
 *
 * unbounded has the same C for any number of steps: its columns are never longer than 1, its noise at step t
 * does not depend on later steps, and its error at every step t is within 1.29 of the least that a mechanism for t
 * steps can have. No mechanism without a horizon stays below DPMF_UNBOUNDED_LOWER_BOUND at every step. Its stream keeps
 * 6 buffers for up to 2^13 steps, 10 at 2^30, 12 at 2^40. `steps` is only a limit for machines, 2^40 at most. (Above 2^24
 * steps an evaluation searches the max loss at some steps of each octave, and may miss it by 1e-4 of it; the
 * error of one step, dpmf_error_range, is exact.)
 *
 * Two families take numbers of your own in the options:
 *     dense        C = `matrix`, of any shape and form with one column per step and full column rank, as its
 *                  lower-triangular form, which streams: C = Q C' with Q of orthonormal columns. C' has the sensitivity of C
 *                  under every participation, and its noise the law of the noise of the pseudo-inverse of C. With
 *                  `decoder_matrix` B, B C = A: the noise has the law of B Z at the outputs, and the sensitivity is at
 *                  most that of C (Denisov et al. 2022, Proposition 2.2). A C' that is given stays as it is. Up to
 *                  DPMF_TRIANGULAR_STEPS_MAX steps.
 *     recurrent    C Toeplitz with the constant-recurrent coefficients c_t = u' M^t v (Pillutla et al. 2025, Theorem
 *                  2.28), c_0 != 0, M of up to DPMF_RECURRENT_MAX rows, as many as the noise stream keeps buffers. Refused
 *                  where rounding could change a row of its noise by more than 1e-8 of its size. Up to 2^23 steps, and 2^30
 *                  divided by the square of the rows.
 */
#define DPMF_RECURRENT_MAX 32
#define DPMF_UNBOUNDED_STEPS_MAX ((int64_t)1 << 40)
#define DPMF_UNBOUNDED_LOWER_BOUND 1.25
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create(const char *family, const dpmf_workload *workload,
                                                          const dpmf_strategy_options *options, dpmf_strategy **out);

DPMF_API void dpmf_strategy_free(dpmf_strategy *strategy);

typedef struct dpmf_strategy_info {
    const char *family; /* a name of the command line's --family; a string constant */
    int64_t steps;
    int64_t rows;    /* rows of C: total seeds */
    int64_t bands;   /* diagonals of C that can be non-zero */
    int64_t buffers; /* rows that a noise stream must keep */
    int64_t stamps;  /* how often a block is repeated; 1: once */
    double normals;  /* normal numbers per number of noise, on average */
    int is_normalized;
    int streams;     /* 1: dpmf_strategy_step works */
    int blt_buffers; /* of a BLT (see dpmf_strategy_create_blt), before its columns are normalized; 0: it is none */
    const double *blt_scale,
        *blt_gap;      /* `blt_buffers` numbers each, valid while the strategy exists; NULL: it is none */
    int64_t branching; /* children of a node of a tree; 0: it is none */
    /*
     * C^-1 as a BLT, with decays 1 - gap (Pillutla et al. 2025, Lemma 2.16); NULL unless all scales of C are positive and its
     * gaps differ. A gap here may be above 1.
     */
    const double *blt_inverse_scale, *blt_inverse_gap;
} dpmf_strategy_info;

DPMF_API dpmf_strategy_info dpmf_strategy_get(const dpmf_strategy *strategy);

/*
 * C Toeplitz with the given first `count` coefficients (c[0] != 0), zero after: 1 <= count <= steps. Its family is
 * toeplitz when all are given and banded-toeplitz when fewer are; with the shape banded it is always banded-toeplitz. With the
 * shape inverse, C^-1 is Toeplitz with these coefficients.
 */
typedef enum dpmf_toeplitz_shape { DPMF_TOEPLITZ = 0, DPMF_TOEPLITZ_BANDED, DPMF_TOEPLITZ_INVERSE } dpmf_toeplitz_shape;
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_toeplitz(int64_t steps, dpmf_toeplitz_shape shape,
                                                                   int64_t count, const double *coefficients,
                                                                   dpmf_strategy **out);

/*
 * C a buffered linear Toeplitz matrix (Pillutla et al. 2025, Section 2.5): first column 1, then sum_i scale_i
 * decay_i^(t-1) for t >= 1; its noise stream keeps `buffers` rows, 1 to DPMF_BLT_BUFFERS_MAX. Scales are finite, 0 <=
 * decay < 1. A decay that matters over n steps is about 1/n away from 1; then give gap = 1 - decay instead, which keeps all
 * its digits, 0 < gap <= 1. One of `decay` and `gap` is NULL.
 *
 * scale NULL: `decay` or `gap` has 2 x buffers numbers, all different, those of C and then those of C^-1 (-1 <= decay < 1).
 * They determine the scales (Pillutla et al. 2025, Lemma 4.13), which are positive if they interlace (Lemma 4.14).
 */
#define DPMF_BLT_BUFFERS_MAX 16
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_blt(int64_t steps, int buffers, const double *scale,
                                                              const double *decay, const double *gap,
                                                              dpmf_strategy **out);

/* C banded: rows[t * bands + j] = C[t, t-j] for j < bands; entries left of column 0 must be 0. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_banded(int64_t steps, int64_t bands, const double *rows,
                                                                 dpmf_strategy **out);

/* C dense: steps x steps, row-major, zero above the diagonal. Other forms and shapes: dpmf_strategy_create. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_dense(int64_t steps, const double *matrix,
                                                                dpmf_strategy **out);

/*
 * C^-1 = W a band plus low rank (Denisov et al. 2022, Appendix H): W[t, t-j] = rows[t * bands + j] for j < bands, and
 * sum over k of left[t * rank + k] right[u * rank + k] for u <= t - bands. The stream keeps bands - 1 + rank buffers.
 */
#define DPMF_LOWRANK_MAX 64
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_lowrank(int64_t steps, int64_t bands, int64_t rank,
                                                                  const double *rows, const double *left,
                                                                  const double *right, dpmf_strategy **out);

/* C D^-1 with D the column norms of C (McKenna 2024, Section 3.2): sensitivity 1 under single participation. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_normalized(const dpmf_strategy *strategy,
                                                                     dpmf_strategy **out);

/* The strategy repeated `stamps` times, restarted each time: stamps x its steps (Choquette-Choo et al. 2023). */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_stamped(const dpmf_strategy *strategy, int64_t stamps,
                                                                  dpmf_strategy **out);

/*
 * The lower-triangular form of any strategy, dense: the same errors, a sensitivity no larger (Denisov et al. 2022,
 * Proposition 2.2). Up to DPMF_TRIANGULAR_STEPS_MAX steps.
 */
#define DPMF_TRIANGULAR_STEPS_MAX 16384
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_triangular(const dpmf_strategy *strategy,
                                                                     dpmf_strategy **out);

/* y = C x and x = W y: x has `steps` numbers, y has `rows`; in place allowed where they are the same. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_apply(const dpmf_strategy *strategy, const double *x, double *y);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_solve(const dpmf_strategy *strategy, const double *y, double *x);

/* Column j of C (`rows` numbers), and the norms of all columns (`steps` numbers). */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_column(const dpmf_strategy *strategy, int64_t j, double *column);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_column_norms(const dpmf_strategy *strategy, double *norms);

/*
 * One row of W Z at a time, for strategies that stream. Step t consumes dpmf_strategy_seeds rows of Z, in
 * order; `seed` points to them (seeds x count numbers). `state` has buffers x count numbers, zero before the first row;
 * t rises by one from 0; row and seed may not overlap. Never allocates. A t past the last step is an error and nothing
 * is written.
 */
DPMF_API int64_t dpmf_strategy_seeds(const dpmf_strategy *strategy, int64_t t);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_step(const dpmf_strategy *strategy, int64_t t, int64_t count,
                                                        const double *seed, double *state, double *row);

/* ------------------------------------------------------------------------------------------------------------------
 * 5  Sensitivity, error, evaluation
 *
 *     sensitivity  s = the largest distance that C g can move in l2 norm when one unit's clipped contributions are removed
 *     rms loss     s |B|_F / sqrt(n)        max loss  s max_t |B[t,:]|        total squared loss  s^2 |B|_F^2
 *
 * With weights p the workload is taken as diag(sqrt(p)) A throughout.
 * --------------------------------------------------------------------------------------------------------------- */

/* ---- expert ---- */

typedef enum dpmf_certainty { DPMF_EXACT = 0, DPMF_UPPER_BOUND, DPMF_LOWER_BOUND, DPMF_ESTIMATE } dpmf_certainty;
DPMF_API const char *dpmf_certainty_name(dpmf_certainty kind); /* "exact", "upper bound", "lower bound", "estimate" */

typedef enum dpmf_adjacency {
    DPMF_ADJACENCY_ZERO_OUT = 0, /* one unit's contributions are replaced by zeros */
    DPMF_ADJACENCY_ADD_REMOVE,   /* one unit is added or removed; the same sensitivity */
    DPMF_ADJACENCY_REPLACE_ONE   /* one unit is replaced by another; twice the sensitivity */
} dpmf_adjacency;
DPMF_API const char *dpmf_adjacency_name(dpmf_adjacency adjacency); /* "zero-out", "add-remove", "replace-one" */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_adjacency_parse(const char *text, dpmf_adjacency *out);

typedef enum dpmf_sensitivity_scope {
    DPMF_SENSITIVITY_PARTICIPATION = 0, /* of C under the participation */
    DPMF_SENSITIVITY_COLUMN             /* the largest column norm, as amplification by sampling needs */
} dpmf_sensitivity_scope;

typedef struct dpmf_sensitivity {
    double value;
    dpmf_certainty kind;
    dpmf_sensitivity_scope of;
    const char *method; /* how it was found; a string constant */
    int64_t columns;    /* 0: it holds for contributions of any dimension; 1: for contributions of one number alone */
} dpmf_sensitivity;

/* Which bound where no theorem gives the exact value (Choquette-Choo et al. 2023, Theorem 2.1 and Appendix H). */
typedef enum dpmf_sensitivity_bound {
    DPMF_BOUND_AUTO = 0, /* exact where a theorem gives it, else the smallest valid upper bound */
    DPMF_BOUND_SPECTRAL, /* sqrt(k x largest eigenvalue of C'C on a pattern) */
    DPMF_BOUND_ABSOLUTE, /* sqrt of the sum of |C'C| over a pattern */
    DPMF_BOUND_SIGNS     /* sqrt(pi/2) x the maximum over signs, k <= 20 */
} dpmf_sensitivity_bound;
DPMF_API const char *dpmf_sensitivity_bound_name(dpmf_sensitivity_bound bound); /* "auto", "spectral", ... */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sensitivity_bound_parse(const char *text, dpmf_sensitivity_bound *out);

typedef enum dpmf_lower_bound_mode {
    DPMF_LOWER_BOUND_AUTO = 0, /* where one is known and cheap: up to 2e6 steps, above 131072 from a short search */
    DPMF_LOWER_BOUND_NONE,
    DPMF_LOWER_BOUND_FORCE /* at any size, from a full search; DPMF_ERROR_UNSUPPORTED where none is known */
} dpmf_lower_bound_mode;

/*
 * A loss: a function of the squared errors q_t = s^2 |B[t,:]|^2 of the steps (McKenna 2024, Appendix D.2; Pillutla et al. 2025,
 * Section 4.4.2).
 */
typedef enum dpmf_loss {
    DPMF_LOSS_RMS = 0, /* sqrt(mean q) */
    DPMF_LOSS_MAX,     /* sqrt(max q) */
    DPMF_LOSS_LP, /* (mean q^(P/2))^(1/P), P = loss_power, 1 to 1000: 2 is the RMS loss, large ones come near the max loss */
    DPMF_LOSS_LAST, /* sqrt(q) of the last step */
    DPMF_LOSS_OWN   /* own_loss */
} dpmf_loss;

/*
 * Your own loss: the value for `steps` squared errors, above 0 and finite, and its derivatives by them, where `gradient` is not
 * NULL: finite, and not negative, since a larger error is never better. It is called at many points, from the calling thread.
 * `convex`: you state that it is convex in the squared errors. Then `banded` proves a lower bound from it where all derivatives
 * are above 0; else there is none.
 */
typedef struct dpmf_loss_function {
    double (*value)(void *context, int64_t steps, const double *squares, double *gradient);
    void *context;
    int convex;
} dpmf_loss_function;

typedef struct dpmf_evaluate_options {
    dpmf_adjacency adjacency;
    dpmf_sensitivity_bound sensitivity;
    dpmf_lower_bound_mode lower_bound;
    const double *weights; /* NULL or `steps` numbers >= 0, not all zero */
    dpmf_sensitivity_scope
        of; /* column: the losses at the largest column norm, as sampling needs; no lower bound then */
    dpmf_run run;
    int64_t
        columns;    /* 1: contributions are single numbers, whose sensitivity can be smaller (bound auto); 0: vectors */
    dpmf_loss loss; /* that `loss` of the evaluation has; weights multiply the squared errors */
    double loss_power;                  /* of DPMF_LOSS_LP */
    const dpmf_loss_function *own_loss; /* of DPMF_LOSS_OWN */
    double squares; /* dpmf_sensitivity_compute alone: the weight of the squares, 0: no second stream */
    const dpmf_strategy *squares_of; /* that they go through; NULL: the same */
} dpmf_evaluate_options;

DPMF_API dpmf_evaluate_options dpmf_evaluate_options_defaults(void);

/* Losses that no mechanism with this workload and participation can beat; 0 where none is known. */
typedef struct dpmf_lower_bound {
    double rms_loss;
    double max_loss;
    const char *scope; /* its scope and the reason; a string constant, NULL if both are 0 */
} dpmf_lower_bound;

typedef struct dpmf_evaluation {
    dpmf_sensitivity sensitivity;
    double rms_loss;
    double max_loss;
    double total_squared_loss;
    dpmf_lower_bound lower_bound;
    double loss; /* the one that was asked for; 0: not computed, as for mechanisms from files */
} dpmf_evaluation;

/* Sensitivity, losses and lower bound in one call; `per_step` is NULL or gets s |B[t,:]| for every step. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_evaluate(const dpmf_workload *workload,
                                                   const dpmf_participation *participation,
                                                   const dpmf_strategy *strategy, const dpmf_evaluate_options *options,
                                                   dpmf_evaluation *out, double *per_step);

/*
 * NULL participation means single; NULL options the defaults (only adjacency, sensitivity, of, run, columns and the squares are read).
 * With `columns` = 1 contributions are numbers in [-1, 1] and the sensitivity is the largest |C u| over signs u on a
 * pattern (Choquette-Choo et al. 2023, Section 2 and Appendix H): all signs are tried for patterns of up to 20 connected
 * steps. Where that is smaller than what holds for vectors, out->columns is 1, and streams of more columns refuse it.
 *
 * With `squares` = w, above 0 and up to 1e9, it is that of two streams together, rounded up: contributions x of norm at most 1 go through
 * the strategy, and sqrt(w) x o x, the squares of their coordinates, through `squares_of`, each with its own noise of one deviation
 * (Kalinin, Upadhyay and Lampert 2025). With one matrix for both it is sqrt(1 + w) times that of x alone; under replacement it is
 * twice that of x up to w = 1/2, as without the squares. src/sensitivity/joint.c has the proof.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sensitivity_compute(const dpmf_strategy *strategy,
                                                              const dpmf_participation *participation,
                                                              const dpmf_evaluate_options *options,
                                                              dpmf_sensitivity *out);

/*
 * The actual run: `participations` pairs (unit, step), in any order, from the logs of a run. Gives the largest
 * sensitivity of any unit's own steps. Exact where C'C >= 0 over them, else a labelled bound. A unit twice in a step is
 * refused. For options see dpmf_sensitivity_compute.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sensitivity_observed(const dpmf_strategy *strategy, int64_t participations,
                                                               const int64_t *unit, const int64_t *step,
                                                               const dpmf_evaluate_options *options,
                                                               dpmf_sensitivity *out, int64_t *worst_unit);

/* Row norms of B = A W: `per_step` (steps numbers) gets |B[t,:]|, without the sensitivity. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_error_compute(const dpmf_workload *workload, const dpmf_strategy *strategy,
                                                        const dpmf_run *run, double *per_step);

/*
 * The same for the steps first to first + count - 1 alone: `count` numbers. All of them are computed, except for prefix
 * sums with the family unbounded, where the steps before `first` take almost no time.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_error_range(const dpmf_workload *workload, const dpmf_strategy *strategy,
                                                      int64_t first, int64_t count, const dpmf_run *run,
                                                      double *per_step);

/*
 * ---- questions on a released stream ----
 *
 * A stream has released the answers o = A x of `count` steps, x_t = g_t + noise of step t. Anybody who has them can ask any
 * linear question, sum over t of weights_t x_t: a total (weights 1 up to some step), a range (1 within it), a difference of
 * ranges. This is the standard deviation of its noise, exactly and with all correlations, per unit of the noise's scale
 * (`release.scale` of dpmf_noise_get). A question on the answers, sum of a_t o_t, has the weights A' a.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_query_deviation(const dpmf_strategy *strategy, int64_t count,
                                                          const double *weights, const dpmf_run *run,
                                                          double *deviation);

/*
 * Half the width of an interval in standard deviations, so that all `intervals` hold together with probability
 * `level` or more, for any correlation of their noises (Sidak 1967, Royen 2014); exact for one. 0 < level < 1.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_query_multiplier(double level, int64_t intervals, double *out);

/*
 * Totals that never decrease, nearest to `values` with weights 1/deviation^2 (NULL: equal weights), and none below `least`
 * (-INFINITY: any). If the true totals never decrease either, the weighted sum of squared errors does not grow. The second call
 * narrows bands that hold for all steps together: for such totals they still do. Both work in place.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_query_monotone(int64_t count, const double *values, const double *deviations,
                                                         double least, double *out);
DPMF_API void dpmf_query_monotone_bands(int64_t count, double *lower, double *upper);

/* ------------------------------------------------------------------------------------------------------------------
 * 6  Optimize: the best strategy of a family for a workload, a participation and a loss
 *
 *     dense            the best of all. Single participation (Denisov et al. 2022, Theorem 3.2): at any number of
 *                      steps for the named workloads, up to 4096 for matrices. Several: the best whose C'C is zero
 *                      between the steps of one unit (Choquette-Choo et al. 2023; Pillutla et al. 2025, Problems 4.6
 *                      and 4.8)
 *     tvblt            the single-participation optimum as a noise stream with few buffers: a BLT whose coefficients
 *                      vary with time (docs/optimum.md). A node keeps one buffer, or two with momentum.
 *     banded           C with `bands` diagonals (McKenna 2024, Section 3.1)
 *     toeplitz         the best Toeplitz C (McKenna 2024, Section 3.2)
 *     banded-toeplitz  the same with `bands` diagonals
 *     bisr             C^-1 Toeplitz with `bands` diagonals, optimized (BandInvMF)
 *     blt              a buffered linear Toeplitz C with `buffers` buffers (Pillutla et al. 2025, Section 2.5)
 *     lowrank          a decoder of `bands` diagonals plus rank `buffers` (Denisov et al. 2022, Appendix H)
 *
 * dense under min-separation and shuffled participation is the optimum of all mechanisms up to 500 steps; above, under
 * min-separation, the better of banded and toeplitz. The search of a Toeplitz family covers the part of it that `searched` names.
 *
 * The two optimum bounds enclose the least loss that a mechanism of the class named by `scope` can have.
 * --------------------------------------------------------------------------------------------------------------- */

/* ---- expert ---- */

/* How an iteration ended; not an error. */
typedef enum dpmf_outcome { DPMF_CONVERGED = 0, DPMF_ITERATION_LIMIT } dpmf_outcome;
DPMF_API const char *dpmf_outcome_name(dpmf_outcome outcome); /* "converged", "iteration limit" */

#define DPMF_DENSE_STEPS_MAX 8192

/* dense, several participations: the condition on X = C'C that makes the sensitivity known (Choquette-Choo et al. 2023,
 * Table 6). */
typedef enum dpmf_constraint {
    DPMF_CONSTRAINT_ZERO = 0,     /* X[t,u] = 0 for two steps of one unit */
    DPMF_CONSTRAINT_NON_NEGATIVE, /* X >= 0 everywhere; up to 256 steps */
    DPMF_CONSTRAINT_CORNERS       /* every choice of signs bounded; up to 64 steps and 8 participations */
} dpmf_constraint;

/* Toeplitz families: dividing the columns of C by their norms (McKenna 2024, Appendix K). */
typedef enum dpmf_normalize {
    DPMF_NORMALIZE_NONE = 0,
    DPMF_NORMALIZE_AFTER, /* the optimal C, then normalized */
    DPMF_NORMALIZE_WITHIN /* the best normalized C; blt: up to 2^20 steps; Toeplitz: steps x bands up to 2^29, with a schedule
                           * up to 8192 steps */
} dpmf_normalize;

/*
 * Signs of a BLT's scales. non-negative: c >= 0 and falling, whose sensitivity is exact for any number of steps. any: single,
 * cyclic and full participation, up to 1024 steps. auto: any where that is worthwhile, else non-negative.
 */
typedef enum dpmf_signs { DPMF_SIGNS_AUTO = 0, DPMF_SIGNS_NON_NEGATIVE, DPMF_SIGNS_ANY } dpmf_signs;

typedef struct dpmf_optimize_options {
    dpmf_loss loss;
    int64_t bands; /* banded, banded-toeplitz, bisr, lowrank: 1 to steps; taps: entries of a row of C^-1, up to 64 */
    int buffers;   /* blt: 1 to 16; tvblt: nodes, 1 to 32; lowrank: the rank; 0: the fewest for wanted_ratio */
    double wanted_ratio; /* blt, tvblt with buffers 0: loss over the best known, above 1; 0 means 1.001 */
    int shared_seeds;    /* tvblt, several epochs: seeds that a unit's steps share, 1 to 8; 0: replayed seeds */
    dpmf_normalize normalize;
    dpmf_constraint constraint;
    int sweep;        /* banded-toeplitz: 1: the best of c_i = 1/(i+1) + c, without gradients (McKenna 2024, App. J) */
    int64_t taper;    /* banded-toeplitz: the least separation, below `bands`; fades them out (App. H); 0: none */
    double tolerance; /* on optimum_upper/optimum_lower - 1 where there are bounds; 1e-10 to 1 */
    const double *weights; /* NULL or `steps` numbers > 0; RMS loss only */
    dpmf_run run;
    dpmf_signs signs; /* blt */
    int damped; /* toeplitz: 1: the square root of the workload times (1-nu)^t, with the best nu (Pillutla et al. 2025,
                       * Eq. 3.27), which any number of steps allows */
    double loss_power;                  /* of DPMF_LOSS_LP; lp, last and own: banded, toeplitz, banded-toeplitz */
    const dpmf_loss_function *own_loss; /* of DPMF_LOSS_OWN */
    int64_t
        stamps; /* the best strategy of steps/stamps steps, repeated: a divisor of steps; DPMF_STAMPS_AUTO; 0 and 1: once */
    const dpmf_participation
        *stamp_participation;                 /* what one stamp is optimized for; NULL: what `participation` leaves of
                                                    * it in one stamp. Single and full fit any number of steps */
    const dpmf_strategy_options *closed_form; /* not NULL: no search, but dpmf_strategy_create with these options, for
                                                    * families that have a closed form; `stamps` counts, not theirs */
} dpmf_optimize_options;

/*
 * The number of stamps with the least loss (Choquette-Choo et al. 2023, Appendix D.4): every divisor of steps is tried. Weights of
 * a stamp are the means over all stamps; bounds on the optimum are given where the best is one stamp.
 */
#define DPMF_STAMPS_AUTO (-1)

DPMF_API dpmf_optimize_options dpmf_optimize_options_defaults(void); /* RMS, tolerance 1e-6 */

typedef struct dpmf_optimization {
    dpmf_outcome outcome;
    int iterations;
    int nodes;                           /* of a tvblt, buffers of a blt; 0 otherwise */
    double optimum_lower, optimum_upper; /* 0 and infinity where no bound is known */
    const char *scope;                   /* the mechanisms that the lower bound holds for; NULL: no bound */
    double stationarity;                 /* |gradient of ln loss| in the family's parameters; 0: there are bounds */
    const char *searched;                /* without bounds: the part of the family that was searched; or NULL */
    int dropped; /* buffers asked for that are superfluous and were left out. blt: they gain less than 1e-7 of the loss; tvblt
                  * where a unit takes part in every step: one is enough */
    double nu; /* of the best damped square root; 0 elsewhere */
} dpmf_optimization;

/*
 * *out becomes NULL for `dense` above DPMF_DENSE_STEPS_MAX steps, where the bounds are the answer; with out = NULL no
 * strategy is made at all. NULL participation: single.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_optimize(const char *family, const dpmf_workload *workload,
                                                   const dpmf_participation *participation,
                                                   const dpmf_optimize_options *options, dpmf_strategy **out,
                                                   dpmf_optimization *result);

/* ------------------------------------------------------------------------------------------------------------------
 * 7  Accounting: (epsilon, delta) from sigma, sigma from (epsilon, delta)
 *
 * sigma is the noise multiplier: the noise's standard deviation over clip x sensitivity, with the sensitivity under
 * zero-out adjacency. A correlated-noise mechanism without sampling is one Gaussian release for any number of steps: one
 * composition. docs/accounting.md has the theorems.
 *
 *     none                no secret sampling: the Gaussian mechanism, `compositions` times; exact
 *     poisson Q           every unit takes part in every step with probability Q; `compositions` steps of independent
 *                         noise (C diagonal), or a C of several bands without negative entries, by a bound of its own (zero-out
 *                         and add-remove, no cap and no group)
 *     block-cyclic Q, B   the units are split into B fixed blocks; step t draws from block t mod B, each unit with
 *                         probability min(1, Q B). With C of at most B bands this is ceil(steps/B) compositions of
 *                         the Poisson-subsampled Gaussian at the largest column norm (McKenna 2024, Proposition 2.1;
 *                         Pillutla et al. 2025, Theorem 3.21)
 *     balls-in-bins B     every unit is put into one of B bins at random, once; step t uses bin t mod B
 *     min-sep P, B        a unit that may take part does so with probability P, and then waits B steps
 *     allocation K, T     every unit takes part in exactly K of T steps, chosen at random, in each of `epochs` epochs;
 *                         independent noise; proven from both sides, without simulation
 *     fixed M, N          every batch is a random M of the N units, drawn freshly in each step; independent noise. With B
 *                         blocks step t draws from block t mod B, of N/B units, for C of at most B bands. Under add-remove
 *                         adjacency N is the number of units of the larger data set, and a unit takes another's place
 *     fixed-replace M, N  the same with M independent draws: a unit that is drawn j times counts j times
 *
 * A group of G units (`group`): without sampling the sensitivity is G times that of one. Under Poisson sampling and fixed sizes the
 * number of its units in a batch is binomial or hypergeometric, and the account is of that mixture. This covers a user with at
 * most G examples where examples are sampled. Elsewhere it is a composition of G runs with noise sigma/sqrt(G), an upper bound.
 *
 * A cap M on the batch: if more than M units are drawn, a random M of them take part, and a drawn unit counts as drawn
 * whether it was kept or not. Do not account for such a run as if there were no cap.
 *
 * Under sampling sigma is per unit of the largest column norm of C. Zero-out and add-remove adjacency have the same
 * guarantee, the worse of adding and removing; replace-one has its own pair of distributions.
 * --------------------------------------------------------------------------------------------------------------- */

typedef enum dpmf_sampling_kind {
    DPMF_SAMPLING_NONE = 0,
    DPMF_SAMPLING_POISSON,
    DPMF_SAMPLING_BLOCK_CYCLIC,
    DPMF_SAMPLING_BALLS_IN_BINS,
    DPMF_SAMPLING_MIN_SEPARATION,
    DPMF_SAMPLING_ALLOCATION,
    DPMF_SAMPLING_FIXED,
    DPMF_SAMPLING_FIXED_REPLACE
} dpmf_sampling_kind;

typedef struct dpmf_sampling {
    dpmf_sampling_kind kind;
    double probability; /* Q or P, 0 to 1 */
    int64_t count;      /* B: blocks, bins or separation; T of allocation; at least 1 */
    int64_t picks;      /* K of allocation, 1 to T; M of the fixed sizes; 0 elsewhere */
    int64_t cap;        /* poisson, block-cyclic, min-sep: at most this many of those drawn take part; 0: no cap */
    int64_t units;      /* with a cap: the total number of units; 0: not known yet. N of the fixed sizes */
} dpmf_sampling;

/*
 * "none", "poisson:Q", "block-cyclic:Q,B", "balls-in-bins:B", "min-sep:P,B", "allocation:K,T", "fixed:M,N", "fixed-replace:M,N"
 * or with ",B" behind them in B blocks; and with ",cap:M" or ",cap:M:N" behind poisson, block-cyclic and min-sep.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampling_parse(const char *text, dpmf_sampling *out);

typedef enum dpmf_engine {
    DPMF_ENGINE_AUTO = 0,         /* closed form, Fourier sum, connect-the-dots or Monte Carlo, as needed */
    DPMF_ENGINE_FOURIER,          /* Poisson: a proven upper bound, nearly exact where many steps count; where they do
                                   * not, the bound is that of the noise without the sampling */
    DPMF_ENGINE_CONNECT_THE_DOTS, /* Poisson: a proven upper bound, tight */
    DPMF_ENGINE_RDP,              /* Poisson: a proven upper bound through Renyi divergences, looser */
    DPMF_ENGINE_MONTE_CARLO       /* balls-in-bins, min-sep */
} dpmf_engine;

/*
 * The facts that a statement names besides its figures: who is protected, and by which mechanism. They change no figure.
 * dpmf_mechanism_account_options fills them in, and a program adds what it knows of its run (clip, done).
 */
typedef struct dpmf_coverage {
    const char
        *unit; /* "example", "user", "hospital stay": up to 40 letters from A to Z, in words with a space or a hyphen
                       * between; anything else is not printed. NULL: not recorded */
    int unit_named;     /* 1: the mechanism records none, and `unit` is the caller's word; the statement says so */
    const char *family; /* NULL: no mechanism is known, and the rest is ignored */
    const char *digest;
    dpmf_participation_info
        participation;            /* that the figures are for, and the steps of the design; text NULL: that of a
                                            * log, where those who took part were written down */
    dpmf_sensitivity sensitivity; /* that sigma is per; value 0: another one */
    int correlated;               /* 1: the noise of different steps is, 0: it is independent */
    double clip;                  /* 0: not known */
    int64_t done;                 /* steps that were taken; -1: not known */
    int64_t first;                /* the figures are for this number of first steps alone; 0: for all */
} dpmf_coverage;

typedef struct dpmf_account_options {
    dpmf_sampling sampling;
    int64_t compositions;          /* none, poisson: applications; the others: training steps. 0: those of `strategy`,
                                    * or 1 */
    const dpmf_strategy *strategy; /* C where it matters: its bands are checked, Monte Carlo needs it. NULL: independent
                                    * noise; for block-cyclic: any C of B bands */
    dpmf_adjacency adjacency;
    int64_t epochs;    /* allocation: number of fresh choices; 0: compositions/T, or 1. balls-in-bins: 1 or more
                     * means that the bins are drawn freshly in each epoch, as in allocation:1,B */
    int64_t batch_cap; /* the sampling's cap, for callers who keep it separately; 0: that of the sampling */
    int64_t units;     /* with a cap: the total number of units, at least 2 per block; 0: that of the sampling */
    double sigma_unit; /* sigma is per this many zero-out sensitivities; 0 means 1. A mechanism evaluated under
                        * replace-one has 2 */
    dpmf_engine engine;
    double slack; /* wanted in epsilon, relative, 1e-8 to 0.1; a tenth of it, absolute, is enough too. 0: 5e-5 or finer,
                   * 8e-5 for calibration */
    /* Monte Carlo */
    double confidence; /* that the bound holds, 0.5 to below 1; 0 means 0.999 */
    int unconditional; /* 1: the test is a part of the mechanism and the bound needs no confidence */
    int warm; /* min-sep: the run begins anywhere in a unit's wait (1), or every unit may take part at once (0) */
    int64_t samples; /* 0: chosen from delta; up to 1e10 */
    uint64_t seed;
    dpmf_run run;
    dpmf_coverage covered; /* for the statement alone */
    int64_t group; /* units that are protected together, 1 to 1e9 (10000 under sampling); 0 means 1. Not with a cap, nor
                    * with simulated samplings */
} dpmf_account_options;

DPMF_API dpmf_account_options dpmf_account_options_defaults(void);

typedef struct dpmf_privacy {
    double epsilon, delta;
    double sigma;
    double mu, rho;             /* of one composition, without sampling: sensitivity/sigma, mu^2/2; 0: not applicable */
    double total_mu, total_rho; /* of all of them */
    dpmf_certainty kind;        /* of epsilon, or of delta, or of sigma as the least one, as asked */
    double confidence;          /* 0: not a matter of confidence */
    int64_t compositions;       /* as accounted for: ceil(steps/B) for block-cyclic */
    double probability;         /* as accounted for */
    const char *method;         /* a string constant */
    int slack_met; /* 0: the bound holds, but may be looser than wanted. 1 is proven for the Fourier sum; by other methods it
                      is their own estimate of their error */
    double without_sampling; /* epsilon at the same delta if the sampling were known; 0: there is none */
} dpmf_privacy;

/* epsilon of sigma at delta, delta of sigma at epsilon, the least sigma for both. NULL options: the defaults. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_account_epsilon(double sigma, double delta,
                                                          const dpmf_account_options *options, dpmf_privacy *out);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_account_delta(double sigma, double epsilon,
                                                        const dpmf_account_options *options, dpmf_privacy *out);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_calibrate_sigma(double epsilon, double delta,
                                                          const dpmf_account_options *options, dpmf_privacy *out);

/*
 * The guarantee in sentences: what is released, the privacy unit, the neighbours, who is protected (in how many steps,
 * how far apart, with how much in each), by which mechanism (options->covered has these facts), the sampling that
 * must be done exactly, with and without amplification, which figure is a bound and why. Writes at most `size` bytes
 * with the ending zero and returns the length of the whole text, as snprintf does.
 */
DPMF_API size_t dpmf_privacy_statement(const dpmf_privacy *privacy, const dpmf_account_options *options, char *out,
                                       size_t size);

/* ---- expert ---- */

/* The text of a sampling: at most 63 bytes, or it is refused. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampling_format(const dpmf_sampling *sampling, char out[64]);

/* Is nothing sampled? 1 or 0. */
DPMF_API int dpmf_sampling_is_none(const dpmf_sampling *sampling);

/* What is known of a kind. */
typedef struct dpmf_sampling_facts {
    const char *name, *form; /* "poisson"; how it is written, "poisson:Q" */
    int composes;            /* 1: a run is a composition of equal sampled steps */
    int allocates;           /* 1: every unit is used in a fixed number of steps, chosen at random */
    int simulated;           /* 1: with correlated noise the account is a simulation */
    int waits;               /* 1: a unit that took part waits (`warm`: how that begins) */
    int cappable;            /* 1: there is an account of batches with a cap */
    int fixed;               /* 1: every batch has the same number of units */
} dpmf_sampling_facts;

/* NULL if there is no such kind. */
DPMF_API const dpmf_sampling_facts *dpmf_sampling_describe(dpmf_sampling_kind kind);

DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_engine_parse(const char *text, dpmf_engine *out);

/*
 * A ledger: different runs on the same data, composed. Gaussian runs add up exactly, equal samplings add their steps, and
 * the rest is composed by the certified engine, removing with removing and adding with adding; the order of adding does not
 * matter. All of them protect groups of the same number of units. The list must not depend on what its runs released. Simulated accounts (min-sep; balls-in-bins with a C) are refused.
 * Free it with dpmf_ledger_free (NULL is fine); on failure a ledger stays as it was.
 */
typedef struct dpmf_ledger dpmf_ledger;

DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_create(dpmf_adjacency adjacency, dpmf_ledger **out);
DPMF_API void dpmf_ledger_free(dpmf_ledger *ledger);

/* `times` releases of mu = sensitivity/sigma, the sensitivity under the ledger's adjacency; times 1 to 1e9. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_add_gaussian(dpmf_ledger *ledger, double mu, int64_t times);

/* `times` runs, each as dpmf_account_epsilon would account for it; the options' adjacency must be the ledger's. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_add_sampled(dpmf_ledger *ledger, double sigma,
                                                             const dpmf_account_options *options, int64_t times);

/*
 * `times` uses of a mechanism that is known by its guarantee or by its privacy curve, under the ledger's adjacency:
 *
 *     pure:EPSILON   approximate:EPSILON,DELTA   laplace:SCALE (one number of sensitivity 1)   pld:FILE (docs/accounting.md)
 *
 * and each of them after sampling, with @poisson:Q (zero-out and add-remove adjacency) or @fixed:M,N (replace-one) behind it.
 * Several guarantees alone are composed optimally (Kairouz, Oh and Viswanath 2015).
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_add_guarantee(dpmf_ledger *ledger, const char *text, int64_t times);

/*
 * Writes the curve of everything in it together as a privacy loss distribution, which dominates it, for other accountants and for
 * pld:FILE. interval: the losses are multiples of it; 0: 1e-4, that of dp-accounting. run: may be NULL.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_export(const dpmf_ledger *ledger, const char *path, double interval,
                                                        const dpmf_run *run);

/* Of everything in it together. run: may be NULL. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_epsilon(const dpmf_ledger *ledger, double delta, const dpmf_run *run,
                                                         dpmf_privacy *out);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_delta(const dpmf_ledger *ledger, double epsilon, const dpmf_run *run,
                                                       dpmf_privacy *out);

/*
 * Risks: what a test finds out that sees all outputs of the run, knows all other data, and decides if a unit's data were in. FPR
 * is the part of the runs without them for which it decides yes, TPR the part of those with them. From the certified curve, for both
 * directions; delta(epsilon) at any epsilon gives TPR <= delta + e^epsilon FPR, and the best epsilon is searched.
 */
typedef struct dpmf_risk_options {
    const double *fpr; /* `count` false positive rates, 1e-100 to below 1; may be NULL with count 0 */
    int64_t count;     /* at most 1000 */
    double prior;      /* of the unit's presence, above 0, below 1; for bayes_error */
    double remainder;  /* 1e-100 to 0.1; for mu */
} dpmf_risk_options;

/* No rates, prior 1/2, remainder 1e-6. */
DPMF_API dpmf_risk_options dpmf_risk_options_defaults(void);

typedef struct dpmf_risk {
    double advantage;          /* the largest TPR - FPR: the total variation, delta at epsilon 0 */
    double prior, bayes_error; /* the least probability of error of any test with this prior: a lower bound */
    double mu,
        remainder; /* every TPR is at most that of mu-Gaussian privacy at the same FPR, plus the remainder; 0: nothing is added */
    dpmf_certainty kind; /* exact, or upper bounds (and a lower one) */
    double confidence;   /* of all figures together; 0: not a matter of confidence */
    const char *method;  /* of the curve; a string constant */
} dpmf_risk;

/* `tpr` gets `count` upper bounds (NULL with count 0). Options NULL: the defaults. Not with `unconditional`. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_account_risk(double sigma, const dpmf_account_options *options,
                                                       const dpmf_risk_options *asked, double *tpr, dpmf_risk *out);

/*
 * A sigma, near the least, with which no test of this FPR has a larger TPR; `out` has the (epsilon, delta) that proves it. Not for
 * simulated samplings. For an advantage of A at most: dpmf_calibrate_sigma with epsilon 0 and delta A.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_calibrate_risk(double tpr, double fpr, const dpmf_account_options *options,
                                                         dpmf_privacy *out);

/* The risks in sentences, as dpmf_privacy_statement writes. unit: NULL for "unit". */
DPMF_API size_t dpmf_risk_statement(const dpmf_risk *risk, const dpmf_risk_options *asked, const double *tpr,
                                    const char *unit, char *out, size_t size);

/*
 * The largest number of compositions (steps), or the largest sampling probability, that keep sigma within (epsilon, delta): none and
 * poisson; block-cyclic too, whose steps grow by whole rounds of its B blocks. DPMF_ERROR_UNSUPPORTED if not even one
 * step, or no probability above 0, does; at most 1e15 steps are tried.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_calibrate_compositions(double sigma, double epsilon, double delta,
                                                                 const dpmf_account_options *options,
                                                                 int64_t *compositions, dpmf_privacy *out);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_calibrate_probability(double sigma, double epsilon, double delta,
                                                                const dpmf_account_options *options,
                                                                double *probability, dpmf_privacy *out);

/*
 * Private choice among runs. A run is made a random number K of times, each time with settings drawn at random from a list
 * that does not depend on the data (the same law, with replacement, for every one of them), and only the best output is
 * released, best by any score, private or not. Then what is released is (epsilon, delta)-private, an upper bound from the
 * Renyi divergences of one run (Papernot and Steinke 2022):
 *
 *     poisson MEAN                 K of Poisson's law; 0 of them release nothing (Theorem 6)
 *     negative-binomial ETA,GAMMA  the truncated law, K >= 1: ETA = 1 geometric, ETA = 0 logarithmic; ETA above -1, GAMMA in
 *                                  (0, 1], E[K] = ETA (1-GAMMA) / (GAMMA (1-GAMMA^ETA)) (Theorem 2). GAMMA = 1 is one run.
 *
 * K must not be known beforehand nor chosen by hand. Accounts by composition (none, poisson, block-cyclic without a cap or a group).
 */
typedef enum dpmf_tuning_kind { DPMF_TUNING_POISSON = 0, DPMF_TUNING_NEGATIVE_BINOMIAL } dpmf_tuning_kind;

typedef struct dpmf_tuning {
    dpmf_tuning_kind kind;
    double mean;       /* poisson: above 0, to 1e9 */
    double eta, gamma; /* negative-binomial */
} dpmf_tuning;

/* "poisson:MEAN", "negative-binomial:ETA,GAMMA". */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_tuning_parse(const char *text, dpmf_tuning *out);

/* E[K]: the average number of runs. */
DPMF_API double dpmf_tuning_runs(const dpmf_tuning *tuning);

/* epsilon at delta of the best of K runs, one of which has this sigma and these options. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_account_tuning(double sigma, double delta,
                                                         const dpmf_account_options *options, const dpmf_tuning *tuning,
                                                         dpmf_privacy *out);

/* epsilon for delta when only rho-zCDP is known (an upper bound), or that the mechanism is Gaussian (exact). */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_account_zcdp(double rho, double delta, int gaussian, int64_t compositions,
                                                       dpmf_privacy *out);

/* ------------------------------------------------------------------------------------------------------------------
 * 8  Mechanism
 *
 * What a training run needs to know, and everything that its figures assumed. The noise added to the summed clipped
 * gradients of step t is clip x sigma x sensitivity x row t of W Z; the clip norm belongs to the run, not here. Without
 * sampling the sensitivity is that of C under the participation. With it, it is the largest column norm of C, and the
 * participation only describes how often and how far apart a unit takes part if the batches come in a fixed order.
 *
 * The file is a safetensors container: the arrays, and one metadata entry "dpmf" with a canonical JSON text. It holds
 * no time, host or path, and has the same bytes for any number of threads. Its SHA-256 digest covers every figure and
 * every coefficient; the reader accepts exactly the bytes that the writer would write.
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dpmf_mechanism dpmf_mechanism;

/*
 * As a limit on the memory of a noise stream, which no stream meets by its size: from one step to the next no row of noise and
 * no row of seeds is kept. The seeds are made again from the key, so that a row takes as many normal numbers as W has entries in it
 * (docs/noise.md).
 */
#define DPMF_MEMORY_NO_ROWS ((uint64_t)1)

/* The constraints under which a design chose it, so that it can be compared under the same ones later; dim 0: no design did. */
typedef struct dpmf_design_limits {
    int64_t dim;             /* numbers of a row of noise */
    uint64_t memory;         /* bytes that the noise stream may take, or DPMF_MEMORY_NO_ROWS; 0: no limit */
    double max_overhead;     /* times the time of independent noise that a row may take; 0: speed was not measured */
    dpmf_loss loss;          /* whose noise was to be least */
    int64_t separation_high; /* federated over a range: its upper end; 0: elsewhere */
    double loss_power;       /* of DPMF_LOSS_LP */
} dpmf_design_limits;

DPMF_API void dpmf_mechanism_free(dpmf_mechanism *mechanism);

/* Written to a temporary file beside `path` and renamed: the file is complete or not there at all. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mechanism_save(const dpmf_mechanism *mechanism, const char *path);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mechanism_load(const char *path, dpmf_mechanism **out);

/*
 * The same mechanism with the least sigma for (epsilon, delta); its old sigma is ignored. Any strategy, your own matrix too.
 * `sampling`, `unit`: NULL for the one that it has; where it records a unit, another one is refused. `run` and `found`
 * (the account of that sigma) may be NULL. Its sensitivity is computed again first; one that is larger than the mechanism's
 * figure is refused (DPMF_ERROR_FORMAT).
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mechanism_calibrate(const dpmf_mechanism *mechanism, double epsilon,
                                                              double delta, const dpmf_sampling *sampling,
                                                              const char *unit, const dpmf_run *run,
                                                              dpmf_mechanism **out, dpmf_privacy *found);

/* What it is made of, its figures and its claims. Pointers are borrowed from the mechanism: valid while it exists. */
typedef struct dpmf_mechanism_info {
    const dpmf_workload *workload;
    const dpmf_participation *participation;
    const dpmf_strategy *strategy;
    const double *weights; /* NULL: none */
    dpmf_evaluation evaluation;
    dpmf_adjacency adjacency;
    dpmf_sensitivity_bound sensitivity_bound; /* as requested */
    dpmf_sampling sampling;
    double sigma;          /* 0: not calibrated */
    double epsilon, delta; /* as claimed; 0: nothing is */
    const char *made_by;
    const char *unit;   /* that the guarantee protects: "example", "user"; NULL: not recorded */
    const char *digest; /* SHA-256 over everything in the file, 64 hexadecimal digits */
    dpmf_design_limits designed;
    double response; /* one number that depends on every coefficient of workload, weights and strategy: u' A W v for two
                      * vectors that a digest of all that is given (and not computed) chooses. It ties the figures to the
                      * coefficients more finely than any loss does. 0: not taken */
    int64_t group;   /* units that the guarantee protects together; 0: one */
} dpmf_mechanism_info;

DPMF_API dpmf_mechanism_info dpmf_mechanism_get(const dpmf_mechanism *mechanism);

/* ---- expert ---- */

typedef struct dpmf_mechanism_options {
    dpmf_evaluate_options evaluate; /* `of` follows from the sampling */
    double sigma;                   /* noise multiplier > 0, or 0: not calibrated */
    dpmf_sampling sampling;         /* how batches must be drawn for the guarantee to hold; none: by participation */
    double epsilon, delta;          /* the guarantee that sigma was calibrated for; both 0: none */
    const char *made_by; /* how the strategy was found, e.g. "closed form"; printable UTF-8, at most 1000 bytes */
    const char *unit;    /* what one participation is of, as in dpmf_coverage; NULL: not recorded */
    dpmf_design_limits designed;
    int64_t group; /* units that the guarantee protects together; 0 means 1 */
} dpmf_mechanism_options;

DPMF_API dpmf_mechanism_options dpmf_mechanism_options_defaults(void);

/* Evaluates the strategy and keeps the figures with it. NULL participation: single; NULL options: the defaults. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mechanism_create(const dpmf_workload *workload,
                                                           const dpmf_participation *participation,
                                                           const dpmf_strategy *strategy,
                                                           const dpmf_mechanism_options *options, dpmf_mechanism **out);

/* `times` runs of it into a ledger; it must be calibrated. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_add_mechanism(dpmf_ledger *ledger, const dpmf_mechanism *mechanism,
                                                               int64_t times);

/*
 * The options to account for this mechanism: sampling, steps, strategy, adjacency, the unit of sigma and the facts for a
 * statement, the rest at its defaults. Pointers are borrowed from the mechanism. Put into dpmf_account_epsilon with its sigma and delta it gives
 * the guarantee again.
 */
DPMF_API dpmf_account_options dpmf_mechanism_account_options(const dpmf_mechanism *mechanism);

/*
 * The first `steps` steps of a run alone: the sigma and options with which dpmf_account_epsilon and related calls, or a ledger,
 * account for them. Their noise is that of the leading block of C, which is never more sensitive than C. This holds for an
 * end that was fixed before the run, or that depends on nothing but public things (a clock, a failed machine). If you looked
 * at what was released, or at the data, to decide when to stop, state the epsilon of the whole run: that one covers every
 * way of stopping, since all the outputs of the whole run are covered together.
 * DPMF_ERROR_UNSUPPORTED where a sampling has no account of a part (balls-in-bins with a C, min-sep); 1 to all steps are
 * accepted. The mechanism must be calibrated.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mechanism_account_first(const dpmf_mechanism *mechanism, int64_t steps,
                                                                  const dpmf_run *run, double *sigma,
                                                                  dpmf_account_options *out);

/*
 * Does it keep what it claims? A file can claim anything, and somebody who changes it can also change its digest. The
 * sensitivity and, where a guarantee is claimed, epsilon at its sigma and delta are computed here from the coefficients,
 * and a claim that is smaller is refused (DPMF_ERROR_FORMAT, naming the figure). Call this before you print a guarantee or rely on
 * one. `out` (may be NULL) gets the guarantee as computed; its epsilon is 0 where none is claimed. Where only a simulation can
 * tell, fresh samples must show the claim with 99.9 % confidence: `out` then has the claimed epsilon and the delta that they show. A
 * claim that this library's calibration made fails with probability 1e-6 at most.
 * The answer is kept in the mechanism, so asking again costs nothing.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mechanism_confirm(const dpmf_mechanism *mechanism, const dpmf_run *run,
                                                            dpmf_privacy *out);

/* The bytes of the file, to and from memory; free them with dpmf_bytes_free. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mechanism_encode(const dpmf_mechanism *mechanism, uint8_t **bytes,
                                                           size_t *size);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_mechanism_decode(const uint8_t *bytes, size_t size, dpmf_mechanism **out);

/* ------------------------------------------------------------------------------------------------------------------
 * 9  Noise
 *
 * The rows that a run adds: row t is clip x sigma x sensitivity x row t of W Z, Z standard normal and a pure function
 * of (key, mechanism, dim, clip, precision, label, state file, row, coordinate). Row t is added to the sum of the clipped
 * gradients of step t. The same of all these give the same bits for any shard, number of threads, instruction set, look-ahead
 * or resume point (docs/noise.md has the specification, docs/security.md what is protected and what is not).
 *
 *     uint8_t key[DPMF_KEY_SIZE];
 *     dpmf_noise *noise = NULL;
 *     dpmf_key_load("run.key", 1, key);
 *     dpmf_noise_create(mechanism, dim, clip, key, NULL, &noise);
 *     dpmf_key_wipe(key);
 *     for each step: dpmf_noise_add(noise, 1.0, 1, &(dpmf_segment){gradient_sum, dim});
 *
 * A row whose noise is used for two different sums protects neither: their difference has no noise at all. So a key
 * serves one run of a mechanism, and a run that may be interrupted keeps a state file, which remembers durably the number
 * of reserved rows, and refuses to give one twice. A new state file draws a random salt, which the noise depends on: two state
 * files of one key never share noise, and a run whose state file is lost cannot be resumed.
 * --------------------------------------------------------------------------------------------------------------- */

/* Changes when the bits that a key gives change. */
#define DPMF_STREAM_VERSION 2
#define DPMF_KEY_SIZE 32
#define DPMF_SALT_SIZE 32

/*
 * A ledger on disk: every run on some data, so that none is forgotten. A run is entered before it begins, in one step that is
 * on the disk before this returns; a run that is resumed is known by its key, its mechanism's digest, `salt` and `binding`, and
 * is not entered twice; another run of the same key and mechanism is refused, for a key serves one run. An entry that would exceed
 * the budget is refused (DPMF_ERROR_UNSUPPORTED) and the file stays as it was. Several processes may enter at once. The file is
 * made if it is missing; it holds no secret.
 *
 * Where all runs are Gaussian (no sampling), runs may be chosen by what earlier ones released, within the budget: a filter
 * for Gaussian privacy (Smith and Thakurta 2022). Else the list of runs must not depend on what they released.
 */
typedef struct dpmf_ledger_options {
    double budget_epsilon,
        budget_delta; /* both 0: that of the file. A new file keeps it; one that differs from the file's is refused */
    const char *what; /* who enters it, for example "train": at most 100 bytes; NULL: nothing */
    const char
        *binding;  /* what else distinguishes runs with one key and mechanism whose noise differs; NULL: nothing */
    int64_t times; /* 0 means 1 */
    dpmf_run run;
    const uint8_t *salt; /* that of dpmf_noise_get or dpmf_counter_get; NULL: zeros, a run without a state file */
} dpmf_ledger_options;

DPMF_API dpmf_ledger_options dpmf_ledger_options_defaults(void);

typedef struct dpmf_ledger_receipt {
    int entered;                         /* 0: the run was in it already */
    int64_t entries;                     /* number of entries now */
    double budget_epsilon, budget_delta; /* 0: none */
    dpmf_privacy privacy;                /* of all of them together at the budget's delta; all 0 without a budget */
} dpmf_ledger_receipt;

/* Enters a run of a mechanism, which is confirmed first. `key` is the run's. `out` may be NULL. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_enter(const char *path, const dpmf_mechanism *mechanism,
                                                       const uint8_t key[DPMF_KEY_SIZE],
                                                       const dpmf_ledger_options *options, dpmf_ledger_receipt *out);

/* A new key from the system's generator. Anybody who knows the key can subtract the noise. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_key_create(uint8_t key[DPMF_KEY_SIZE]);

/*
 * From a file of 32 bytes. Refused if it has another size, if it belongs to another user, or if its mode gives access to anybody but
 * the owner. A file that is missing is made (mode 0600) if `create` is not 0.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_key_load(const char *path, int create, uint8_t key[DPMF_KEY_SIZE]);

/* Overwrites it, in a way that compilers keep. */
DPMF_API void dpmf_key_wipe(uint8_t key[DPMF_KEY_SIZE]);

typedef enum dpmf_precision { DPMF_FLOAT32 = 0, DPMF_FLOAT64 } dpmf_precision; /* two different streams */

typedef struct dpmf_noise_maker dpmf_noise_maker; /* dpmf_experimental.h */

typedef struct dpmf_noise_options {
    dpmf_precision precision; /* of the rows and of the buffers */
    int64_t offset, count;    /* a shard: the coordinates [offset, offset + count); count 0: all from offset on */
    int64_t lookahead;        /* rows made at a time: 0 chosen, 1 none; never changes a bit */
    int prefetch;             /* 1: a thread makes the next row while the caller works; one more row of memory */
    const char *label;        /* NULL, or a name of this run: runs of other names get other noise from the same key */
    const char *state;        /* NULL, or the path of a state file, made with the first row if it is missing */
    int replay;               /* 1: rows that the state file records may be asked for again */
    int whole_state;          /* 1: the state file is that of the whole row, not of this shard: one of several processes
                               * keeps it, and a row counts as used when that one's part is */
    const char *scratch; /* NULL, or a directory for rows that are made in advance (strategies that do not stream) */
    const char
        *key_file; /* NULL, or the file that the key came from: without `state`, KEY_FILE.state is the state file */
    int rows_may_repeat; /* 1: no state file though `key_file` is given: rows that are used twice are not noticed */
    dpmf_run run;        /* threads; progress of seeking */
    int exact;           /* 1: the exact release, see below; rows are double for any `precision` */
    double grid;         /* of the exact release: 0 chosen, or a power of two that sums are multiples of */
    const dpmf_noise_maker *maker; /* NULL, or the maker of the rows (dpmf_experimental.h) */
    int uncalibrated; /* 1: a mechanism without sigma is taken with sigma = 1, which promises nothing; else it is refused */
    const uint8_t
        *salt;     /* NULL, or DPMF_SALT_SIZE bytes, the `salt` of dpmf_noise_get of another shard of this run, which
                          * has the state file: without it the shards are not parts of one row. A state file that is made
                          * gets it, and one that has another salt is refused */
    int state_now; /* 1: a state file that is missing is made at once, before its salt is recorded elsewhere */
    uint64_t
        memory; /* bytes that the stream may take: fewer rows are made ahead, which never changes a bit, and one that takes
                      * more is refused. DPMF_MEMORY_NO_ROWS: no row is kept, or it is refused. 0: what the design of the mechanism
                      * was limited to, where that can be kept, without a refusal */
} dpmf_noise_options;

DPMF_API dpmf_noise_options dpmf_noise_options_defaults(void);

typedef struct dpmf_noise dpmf_noise;

/*
 * A stream of rows of `dim` numbers in all, of which it makes its shard; at row 0, or where the state file stands. One
 * thread at a time may use it. Everything is allocated here. The key is copied in a derived form. A mechanism without a
 * digest (a user's operator) needs a label, different for each such mechanism. NULL options: the defaults.
 *
 * The state file is bound to the mechanism, dim, clip, precision, shard, label and key: another value of any of them is
 * refused by name, and a changed byte is. It is locked as long as the stream lives, so that a second program is
 * refused.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_create(const dpmf_mechanism *mechanism, int64_t dim, double clip,
                                                       const uint8_t key[DPMF_KEY_SIZE],
                                                       const dpmf_noise_options *options, dpmf_noise **out);

/* Wipes keys and buffers. With a state file: records in it that all rows arrived. */
DPMF_API void dpmf_noise_free(dpmf_noise *noise);

/*
 * The next row into `row`: count numbers, float or double. Nothing is written on failure, past the last step
 * (DPMF_ERROR_ARGUMENT) and after fork() in the child (DPMF_ERROR_UNSUPPORTED) included. Never allocates.
 *
 * With a state file the row's number is on the disk before the caller gets the row. A program that ended in between, or
 * before it asked for another row, leaves that last row in doubt; a stream that finds such a row is at the row after it and
 * gives nothing until you call dpmf_noise_seek to decide whether the row had arrived. A state file that could not be written ends
 * the stream.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_next(dpmf_noise *noise, void *row);

/* Memory of the caller: `count` floats or doubles. */
typedef struct dpmf_segment {
    void *memory;
    int64_t count;
} dpmf_segment;

/*
 * Adds factor x the next row to segments of memory that together hold `count` numbers, in order: the parameters of a
 * model, say. The same bits as one segment; factor is finite and not 0.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_add(dpmf_noise *noise, double factor, int64_t segments,
                                                    const dpmf_segment *segment);

/* The scale of a stream's noise, and what it consists of in an exact release (dpmf_exact_plan). */
typedef struct dpmf_exact {
    double grid;        /* a power of two; 0: not exact */
    double sensitivity; /* of the exact release: the strategy's, and the two that follow */
    double rounding;    /* the grid's part */
    double arithmetic;  /* the part of the feedback in double */
    double scale;       /* clip x sigma x sensitivity */
} dpmf_exact;

typedef struct dpmf_noise_info {
    int64_t step;     /* of the next row */
    int64_t count;    /* numbers in a row */
    int64_t reserved; /* rows that the state file records; 0 without one */
    int in_doubt;     /* 1: the row before it may not have arrived */
    int calibrated;   /* 0: the mechanism has no sigma, and 1 is used */
    double grid;      /* of an exact release; 0: not exact */
    dpmf_exact release;
    uint8_t salt[DPMF_SALT_SIZE]; /* of the state file; zeros: there is none. No secret */
} dpmf_noise_info;

DPMF_API dpmf_noise_info dpmf_noise_get(const dpmf_noise *noise);

/* ---- expert ---- */

/*
 * Declares the sum that the next row will be added to, by a digest of its exact bytes (for example SHA-256). With a state
 * file, a keyed hash of (row, digest) is on the disk before the caller gets the row. A row that is asked for again, after a
 * crash, is given only for the same digest: otherwise this call fails, naming the row, before anything is released.
 * A row that was bound must be bound again; one that was not cannot be. To be called before every dpmf_noise_next or
 * dpmf_noise_add, or before none. Without a state file nothing is kept and nothing refused.
 */
#define DPMF_DIGEST_SIZE 32
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_bind_sum(dpmf_noise *noise, const uint8_t digest[DPMF_DIGEST_SIZE]);

/*
 * Goes to any row, 0 to the number of steps. With a state file: to its next row (all rows before it arrived), or, with
 * the option `replay`, back to any row before: its bits are the same as the first time. Skipping rows that were
 * never used is refused.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_seek(dpmf_noise *noise, int64_t step);

/*
 * Enters a run that has no mechanism file, as dpmf_account_epsilon would account for it; `name` tells it from others. A name that is
 * in the ledger is the same run, resumed: with another sigma, sampling, number of steps or `times` it is refused.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_enter_account(const char *path, const char *name, double sigma,
                                                               const dpmf_account_options *account,
                                                               const dpmf_ledger_options *options,
                                                               dpmf_ledger_receipt *out);

/* All entries of a file as a ledger in memory, and facts about it. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_load(const char *path, dpmf_ledger **out);

typedef struct dpmf_ledger_info {
    int64_t entries;
    double budget_epsilon, budget_delta; /* 0: none */
    dpmf_adjacency adjacency;
} dpmf_ledger_info;

DPMF_API dpmf_ledger_info dpmf_ledger_get(const dpmf_ledger *ledger);

/* Its entries into another ledger, with the same adjacency. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_ledger_add_ledger(dpmf_ledger *ledger, const dpmf_ledger *other);

/*
 * The exact release (docs/exactness.md): sums of contributions on a grid, noise on the same grid, and a guarantee that
 * holds for the numbers that a computer releases, low-order bits included. A row is a whole number of grid steps in each
 * coordinate: dpmf_noise_next gives it as doubles, which hold it exactly, and dpmf_noise_add_whole adds it to sums that are
 * 64-bit integers of grid steps; dpmf_noise_add is refused, because a sum in floating point rounds. Contributions go on the
 * grid by dpmf_clip_add and the like, each clipped in integers. The noise's scale is that of a sensitivity that includes
 * the effects of rounding and of the recursion's arithmetic: dpmf_noise_get, and, before there is a stream,
 * dpmf_exact_plan (grid 0: chosen; NULL run: the defaults).
 *
 * DPMF_ERROR_UNSUPPORTED for strategies without a square form (trees, low rank, shared seeds, Fourier), for a user's own,
 * and where a sampling's account is not proven for it.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_exact_plan(const dpmf_mechanism *mechanism, int64_t dim, double clip,
                                                     double grid, const dpmf_run *run, dpmf_exact *out);

/*
 * A statement (dpmf_privacy_statement) with its sentence on arithmetic replaced by what is proven for the exact release.
 * Returns the length of all of it, of which `out` gets what fits, as snprintf does.
 */
DPMF_API size_t dpmf_exact_statement(const dpmf_exact *exact, const char *statement, char *out, size_t size);

/* The next row of an exact stream added to segments of int64_t, in grid steps. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_add_whole(dpmf_noise *noise, int64_t segments,
                                                          const dpmf_segment *segment);

/* Memory that dpmf_noise_create would take, and the part of it that buffers take: rows kept x count x their size. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_memory(const dpmf_mechanism *mechanism, int64_t dim,
                                                       const dpmf_noise_options *options, uint64_t *bytes,
                                                       uint64_t *buffers);

/*
 * A checkpoint: the buffers, so that a resumed run need not make all rows before it again. It is as secret as the key
 * (mode 0600, authenticated), and bound to the same things as a state file, and to the state file: with another one it is
 * refused, unless it is for row 0 and no row was given. Loading goes to its row as dpmf_noise_seek does, under the same rules.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_save(dpmf_noise *noise, const char *path);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_load(dpmf_noise *noise, const char *path);

/*
 * The buffers alone at the stream's row, with the salt of its state file, for a checkpoint of the caller's own, which keeps them
 * secret and must authenticate them: rows from buffers that were changed hide nothing. Buffers of another size are those of
 * another look-ahead, and the stream goes to `step` without them.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_encode(dpmf_noise *noise, uint8_t **bytes, size_t *size);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_decode(dpmf_noise *noise, int64_t step, const uint8_t *bytes,
                                                       size_t size);

/*
 * The same from the checkpoints of other shards of the same stream, all at the same row, that together cover this
 * one, in the order of their coordinates: for a run that resumes with another number of processes.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_load_parts(dpmf_noise *noise, int64_t parts, const char *const *path);

/* Not private: a key that anybody can compute from `seed`, for tests and demonstrations. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_key_testing(uint64_t seed, uint8_t key[DPMF_KEY_SIZE]);

/*
 * ---- counting ----
 *
 * Private running sums of a stream of rows, as `dpmf count` prints them: with x_t = row t + noise row t the answer is
 * A x, A the mechanism's workload (docs/counting.md). Rows and noise are added as whole numbers of a grid, 2^-places, in
 * 128 bits: no size of the numbers swallows the noise.
 *
 *     dpmf_counter *counter = NULL;
 *     dpmf_counter_options options = dpmf_counter_options_defaults();
 *     options.state = "visits.state";
 *     dpmf_counter_create(mechanism, 1, 1.0, key, &options, &counter);
 *     for each day: dpmf_counter_add(counter, 1, &visits, &sum);         // sum +- dpmf_counter_error(counter, day)
 *
 * With a state file the sums are on the disk before the caller gets them, and the next program resumes after them, with
 * the same bits as one that never stopped. The file is as secret as the data: it has the running sums with their noise,
 * and in the buffers the numbers that remove it. It is bound to the mechanism, columns, clip, label and key, authenticated,
 * and locked while it is used.
 */
/* Which noise: the exact release (see dpmf_exact) or rows in floating point. */
typedef enum dpmf_release {
    DPMF_RELEASE_AUTO = 0, /* exact where there is an exact release, plain elsewhere */
    DPMF_RELEASE_EXACT,    /* exact, or refused */
    DPMF_RELEASE_PLAIN
} dpmf_release;

typedef struct dpmf_counter_options {
    const char *label; /* NULL, or a name of this run: runs of other names get other noise from the same key */
    const char *state; /* NULL, or the path of a state file, made with the first rows if it is missing */
    const char
        *key_file; /* NULL, or the file that the key came from: without `state`, KEY_FILE.state is the state file */
    int rows_may_repeat; /* 1: no state file though `key_file` is given: rows that are used twice are not noticed */
    int clip_rows; /* 1: each row is the contribution of one unit, and is scaled down to the norm `clip`; 0: it is a sum over
                           * units, each of which adds at most `clip`, and is used as it is */
    dpmf_run run;         /* progress of seeking, of the error bars and of many rows */
    dpmf_release release; /* exact wherever the mechanism has an exact release; or one of the two */
    int uncalibrated;     /* as in dpmf_noise_options */
    int state_now;        /* 1: a state file that is missing is made at once, before its salt is recorded elsewhere */
} dpmf_counter_options;

DPMF_API dpmf_counter_options dpmf_counter_options_defaults(void);

typedef struct dpmf_counter dpmf_counter;

/*
 * At row 0, or where the state file stands. Refused: a mechanism without sigma (unless `uncalibrated`), one whose guarantee rests on
 * sampling, and a workload that is a matrix or an operator. One thread at a time may use it. NULL options: the defaults.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_counter_create(const dpmf_mechanism *mechanism, int64_t columns, double clip,
                                                         const uint8_t key[DPMF_KEY_SIZE],
                                                         const dpmf_counter_options *options, dpmf_counter **out);
DPMF_API void dpmf_counter_free(dpmf_counter *counter); /* wipes keys, sums and buffers */

/*
 * The next `rows` rows of `columns` finite numbers, and their private sums, as many. With a state file one write and sync for
 * all of them, before `sums` is filled. On failure nothing is given out; a failure while rows were made or the file was written
 * ends the counter.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_counter_add(dpmf_counter *counter, int64_t rows, const double *values,
                                                      double *sums);

/* A whole number of 128 bits, two's complement: a multiple of 2^-places. */
typedef struct dpmf_int128 {
    uint64_t low;
    int64_t high;
} dpmf_int128;

typedef struct dpmf_counter_info {
    int64_t step; /* of the next row */
    int64_t columns;
    int64_t last_rows;            /* rows whose sums dpmf_counter_last has; 0: there are none */
    int calibrated;               /* 0: the mechanism has no sigma, and 1 is used */
    int places;                   /* the grid of dpmf_counter_prepare is 2^-places, 0 to 60 */
    double scale;                 /* clip x sigma x sensitivity */
    double grid;                  /* of the exact release; 0: it is plain */
    dpmf_int128 limit;            /* numbers of rows stay below it in size */
    int64_t input_size;           /* bytes of input that the state file records */
    uint8_t salt[DPMF_SALT_SIZE]; /* as in dpmf_noise_info */
} dpmf_counter_info;

DPMF_API dpmf_counter_info dpmf_counter_get(const dpmf_counter *counter);
DPMF_API double dpmf_counter_error(const dpmf_counter *counter,
                                   int64_t step); /* standard deviation; NaN: no such step */

/* ---- expert ---- */

/* The sums of the last dpmf_counter_add (`last_rows` of them), for a program that was killed before it could use them. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_counter_last(const dpmf_counter *counter, double *sums);

/*
 * dpmf_counter_add in two parts: rows on the grid to sums on the grid, any number of times, and then the state file, with a
 * note of the caller's (what goes out, where it goes) that dpmf_counter_note gives after a crash. No sum may leave the
 * program before the commit that follows it; rows that were never committed were never counted. A failure of either while
 * it makes rows or writes the file ends the counter, and what `sums` holds then means nothing.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_counter_prepare(dpmf_counter *counter, int64_t rows,
                                                          const dpmf_int128 *values, dpmf_int128 *sums);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_counter_commit(dpmf_counter *counter, const void *note, int64_t size);
DPMF_API const void *dpmf_counter_note(const dpmf_counter *counter,
                                       int64_t *size); /* of the last commit, until the next; NULL: none */

/*
 * Where rows come from a file: its bytes, as rows are prepared from them. The state file keeps their number and a keyed
 * hash. A program that resumes first gives the same bytes again, in any pieces; bytes that differ from those that were counted
 * are refused with the last piece. Or it continues with others: the hash begins with them.
 */
typedef enum dpmf_input {
    DPMF_INPUT_COUNT = 0, /* bytes that rows are prepared from */
    DPMF_INPUT_VERIFY,    /* bytes that were counted before the program resumed */
    DPMF_INPUT_RESTART    /* what was counted is forgotten, and other bytes follow these, if there are any */
} dpmf_input;

DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_counter_input(dpmf_counter *counter, dpmf_input input, const void *bytes,
                                                        int64_t size);

/* ------------------------------------------------------------------------------------------------------------------
 * 10  Design: from a training run to a mechanism
 *
 * Every family that applies gives a candidate, optimized for the participation and calibrated to the same
 * (epsilon, delta); candidates are compared by sigma x loss. The participation is cyclic with separation ceil(steps/epochs),
 * single for one epoch. With block-cyclic sampling (expected batches of epochs/steps of the data) amplified banded
 * mechanisms of several numbers of bands and amplified independent noise (DP-SGD) are among them. A candidate is
 * eligible when its noise stream fits the memory and takes at most max_overhead times the time of independent noise, by a
 * cost model (docs/design.md); of the eligible within 0.1 % of the least noise the one with the fewest buffers is chosen.
 *
 * The answer is the same on every machine, for any number of threads and at every load. With `measure` candidates that could
 * be chosen are timed instead (processor time of one thread, on shorter rows): measurements differ from run to run and
 * can move the choice. Families that take long for little gain (dense, toeplitz, banded, lowrank, ... on long runs) are tried only when they are named
 * in `families`.
 *
 * federated: a user takes part in at most `epochs` rounds that are certainly at least separation_low apart, and usually
 * about separation_high apart. Candidates are compared by the worst ratio, over that range, of their noise to
 * the best candidate's (McKenna 2024, Appendix H; docs/federated.md), and the guarantee holds for min-separation
 * participation at separation_low.
 *
 * separation_low without federated: cyclic participation with this separation, as fixed groups of users have it who take part
 * in turn; epochs is then the number of steps that fit, (steps - 1) / separation_low + 1, and no sampling is used.
 *
 * participation: a unit takes part in steps of one of the patterns that a file lists. No sampling is used then.
 * --------------------------------------------------------------------------------------------------------------- */

#define DPMF_BATCH_CAP_AUTO ((int64_t)-1)

typedef struct dpmf_design_options {
    int64_t epochs; /* passes over the data, 1 to steps; federated: participations of one user */
    double epsilon, delta;
    int64_t dim;         /* numbers in a row of noise: the model's parameters; 0 means 1e6 */
    uint64_t memory;     /* bytes that the noise stream may take, or DPMF_MEMORY_NO_ROWS; 0: no limit */
    double max_overhead; /* 0 means 4, with DPMF_MEMORY_NO_ROWS 20; INFINITY: no limit */
    dpmf_sampling_kind
        sampling; /* the sampling that candidates may use besides none; block-cyclic: Poisson for independent noise too */
    int any_sampling; /* 1: every one whose account takes no simulation; `sampling` is then ignored */
    int64_t
        batch_cap; /* under sampling: at most this many of those drawn take part; 0: no cap; DPMF_BATCH_CAP_AUTO: the
                        * least that costs no more than a thousandth of sigma */
    int64_t units; /* with a cap, and for fixed and fixed-replace: the number of units */
    const char *families; /* names joined by commas; NULL: every one that applies */
    dpmf_loss loss;
    dpmf_adjacency adjacency;
    dpmf_precision precision; /* of the noise */
    int federated;
    int64_t separation_low,
        separation_high; /* federated. Without it: fixed groups in turn, the steps of one unit exactly
                                              * separation_low apart; 0: ceil(steps / epochs) */
    int measure;         /* 1: times are measured on this machine instead of computed from the cost model */
    double tolerance;    /* of the optimizers; 0 means their own */
    const char *unit; /* what the mechanism protects one of; NULL: "example", and federated: with several participations
                       * it is asked for */
    dpmf_run run;
    double loss_power; /* of DPMF_LOSS_LP. Candidates are optimized for the RMS loss (above 4 for the max loss too), and
                        * compared by the loss; DPMF_LOSS_OWN is refused */
    const dpmf_participation
        *participation; /* patterns from a file, in the place of epochs, federated and sampling; NULL: none.
                                              * Only read by dpmf_design_create */
    int64_t stamps; /* besides: families without bands repeated this often (dpmf_optimize_options.stamps); 0: none */
    int64_t group;  /* units that are protected together; 0 means 1. Not with a cap */
} dpmf_design_options;

DPMF_API dpmf_design_options dpmf_design_options_defaults(void);

typedef struct dpmf_design dpmf_design;

/* DPMF_ERROR_UNSUPPORTED when nothing is eligible: the message names the constraint and what would fit. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_design_create(const dpmf_workload *workload,
                                                        const dpmf_design_options *options, dpmf_design **out);
DPMF_API void dpmf_design_free(dpmf_design *design);

/* The answer. Pointers are borrowed: valid while the design exists. */
typedef struct dpmf_design_info {
    const dpmf_mechanism *mechanism; /* the chosen one, calibrated, ready to be saved and used */
    dpmf_privacy privacy;            /* its guarantee */
    const char *why;                 /* the reason for the choice */
    int64_t warnings;                /* number of dpmf_design_warning: what to take care of */
    int64_t count;                   /* number of candidates */
    int64_t chosen;                  /* index of the chosen one */
    double
        sampling_would_save; /* without sampling: the noise that secret sampling would reach at most, over that of the choice,
                                 * up to 1; 0: not computed */
} dpmf_design_info;

DPMF_API dpmf_design_info dpmf_design_get(const dpmf_design *design);

/* The guarantee in sentences; borrowed: what to take care of. */
DPMF_API size_t dpmf_design_statement(const dpmf_design *design, char *out, size_t size);
DPMF_API const char *dpmf_design_warning(const dpmf_design *design, int64_t i);

/* ---- expert ---- */

typedef struct dpmf_candidate {
    const char *family;     /* as --family; banded mechanisms: banded or banded-toeplitz */
    dpmf_sampling sampling; /* none: not amplified */
    int64_t bands;          /* 0: not banded */
    int64_t buffers;        /* with DPMF_MEMORY_NO_ROWS: the rows that its stream would keep */
    int normalized;
    int is_search_point; /* 1: a point of a search over bands or buffers, not the family's best of all or of those that fit */
    double sigma;
    dpmf_certainty sigma_kind; /* exact, or an upper bound of the least sigma */
    dpmf_sensitivity sensitivity;
    double rms_loss, max_loss, noise_rms, noise_max; /* noise = sigma x loss */
    uint64_t memory_bytes;
    double seconds_per_step; /* of a row, measured; 0: not measured */
    double overhead;         /* the time of a row over that of independent noise: by the model, or measured */
    double ratio; /* its noise over the least that any mechanism without sampling can have, as is proven; amplified ones
                   * can be below 1; 0: no bound is known */
    int eligible; /* 1: fits the memory, and is fast enough */
    char reason[256];          /* why it is chosen, or not eligible, or not chosen */
    double normals_per_number; /* normal numbers that the stream makes for each number of a row; replayed seeds count */
    const char *account;       /* the theorem or simulation behind sigma; a string constant */
    double confidence;         /* of simulation; 0: not a matter of confidence */
    double worst_ratio;        /* federated over a range, where it decides: the largest ratio of its noise to the best
                                * candidate's at the same separation; 0 elsewhere, where the noise decides */
    int64_t worst_at;          /* that separation */
    double loss, noise;        /* the loss that decides, and sigma x it */
    int64_t stamps;            /* how often its strategy is repeated; 1: once */
} dpmf_candidate;

/* Least noise first (federated: least worst ratio). */
DPMF_API const dpmf_candidate *dpmf_design_candidate(const dpmf_design *design, int64_t i);

/*
 * A plan: how many steps, how large a batch? N units in K epochs of n steps make batches of B = K N / n. The noise sigma x loss of a
 * mechanism, divided by K, is its noise per epoch of progress: for a fixed data set it is noise over signal at the end of the
 * run, so that it compares runs of different n and K (docs/plan.md). A plan has a design for each point of a grid of batch sizes
 * and epochs, with independent noise under Poisson sampling (DP-SGD) beside it, and recommends one.
 *
 * Batches: batch_low, twice that, ..., and batch_high. Epochs: epochs_low, twice that, ..., and epochs_high, those above 1
 * rounded to whole numbers. n is K times N/B rounded, at least 1 for each epoch, or K N / B rounded where K < 1. Points with equal n
 * and K are one. Where K < 1 a unit takes part at most once: in a fixed order one step at most, under sampling with probability
 * K/n in each step; random allocation and balls-in-bins, which use every unit, are then not offered.
 *
 * The rule: for one number of epochs, start with the fewest steps and continue to more as long as the noise per epoch grows by
 * at most a factor f = 1 + within 1000/n for each doubling that ends at n steps, f^log2(ratio) for other ratios. Of the points that
 * this finds for the numbers of epochs, the one with the least noise per epoch is recommended, of equal ones that with fewer epochs.
 *
 * Each point's figures are those of dpmf_design_create for its n and K. Points run in parallel; run.progress is called from the
 * calling thread.
 */
typedef struct dpmf_plan_options {
    int64_t units;                  /* N, 1 to 2^40 */
    double epochs_low, epochs_high; /* above 0; from 1 on whole; both 0: 1 to 8 */
    int64_t batch_low, batch_high;  /* 1 to N; both 0: N/1000 to N/10, at least 1 */
    const char *workload;           /* as dpmf_workload_parse takes it; NULL: prefix */
    double within;                  /* of the rule, 0 to 10 */
    dpmf_design_options
        design; /* the question for each point, with epsilon and delta; epochs and units come from the plan;
                                     * batch_cap, federated and measure are refused */
} dpmf_plan_options;

/* within 0.3 and any sampling; dpmf_design_options_defaults() for the rest. units must be set. */
DPMF_API dpmf_plan_options dpmf_plan_options_defaults(void);

typedef struct dpmf_plan dpmf_plan;

DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_plan_create(const dpmf_plan_options *options, dpmf_plan **out);
DPMF_API void dpmf_plan_free(dpmf_plan *plan);

typedef struct dpmf_plan_row {
    double epochs;
    int64_t steps;
    double batch;               /* epochs x units / steps: under sampling the expected size of a batch */
    dpmf_candidate chosen;      /* what a design chooses; its `ratio` is set for the recommended point alone */
    dpmf_candidate independent; /* independent noise under Poisson sampling */
    double noise_per_epoch;     /* sigma x the requested loss / epochs */
    double independent_noise_per_epoch;
    double seconds_per_step; /* of a row on one thread of the reference machine, by the cost model */
    int best_of_epochs;      /* 1: the rule's point for this number of epochs */
} dpmf_plan_row;

/* The answer. Pointers are borrowed: valid while the plan exists. */
typedef struct dpmf_plan_info {
    const dpmf_plan_row *rows;       /* by epochs, then by steps: the largest batch first */
    int64_t count;                   /* number of rows */
    int64_t recommended;             /* index of the recommended one */
    const dpmf_mechanism *mechanism; /* of the recommended point: the one that a design of it chooses */
    dpmf_privacy privacy;            /* its guarantee */
    const char *rule;                /* the rule in a sentence */
    const char *why;                 /* the recommendation in sentences, and what independent noise would pay */
    const char *text;                /* the table and the sentences as `dpmf plan` prints them */
} dpmf_plan_info;

DPMF_API dpmf_plan_info dpmf_plan_get(const dpmf_plan *plan);

/* ------------------------------------------------------------------------------------------------------------------
 * 11  Verify
 *
 * Computes the figures of a mechanism again, by another method where there is one; for up to DPMF_VERIFY_WHOLE_STEPS steps
 * W itself is read from the noise stream's responses to impulses. Nothing is taken from the file but the coefficients.
 * --------------------------------------------------------------------------------------------------------------- */

#define DPMF_VERIFY_WHOLE_STEPS 2000

typedef struct dpmf_check {
    const char *name;
    int ok;         /* 1: agrees; 0: does not; -1: not checked, and `how` gives the reason */
    double claimed; /* NaN: not a number */
    double found;
    double tolerance; /* relative; absolute where `how` has that word */
    char how[200];    /* the method, and whether it proves the figure */
} dpmf_check;

typedef struct dpmf_verification dpmf_verification;

/*
 * DPMF_OK for any result of the checks. A file that is a container but whose digest, description or objects do not hold
 * together is a check that fails; DPMF_ERROR_FORMAT if it is not a container.
 */
typedef struct dpmf_verify_source { /* one of the three */
    const char *path;
    const uint8_t *bytes; /* of a file */
    size_t size;
    const dpmf_mechanism *mechanism;
} dpmf_verify_source;

DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_verify(const dpmf_verify_source *source, const dpmf_run *run,
                                                 dpmf_verification **out);
DPMF_API void dpmf_verification_free(dpmf_verification *verification);

typedef struct dpmf_verification_info {
    int ok; /* 1: no check failed */
    int64_t count;
} dpmf_verification_info;

DPMF_API dpmf_verification_info dpmf_verification_get(const dpmf_verification *verification);
DPMF_API const dpmf_check *dpmf_verification_check(const dpmf_verification *verification, int64_t i);

/* ------------------------------------------------------------------------------------------------------------------
 * 12  Sampler: which units (examples, users) take part in step t
 *
 *     cyclic:M             a fixed order, M at a time, repeatedly: b = ceil(units/M) steps per epoch
 *     shuffled:M           the same with a new secret order in every epoch
 *     poisson:Q            every unit in every step with probability Q
 *     block-cyclic:Q,B     units dealt to B blocks at random, once; step t takes each of block t mod B with
 *                          probability min(1, Q B) (McKenna 2024, Algorithm 2; Pillutla et al. 2025, Definition 3.20)
 *     balls-in-bins:B      every unit in one of B bins at random, once; step t takes bin t mod B
 *     min-sep:P,B          a unit that may take part does so with probability P, and then waits B steps
 *     allocation:K,T       every unit in exactly K of T steps, chosen at random for each unit, again in every T steps
 *     scheduled:M,K,B      M of the units that may: at most K times each, at least B steps apart (clients)
 *
 * ",cap:M" behind poisson, block-cyclic and min-sep: if more than M units are drawn, a random M of them take part, and a
 * unit that was drawn counts as drawn whether it was kept or not.
 *
 * The randomness comes from the key under its own label, and is as secret: an amplified guarantee holds only
 * against those who do not know who took part. The batch of step t is a function of (key, t) alone.
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dpmf_sampler dpmf_sampler;

/*
 * `label`: NULL, or a name of this run, as for noise: two runs on the same data need other labels or other keys, since
 * with the same randomness their guarantees do not add up. Batches are drawn for steps 0 to steps - 1.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampler_create(const char *text, int64_t units, int64_t steps,
                                                         const uint8_t key[DPMF_KEY_SIZE], const char *label,
                                                         dpmf_sampler **out);
DPMF_API void dpmf_sampler_free(dpmf_sampler *sampler);

typedef struct dpmf_sampler_info {
    int64_t step;     /* of the next batch */
    int64_t capacity; /* the largest possible batch: `batch` must have room for it */
    double
        expected; /* the expected size of a batch: sums are divided by it. The actual size would reveal who took part */
    const char *
        participation; /* what it realises, "cyclic:4,250", ...; NULL: none is certain. Valid while it exists, as `text` */
    dpmf_sampling sampling;
    const char *text;
} dpmf_sampler_info;

DPMF_API dpmf_sampler_info dpmf_sampler_get(const dpmf_sampler *sampler);

/* The units of the next step, rising, each once; past the last step an error. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampler_next(dpmf_sampler *sampler, int64_t *batch, int64_t *count);

/*
 * Does it realise what the mechanism's guarantee assumes? With DPMF_ERROR_ARGUMENT the message has both.
 * Orders, dealt blocks and schedules are refused for add-remove adjacency: one unit more or less moves others.
 * A participation that allows less is fine: single for cyclic with one epoch, cyclic for min-sep or shuffled, ...
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampler_check(const dpmf_sampler *sampler, const dpmf_mechanism *mechanism);

/* ---- expert ---- */

DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampler_seek(dpmf_sampler *sampler, int64_t step);

/* What its batches depend on besides its text, so that a run that is resumed can be compared with the one before. */
typedef struct dpmf_sampler_identity {
    int64_t units, steps;
    int offered;    /* 1: units have been offered, so that its past does not follow from the key */
    char key[33];   /* a commitment to its key, in hexadecimal digits */
    char label[65]; /* SHA-256 of its label; empty: it has none */
} dpmf_sampler_identity;
DPMF_API dpmf_sampler_identity dpmf_sampler_identify(const dpmf_sampler *sampler);

/*
 * scheduled only: the next step when only `available` units (rising) can be reached; all that may take
 * part, up to M, chosen by the secret order. The choice must not depend on the units' data.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampler_offer(dpmf_sampler *sampler, int64_t available, const int64_t *unit,
                                                        int64_t *batch, int64_t *count);

/* Everything but the key, for samplers whose past matters (offers); bound to the sampler, authenticated by the key. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampler_encode(const dpmf_sampler *sampler, uint8_t **bytes, size_t *size);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_sampler_decode(dpmf_sampler *sampler, const uint8_t *bytes, size_t size);

/* ------------------------------------------------------------------------------------------------------------------
 * 13  Contributions: clipped, on a grid, summed exactly
 *
 * Step t of private training sums the gradients of a batch's units, each clipped, and adds row t of the noise. These calls
 * make that sum for gradients formed elsewhere, for example by a framework; libdpmf_train (dpmf_train.h) is a trainer.
 * --------------------------------------------------------------------------------------------------------------- */

/* ---- expert ---- */

/*
 * Contributions are rounded to multiples of `grid` and clipped there, so that as integers no unit's is longer than
 * clip / grid, and sums of them are exact in any order. A unit whose norm is not finite contributes 0, without a message.
 *
 * dpmf_clip_grid gives the grid for sums of up to `units` units: a power of two, clip x 2^-33 < grid <= clip x 2^-32 (coarser
 * above 2^20 units), so that sums stay below 2^53: a double holds them exactly.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_clip_grid(double clip, int64_t units, double *grid);

/*
 * Adds the contributions of `units` units to `sum`, in multiples of `grid`. With gamma 0 a gradient g is multiplied by
 * min(1, clip / |g|). With gamma from 2^-100 to 2^100 it is normalised, clip g / (|g| + gamma) (AUTO-S: Bu et al. 2023):
 * every unit adds nearly `clip`, and no clip norm has to be searched; one whose norm is below gamma adds less. The bound
 * is the same. Part k of them is a matrix, units x part[k].count, one row after the other, of floats or doubles; sum has
 * as many numbers as a unit has in all parts. The sums are the same for any number of threads (run: NULL for the
 * defaults) and instruction set.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_clip_add(double clip, double gamma, double grid, dpmf_precision precision,
                                                   int64_t units, int64_t parts, const dpmf_segment *part, int64_t *sum,
                                                   const dpmf_run *run);

/* ------------------------------------------------------------------------------------------------------------------
 * 14  Arrays on disk: NumPy's .npy, version 1 or 2, little-endian float64, float32, int64 or int32, uint8 or bool, 1 or 2 dimensions
 * --------------------------------------------------------------------------------------------------------------- */

/* ---- expert ---- */

typedef struct dpmf_array {
    int dimensions;
    int64_t shape[2]; /* shape[1] is 1 for a vector */
    double *values;   /* row-major */
} dpmf_array;

/* Every value must be finite. Free with dpmf_array_free. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_array_load(const char *path, dpmf_array *out);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_array_save(const char *path, const dpmf_array *array);
DPMF_API void dpmf_array_free(dpmf_array *array);

/* The same from the bytes of a file. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_array_decode(const uint8_t *bytes, size_t size, dpmf_array *out);

/* ------------------------------------------------------------------------------------------------------------------
 * 15  Audit: attacks on a run that was made for it
 *
 * A thousand canaries, contributions of full norm in separate directions, are each in or out with probability 1/2. They go
 * through the noise stream, or through a trainer with its clipping and its sampler, under a key that is made for this run and
 * thrown away; an attacker who sees every released sum and knows everything else guesses which were in. From the guesses follows
 * a lower bound on epsilon that a mechanism with the guarantee passes with probability at most 1 - confidence: a bound above
 * the claim means that the noise is not what the claim needs. A bound below it proves nothing. docs/audit.md has the theory.
 *
 * An audit is made of the public calls of this header, and has no way into a run that it did not make itself.
 * --------------------------------------------------------------------------------------------------------------- */

/* ---- expert ---- */

/* A run of a trainer with canaries: what it is given, and what it has to fill in. */
typedef struct dpmf_audit_run {
    const dpmf_mechanism *mechanism; /* whose noise it adds */
    dpmf_sampler *sampler;           /* of the batches; its units are the canaries */
    const uint8_t *key;              /* DPMF_KEY_SIZE bytes, of this run alone */
    int64_t canaries, steps;
    const double
        *sign;        /* of each canary: 1, it is in; 0, it is out; -1, its other form is in (adjacency replace-one) */
    double *released; /* canaries x steps: the part of each released sum along each canary, in clip norms */
    dpmf_run run;
} dpmf_audit_run;

/* What a run with canaries has released. */
typedef struct dpmf_audit_record {
    const uint8_t
        *included;        /* of each canary: 1, it was in; 0, it was not (adjacency replace-one: its other form was) */
    const uint8_t *taken; /* canaries x steps, 0 or 1: the steps in which the sampler took it, in or out */
    const double *released; /* canaries x steps: the parts of the released sums along it, in clip norms */
} dpmf_audit_record;

typedef struct dpmf_audit_options {
    /*
     * NULL: canaries are coordinates of a row, and the stream adds its noise to them. Else a trainer that makes an example of
     * each canary, in a direction of its own; libdpmf_train has one (dpmf_trainer_audit).
     */
    dpmf_status (*train)(void *context, const dpmf_audit_run *run);
    void *train_context;
    int64_t canaries;    /* 0 means 1000; a trainer may need a few more to fill its batches */
    double confidence;   /* 0 means 0.95; at most 1 - confidence of all audits of a true claim accuse it */
    double epsilon;      /* the claim; 0: the mechanism's, or else that of its sigma */
    double delta;        /* 0: the mechanism's */
    double noise_factor; /* 0 means 1. Else the noise of the run is multiplied by it: an audit that does
                          * not notice 0.1 is worth nothing */
    const uint8_t
        *key; /* NULL: a fresh one, for this run only. DPMF_KEY_SIZE bytes, for tests: never that of another run */
    /*
     * NULL, or a run that somebody else made with `canaries` canaries of their own, each in a direction orthogonal to the others:
     * nothing is run then, and train, noise_factor and key are not used.
     */
    const dpmf_audit_record *record;
    dpmf_run run;
} dpmf_audit_options;

DPMF_API dpmf_audit_options dpmf_audit_options_defaults(void);

typedef struct dpmf_audit_result {
    double epsilon_lower;          /* the larger of the next two */
    double epsilon_guesses;        /* from the number of right guesses: holds for any kind of noise */
    double epsilon_gaussian;       /* from the size of noise and contributions: holds if the scores are normal */
    double epsilon_claimed, delta; /* what is tested */
    double confidence;             /* of epsilon_lower */
    int64_t canaries, included;    /* their number, and how many of them were in */
    int64_t guesses, correct;      /* those behind epsilon_guesses */
    double tpr, fpr;       /* fraction of the canaries found when this fraction of the others is accused, at most 1% */
    double sigma_claimed;  /* of the mechanism */
    double sigma_measured; /* as measured: noise over the largest move of one canary */
    double sigma_highest;  /* the upper end of its confidence interval; infinite: nothing was found */
} dpmf_audit_result;

typedef struct dpmf_audit dpmf_audit;

/* The mechanism must be calibrated, and its C square (trees and other decoders are not). NULL options: the defaults. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_audit_create(const dpmf_mechanism *mechanism,
                                                       const dpmf_audit_options *options, dpmf_audit **out);
DPMF_API void dpmf_audit_free(dpmf_audit *audit);

typedef struct dpmf_audit_info {
    dpmf_audit_result result;
    const double *scores;    /* borrowed, one for each canary: a larger score means more likely in */
    const uint8_t *included; /* 1: it was in */
} dpmf_audit_info;

DPMF_API dpmf_audit_info dpmf_audit_get(const dpmf_audit *audit);

#ifdef __cplusplus
}
#endif
#endif
