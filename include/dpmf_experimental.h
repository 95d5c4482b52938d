/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf, experimental tier: a user's own operators and families, rows of noise that are made elsewhere, and noise that is drawn
 * when it is needed. All of it works and is tested, but it may change or disappear with any version. So a program asks for it:
 *
 *     #define DPMF_EXPERIMENTAL
 *     #include <dpmf_experimental.h>
 */
#ifndef DPMF_EXPERIMENTAL_H
#define DPMF_EXPERIMENTAL_H

#ifndef DPMF_EXPERIMENTAL
#error "dpmf_experimental.h may change with any version: define DPMF_EXPERIMENTAL before you include it"
#endif

#include "dpmf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * 1  Operators as workloads
 * --------------------------------------------------------------------------------------------------------------- */

/*
 * A streaming linear operator (McKenna 2024, Definition D.1): a lower-triangular matrix given by what it does to a
 * stream. `step` reads row t of the input (`count` numbers), updates `state` (buffers x count numbers, row-major,
 * zero before the first row) and writes row t of the output. It must be linear in (x, state) and is called with
 * t rising by one; a run may begin at any t, from a zero state, when all earlier input rows are zero. It may be called
 * from several threads at once with different states.
 */
typedef struct dpmf_operator {
    void *context;
    int64_t buffers;
    void (*step)(void *context, int64_t t, int64_t count, const double *x, double *state, double *y);
    void (*release)(void *context); /* called once when the last user is freed; may be NULL */
} dpmf_operator;

/* A user's operator as the workload. It owns `operator->context` from here on if the call succeeds. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_workload_create_operator(int64_t steps, const dpmf_operator *operator_,
                                                                   dpmf_workload **out);

/* ------------------------------------------------------------------------------------------------------------------
 * 2  Operators as strategies
 * --------------------------------------------------------------------------------------------------------------- */

/*
 * A user's operator as C (inverse = 0) or as C^-1 (inverse = 1). On success it owns `context` from
 * here on.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_strategy_create_operator(int64_t steps, const dpmf_operator *operator_,
                                                                   int inverse, dpmf_strategy **out);

/* ------------------------------------------------------------------------------------------------------------------
 * 3  Families of your own
 * --------------------------------------------------------------------------------------------------------------- */

/*
 * The best of a user's own strategies (McKenna 2024, Appendix D.2): `make` gives the strategy at theta, for example an
 * operator with a copy of theta. DPMF_ERROR_ARGUMENT or DPMF_ERROR_NUMERICAL from it, or noise that diverges, means that theta
 * lies outside the domain; any other failure ends the call. The loss is sensitivity x error as dpmf_evaluate has them
 * (an upper bound where that is one). `gradient`: the derivatives of ln loss; NULL: central differences, 2 strategies per
 * parameter and step. theta: in, a start inside the domain; out, the best point seen, a local minimum at best. `result`
 * has the outcome and the size of the gradient. Of the options loss, tolerance, weights and run are read, and bands,
 * buffers, wanted_ratio, normalize and constraint must be 0.
 */
#define DPMF_PARAMETERS_MAX 100000

typedef struct dpmf_parametric {
    void *context;
    int64_t parameters;
    dpmf_status (*make)(void *context, const double *theta, dpmf_strategy **out);
    dpmf_status (*gradient)(void *context, const double *theta, double *gradient); /* NULL: central differences */
} dpmf_parametric;

DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_optimize_parametric(const dpmf_parametric *family,
                                                              const dpmf_workload *workload,
                                                              const dpmf_participation *participation,
                                                              const dpmf_optimize_options *options, double *theta,
                                                              dpmf_strategy **out, dpmf_optimization *result);

/* ------------------------------------------------------------------------------------------------------------------
 * 4  Rows that are made elsewhere
 * --------------------------------------------------------------------------------------------------------------- */

