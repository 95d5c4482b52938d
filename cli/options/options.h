/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of verbs and the one table of options. Parsing, `--help`, the manual page and the completion scripts
 * all read them; a new verb is a cmd_<verb>.c, a row of options/verbs.c and its bit in the options of options/options.c that it takes.
 */
#ifndef DPMF_CLI_OPTIONS_H
#define DPMF_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum verb_id {
    VERB_PLAN,
    VERB_DESIGN,
    VERB_EVALUATE,
    VERB_OPTIMIZE,
    VERB_ACCOUNT,
    VERB_CALIBRATE,
    VERB_NOISE,
    VERB_BOUND,
    VERB_COUNT,
    VERB_QUERY,
    VERB_TRAIN,
    VERB_PREDICT,
    VERB_INSPECT,
    VERB_VERIFY,
    VERB_AUDIT,
    VERB_REPORT,
    VERB_BENCH,
    VERB_HELP,
    VERB_TOTAL
} verb_id;

typedef enum option_id {
    OPTION_STEPS,
    OPTION_EPOCHS,
    OPTION_USERS,
    OPTION_ROUNDS,
    OPTION_PER_ROUND,
    OPTION_SEPARATION,
    OPTION_AT_MOST,
    OPTION_PER,
    OPTION_ONCE,
    OPTION_BY,
    OPTION_WORKLOAD,
    OPTION_PARTICIPATION,
    OPTION_OPTIMIZE_WORKLOAD,
    OPTION_OPTIMIZE_PARTICIPATION,
    OPTION_FAMILY,
    OPTION_BANDS,
    OPTION_BUFFERS,
    OPTION_LEVELS,
    OPTION_SHARED_SEEDS,
    OPTION_SIGNS,
    OPTION_NU,
    OPTION_STAMPS,
    OPTION_BRANCHING,
    OPTION_DECODER,
    OPTION_NORMALIZE,
    OPTION_VARIANT,
    OPTION_PARAMETERS,
    OPTION_LOSS,
    OPTION_TOLERANCE,
    OPTION_WEIGHTS,
    OPTION_SPECTRUM,
    OPTION_REGRET,
    OPTION_JOINT,
    OPTION_EPSILON,
    OPTION_DELTA,
    OPTION_SIGMA,
    OPTION_RHO,
    OPTION_GAUSSIAN,
    OPTION_SAMPLING,
    OPTION_COMPOSITIONS,
    OPTION_COMPOSE,
    OPTION_TIMES,
    OPTION_EXPORT,
    OPTION_FIRST,
    OPTION_TUNING,
    OPTION_BATCH_CAP,
    OPTION_GROUP,
    OPTION_UNITS,
    OPTION_LARGEST,
    OPTION_CURVE,
    OPTION_RISK,
    OPTION_FPR,
    OPTION_TPR,
    OPTION_ADVANTAGE,
    OPTION_PRIOR,
    OPTION_ENGINE,
    OPTION_CONFIDENCE,
    OPTION_SEED,
    OPTION_LOG,
    OPTION_UNIT,
    OPTION_ADJACENCY,
    OPTION_SENSITIVITY,
    OPTION_BOUND,
    OPTION_PER_STEP,
    OPTION_DIM,
    OPTION_MEMORY,
    OPTION_MAX_OVERHEAD,
    OPTION_FAMILIES,
    OPTION_MEASURE,
    OPTION_WITHIN,
    OPTION_ROWS,
    OPTION_OFFSET,
    OPTION_SHARD,
    OPTION_COLUMNS,
    OPTION_TIME,
    OPTION_BAD_LINES,
    OPTION_CLIP_ROWS,
    OPTION_FOLLOW,
    OPTION_INPUT,
    OPTION_FORMAT,
    OPTION_SYNC_EVERY,
    OPTION_CLIP,
    OPTION_MECHANISM,
    OPTION_RANGE,
    OPTION_LAST,
    OPTION_LEVEL,
    OPTION_COLUMN,
    OPTION_CDF,
    OPTION_SMOOTH,
    OPTION_MONOTONE,
    OPTION_KEY_FILE,
    OPTION_SEED_KEY,
    OPTION_TESTING_SEED,
    OPTION_STATE,
    OPTION_RELEASE,
    OPTION_UNCALIBRATED,
    OPTION_REPLAY,
    OPTION_DRY_RUN,
    OPTION_LEDGER,
    OPTION_BUDGET,
    OPTION_DATA,
    OPTION_TEST_DATA,
    OPTION_LABEL,
    OPTION_USER,
    OPTION_HOLD_OUT,
    OPTION_FEATURES,
    OPTION_CACHE,
    OPTION_SCALE,
    OPTION_MODEL,
    OPTION_BATCH,
    OPTION_OPTIMIZER,
    OPTION_LEARNING_RATE,
    OPTION_MOMENTUM,
    OPTION_PRECONDITION,
    OPTION_CORRECT,
    OPTION_SCHEDULE,
    OPTION_DECAY,
    OPTION_CLIPPING,
    OPTION_CONSTRAINT,
    OPTION_REGULARIZER,
    OPTION_ZERO_ABOVE,
    OPTION_LOCAL_STEPS,
    OPTION_LOCAL_RATE,
    OPTION_LOCAL_BATCH,
    OPTION_CHECKPOINT,
    OPTION_EVERY,
    OPTION_PUBLIC_TEST_CURVE,
    OPTION_NOISELESS,
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_OUT,
    OPTION_THROUGH,
    OPTION_CANARIES,
    OPTION_HELP,
    OPTION_TOTAL
} option_id;

