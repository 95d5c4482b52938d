/* SPDX-License-Identifier: Apache-2.0 */
/* The tables: what exists, in the order in which help shows it. */
#include "options.h"

#include "verbs.h"

const verb_row verbs[VERB_TOTAL] = {
    [VERB_EVALUATE] =
        {
            .name = "evaluate",
            .usage = "evaluate --steps N --family NAME [OPTION]...\nevaluate FILE [OPTION]...",
            .operand = "FILE",
            .summary = "losses, sensitivity and per-step error of a mechanism",
            .description =
                "Evaluates a mechanism named by its options, or held by a mechanism FILE, on a workload under a "
                "participation. Every loss includes the sensitivity; every figure says whether it is exact or a bound. "
                "With a FILE the workload, participation, adjacency, weights, strategy and kind of sensitivity come "
                "from it, and an option that contradicts it is refused.",
            .run = cmd_evaluate,
        },
    [VERB_OPTIMIZE] =
        {
            .name = "optimize",
            .usage = "optimize --steps N --family NAME [OPTION]...",
            .summary = "the best mechanism of a family, and how far from the best possible it is",
            .description =
                "Finds the best strategy of a family for a workload, a participation and a loss, and evaluates it. "
                "dense is the best there is: under single participation its loss is enclosed by two bounds at any "
                "number of steps, and its matrix is formed up to 8192 of them; under several participations it is the "
                "best whose columns of one unit are orthogonal. tvblt is the optimum of single participation as a "
                "noise stream with few buffers. banded, banded-toeplitz and bisr take --bands; blt and tvblt "
                "--buffers, or the fewest that reach --wanted-ratio; lowrank both. What is proven of the result is "
                "said: two bounds and what they hold for, or how flat the loss is where the search ended.",
            .run = cmd_optimize,
        },
    [VERB_ACCOUNT] =
        {
            .name = "account",
            .usage = "account (--sigma S | --mu M) (--delta D | --epsilon E) [OPTION]...\n"
                     "account --epsilon E --delta D [OPTION]...\n"
                     "account --rho R --delta D [--gaussian] [OPTION]...\n"
                     "account --sigma S --epsilon E --delta D --largest WHAT [OPTION]...\n"
                     "account FILE (--delta D | --epsilon E | both) [OPTION]...",
            .operand = "FILE",
            .summary = "privacy: (epsilon, delta) from sigma, and sigma from (epsilon, delta)",
            .description =
                "Two of sigma (or mu = 1/sigma), epsilon and delta give the third; rho-zCDP and delta give epsilon. "
                "sigma is per unit of sensitivity: a whole run of correlated noise without sampling is one "
                "composition. With sampling it is per unit of the largest column norm. Every answer says whether "
                "it is exact, a proven upper bound or an estimate, and ends with the guarantee in sentences. A FILE "
                "gives the strategy, where its bands or entries matter, its adjacency, and sigma if it has one.",
            .run = cmd_account,
        },
    [VERB_NOISE] =
        {
            .name = "noise",
            .usage = "noise FILE --dim M --rows A:B [OPTION]...\nnoise FILE --dim M --dry-run [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "rows of correlated noise, in order, each once",
            .description =
                "Writes rows of the noise that the mechanism FILE adds to sums of clipped gradients: row t is clip x "
                "sigma x sensitivity x row t of W Z. A key gives the same bits for any shard, thread count or place "
                "of resuming. Without --key-file the key is fresh and forgotten. With --state no row is given twice "
                "or left out: --rows must begin where the state file says, or, with --replay, before. Whoever has "
                "the rows can take the noise away again: keep them as secret as the key.",
            .run = cmd_noise,
        },
    [VERB_COUNT] =
        {
            .name = "count",
            .usage = "count FILE [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "private running sums of numbers on standard input",
            .description =
                "Reads one row of --columns numbers a line, separated by spaces, tabs or commas, and writes for each "
                "a line as soon as it comes: the private running sums (the workload of the mechanism FILE, applied "
                "to the rows with noise) and then their standard deviation. A row is a sum over privacy units, each "
                "of which adds at most --clip to it in l2 norm; that is the caller's to see to. The key is fresh and "
                "forgotten, so that two streams never share noise.",
            .run = cmd_count,
        },
    [VERB_INSPECT] =
        {
            .name = "inspect",
            .usage = "inspect FILE [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "show what a mechanism file holds",
            .description =
                "Shows what a mechanism file holds and claims, as it stands in the file: nothing is computed "
                "again but the digest, which must match.",
            .run = cmd_inspect,
        },
    [VERB_REPRODUCE] =
        {
            .name = "reproduce",
            .usage = "reproduce NAME|all [OPTION]...",
            .operand = "NAME",
            .operands_needed = 1,
            .summary = "the tables of published papers, ours beside theirs",
            .description =
                "Computes the figures of a published table again and compares them with the printed ones: they agree "
                "within half a unit of the last printed digit. Exit code 3 says that one does not. Figures that are "
                "shown without being compared say why. NAME is all or one of denisov-2022-table-2, "
                "choquette-choo-2023-table-1, choquette-choo-2023-table-6, mckenna-2024-example-b.1, "
                "mckenna-2024-figure-1a, mckenna-2024-appendix-i, mckenna-2024-appendix-j, pillutla-2025-table-2.2, "
                "pillutla-2025-table-2.3.",
            .run = cmd_reproduce,
        },
    [VERB_BENCH] =
        {
            .name = "bench",
            .usage = "bench [NAME] [OPTION]...",
            .operand = "NAME",
            .summary = "timings, as ratios to something measured in the same run",
            .description =
                "Runs the benchmarks, or the one called NAME: optimum, optimizers or noise. Every row is a median of "
                "repeats "
                "and is "
                "compared with a limit or a peer that was timed in the same run. Debian's OpenBLAS may mistake the "
                "processor: set OPENBLAS_CORETYPE where LAPACK is the peer.",
            .run = cmd_bench,
        },
    [VERB_HELP] =
        {
            .name = "help",
            .usage = "help [VERB]\nhelp --man\nhelp --completion bash|zsh",
            .operand = "VERB",
            .summary = "explain a verb, print the manual page or a completion script",
            .description = "Without anything, lists the verbs. With a VERB, explains it and its options.",
            .run = cmd_help,
        },
};