/*
 * Rows that are made elsewhere: on a device, by dpmf_device.h. A stream whose options name a maker has the key,
 * the state file and all rules, and no buffers: dpmf_noise_get, _seek, _bind_sum, _save, _load and _load_parts work, with files
 * that other streams read and write; dpmf_noise_next and _add are refused. Seeking only sets which row is next. For each row:
 *
 *     dpmf_noise_recipe(noise, dpmf_noise_get(noise).step, &recipe);
 *     dpmf_noise_reserve(noise, 1.0, &scale);       // every reason to refuse the row is checked here; then it is reserved
 *     ... makes the row, stores or adds scale x y ...
 *     dpmf_noise_arrived(noise);                    // the row belongs to the caller: continue with the next
 *
 * `read` copies the buffers out, slot after slot, count numbers each, and stores in *made the rows that the buffers have had;
 * `write` copies them in: the next row is `step`, and where rows run ahead (feedback) the buffers have had `made` >= step of
 * them. Both are called by dpmf_noise_save, _load and _load_parts alone. `buffers` is NULL where there are none.
 */

/* Makes the rows in the library's place. */
struct dpmf_noise_maker {
    void *context;
    dpmf_status (*read)(void *context, int64_t *made, void *buffers);
    dpmf_status (*write)(void *context, int64_t step, int64_t made, const void *buffers);
};

/*
 * How a row y is made of seeds z_i = Z[seed[i], .], buffers x_j and weights w. Every operation is rounded separately,
 * in this order, in the precision of the stream:
 *
 *     sum            u = ((0 + w_0 z_0) + w_1 z_1) + ...; y = u
 *     feedback       y = ((w_0 z + w_p x_{t-p}) + ...) + w_1 x_{t-1}, p = weights - 1; buffer t mod buffers becomes y
 *     blt            y = (z - a_0 x_0) - a_1 x_1 ..., x_j <- (x_j - g_j x_j) + y, out f y; w = a, g, f
 *     tvblt          y = (d z + x_0) + x_1 ..., x_j <- x_j + (l_j x_j + g_j z), out f y; w = d, l, g, f
 *     tvblt-second   of h = buffers / 2 nodes: y as before over x_0 .. x_{h-1}, c = k_j x_j + k'_j x_{h+j},
 *                    x_j <- x_j + (c + g_j z), x_{h+j} <- c + g'_j z, out f y; w = d, k, k', g, g', f
 *     replay         u as in sum; y = (u + h_0 x_0) + h_1 x_1 ..., x_j <- x_j + (l_j x_j + g_j u), out f y;
 *                    w = those of the seeds, h, l, g, f
 *
 * The buffers before row `start` do not matter: row `start` begins with buffers of 0, or none.
 */
typedef enum dpmf_recipe_kind {
    DPMF_RECIPE_SUM = 0,
    DPMF_RECIPE_FEEDBACK,
    DPMF_RECIPE_BLT,
    DPMF_RECIPE_TVBLT,
    DPMF_RECIPE_TVBLT_SECOND,
    DPMF_RECIPE_REPLAY
} dpmf_recipe_kind;

typedef struct dpmf_recipe {
    dpmf_recipe_kind kind;
    int64_t start;                   /* of the block of steps that the row is in */
    int64_t buffers, seeds, weights; /* how many */
    const uint64_t *seed;            /* rows of Z; until the next recipe is asked for, as `weight` */
    const void *weight;              /* floats or doubles */
} dpmf_recipe;

/* Any step, independent of the next row. This and the next three refuse a stream without a maker. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_recipe(dpmf_noise *noise, int64_t step, dpmf_recipe *out);

/* The AES-256 key of the seeds (docs/noise.md). As secret as the key. It is given once. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_subkey(dpmf_noise *noise, uint8_t subkey[DPMF_KEY_SIZE]);

/* The next row may be made: it is reserved in the state file. *scale multiplies y, before rounding. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_reserve(dpmf_noise *noise, double factor, double *scale);

/* The row has been made. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_noise_arrived(dpmf_noise *noise);

/* ------------------------------------------------------------------------------------------------------------------
 * 5  Noise that is drawn when it is needed
 * --------------------------------------------------------------------------------------------------------------- */