enum { OPERANDS_MAX = 64 };

typedef enum option_kind {
    KIND_FLAG,   /* no value */
    KIND_TEXT,   /* any text that is not empty; `values` are hints for help and completion */
    KIND_FILE,   /* a path */
    KIND_CHOICE, /* one of `values` */
    KIND_COUNT,  /* a whole number in [count_low, count_high] */
    KIND_BYTES,  /* the same, of bytes: KiB, MiB and GiB too */
    KIND_NUMBER  /* a number in [number_low, number_high) */
} option_kind;

typedef struct option_row {
    const char *name;                       /* without the dashes */
    char letter;                            /* the one-letter form, 0 if none */
    option_kind kind;                       /* omitted for a flag */
    const char *argument;                   /* placeholder in help, NULL for a flag */
    const char *values;                     /* words joined by '|', or NULL; capitals stand for a number or a name */
    const char *(*values_of)(verb_id verb); /* makes them instead; VERB_TOTAL: those of all verbs */
    const char *preset;                     /* the default, NULL if none */
    int64_t count_low, count_high;          /* 0: the most steps that the library takes */
    const char *word;                       /* of a count or number: a word that stands for -1, NULL if none */
    double number_low, number_high;
    unsigned verbs;  /* bit 1 << verb_id for each verb that takes it */
    unsigned ranged; /* the same for verbs that take a range LOW..HIGH too, which they read themselves from the text */
    const char *help;
    const char *(*help_of)(void); /* makes it instead */
} option_row;

typedef struct arguments arguments;

typedef struct verb_row {
    const char *name;
    const char *usage;   /* what follows "dpmf ", one form per line */
    const char *operand; /* placeholder of the operand; NULL: takes none */
    int operands_needed; /* 0 or 1; at most one is ever taken */
    const char *summary; /* one line, no full stop */
    const char *description;
    int (*run)(const arguments *given); /* returns the exit code */
} verb_row;

extern const verb_row verbs[VERB_TOTAL];
extern const option_row options[OPTION_TOTAL];

/* The given arguments. `text` is NULL for an option that was not given, and "" for a flag that was. */
struct arguments {
    verb_id verb;
    const char *text[OPTION_TOTAL];
    int64_t count[OPTION_TOTAL];
    double number[OPTION_TOTAL];
    const char *operand;                /* NULL: none */
    const char *operands[OPERANDS_MAX]; /* all of them, where a verb takes several: account --compose */
    int operand_count;
};

/* The accepted values (NULL: anything) and the help, from the table or made. */
const char *option_values(const option_row *o, verb_id verb);
const char *option_help(const option_row *o);
int64_t option_count_high(const option_row *o);

/* Does this verb take this option? */
bool option_of_verb(option_id id, verb_id verb);

/* Reads argv[first..]. 0, or the exit code after a message. --help ends the reading: look at text[OPTION_HELP]. */
int parse_arguments(int argc, char **argv, int first, verb_id verb, arguments *out);

/* The verb of that name; false after no message, and *closest is a likely meaning or NULL. */
bool find_verb(const char *name, verb_id *out, const char **closest);

bool option_given(const arguments *given, option_id id);

/* The text given, else the default, else NULL. */
const char *option_text(const arguments *given, option_id id);
bool option_is(const arguments *given, option_id id, const char *word);

/* Walks the words of a '|' list: returns the start of the next word and its length, NULL at the end. */
const char *next_word(const char **list, int *length);

/* Numbers as people type them. */

/* A whole number: 1000000, 1e6, 1.5e3, 10k, 2M, 1G (powers of 1000). False if not whole or outside +-(2^63 - 1). */
bool read_count(const char *text, int64_t *out);

/* The same for bytes, with KiB, MiB and GiB (powers of 1024) too: 4GiB, 1.5GiB, 500M. */
bool read_bytes(const char *text, int64_t *out);

/* A finite decimal number: digits, point, exponent; no hexadecimal, infinity, NaN or spaces. */
bool read_number(const char *text, double *out);

#endif