#define EVALUATE (1u << VERB_EVALUATE)
#define OPTIMIZE (1u << VERB_OPTIMIZE)
#define ACCOUNT (1u << VERB_ACCOUNT)
#define NOISE (1u << VERB_NOISE)
#define COUNT (1u << VERB_COUNT)
#define INSPECT (1u << VERB_INSPECT)
#define REPRODUCE (1u << VERB_REPRODUCE)
#define BENCH (1u << VERB_BENCH)
#define HELP (1u << VERB_HELP)

#define MOST_STEPS ((int64_t)1 << 53) /* the library's own limit: every step number is exact in a double */

#define WORKLOADS "prefix|momentum:BETA|nesterov:BETA|decay:LAMBDA|lr:FILE.npy|cooldown:FRACTION:FLOOR|file:PATH.npy"
#define PARTICIPATIONS "single|cyclic:K,B|minsep:K,B|shuffled:K,B|full"

const option_row options[OPTION_TOTAL] = {
    [OPTION_STEPS] = {.name = "steps",
                      .kind = KIND_COUNT,
                      .argument = "N",
                      .count_low = 1,
                      .count_high = MOST_STEPS,
                      .verbs = EVALUATE | OPTIMIZE,
                      .help = "number of steps. Needed unless a FILE gives it"},
    [OPTION_WORKLOAD] = {.name = "workload",
                         .kind = KIND_TEXT,
                         .argument = "WORKLOAD",
                         .values = WORKLOADS,
                         .preset = "prefix",
                         .verbs = EVALUATE | OPTIMIZE,
                         .help = "what is to be accurate. Parts are joined by commas; file:PATH.npy, any "
                                 "lower-triangular matrix, stands alone. cooldown: with m = FRACTION x N rounded, the "
                                 "learning rate is 1 before the last m steps, then falls linearly to FLOOR"},
    [OPTION_PARTICIPATION] = {.name = "participation",
                              .kind = KIND_TEXT,
                              .argument = "PATTERN",
                              .values = PARTICIPATIONS,
                              .preset = "single",
                              .verbs = EVALUATE | OPTIMIZE,
                              .help =
                                  "in which steps the data of one example may be used: one; every B steps, K times; "
                                  "at most K, at least B apart; one in each of K epochs of B steps; all"},
    [OPTION_OPTIMIZE_WORKLOAD] = {.name = "optimize-workload",
                                  .kind = KIND_TEXT,
                                  .argument = "WORKLOAD",
                                  .values = WORKLOADS,
                                  .verbs = EVALUATE | OPTIMIZE,
                                  .help =
                                      "the workload that the strategy is made from (its square root, say), where that "
                                      "differs from --workload. Given alone, --workload is both"},
    [OPTION_OPTIMIZE_PARTICIPATION] = {.name = "optimize-participation",
                                       .kind = KIND_TEXT,
                                       .argument = "PATTERN",
                                       .values = PARTICIPATIONS,
                                       .verbs = EVALUATE | OPTIMIZE,
                                       .help =
                                           "the participation that the strategy is optimised for, where that differs "
                                           "from --participation. It must be possible in N steps; evaluate, which "
                                           "optimises nothing, only checks it"},
    [OPTION_FAMILY] = {.name = "family",
                       .kind = KIND_TEXT,
                       .argument = "NAME",
                       .values = "identity|workload|dense|banded|toeplitz|banded-toeplitz|bsr|bisr|blt|tvblt|lowrank|"
                                 "tree|tree-online|tree-full|fft|fft-opt",
                       .verbs = EVALUATE | OPTIMIZE,
                       .help =
                           "kind of strategy: independent noise; output perturbation; any matrix; any banded one; "
                           "the square root of the workload, given coefficients, or the best ones; banded "
                           "Toeplitz; the first diagonals of the square root; those of its inverse; buffered linear "
                           "Toeplitz; the optimum as a stream with few buffers; banded plus low-rank decoder; binary "
                           "trees that sum complete nodes, that refine each node from below (Honaker), with the best "
                           "decoder; the FFT mechanism, and its best decoder. evaluate needs --parameters or a FILE "
                           "for those that have parameters; optimize makes dense, banded, toeplitz, banded-toeplitz, "
                           "bisr, blt, tvblt and lowrank"},
    [OPTION_BANDS] = {.name = "bands",
                      .kind = KIND_COUNT,
                      .argument = "B",
                      .count_low = 1,
                      .count_high = MOST_STEPS,
                      .verbs = EVALUATE | OPTIMIZE,
                      .help = "number of diagonals, the main one included: of C, or of its inverse for bisr, or of the "
                              "decoder for lowrank. With --parameters it must agree with the file"},
    [OPTION_BUFFERS] = {.name = "buffers",
                        .kind = KIND_COUNT,
                        .argument = "D",
                        .count_low = 1,
                        .count_high = 64,
                        .verbs = OPTIMIZE,
                        .help =
                            "buffers of a blt, rank of a lowrank decoder, nodes of a tvblt. A tvblt's stream keeps one "
                            "buffer a node, two with momentum; the answer says how many in all"},
    [OPTION_WANTED_RATIO] =
        {.name = "wanted-ratio",
         .kind = KIND_NUMBER,
         .argument = "X",
         .number_low = 1.0,
         .number_high = 1e300,
         .preset = "1.001",
         .verbs = OPTIMIZE,
         .help = "without --buffers: how far above the proven lower bound the loss of a tvblt, or above "
                 "the best Toeplitz mechanism that of a blt, may be; the fewest that reach it are "
                 "taken"},
    [OPTION_NU] = {.name = "nu",
                   .kind = KIND_NUMBER,
                   .argument = "X",
                   .number_low = 0.0,
                   .number_high = 1.0,
                   .preset = "0",
                   .verbs = EVALUATE,
                   .help = "damping of the Toeplitz square root: coefficient t is multiplied by (1-X)^t"},
    [OPTION_STAMPS] = {.name = "stamps",
                       .kind = KIND_COUNT,
                       .argument = "S",
                       .count_low = 1,
                       .count_high = MOST_STEPS,
                       .preset = "1",
                       .verbs = EVALUATE,
                       .help = "repeat the strategy of N/S steps S times, each time started anew. S divides N; --bands "
                               "and --parameters then describe N/S steps"},
    [OPTION_DECODER] = {.name = "decoder",
                        .kind = KIND_CHOICE,
                        .argument = "NAME",
                        .values = "restart|optimal",
                        .verbs = EVALUATE,
                        .help = "how running sums are read off a tree or the FFT mechanism: the family's own way, "
                                "started anew in every stamp, or with the least error. Without it restart for "
                                "tree-online and fft, optimal for the rest; square strategies have only one decoder"},
    [OPTION_COLUMN_NORMALIZE] = {.name = "column-normalize",
                                 .kind = KIND_FLAG,
                                 .verbs = EVALUATE | OPTIMIZE,
                                 .help = "divide each column of the strategy by its norm"},
    [OPTION_NORMALIZE_WITHIN] = {.name = "normalize-within",
                                 .kind = KIND_FLAG,
                                 .verbs = OPTIMIZE,
                                 .help = "the best column-normalized Toeplitz strategy, instead of the best one "
                                         "normalized after"},
    [OPTION_CONSTRAINT] = {.name = "constraint",
                           .kind = KIND_CHOICE,
                           .argument = "FORM",
                           .values = "zero|non-negative|corners",
                           .preset = "zero",
                           .verbs = OPTIMIZE,
                           .help =
                               "dense under several participations, what is asked of C'C: zero between the steps of "
                               "one unit; nowhere negative (up to 256 steps); every choice of signs bounded (up "
                               "to 64 steps, 8 participations)"},
    [OPTION_SWEEP] = {.name = "sweep",
                      .kind = KIND_FLAG,
                      .verbs = OPTIMIZE,
                      .help = "banded-toeplitz without gradients: the best of the coefficients 1/i + c"},
    [OPTION_TAPER] = {.name = "taper",
                      .kind = KIND_COUNT,
                      .argument = "B0",
                      .count_low = 1,
                      .count_high = MOST_STEPS,
                      .verbs = OPTIMIZE,
                      .help = "banded-toeplitz for a separation that is only known to lie between B0 and the bands: "
                              "coefficients fade out from B0 on"},
    [OPTION_TRIANGULAR] = {.name = "triangular",
                           .kind = KIND_FLAG,
                           .verbs = EVALUATE,
                           .help = "evaluate the lower-triangular form of the strategy, a dense one with the same "
                                   "errors, instead"},
    [OPTION_PARAMETERS] = {.name = "parameters",
                           .kind = KIND_FILE,
                           .argument = "FILE",
                           .verbs = EVALUATE,
                           .help = "file of the strategy's numbers. JSON: {\"coefficients\": [...]} for toeplitz and "
                                   "banded-toeplitz (zeros follow), {\"inverse_coefficients\": [...]} for bisr, "
                                   "{\"diagonals\": [[main], [first below], ...]} for banded, {\"matrix\": [[...], "
                                   "...]} for dense. Or .npy: one dimension for coefficients, two for a matrix"},
    [OPTION_LOSS] = {.name = "loss",
                     .kind = KIND_CHOICE,
                     .argument = "LOSS",
                     .values = "rms|max",
                     .preset = "rms",
                     .verbs = EVALUATE | OPTIMIZE,
                     .help =
                         "the loss that is optimized and compared with its lower bound: of all steps, or of the worst"},
    [OPTION_TOLERANCE] = {.name = "tolerance",
                          .kind = KIND_NUMBER,
                          .argument = "X",
                          .number_low = 1e-10,
                          .number_high = 1.0,
                          .preset = "1e-6",
                          .verbs = OPTIMIZE,
                          .help = "stop when the two bounds of the optimum are this close, relatively, or the loss has "
                                  "settled to it"},
    [OPTION_WEIGHTS] = {.name = "weights",
                        .kind = KIND_FILE,
                        .argument = "FILE.npy",
                        .verbs = EVALUATE | OPTIMIZE,
                        .help = "one weight >= 0 per step. Squared errors are multiplied by them"},
    [OPTION_EPSILON] = {.name = "epsilon",
                        .kind = KIND_NUMBER,
                        .argument = "E",
                        .number_low = 0.0,
                        .number_high = 1e6,
                        .verbs = ACCOUNT,
                        .help = "the privacy parameter epsilon"},
    [OPTION_DELTA] = {.name = "delta",
                      .kind = KIND_NUMBER,
                      .argument = "D",
                      .number_low = 1e-300,
                      .number_high = 1.0,
                      .verbs = ACCOUNT,
                      .help = "the privacy parameter delta"},
    [OPTION_SIGMA] = {.name = "sigma",
                      .kind = KIND_NUMBER,
                      .argument = "S",
                      .number_low = 1e-6,
                      .number_high = 1e12,
                      .verbs = ACCOUNT,
                      .help = "noise multiplier: standard deviation of the noise over clip norm x sensitivity"},
    [OPTION_MU] = {.name = "mu",
                   .kind = KIND_NUMBER,
                   .argument = "M",
                   .number_low = 1e-12,
                   .number_high = 1e6,
                   .verbs = ACCOUNT,
                   .help = "the same as mu-Gaussian privacy, sensitivity/sigma"},
    [OPTION_RHO] = {.name = "rho",
                    .kind = KIND_NUMBER,
                    .argument = "R",
                    .number_low = 1e-300,
                    .number_high = 1e9,
                    .verbs = ACCOUNT,
                    .help = "rho of zero-concentrated privacy: an upper bound on epsilon for whatever has it"},
    [OPTION_GAUSSIAN] = {.name = "gaussian",
                         .kind = KIND_FLAG,
                         .verbs = ACCOUNT,
                         .help = "with --rho: it is a Gaussian mechanism, rho = mu^2/2, and epsilon exact"},
    [OPTION_SAMPLING] = {.name = "sampling",
                         .kind = KIND_TEXT,
                         .argument = "SAMPLING",
                         .values = "none|poisson:Q|block-cyclic:Q,BANDS|balls-in-bins:BINS|min-sep:P,B",
                         .preset = "none",
                         .verbs = ACCOUNT,
                         .help = "secret random choice of the batches: none; each example in each step with "
                                 "probability Q; the same from one of BANDS fixed blocks in turn (Q over all steps, "
                                 "Q x BANDS in its turn); each example in one of BINS bins for the whole run; with "
                                 "probability P and then not for B steps"},
    [OPTION_COMPOSITIONS] = {.name = "compositions",
                             .kind = KIND_COUNT,
                             .argument = "N",
                             .count_low = 1,
                             .count_high = 1000000000000,
                             .verbs = ACCOUNT,
                             .help = "how often the mechanism is applied; training steps for poisson, block-cyclic, "
                                     "balls-in-bins and min-sep. Without it 1, or the steps of FILE"},
    [OPTION_LARGEST] = {.name = "largest",
                        .kind = KIND_CHOICE,
                        .argument = "WHAT",
                        .values = "steps|probability",
                        .verbs = ACCOUNT,
                        .help = "with sigma, epsilon and delta: the most compositions, or the largest sampling "
                                "probability, within them"},
    [OPTION_CURVE] = {.name = "curve",
                      .kind = KIND_FLAG,
                      .verbs = ACCOUNT,
                      .help = "also epsilon at delta = 1e-1, 1e-2, ..., 1e-15"},
    [OPTION_ENGINE] = {.name = "engine",
                       .kind = KIND_CHOICE,
                       .argument = "NAME",
                       .values = "auto|contour|connect-the-dots|rdp|monte-carlo",
                       .preset = "auto",
                       .verbs = ACCOUNT,
                       .help =
                           "how it is computed. auto: closed form, connect-the-dots or monte-carlo. contour is near "
                           "exact but not certified; rdp is certified but looser"},
    [OPTION_SLACK] = {.name = "slack",
                      .kind = KIND_NUMBER,
                      .argument = "X",
                      .number_low = 1e-8,
                      .number_high = 0.1,
                      .verbs = ACCOUNT,
                      .help = "how loose, relatively, a certified epsilon may be. Without it 5e-4, or finer where that "
                              "is cheap, and 8e-4 when sigma is asked for"},
    [OPTION_CONFIDENCE] = {.name = "confidence",
                           .kind = KIND_NUMBER,
                           .argument = "X",
                           .number_low = 0.5,
                           .number_high = 1.0,
                           .preset = "0.999",
                           .verbs = ACCOUNT,
                           .help = "monte-carlo: probability that the bound holds"},
    [OPTION_UNCONDITIONAL] = {.name = "unconditional",
                              .kind = KIND_FLAG,
                              .verbs = ACCOUNT,
                              .help = "monte-carlo: make the test a part of the mechanism; the bound then needs no "
                                      "confidence"},
    [OPTION_WARM] = {.name = "warm",
                     .kind = KIND_FLAG,
                     .verbs = ACCOUNT,
                     .help = "min-sep: examples begin anywhere in their wait, instead of all free"},
    [OPTION_SAMPLES] = {.name = "samples",
                        .kind = KIND_COUNT,
                        .argument = "N",
                        .count_low = 1,
                        .count_high = 10000000000,
                        .verbs = ACCOUNT,
                        .help = "monte-carlo: how many. Without it chosen from delta"},
    [OPTION_SEED] = {.name = "seed",
                     .kind = KIND_COUNT,
                     .argument = "N",
                     .count_low = 0,
                     .count_high = MOST_STEPS,
                     .preset = "0",
                     .verbs = ACCOUNT,
                     .help = "monte-carlo: of the simulation"},
    [OPTION_UNIT] = {.name = "unit",
                     .kind = KIND_TEXT,
                     .argument = "NAME",
                     .values = "example|user",
                     .preset = "example",
                     .verbs = ACCOUNT,
                     .help = "what the statement calls the privacy unit"},
    [OPTION_ADJACENCY] = {.name = "adjacency",
                          .kind = KIND_CHOICE,
                          .argument = "KIND",
                          .values = "zero-out|add-remove|replace-one",
                          .preset = "zero-out",
                          .verbs = EVALUATE | OPTIMIZE | ACCOUNT,
                          .help = "which data sets are neighbours. replace-one doubles the sensitivity; under sampling "
                                  "it has a pair of its own"},
    [OPTION_SENSITIVITY] = {.name = "sensitivity",
                            .kind = KIND_CHOICE,
                            .argument = "METHOD",
                            .values = "auto|spectral|absolute|signs",
                            .preset = "auto",
                            .verbs = EVALUATE | OPTIMIZE,
                            .help = "how the sensitivity is found. auto: exact where a theorem gives it, else the "
                                    "smallest valid upper bound. The others force one bound: by the largest "
                                    "eigenvalue, by absolute values, by the maximum over signs (K up to 20)"},
    [OPTION_BOUND] = {.name = "bound",
                      .kind = KIND_CHOICE,
                      .argument = "WHEN",
                      .values = "auto|none|force",
                      .preset = "auto",
                      .verbs = EVALUATE | OPTIMIZE,
                      .help = "the proven lower bound on the losses of any mechanism: where one is known, up to 2M "
                              "steps; never; or at any size, and fail where none is known"},
    [OPTION_PER_STEP] = {.name = "per-step",
                         .kind = KIND_FLAG,
                         .verbs = EVALUATE | OPTIMIZE,
                         .help = "also the error of every step"},
    [OPTION_DIM] = {.name = "dim",
                    .kind = KIND_COUNT,
                    .argument = "M",
                    .count_low = 1,
                    .count_high = MOST_STEPS,
                    .verbs = NOISE,
                    .help = "numbers of a whole row: the parameters of the model"},
    [OPTION_ROWS] =
        {.name = "rows", .kind = KIND_TEXT, .argument = "A:B", .verbs = NOISE, .help = "rows A to B-1, counted from 0"},
    [OPTION_OFFSET] = {.name = "offset",
                       .kind = KIND_COUNT,
                       .argument = "O",
                       .count_low = 0,
                       .count_high = MOST_STEPS,
                       .preset = "0",
                       .verbs = NOISE,
                       .help = "first coordinate of a shard"},
    [OPTION_SHARD] = {.name = "count",
                      .kind = KIND_COUNT,
                      .argument = "C",
                      .count_low = 1,
                      .count_high = MOST_STEPS,
                      .verbs = NOISE,
                      .help = "coordinates of a shard. Without it, all from the offset on"},
    [OPTION_COLUMNS] = {.name = "columns",
                        .kind = KIND_COUNT,
                        .argument = "D",
                        .count_low = 1,
                        .count_high = 1000000,
                        .preset = "1",
                        .verbs = COUNT,
                        .help = "numbers of a row"},
    [OPTION_CLIP] = {.name = "clip",
                     .kind = KIND_NUMBER,
                     .argument = "Z",
                     .number_low = 1e-20,
                     .number_high = 1e20,
                     .preset = "1",
                     .verbs = NOISE | COUNT,
                     .help = "the most that one privacy unit adds to a row, in l2 norm"},
    [OPTION_FORMAT] = {.name = "format",
                       .kind = KIND_CHOICE,
                       .argument = "FORMAT",
                       .values = "f32|f64|npy",
                       .preset = "f32",
                       .verbs = NOISE,
                       .help =
                           "raw float32, raw float64 (another stream, kept in double precision), or a NumPy file of "
                           "float32. Little-endian, row by row"},
    [OPTION_KEY_FILE] = {.name = "key-file",
                         .kind = KIND_FILE,
                         .argument = "FILE",
                         .verbs = NOISE,
                         .help = "file of the 32-byte key, mode 0600. Made if it is missing"},
    [OPTION_TESTING_SEED] = {.name = "testing-seed",
                             .kind = KIND_COUNT,
                             .argument = "N",
                             .count_low = 0,
                             .count_high = INT64_MAX,
                             .verbs = NOISE | COUNT,
                             .help = "a key that anybody can compute from N, for tests: not private"},
    [OPTION_STATE] = {.name = "state",
                      .kind = KIND_FILE,
                      .argument = "FILE",
                      .verbs = NOISE,
                      .help = "file that remembers how many rows have been reserved, on the disk before each row is "
                              "written. Made with row 0; locked while it is used; bound to the key and all options"},
    [OPTION_REPLAY] = {.name = "replay",
                       .kind = KIND_FLAG,
                       .verbs = NOISE,
                       .help = "allow rows that the state file has seen already: the same bits again"},
    [OPTION_DRY_RUN] = {.name = "dry-run",
                        .kind = KIND_FLAG,
                        .verbs = NOISE,
                        .help = "print the memory that the stream would take, and make nothing"},
    [OPTION_THREADS] = {.name = "threads",
                        .kind = KIND_COUNT,
                        .argument = "T",
                        .count_low = 1,
                        .count_high = 1024,
                        .verbs = EVALUATE | OPTIMIZE | ACCOUNT | NOISE | REPRODUCE | BENCH,
                        .help = "threads to work with. Without it, one per processor; no figure depends on it"},
    [OPTION_JSON] = {.name = "json",
                     .kind = KIND_FLAG,
                     .verbs = EVALUATE | OPTIMIZE | ACCOUNT | NOISE | COUNT | INSPECT | REPRODUCE | BENCH,
                     .help = "print one JSON object instead of a table. noise and count need --out with it"},
    [OPTION_OUT] = {.name = "out",
                    .letter = 'o',
                    .kind = KIND_FILE,
                    .argument = "FILE",
                    .verbs = EVALUATE | OPTIMIZE | NOISE | COUNT,
                    .help = "evaluate, optimize: save the mechanism, without sigma. noise, count: write there instead "
                            "of to standard output; the file appears when it is complete"},
    [OPTION_MARKDOWN] = {.name = "markdown",
                         .kind = KIND_FLAG,
                         .verbs = REPRODUCE,
                         .help = "print Markdown instead of tables for a terminal"},
    [OPTION_PERTURB] = {.name = "perturb",
                        .kind = KIND_NUMBER,
                        .argument = "X",
                        .number_low = 0.0,
                        .number_high = 1.0,
                        .preset = "0",
                        .verbs = REPRODUCE,
                        .help = "self-test: make a mistake on purpose and see the comparison fail. Where sensitivities "
                                "are computed, one row of every strategy (the coefficient c_0 of a Toeplitz one) is "
                                "multiplied by 1+X"},
    [OPTION_MAN] = {.name = "man", .kind = KIND_FLAG, .verbs = HELP, .help = "print the manual page (roff)"},
    [OPTION_COMPLETION] = {.name = "completion",
                           .kind = KIND_CHOICE,
                           .argument = "SHELL",
                           .values = "bash|zsh",
                           .verbs = HELP,
                           .help = "print the completion script of a shell"},
    [OPTION_HELP] = {.name = "help",
                     .letter = 'h',
                     .kind = KIND_FLAG,
                     .verbs = EVALUATE | OPTIMIZE | ACCOUNT | NOISE | COUNT | INSPECT | REPRODUCE | BENCH | HELP,
                     .help = "explain the verb and its options"},
};

bool option_of_verb(option_id id, verb_id verb) {
    return (options[id].verbs >> verb & 1u) != 0;
}