/*
 * For a table of `rows` rows of `width` numbers of which a step reads and writes few: an embedding. A row gets the noise that it
 * has missed when it is touched, in one draw, and takes 1 + buffers normals for each number, however many steps it has
 * missed. Values after a flush have the law that they have if every step's noise is added to the whole table (docs/noise.md).
 *
 *     dpmf_lazy_create(mechanism, rows, width, clip, key, NULL, &lazy);
 *     for each step:
 *         dpmf_lazy_touch(lazy, count, row, table);      // the rows that this step reads: the noise of the steps before
 *         ... reads them, adds the step's sum of clipped gradients x factor to them ...
 *         dpmf_lazy_next(lazy, factor);                  // the step is over; its noise is owed to every row
 *     dpmf_lazy_flush(lazy, table);                      // all noise is in the table: it may leave
 *
 * Which rows were touched depends on the data. So nothing of a table that was not flushed may leave: no row, no output of the
 * model, no norm; and the time of a touch tells how many rows there were.
 *
 * The mechanism's noise must be a recursion of up to 16 buffers with new seeds in each step: identity, workload, bsr, bisr,
 * banded (few bands), blt, blt-rational, blt-tree, recurrent, unbounded, tvblt, lowrank, trees; also normalized or repeated. Refused
 * (DPMF_ERROR_UNSUPPORTED): those whose rows need seeds of earlier steps again (dense, fft, replayed seeds) or more buffers, users'
 * operators, the exact release and shards. Of the options, precision (of the table and the buffers), label, state, replay,
 * key_file, rows_may_repeat, run.threads, uncalibrated, salt and state_now are used; the others must not be set. Each table
 * needs its own label, and its own state file. A table of floats above 2^20 x the noise of a step loses noise to rounding: take doubles.
 *
 * The draws depend on the history: the touched rows of every step, and the factors. With a state file each flush is bound, on the disk and
 * before it is given, to a hash of the history and the table before it. After a crash the run continues from the checkpoint of
 * its last flush; or, with the option replay, from an earlier one or the beginning, and then repeats the same flushes only.
 */
typedef struct dpmf_lazy dpmf_lazy;

/* Everything is allocated here: 8 bytes for each row and each step, and buffers x rows x width numbers. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_lazy_create(const dpmf_mechanism *mechanism, int64_t rows, int64_t width,
                                                      double clip, const uint8_t key[DPMF_KEY_SIZE],
                                                      const dpmf_noise_options *options, dpmf_lazy **out);

/* Wipes keys and buffers. Noise that was not flushed is lost, and the table without it must not be used. */
DPMF_API void dpmf_lazy_free(dpmf_lazy *lazy);

/* Adds to rows of the table, floats or doubles, the noise that they have missed so far; once where a row is named twice. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_lazy_touch(dpmf_lazy *lazy, int64_t count, const int64_t *row, void *table);

/*
 * Ends a step: factor x clip x sigma x sensitivity x the step's row of W Z is owed to the table. `factor` is what the step's sum is
 * multiplied by on its way to the table (for SGD, - learning rate / batch); it may be 0.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_lazy_next(dpmf_lazy *lazy, double factor);

/* Adds to every row the noise that it has missed. Where nothing is missing, nothing happens. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_lazy_flush(dpmf_lazy *lazy, void *table);

typedef struct dpmf_lazy_info {
    int64_t step;     /* steps that are over */
    int64_t flushed;  /* of them, those whose noise is in every row; less than `step`: the table must not leave */
    int64_t flushes;  /* that were made */
    int64_t reserved; /* flushes that the state file records; 0 without one */
    int64_t buffers;
    int calibrated; /* 0: the mechanism has no sigma, and 1 is used */
    double scale;   /* clip x sigma x sensitivity */
    uint8_t salt[DPMF_SALT_SIZE];
} dpmf_lazy_info;

