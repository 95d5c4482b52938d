/* SPDX-License-Identifier: Apache-2.0 */
/* The counter's internals, for its own files: noise/counter.c, noise/counter_rows.c and noise/counter_state.c. */
#ifndef DPMF_NOISE_COUNTER_H
#define DPMF_NOISE_COUNTER_H

#include "error/error.h"
#include "noise/journal.h"
#include "noise/noise.h"

#include <openssl/evp.h>

__extension__ typedef __int128 noise_wide;

/* The number of rows of inputs and answers that a workload's recursion reads, including the present one. */
enum { NOISE_COUNTER_HISTORY = 3, NOISE_COUNTER_PLACES_MAX = 60 };

struct dpmf_counter {
    dpmf_noise *noise; /* without a state file of its own */
    dpmf_workload *workload;
    int64_t columns, steps;
    int64_t step;      /* of the next row */
    int64_t committed; /* rows before this one are in the state file, or were given to the caller */
    int q_bands, r_bands, places, clip_rows;
    int ended; /* rows or the file failed half-way */
    double clip;
    error_lookup *error;         /* |B[t,:]| */
    noise_wide limit;            /* numbers must stay below this, in steps of the grid */
    noise_wide *sum;             /* a row with its noise, x_t on the grid */
    noise_wide *total;           /* running sums; NULL: another workload */
    double *noisy;               /* a row of noise */
    double *x, *o;               /* the last rows of inputs and answers: row t at (t mod HISTORY) * columns */
    EVP_MD_CTX *input, *scratch; /* the running hash of the input */
    int64_t input_size;          /* bytes in it */
    int64_t input_wanted;     /* after resuming: bytes recorded in the state file, until they are given again; then 0 */
    uint8_t input_digest[32]; /* of those */
    int64_t
        recorded; /* after DPMF_INPUT_RESTART: bytes in the state file's record, which stays until a row is prepared */
    int64_t note_size, note_room; /* of the last commit */
    const uint8_t *note;          /* in note_memory, or in what was written to the state file last */
    uint8_t *note_memory;
    noise_journal *file; /* NULL: no state file */
};

/* ---- rows (noise/counter_rows.c) ---- */

/* Sets the grid and the limit below which numbers fit it in all steps; refuses a scale without a grid. */
DPMF_MUST_CHECK dpmf_status noise_counter_grid(dpmf_counter *counter);

/* The grid of an exact counter whose noise has about this size. */
double noise_counter_exact_grid(double scale);

DPMF_MUST_CHECK dpmf_status noise_counter_fits(const dpmf_counter *counter, int64_t rows);

/* Rounds a number to the nearest of the grid. Returns 0 if it is not finite, or not below the limit. */
int noise_counter_round(const dpmf_counter *counter, double value, dpmf_int128 *out);
double noise_counter_value(const dpmf_counter *counter, const dpmf_int128 *number);

/* ---- the state file (noise/counter_state.c) ---- */

/* Opens and locks it, or remembers that there is none yet; the binding gets its salt. Then, once the stream is there: */
DPMF_MUST_CHECK dpmf_status noise_counter_open(dpmf_counter *counter, const char *path, noise_binding *binding);

/* Loads its state into the counter, if it exists. */
DPMF_MUST_CHECK dpmf_status noise_counter_resume(dpmf_counter *counter);

/* Writes the counter's whole state and a note, which becomes its note. They are on the disk when it returns. */
DPMF_MUST_CHECK dpmf_status noise_counter_write(dpmf_counter *counter, const void *note, int64_t size);

#endif