DPMF_API dpmf_lazy_info dpmf_lazy_get(const dpmf_lazy *lazy);

/* The buffers in a file, as secret as the key, right after a flush (else refused), beside the table that the caller saves. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_lazy_save(dpmf_lazy *lazy, const char *path);

/* Goes to the step of the file; the table must be the one that was saved beside it. Refused while noise is pending. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_lazy_load(dpmf_lazy *lazy, const char *path);

/* ------------------------------------------------------------------------------------------------------------------
 * 6  Memory and messages, for add-on libraries and tests
 * --------------------------------------------------------------------------------------------------------------- */

/*
 * Memory. All of the library's own memory comes from here. Set before any object exists; NULL restores the default.
 * `allocate` may return NULL. The limit bounds the sum of what is in use at once, so that a request that cannot
 * succeed fails at once instead of driving the machine out of memory; 0 means the machine's physical memory.
 */
typedef struct dpmf_allocator {
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *memory);
    void *context;
} dpmf_allocator;

DPMF_API void dpmf_memory_set_allocator(const dpmf_allocator *allocator);
DPMF_API void dpmf_memory_set_limit(uint64_t bytes);
DPMF_API uint64_t dpmf_memory_in_use(void);

/*
 * For libraries and callbacks on top of this one. The first sets this thread's message: one line, cut to a thousand bytes.
 * The second gives zeroed memory for `count` items of `size` bytes under the same allocator and limit; `what` names it in the
 * message. Such memory, and every array of bytes that this library gives away, is freed by dpmf_bytes_free.
 */
DPMF_API void dpmf_set_last_error(const char *text);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_bytes_allocate(int64_t count, size_t size, const char *what, void **out);

/* ------------------------------------------------------------------------------------------------------------------
 * 6  At most this many rows of each user, before they are counted (dpmf bound, docs/protected.md)
 *
 * Rows of users become counts in lines (days, for example). Of each user and window (a day, a month, the whole stream) `at_most`
 * rows at random are counted, chosen by a key, and the others are left out. Which of a user's rows are counted is a function
 * of the key and of that user's rows alone. A stream is limited in several calls, one after the other: the state file has
 * the number of rows of each user that were counted, so that no later call counts more.
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dpmf_limiter_options {
    int64_t at_most;      /* rows of one user in a window that are counted, 1 to 10000 */
    int once;             /* 1: and at most one of them in a line */
    int64_t first, lines; /* the lines of this call: the first, numbered as the caller likes, and how many */
    int64_t columns;      /* counts in a line */
    const int64_t
        *window; /* lines + 1 numbers that never decrease: the window of each line, and of the one after the last */
    const char *state;   /* path of the state file; it is locked meanwhile, mode 0600, authenticated by the key */
    int begin;           /* 1: a state file that is missing is made: the key is new, and nothing was counted with it */
    const char *binding; /* text that must be the same in every call: what else decides the lines */
} dpmf_limiter_options;

typedef struct dpmf_limiter dpmf_limiter;

/*
 * The lines must follow those of the call before. Or they are the same again: then dpmf_limiter_finish gives the same counts
 * if the rows are the same, and refuses others. Anything else is refused: users would be counted beyond the limit.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_limiter_create(const uint8_t key[DPMF_KEY_SIZE],
                                                         const dpmf_limiter_options *options, dpmf_limiter **out);
DPMF_API void dpmf_limiter_free(dpmf_limiter *limiter); /* wipes what it knows of users */

/* A row of the user with this name (`size` bytes, compared byte by byte): 0 <= line < lines, 0 <= column < columns. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_limiter_add(dpmf_limiter *limiter, const void *user, int64_t size,
                                                      int64_t line, int64_t column);

/* Writes the state file, then counts[line * columns + column]; once, and last. *is_first: these lines begin the stream. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_limiter_finish(dpmf_limiter *limiter, int64_t *counts, int *is_first);

#ifdef __cplusplus
}
#endif
#endif
