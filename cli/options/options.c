/* SPDX-License-Identifier: Apache-2.0 */
/* The options, in the order in which help shows them. */
#include "options/options.h"

#include "family.h"

#define PLAN (1u << VERB_PLAN)
#define DESIGN (1u << VERB_DESIGN)
#define EVALUATE (1u << VERB_EVALUATE)
#define OPTIMIZE (1u << VERB_OPTIMIZE)
#define ACCOUNT (1u << VERB_ACCOUNT)
#define CALIBRATE (1u << VERB_CALIBRATE)
#define NOISE (1u << VERB_NOISE)
#define BOUND (1u << VERB_BOUND)
#define COUNT (1u << VERB_COUNT)
#define QUERY (1u << VERB_QUERY)
#define TRAIN (1u << VERB_TRAIN)
#define PREDICT (1u << VERB_PREDICT)
#define INSPECT (1u << VERB_INSPECT)
#define VERIFY (1u << VERB_VERIFY)
#define AUDIT (1u << VERB_AUDIT)
#define REPORT (1u << VERB_REPORT)
#define BENCH (1u << VERB_BENCH)
#define HELP (1u << VERB_HELP)

#define SCHEDULES "linear:FLOOR|cosine:FLOOR|cooldown:FRACTION:FLOOR|warmup:FRACTION|step:EVERY:FACTOR|lr:FILE.npy"
#define WORKLOADS                                                                                                      \
    "prefix|identity|momentum:BETA|nesterov:BETA|decay:LAMBDA|" SCHEDULES "|mean|window:W|decay-power:P|file:PATH.npy"

const option_row options[OPTION_TOTAL] = {
    [OPTION_STEPS] = {.name = "steps",
                      .kind = KIND_COUNT,
                      .argument = "N",
                      .count_low = 1,
                      .verbs = DESIGN | EVALUATE | OPTIMIZE | TRAIN,
                      .help = "number of steps. evaluate: required unless a FILE gives it"},
    [OPTION_EPOCHS] = {.name = "epochs",
                       .kind = KIND_COUNT,
                       .argument = "K",
                       .count_low = 1,
                       .verbs = PLAN | DESIGN | TRAIN | ACCOUNT,
                       .ranged = PLAN,
                       .help = "passes over the data: how often each example takes part. account: each epoch has a "
                               "fresh random choice, for allocation or independent balls-in-bins. plan: K or "
                               "LOW..HIGH in doublings, where K below 1 is a part of an epoch; default is 1..8"},
    [OPTION_USERS] = {.name = "users",
                      .kind = KIND_COUNT,
                      .argument = "U",
                      .count_low = 1,
                      .count_high = 1000000000000,
                      .verbs = DESIGN,
                      .help = "federated: the number of users (clients) in the population. With --rounds and "
                              "--per-round, in the place of --steps and --epochs"},
    [OPTION_ROUNDS] = {.name = "rounds",
                       .kind = KIND_COUNT,
                       .argument = "N",
                       .count_low = 1,
                       .verbs = DESIGN,
                       .help = "federated: the number of rounds, each with one row of noise"},
    [OPTION_PER_ROUND] =
        {.name = "per-round",
         .kind = KIND_COUNT,
         .argument = "M",
         .count_low = 1,
         .count_high = 1000000000000,
         .verbs = DESIGN,
         .help =
             "federated: the cohort, at most M users in a round; the sum is divided by M however many answer. Without "
             "--separation, U/M fixed groups (rounded up) take part in turn"},
    [OPTION_SEPARATION] =
        {.name = "separation",
         .kind = KIND_TEXT,
         .argument = "LOW[..HIGH]",
         .verbs = DESIGN,
         .help =
             "federated: a user returns after LOW rounds at the earliest, which the server enforces, and usually after "
             "up to HIGH (the choice is robust over that range, the guarantee holds from LOW on)"},
    [OPTION_AT_MOST] = {.name = "at-most",
                        .kind = KIND_COUNT,
                        .argument = "K",
                        .count_low = 1,
                        .count_high = 10000,
                        .verbs = DESIGN | BOUND,
                        .help = "counting: at most K rows of one user are counted in each window (--per). bound leaves "
                                "out the others, design makes the noise for it (with --dim 1 as default). The words "
                                "must be the same in both"},
    [OPTION_PER] = {.name = "per",
                    .kind = KIND_CHOICE,
                    .argument = "WINDOW",
                    .values = "day|week|month|ever",
                    .preset = "ever",
                    .verbs = DESIGN | BOUND,
                    .help = "with --at-most: the window in which K rows are counted; ever is the whole stream. design: "
                            "--unit user protects all windows of a user together, --unit user-day (-week, -month) with "
                            "the same window each of them alone"},
    [OPTION_ONCE] = {.name = "once",
                     .verbs = DESIGN | BOUND,
                     .help = "with --at-most: a user counts at most once in a line (daily visitors, not visits)"},
    [OPTION_BY] = {.name = "by",
                   .kind = KIND_CHOICE,
                   .argument = "PERIOD",
                   .values_of = by_values,
                   .preset = "day",
                   .verbs = DESIGN | BOUND | QUERY | REPORT,
                   .help = "design, bound: the period of a line, one step of the mechanism; default is day. query, "
                           "report: a total for each period or day of the week, over all lines or those of --range or "
                           "--last (the stream needs dates, count --time); default is one total"},
    [OPTION_WORKLOAD] =
        {.name = "workload",
         .kind = KIND_TEXT,
         .argument = "WORKLOAD",
         .values = WORKLOADS,
         .preset = "prefix",
         .verbs = PLAN | DESIGN | EVALUATE | OPTIMIZE | TRAIN,
         .help =
             "the output that must be accurate. Join parts by commas; mean (of all rows so far), window:W (the sum of "
             "the last W), decay-power:P and file:PATH.npy stand alone. A file has any real matrix with a column for "
             "each "
             "step; a row is released in the step of its last non-zero column. 'W1 + 0.3*W2' is a sum: the squared "
             "errors add, with these weights. cooldown: with m "
             "= FRACTION x N rounded, the learning rate is 1 before the last m steps, then decreases linearly to "
             "FLOOR; linear and cosine: from 1 to FLOOR over all steps; warmup: from 1/m to 1 in the first m; step: "
             "times "
             "FACTOR after every EVERY steps. Schedules multiply. train: own is that of SGD with its momentum, "
             "schedule "
             "and decay; with prefix these are post-processing"},
    [OPTION_PARTICIPATION] =
        {.name = "participation",
         .kind = KIND_TEXT,
         .argument = "PATTERN",
         .values_of = participation_values,
         .preset = "single",
         .verbs = DESIGN | EVALUATE | OPTIMIZE,
         .help =
             "the steps in which the data of one example may be used: one; every B steps, K "
             "times; at most K, at least B apart; one in each of K epochs of B steps; all; or steps of one of the "
             "patterns in a file, one per line: step numbers from 0 and ranges A-B or A-B:STEP (or .npy: rows of 0 and "
             "1). design: file:PATTERNS, min-sep:K,B, or min-sep:K,LOW..HIGH for users who take part certainly LOW "
             "rounds "
             "apart and usually up to HIGH (the choice is robust over that range, the guarantee "
             "holds from LOW on); default is cyclic, from --epochs"},
    [OPTION_OPTIMIZE_WORKLOAD] = {.name = "optimize-workload",
                                  .kind = KIND_TEXT,
                                  .argument = "WORKLOAD",
                                  .values = WORKLOADS,
                                  .verbs = EVALUATE | OPTIMIZE,
                                  .help = "the workload that the strategy is made from (for example, its square root), "
                                          "if it differs from --workload. Without it, --workload is used for both"},
    [OPTION_OPTIMIZE_PARTICIPATION] =
        {.name = "optimize-participation",
         .kind = KIND_TEXT,
         .argument = "PATTERN",
         .values_of = participation_values,
         .verbs = EVALUATE | OPTIMIZE,
         .help = "the participation that the strategy is optimised for, if it differs from --participation. It must be "
                 "possible in N steps; evaluate, which optimises nothing, only checks it"},
    [OPTION_FAMILY] = {.name = "family",
                       .kind = KIND_TEXT,
                       .argument = "NAME",
                       .values_of = family_values,
                       .verbs = EVALUATE | OPTIMIZE | TRAIN,
                       .help_of = family_help},
    [OPTION_BANDS] = {.name = "bands",
                      .kind = KIND_COUNT,
                      .argument = "B",
                      .count_low = 1,
                      .verbs = EVALUATE | OPTIMIZE,
                      .help = "number of diagonals, the main one included: of C, or of its inverse for bisr, or of the "
                              "decoder for lowrank. With --parameters it must agree with the file"},
    [OPTION_BUFFERS] =
        {.name = "buffers",
         .kind = KIND_TEXT,
         .argument = "D|ratio:X",
         .values = "D|ratio:X",
         .preset = "ratio:1.001",
         .verbs = EVALUATE | OPTIMIZE,
         .help =
             "with evaluate, buffers of a blt-rational or of each level of a blt-tree, 1 to 16; without it the fewest "
             "whose max loss is within 0.01 of the best Toeplitz mechanism's. With optimize, "
             "buffers of a blt, rank of a lowrank decoder, nodes of a tvblt, up to 64. The stream of a tvblt keeps "
             "one buffer per node, two with momentum, and always one over several epochs; the answer has the total. "
             "ratio:X takes the fewest that reach the allowed ratio of the loss of a tvblt to the proven lower "
             "bound, or of a blt to the best Toeplitz mechanism"},
    [OPTION_LEVELS] = {.name = "levels",
                       .kind = KIND_COUNT,
                       .argument = "L",
                       .count_low = 1,
                       .count_high = 53,
                       .verbs = EVALUATE,
                       .help = "levels of a blt-tree: more have fewer buffers and more noise. Default: 2"},
    [OPTION_SHARED_SEEDS] =
        {.name = "shared-seeds",
         .kind = KIND_COUNT,
         .argument = "L",
         .count_low = 1,
         .count_high = 8,
         .verbs = OPTIMIZE,
         .help =
             "tvblt under cyclic participation: the steps of one unit share L seeds, and each number of noise takes 1 "
             "+ L normal numbers. Without it the seeds of earlier epochs are made again, (k+1)/2 on average"},
    [OPTION_SIGNS] = {.name = "signs",
                      .kind = KIND_CHOICE,
                      .argument = "WHICH",
                      .values = "auto|non-negative|any",
                      .preset = "auto",
                      .verbs = OPTIMIZE,
                      .help =
                          "signs of the scales of a blt. non-negative: coefficients that fall, whose sensitivity is "
                          "exact for any number of steps. any: single, cyclic and full participation, up to 1024 "
                          "steps. auto: any where that can help"},
    [OPTION_NU] = {.name = "nu",
                   .kind = KIND_NUMBER,
                   .argument = "X",
                   .number_low = 0.0,
                   .number_high = 1.0,
                   .preset = "0",
                   .verbs = EVALUATE,
                   .help = "damping of the Toeplitz square root: coefficient t is multiplied by (1-X)^t"},
    [OPTION_STAMPS] =
        {.name = "stamps",
         .kind = KIND_COUNT,
         .argument = "S|auto",
         .count_low = 1,
         .word = "auto",
         .preset = "1",
         .verbs = EVALUATE | OPTIMIZE | DESIGN,
         .help =
             "repeat the strategy of N/S steps S times, restarted each time. S divides N; --bands, --parameters and "
             "--optimize-participation then describe N/S steps. auto: the number with the least loss. evaluate: "
             "the strategy of a FILE is repeated, over S times its steps. design: stamped candidates besides"},
    [OPTION_BRANCHING] = {.name = "branching",
                          .kind = KIND_COUNT,
                          .argument = "B",
                          .count_low = 2,
                          .count_high = 1024,
                          .preset = "2",
                          .verbs = EVALUATE,
                          .help = "tree, tree-online and tree-full: children of a node"},
    [OPTION_DECODER] =
        {.name = "decoder",
         .kind = KIND_CHOICE,
         .argument = "NAME",
         .values = "restart|optimal|file:B.npy",
         .verbs = EVALUATE,
         .help = "how running sums are computed from a tree or the FFT mechanism: the family's own way, "
                 "restarted in every stamp, or with the least error. Default: restart for tree-online, "
                 "smooth-binary and fft, optimal for the rest; square strategies have only one decoder. file:B.npy is "
                 "a decoder for the matrix C of dense --parameters, B C = the workload; without it the "
                 "pseudo-inverse of C is taken"},
    [OPTION_NORMALIZE] = {.name = "normalize",
                          .kind = KIND_CHOICE,
                          .argument = "WHEN",
                          .values = "none|after|within",
                          .preset = "none",
                          .verbs = EVALUATE | OPTIMIZE,
                          .help = "divide each column of the strategy by its norm: not, or after the strategy is made. "
                                  "optimize: within finds the best Toeplitz strategy among the normalized ones"},
    [OPTION_VARIANT] =
        {.name = "variant",
         .kind = KIND_TEXT,
         .argument = "NAME",
         .values = "zero|non-negative|corners|sweep|taper:B0|damped|triangular",
         .verbs = EVALUATE | OPTIMIZE,
         .help =
             "another form of the same mechanism, as a paper describes it. evaluate: triangular is the "
             "lower-triangular "
             "form of the strategy, a dense one with the same errors. optimize: the condition of dense on C'C "
             "under several "
             "participations (zero, the default, between the steps of one unit; non-negative, up to 2048 steps; "
             "corners, "
             "every choice of signs bounded, up to 64 steps and 8 participations), or for banded-toeplitz sweep "
             "(without gradients, the best of the coefficients 1/i + c) or taper:B0 (for a separation that is only "
             "known to lie between B0 and the bands, coefficients fade out from B0 on), or for toeplitz damped (the "
             "square root of the workload times (1-nu)^t with the best nu, for any number of steps)"},
    [OPTION_PARAMETERS] =
        {.name = "parameters",
         .kind = KIND_FILE,
         .argument = "FILE",
         .verbs = EVALUATE,
         .help = "file with the numbers of the strategy. JSON: {\"coefficients\": [...]} for toeplitz "
                 "and banded-toeplitz (zeros follow), {\"inverse_coefficients\": [...]} for bisr, "
                 "{\"diagonals\": [[main], [first below], ...]} for banded, {\"matrix\": [[...], ...]} "
                 "for dense, with one column per step: another form than lower triangular, and more rows than "
                 "steps, are brought to the lower-triangular form. {\"matrix\": [[...], ...], \"u\": "
                 "[...], \"v\": [...]} for recurrent. For blt {\"scale\": [...], \"decay\": [...]} or the "
                 "decays of C and of its inverse, {\"decay\": [...], \"inverse_decay\": [...]} (gap and "
                 "inverse_gap: 1 - decay, which keeps its digits). Or .npy: one dimension for coefficients, two "
                 "for a matrix"},
    [OPTION_LOSS] =
        {.name = "loss",
         .kind = KIND_TEXT,
         .argument = "LOSS",
         .values = "rms|max|lp:P|last",
         .preset = "rms",
         .verbs = PLAN | DESIGN | EVALUATE | OPTIMIZE,
         .help = "the loss that is optimized and compared with its lower bound (rms, over all steps; max, of the worst "
                 "step; lp:P, the P-th root of the mean P-th power of the errors, P from 1 to 1000; last, of the last "
                 "step). optimize takes the last two for banded, toeplitz and banded-toeplitz. design optimizes for "
                 "rms and max, and chooses by any of them"},
    [OPTION_TOLERANCE] = {.name = "tolerance",
                          .kind = KIND_NUMBER,
                          .argument = "X",
                          .number_low = 1e-10,
                          .number_high = 1.0,
                          .preset = "1e-6",
                          .verbs = PLAN | DESIGN | OPTIMIZE | ACCOUNT,
                          .help =
                              "design, optimize: stop when the relative distance of the two bounds of the optimum, "
                              "or the relative change of the loss, is this small. account: relative slack that a "
                              "certified epsilon may have, from 1e-8 to 0.1; default is 5e-5, or finer where that is "
                              "cheap, and 8e-5 when you ask for sigma"},
    [OPTION_WEIGHTS] = {.name = "weights",
                        .kind = KIND_FILE,
                        .argument = "FILE.npy|last[:FRACTION]",
                        .verbs = EVALUATE | OPTIMIZE,
                        .help = "one weight >= 0 per step. Squared errors are multiplied by them. last: the last step "
                                "alone, or the last FRACTION of the steps, with weights of mean 1; the others may then "
                                "get any amount of noise"},
    [OPTION_SPECTRUM] = {.name = "spectrum",
                         .kind = KIND_FILE,
                         .argument = "FILE",
                         .verbs = EVALUATE,
                         .help =
                             "JSON, {\"eigenvalues\": [...], \"rate\": R}: the curvature of a quadratic loss, such as "
                             "linear regression, and the learning rate. The answer also has what the noise adds to "
                             "the loss, R^2/2 times the sum of eigenvalue x squared error for the workload "
                             "decay:R*eigenvalue, beside that of independent noise, and the effective dimension"},
    [OPTION_REGRET] = {.name = "regret",
                       .kind = KIND_TEXT,
                       .argument = "D,L|D,L,RATE",
                       .verbs = EVALUATE,
                       .help =
                           "also print an upper bound on the mean regret of private online gradient descent: convex "
                           "losses whose gradients have a norm of at most L, one unit a step, clip norm L, compared "
                           "with the best weights within distance D of the first. At the rate that makes it least, or "
                           "at RATE. Needs --dim and a sigma; for prefix sums"},
    [OPTION_JOINT] = {.name = "joint",
                      .kind = KIND_NUMBER,
                      .argument = "W",
                      .number_low = 1e-9,
                      .number_high = 1e9,
                      .verbs = EVALUATE,
                      .help =
                          "also print the sensitivity of two streams of this mechanism together: contributions of norm "
                          "at most 1, and the squares of their coordinates times the root of W, which an optimizer "
                          "such as Adam keeps as its second moments"},
    [OPTION_EPSILON] = {.name = "epsilon",
                        .kind = KIND_NUMBER,
                        .argument = "E",
                        .number_low = 0.0,
                        .number_high = 1e6,
                        .verbs = PLAN | DESIGN | EVALUATE | OPTIMIZE | ACCOUNT | CALIBRATE | TRAIN | AUDIT,
                        .help =
                            "the privacy parameter epsilon. evaluate, optimize: with --delta, finds the sigma for it "
                            "and stores it in the file that -o writes. audit: the claim; default is that of the file"},
    [OPTION_DELTA] = {.name = "delta",
                      .kind = KIND_NUMBER,
                      .argument = "D",
                      .number_low = 1e-300,
                      .number_high = 1.0,
                      .verbs = PLAN | DESIGN | EVALUATE | OPTIMIZE | ACCOUNT | CALIBRATE | TRAIN | AUDIT,
                      .help = "the privacy parameter delta. audit: default is that of the file"},
    [OPTION_SIGMA] = {.name = "sigma",
                      .kind = KIND_NUMBER,
                      .argument = "S",
                      .number_low = 1e-6,
                      .number_high = 1e12,
                      .verbs = ACCOUNT,
                      .help =
                          "noise multiplier: standard deviation of the noise divided by clip norm x sensitivity. In "
                          "mu-Gaussian privacy it is 1/mu, or 2/mu with --adjacency replace-one"},
    [OPTION_RHO] = {.name = "rho",
                    .kind = KIND_NUMBER,
                    .argument = "R",
                    .number_low = 1e-300,
                    .number_high = 1e9,
                    .verbs = ACCOUNT,
                    .help = "rho of zero-concentrated privacy: gives an upper bound on epsilon for any such mechanism"},
    [OPTION_GAUSSIAN] = {.name = "gaussian",
                         .verbs = ACCOUNT,
                         .help = "with --rho: the mechanism is Gaussian, rho = mu^2/2, and epsilon is exact"},
    [OPTION_SAMPLING] =
        {.name = "sampling",
         .kind = KIND_TEXT,
         .argument = "SAMPLING",
         .values_of = sampling_values,
         .preset = "none",
         .verbs = PLAN | DESIGN |
                  ACCOUNT | CALIBRATE | TRAIN,
         .help =
             "secret random choice of the batches: none; each example in each step with probability Q; "
             "the same from one of BANDS fixed blocks in turn (Q over all steps, Q x BANDS in its "
             "turn); each example in one of BINS bins for the whole run; with probability P and then "
             "not for B steps; each example in exactly K of T steps; batches of exactly M of N examples, without or "
             "with "
             "replacement (append ,BANDS to draw from one of BANDS fixed blocks in turn). account: append ,warm to "
             "min-sep:P,B if "
             "examples begin anywhere in their wait, instead of all free. design: a name without its numbers, or "
             "any for all that need no simulation. train: the same, and the default is any; the numbers follow from "
             "the run, and poisson and allocation are for independent noise. calibrate: default is that of FILE. "
             "account and "
             "calibrate take poisson:Q also with a FILE of several bands without negative entries"},
    [OPTION_COMPOSITIONS] = {.name = "compositions",
                             .kind = KIND_COUNT,
                             .argument = "N",
                             .count_low = 1,
                             .count_high = 1000000000000000,
                             .verbs = ACCOUNT,
                             .help = "how often the mechanism is applied; training steps for poisson, block-cyclic, "
                                     "balls-in-bins and min-sep. Default: 1, or the steps of FILE"},
    [OPTION_COMPOSE] = {.name = "compose",
                        .verbs = ACCOUNT,
                        .help =
                            "compute the total privacy of all mechanism and ledger FILEs, run on the same data, and "
                            "of mechanisms that are known by a guarantee: pure:EPSILON, approximate:EPSILON,DELTA, "
                            "laplace:SCALE, pld:FILE (a privacy loss distribution), with @poisson:Q or @fixed:M,N "
                            "behind them where they are sampled"},
    [OPTION_EXPORT] = {.name = "export",
                       .kind = KIND_TEXT,
                       .argument = "FILE",
                       .verbs = ACCOUNT,
                       .help = "write the privacy curve as a privacy loss distribution, which is an upper bound, for "
                               "dp-accounting and for --compose pld:FILE"},
    [OPTION_TIMES] = {.name = "times",
                      .kind = KIND_TEXT,
                      .argument = "N,N,...",
                      .verbs = ACCOUNT,
                      .help = "with --compose: how often each FILE or guarantee was run. Default: once each"},
    [OPTION_FIRST] =
        {.name = "first",
         .kind = KIND_COUNT,
         .argument = "M",
         .count_low = 1,
         .verbs = ACCOUNT,
         .help = "with a mechanism FILE: account for the first M steps only, for an end that was fixed before the run. "
                 "If you looked at results or data to decide when to stop, state the epsilon of the whole run"},
    [OPTION_TUNING] = {.name = "tuning",
                       .kind = KIND_TEXT,
                       .argument = "LAW",
                       .values = "poisson:MEAN|negative-binomial:ETA,GAMMA",
                       .verbs = ACCOUNT,
                       .help = "account for the best of a random number of such runs, drawn from this distribution, "
                               "with settings drawn at random from a list; only the best is released. Poisson, or "
                               "truncated negative binomial (ETA 1: geometric, 0: logarithmic; GAMMA 1: one run)"},
    [OPTION_BATCH_CAP] =
        {.name = "batch-cap",
         .kind = KIND_COUNT,
         .argument = "M|auto",
         .count_low = 1,
         .count_high = 1000000000000,
         .word = "auto",
         .verbs = ACCOUNT | TRAIN | DESIGN,
         .help = "poisson, block-cyclic and min-sep: if more than M are drawn, a random M of them take part. account, "
                 "design: needs --units. design: auto is the least M that costs at most a thousandth of the noise"},
    [OPTION_GROUP] =
        {.name = "group",
         .kind = KIND_COUNT,
         .argument = "G",
         .count_low = 1,
         .count_high = 1000000000,
         .preset = "1",
         .verbs = ACCOUNT | CALIBRATE | DESIGN,
         .help = "protect groups of up to G units together, for example the at most G examples of one user where "
                 "examples are sampled. Not with --batch-cap, nor with simulated samplings"},
    [OPTION_UNITS] = {.name = "units",
                      .kind = KIND_COUNT,
                      .argument = "N",
                      .count_low = 1,
                      .count_high = 1000000000000,
                      .verbs = PLAN | ACCOUNT | DESIGN | REPORT,
                      .help = "number of privacy units; for --batch-cap, and delta should be well below 1/N. report: "
                              "also draw the noise against the batch size, which takes seconds"},
    [OPTION_LARGEST] =
        {.name = "largest",
         .kind = KIND_CHOICE,
         .argument = "WHAT",
         .values = "steps|probability",
         .verbs = ACCOUNT,
         .help = "with sigma, epsilon and delta: find the largest number of compositions, or the largest sampling "
                 "probability, within them. --sampling then needs no probability: poisson or block-cyclic:BANDS"},
    [OPTION_CURVE] = {.name = "curve",
                      .verbs = ACCOUNT,
                      .help = "also print epsilon at delta = 1e-1, 1e-2, ..., 1e-15"},
    [OPTION_RISK] = {.name = "risk",
                     .verbs = ACCOUNT | CALIBRATE,
                     .help =
                         "also print what a test finds out that sees all outputs: the largest true positive rate at "
                         "each rate of --fpr, the advantage, the Bayes error, and mu of Gaussian privacy"},
    [OPTION_FPR] = {.name = "fpr",
                    .kind = KIND_TEXT,
                    .argument = "R,R,...",
                    .preset = "0.001,0.01,0.1",
                    .verbs = ACCOUNT | CALIBRATE,
                    .help = "with --risk or a target: false positive rates"},
    [OPTION_TPR] = {.name = "tpr",
                    .kind = KIND_NUMBER,
                    .argument = "T",
                    .number_low = 1e-100,
                    .number_high = 1.0,
                    .verbs = ACCOUNT | CALIBRATE,
                    .help = "in the place of epsilon: the least sigma with which no test has a true positive rate "
                            "above T at the one rate of --fpr. Implies --risk"},
    [OPTION_ADVANTAGE] = {.name = "advantage",
                          .kind = KIND_NUMBER,
                          .argument = "A",
                          .number_low = 1e-300,
                          .number_high = 1.0,
                          .verbs = ACCOUNT | CALIBRATE,
                          .help = "in the place of epsilon: the least sigma with which the true positive rate of no "
                                  "test is above its false positive rate by more than A. Implies --risk"},
    [OPTION_PRIOR] = {.name = "prior",
                      .kind = KIND_NUMBER,
                      .argument = "P",
                      .number_low = 1e-12,
                      .number_high = 1.0,
                      .preset = "0.5",
                      .verbs = ACCOUNT | CALIBRATE,
                      .help = "with --risk or a target: the probability, before the outputs are seen, that the data "
                              "set is the one with the unit; for the Bayes error"},
    [OPTION_ENGINE] = {.name = "engine",
                       .kind = KIND_TEXT,
                       .argument = "NAME",
                       .values = "auto|fourier|connect-the-dots|rdp|monte-carlo|monte-carlo:SAMPLES",
                       .preset = "auto",
                       .verbs = ACCOUNT,
                       .help = "the method. auto: closed form, a Fourier sum with proven errors, connect-the-dots or "
                               "monte-carlo. fourier and connect-the-dots are each alone; rdp is certified but looser. "
                               "monte-carlo chooses the number of samples from delta unless it is given"},
    [OPTION_CONFIDENCE] =
        {.name = "confidence",
         .kind = KIND_NUMBER,
         .argument = "X",
         .number_low = 0.5,
         .number_high = 1.0,
         .word = "unconditional",
         .preset = "0.999",
         .verbs = ACCOUNT | AUDIT,
         .help =
             "probability that the bound holds. account: unconditional, instead of a number, makes the test a part of "
             "the mechanism; the bound then needs no confidence, and its randomness is fresh and recorded in the "
             "answer. account: for monte-carlo alone. audit: default is 0.95"},
    [OPTION_SEED] = {.name = "seed",
                     .kind = KIND_COUNT,
                     .argument = "N",
                     .count_low = 0,
                     .preset = "0",
                     .verbs = ACCOUNT | TRAIN,
                     .help = "account: seed of the monte-carlo simulation. train: seed of the initial weights"},
    [OPTION_LOG] = {.name = "log",
                    .kind = KIND_FILE,
                    .argument = "FILE.csv",
                    .verbs = ACCOUNT,
                    .help =
                        "with a mechanism FILE: a file of who took part when, lines CLIENT,ROUND (rounds from 0) after "
                        "the header client,round. Adds the sensitivity of the actual run and its epsilon or delta"},
    [OPTION_UNIT] = {.name = "unit",
                     .kind = KIND_TEXT,
                     .argument = "NAME",
                     .values = "example|user",
                     .verbs = PLAN | REPORT | DESIGN | EVALUATE | OPTIMIZE | ACCOUNT | CALIBRATE | COUNT | TRAIN,
                     .help =
                         "what the guarantee protects one of: example, user, or another word. A mechanism file records "
                         "it, and another name for the same FILE is refused. design: required where one unit takes "
                         "part several times (--participation), else example. train: example (the default) and user"},
    [OPTION_ADJACENCY] = {.name = "adjacency",
                          .kind = KIND_CHOICE,
                          .argument = "KIND",
                          .values = "zero-out|add-remove|replace-one",
                          .preset = "zero-out",
                          .verbs = PLAN | DESIGN | EVALUATE | OPTIMIZE | ACCOUNT | TRAIN,
                          .help = "which data sets are neighbours. replace-one doubles the sensitivity; under sampling "
                                  "it has its own pair of distributions"},
    [OPTION_SENSITIVITY] = {.name = "sensitivity",
                            .kind = KIND_CHOICE,
                            .argument = "METHOD",
                            .values = "auto|spectral|absolute|signs",
                            .preset = "auto",
                            .verbs = EVALUATE | OPTIMIZE,
                            .help = "how the sensitivity is found. auto: exact where a theorem gives it, else the "
                                    "smallest valid upper bound. The others force one bound, by the largest "
                                    "eigenvalue, by absolute values, by the maximum over signs (K up to 20)"},
    [OPTION_BOUND] = {.name = "bound",
                      .kind = KIND_CHOICE,
                      .argument = "WHEN",
                      .values = "auto|none|force",
                      .preset = "auto",
                      .verbs = EVALUATE | OPTIMIZE,
                      .help =
                          "the proven lower bound on the losses of any mechanism. auto: where one is known, up to "
                          "2M steps, of one pass above 131072 steps from a short search; none: never; force: at any "
                          "size, from a full search, and fail where none is known"},
    [OPTION_PER_STEP] = {.name = "per-step",
                         .verbs = EVALUATE | OPTIMIZE,
                         .help = "also print the error of every step"},
    [OPTION_DIM] = {.name = "dim",
                    .kind = KIND_COUNT,
                    .argument = "M",
                    .count_low = 1,
                    .verbs = PLAN | REPORT | DESIGN | NOISE | EVALUATE,
                    .help = "numbers in a whole row: the parameters of the model. design, report: default is 1M. "
                            "evaluate: for --regret"},
    [OPTION_MEMORY] = {.name = "memory",
                       .kind = KIND_BYTES,
                       .argument = "BYTES",
                       .count_low = 0,
                       .count_high = INT64_MAX,
                       .verbs = PLAN | DESIGN | REPORT | NOISE | TRAIN,
                       .help =
                           "bytes that the noise stream may take (4GiB, 500M, 1GB, 2g, 1T); 0: no row is kept, seeds "
                           "are made again. design, train: default is no limit. report, noise: default is that of the "
                           "file's design"},
    [OPTION_MAX_OVERHEAD] =
        {.name = "max-overhead",
         .kind = KIND_NUMBER,
         .argument = "X",
         .number_low = 1.0,
         .number_high = 1e6,
         .preset = "4",
         .verbs = PLAN | DESIGN | REPORT,
         .help = "noise may take this many times as long as independent noise; with --memory 0 default is 20. "
                 "report: default is that of the file's design"},
    [OPTION_FAMILIES] = {.name = "families",
                         .kind = KIND_TEXT,
                         .argument = "NAMES",
                         .verbs = PLAN | DESIGN,
                         .help = "consider only these, joined by commas. Default: every one that applies"},
    [OPTION_MEASURE] = {.name = "measure",
                        .verbs = DESIGN,
                        .help =
                            "measure on this machine how long the noise takes, instead of computing it from the cost "
                            "model, whose answer is the same everywhere"},
    [OPTION_WITHIN] = {.name = "within",
                       .kind = KIND_NUMBER,
                       .argument = "X",
                       .number_low = 0.0,
                       .number_high = 10.0,
                       .preset = "0.3",
                       .verbs = PLAN,
                       .help =
                           "the part of the noise that a doubling of the steps may cost if it ends at 1000 steps; half "
                           "of it at 2000, and so on"},
    [OPTION_ROWS] =
        {.name = "rows", .kind = KIND_TEXT, .argument = "A:B", .verbs = NOISE, .help = "rows A to B-1, counted from 0"},
    [OPTION_OFFSET] = {.name = "offset",
                       .kind = KIND_COUNT,
                       .argument = "O",
                       .count_low = 0,
                       .preset = "0",
                       .verbs = NOISE,
                       .help = "first coordinate of a shard"},
    [OPTION_SHARD] = {.name = "count",
                      .kind = KIND_COUNT,
                      .argument = "C",
                      .count_low = 1,
                      .verbs = NOISE,
                      .help = "coordinates of a shard. Default: all from the offset on"},
    [OPTION_COLUMNS] =
        {.name = "columns",
         .kind = KIND_TEXT,
         .argument = "D|LIST",
         .verbs = EVALUATE | OPTIMIZE | BOUND | COUNT | QUERY | REPORT,
         .help =
             "count: D numbers per line, separated by spaces, tabs or commas, default is 1. count: or CSV, names of "
             "columns, or their numbers "
             "from 1, joined by commas (visits,sales; 2,5; a single number with a comma after it: 2,). bound: "
             "COLUMN:VALUE,VALUE,... (country:DE,FR): the rows of each value are a column; default is one column "
             "of all rows. query, "
             "report: the sums on a line of the stream, required where a first number may be a time. evaluate, "
             "optimize: 1 if contributions are single numbers, whose sensitivity can be smaller than that of "
             "vectors (streams of more columns then refuse the mechanism); default is any, or what FILE says"},
    [OPTION_TIME] = {.name = "time",
                     .kind = KIND_TEXT,
                     .argument = "COLUMN",
                     .verbs = BOUND | COUNT,
                     .help =
                         "count: CSV, the column, by name or number, that is copied to the answers. bound: the column "
                         "of the time, ISO 8601, taken as it is written (2024-02-29, 2024-02-29T17:05:00+01:00)"},
    [OPTION_BAD_LINES] = {.name = "bad-lines",
                          .kind = KIND_CHOICE,
                          .argument = "WHAT",
                          .values = "stop|zero|skip",
                          .verbs = BOUND | COUNT,
                          .help =
                              "count: for a line that is blank or has no numbers where they should be, stop there (fix "
                              "it and run again; the default), count zeros in its step, or leave out the line and "
                              "its step; its number is always reported. bound: skip, the default, leaves out a row "
                              "without a user or a date, and nothing reports it; stop reports its number and "
                              "writes nothing"},
    [OPTION_CLIP_ROWS] =
        {.name = "clip-rows",
         .verbs = COUNT,
         .help = "each line is the contribution of one privacy unit, and is scaled down to --clip; the number of "
                 "scaled lines is not reported. Without this option a line is a sum over units, and used as it is"},
    [OPTION_FOLLOW] = {.name = "follow",
                       .kind = KIND_FILE,
                       .argument = "FILE",
                       .verbs = COUNT,
                       .help =
                           "read FILE instead of standard input, and what is appended to it, until a signal arrives"},
    [OPTION_INPUT] =
        {.name = "input",
         .kind = KIND_CHOICE,
         .argument = "PART",
         .values = "whole|rest|again",
         .verbs = COUNT,
         .help = "with a state file: the input starts from its beginning again (what was counted is compared and "
                 "skipped), or with the first line that was not counted; with --time, rest refuses lines that are not "
                 "later than those, and again takes them. Default: whole for files; pipes need it to resume"},
    [OPTION_FORMAT] =
        {.name = "format",
         .kind = KIND_CHOICE,
         .argument = "FORMAT",
         .values_of = format_values,
         .verbs = NOISE | COUNT | QUERY | HELP,
         .help = "noise: f32, raw float32 (the default); f64, raw float64 (another stream, kept in double "
                 "precision); or npy, a NumPy file of float32; little-endian, row by row. count: text, numbers "
                 "separated by spaces (the default); csv, with a header; or jsonl, one JSON object per line. "
                 "query: text or csv, a table of ranges. help: man, the manual page (roff); or the completion script "
                 "of bash or zsh"},
    [OPTION_SYNC_EVERY] = {.name = "sync-every",
                           .kind = KIND_COUNT,
                           .argument = "N",
                           .count_low = 1,
                           .verbs = COUNT,
                           .help = "largest number of lines per write of the state file. Default: all that have "
                                   "arrived; no line waits for another"},
    [OPTION_CLIP] = {.name = "clip",
                     .kind = KIND_NUMBER,
                     .argument = "Z",
                     .number_low = 1e-20,
                     .number_high = 1e20,
                     .preset = "1",
                     .verbs = NOISE | COUNT | QUERY | REPORT | TRAIN,
                     .help = "the largest contribution of one privacy unit to a row, in l2 norm"},
    [OPTION_MECHANISM] = {.name = "mechanism",
                          .kind = KIND_FILE,
                          .argument = "FILE",
                          .verbs = QUERY | REPORT,
                          .help = "the mechanism file that the stream was made with"},
    [OPTION_RANGE] =
        {.name = "range",
         .kind = KIND_TEXT,
         .argument = "A:B[-C:D]",
         .verbs =
             BOUND | QUERY | REPORT,
         .help = "query, report: the sum over the lines A to B, both included, from 1, or over the lines of some dates "
                 "(2024-02-01:2024-02-29, 2024-02 or a day). query, report: several, joined by commas, and 'X minus "
                 "Y' (of lines also A:B-C:D). bound: the dates of the lines, both included (2024-02-01:2024-02-29, "
                 "2024-02 or a day); rows of other dates are left out"},
    [OPTION_LAST] = {.name = "last",
                     .kind = KIND_TEXT,
                     .argument = "30d|4w|N",
                     .verbs = QUERY | REPORT,
                     .help = "the sum over the last days or weeks of the stream, or over its last N lines"},
    [OPTION_LEVEL] = {.name = "level",
                      .kind = KIND_NUMBER,
                      .argument = "P",
                      .number_low = 1e-6,
                      .number_high = 1,
                      .preset = "0.95",
                      .verbs = QUERY | REPORT,
                      .help = "probability that an interval holds the truth, or that all bands do"},
    [OPTION_COLUMN] = {.name = "column",
                       .kind = KIND_TEXT,
                       .argument = "J|NAME",
                       .preset = "1",
                       .verbs = QUERY | REPORT,
                       .help = "column of sums in the stream, by number from 1 (the step and the time are none) or by "
                               "name where the stream is CSV. query: several, joined by commas, with --range, --last "
                               "and --by"},
    [OPTION_CDF] = {.name = "cdf", .verbs = QUERY, .help = "print all totals, with bands that hold together"},
    [OPTION_SMOOTH] = {.name = "smooth",
                       .verbs = QUERY,
                       .help = "print the best linear unbiased estimate of all totals, each with its interval"},
    [OPTION_MONOTONE] = {.name = "monotone",
                         .verbs = QUERY,
                         .help = "print totals that never decrease and are not negative"},
    [OPTION_KEY_FILE] = {.name = "key-file",
                         .kind = KIND_FILE,
                         .argument = "FILE",
                         .verbs = NOISE | COUNT | TRAIN,
                         .help = "file of the 32-byte key, mode 0600. Made if it is missing. FILE.state beside it "
                                 "remembers the rows that were used"},
    [OPTION_SEED_KEY] = {.name = "seed-key",
                         .kind = KIND_FILE,
                         .argument = "FILE",
                         .verbs = BOUND,
                         .help = "file of the 32-byte key that chooses the rows, mode 0600, for one stream. Made if it "
                                 "is missing, with FILE.state beside it (or --state), which remembers how many rows of "
                                 "each user were counted"},
    [OPTION_TESTING_SEED] = {.name = "testing-seed",
                             .kind = KIND_COUNT,
                             .argument = "N",
                             .count_low = 0,
                             .count_high = INT64_MAX,
                             .verbs = NOISE | COUNT | TRAIN | AUDIT,
                             .help = "a key that anybody can compute from N, for tests: not private"},
    [OPTION_STATE] =
        {.name = "state",
         .kind = KIND_FILE,
         .argument = "FILE|none",
         .verbs =
             NOISE | BOUND | COUNT | TRAIN,
         .help =
             "file that remembers what was used, on the disk before anything is written; locked while in use; bound "
             "to the key and all options. noise, count, train: the number of reserved rows, made with row 0. count: "
             "also holds the sums, so that the count can resume; as secret as the data. bound: the number of rows "
             "of each user that were counted. noise, train: with none, rows that repeat go unnoticed. "
             "Default: beside the key file"},
    [OPTION_RELEASE] =
        {.name = "release",
         .kind = KIND_CHOICE,
         .argument = "HOW",
         .values = "exact|plain",
         .verbs = NOISE | COUNT | TRAIN | DESIGN,
         .help =
             "exact: sums and noise on one grid, in integers, with a proof for the released numbers. plain: noise in "
             "floating point. noise: default is plain; exact rows are float64, whole multiples of the grid. count: "
             "default is exact where the mechanism has it; with this option, refused elsewhere. train, design: default "
             "is plain. design: exact needs --dim and prints what it adds to the sensitivity"},
    [OPTION_UNCALIBRATED] = {.name = "uncalibrated",
                             .verbs = NOISE | COUNT,
                             .help = "take a mechanism FILE without sigma, with sigma = 1: nothing is promised"},
    [OPTION_REPLAY] = {.name = "replay",
                       .verbs = NOISE,
                       .help = "allow rows that were already used, according to the state file: the same bits again"},
    [OPTION_DRY_RUN] = {.name = "dry-run",
                        .verbs = NOISE,
                        .help = "print the memory that the stream would take, and make no noise"},
    [OPTION_LEDGER] = {.name = "ledger",
                       .kind = KIND_FILE,
                       .argument = "FILE",
                       .verbs = NOISE | COUNT | TRAIN,
                       .help = "enter this run in a ledger of all runs on the same data before it begins; the file is "
                               "made if it is missing. If the run would exceed the budget, it is refused and nothing "
                               "is released. A resumed run is entered once. account --compose FILE prints the total"},
    [OPTION_BUDGET] = {.name = "budget",
                       .kind = KIND_TEXT,
                       .argument = "E,D",
                       .verbs = NOISE | COUNT | TRAIN,
                       .help =
                           "with --ledger: the budget, the largest epsilon E of all runs together at delta = D. A new "
                           "ledger keeps it"},
    [OPTION_DATA] = {.name = "data",
                     .kind = KIND_FILE,
                     .argument = "DIR|FILE",
                     .verbs = TRAIN | PREDICT,
                     .help =
                         "directory of train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                         "t10k-labels-idx1-ubyte (IDX), or of data_batch_1.bin to data_batch_5.bin and test_batch.bin "
                         "(CIFAR-10), plain or with .gz. Or a CSV file: a header line, one example per line, "
                         "numbers without quotes. predict: the examples; the column of --label may be missing"},
    [OPTION_TEST_DATA] = {.name = "test-data",
                          .kind = KIND_FILE,
                          .argument = "FILE",
                          .verbs = TRAIN,
                          .help = "CSV: the same columns, for the accuracy; without it --hold-out is required"},
    [OPTION_LABEL] = {.name = "label",
                      .kind = KIND_TEXT,
                      .argument = "COLUMN",
                      .preset = "label",
                      .verbs = TRAIN | PREDICT,
                      .help = "CSV: the column of the class, whole numbers from 0"},
    [OPTION_USER] = {.name = "user",
                     .kind = KIND_TEXT,
                     .argument = "COLUMN",
                     .verbs = TRAIN | PREDICT | BOUND,
                     .help = "train, predict: CSV, the column of the user's name; required for --unit user. bound: the "
                             "column of the user whose rows are limited; names are compared byte by byte"},
    [OPTION_HOLD_OUT] = {.name = "hold-out",
                         .kind = KIND_COUNT,
                         .argument = "N",
                         .count_low = 1,
                         .verbs = TRAIN,
                         .help =
                             "hold out the last N training examples and evaluate on them instead of on the test data, "
                             "to choose settings. With --unit user: all examples of the last users who have N"},
    [OPTION_FEATURES] = {.name = "features",
                         .kind = KIND_TEXT,
                         .argument = "FEATURES",
                         .values = "none|scattering|scattering:J,L|scattering:J,L,pink",
                         .preset = "none",
                         .verbs = TRAIN | PREDICT,
                         .help =
                             "images: the pixels themselves, or their scattering features (J scales, 2 unless "
                             "given, and L angles, 8). Scattering is a fixed function of each image, so it costs no "
                             "privacy, and a linear model on its features is much better than one on pixels. They are "
                             "normalised for each image; with pink, "
                             "which is better for colour photographs, by the scale that they have over pink noise"},
    [OPTION_CACHE] = {.name = "cache",
                      .kind = KIND_FILE,
                      .argument = "DIR|none",
                      .verbs = TRAIN | PREDICT,
                      .help =
                          "where scattering features are kept for the next run, in a file that is as private as the "
                          "data; none: nowhere. Without the option: beside the data if that directory can be "
                          "written, else in $XDG_CACHE_HOME/dpmf or ~/.cache/dpmf"},
    [OPTION_SCALE] = {.name = "scale",
                      .kind = KIND_TEXT,
                      .argument = "SCALE",
                      .values = "none|rows|FILE.npy",
                      .preset = "none",
                      .verbs = TRAIN | PREDICT,
                      .help = "the features: unchanged; each example divided by its own l2 norm; or minus the first "
                              "row of a 2 x features array and times its second. Those numbers must come from public "
                              "knowledge: means of the training data would not be private"},
    [OPTION_MODEL] = {.name = "model",
                      .kind = KIND_TEXT,
                      .argument = "MODEL",
                      .values = "softmax|mlp:H",
                      .preset = "softmax",
                      .verbs = TRAIN | PREDICT,
                      .help = "softmax regression, or one hidden layer of H units (tanh)"},
    [OPTION_BATCH] = {.name = "batch",
                      .kind = KIND_COUNT,
                      .argument = "M",
                      .count_low = 1,
                      .verbs = PLAN | TRAIN,
                      .ranged = PLAN,
                      .help = "examples (users) per batch; under sampling the expected number. plan: M or LOW..HIGH "
                              "in doublings; default is N/1000..N/10"},
    [OPTION_OPTIMIZER] = {.name = "optimizer",
                          .kind = KIND_CHOICE,
                          .argument = "NAME",
                          .values = "sgd|adam|adagrad|rmsprop|ftrl",
                          .preset = "sgd",
                          .verbs = TRAIN,
                          .help = "the optimizer that uses the private gradients. ftrl follows the regularized leader, "
                                  "with --constraint and --regularizer"},
    [OPTION_LEARNING_RATE] = {.name = "learning-rate",
                              .kind = KIND_NUMBER,
                              .argument = "X",
                              .number_low = 1e-12,
                              .number_high = 1e12,
                              .preset = "0.5",
                              .verbs = TRAIN,
                              .help = "learning rate of the optimizer"},
    [OPTION_MOMENTUM] = {.name = "momentum",
                         .kind = KIND_NUMBER,
                         .argument = "B",
                         .number_low = 0.0,
                         .number_high = 1.0,
                         .preset = "0",
                         .verbs = TRAIN,
                         .help = "momentum of sgd, rmsprop and ftrl. With --workload own the mechanism is designed for "
                                 "it"},
    [OPTION_PRECONDITION] = {.name = "precondition",
                             .kind = KIND_NUMBER,
                             .argument = "F",
                             .number_low = 0x1p-20,
                             .number_high = 0x1p20,
                             .verbs = TRAIN,
                             .help = "adam, adagrad, rmsprop: scale gradients coordinate by coordinate by the second "
                                     "moments of earlier steps before they are clipped, so that the noise has their "
                                     "shape. F, 0.1 for example, is the floor: a large one scales little"},
    [OPTION_CORRECT] = {.name = "correct",
                        .verbs = TRAIN,
                        .help = "adam: take the variance of each step's noise, which is known, off its second moments"},
    [OPTION_SCHEDULE] = {.name = "schedule",
                         .kind = KIND_TEXT,
                         .argument = "SCHEDULE",
                         .values = "constant|linear|cosine|" SCHEDULES,
                         .preset = "linear",
                         .verbs = TRAIN,
                         .help = "factors of the learning rate, as in --workload, but they may be 0: linear and cosine "
                                 "alone have FLOOR = 0. linear ends with 1/N, cosine with 0. Join parts by commas; "
                                 "constant stands alone"},
    [OPTION_DECAY] = {.name = "decay",
                      .kind = KIND_NUMBER,
                      .argument = "X",
                      .number_low = 0.0,
                      .number_high = 1e12,
                      .preset = "0",
                      .verbs = TRAIN,
                      .help = "weights are multiplied by 1 - learning rate x X before each step. Not for ftrl"},
    [OPTION_CLIPPING] = {.name = "clipping",
                         .kind = KIND_TEXT,
                         .argument = "norm|auto[:GAMMA]",
                         .preset = "norm",
                         .verbs = TRAIN,
                         .help = "norm: gradients (or updates) longer than --clip Z are shortened to it; auto: every "
                                 "gradient g becomes Z g/(|g| + GAMMA), so that no Z has to be searched (AUTO-S). "
                                 "Default GAMMA: 0.01"},
    [OPTION_CONSTRAINT] = {.name = "constraint",
                           .kind = KIND_TEXT,
                           .argument = "SET",
                           .values = "none|ball:R|box:R|simplex|simplex:R",
                           .preset = "none",
                           .verbs = TRAIN,
                           .help =
                               "ftrl: the set that the weights stay in: l2 norm at most R, each weight in [-R, R], or "
                               "no weight below 0 and a sum of R (1 if left out). The private sum is not projected, "
                               "only the weights are"},
    [OPTION_REGULARIZER] =
        {.name = "regularizer",
         .kind = KIND_TEXT,
         .argument = "NAME",
         .values = "l2|l1:LAMBDA|entropy",
         .preset = "l2",
         .verbs = TRAIN,
         .help = "ftrl: l2 is the squared distance from the first weights; l1:LAMBDA adds LAMBDA x the l1 "
                 "norm in each step, so that many weights are 0; entropy is for a simplex"},
    [OPTION_ZERO_ABOVE] = {.name = "zero-above",
                           .kind = KIND_TEXT,
                           .argument = "X|max:X",
                           .preset = "0",
                           .verbs = TRAIN,
                           .help = "gradients (or updates) of a larger norm add nothing, instead of being clipped; "
                                   "max:X: those with a coordinate above X. 0: off"},
    [OPTION_LOCAL_STEPS] = {.name = "local-steps",
                            .kind = KIND_COUNT,
                            .argument = "L",
                            .count_low = 1,
                            .count_high = INT32_MAX,
                            .verbs = TRAIN,
                            .help = "federated averaging (DP-FedAvg), with --unit user: each user of a round takes L "
                                    "steps of SGD on its own examples, from the server's weights; its update is "
                                    "clipped in place of a gradient, and --optimizer is the server's"},
    [OPTION_LOCAL_RATE] = {.name = "local-rate",
                           .kind = KIND_NUMBER,
                           .argument = "R",
                           .number_low = 1e-12,
                           .number_high = 1e12,
                           .verbs = TRAIN,
                           .help = "learning rate of --local-steps"},
    [OPTION_LOCAL_BATCH] = {.name = "local-batch",
                            .kind = KIND_COUNT,
                            .argument = "M",
                            .count_low = 1,
                            .verbs = TRAIN,
                            .help = "examples per step of --local-steps, in passes of random order; default: all "
                                    "examples of the user in each step"},
    [OPTION_CHECKPOINT] = {.name = "checkpoint",
                           .kind = KIND_FILE,
                           .argument = "FILE",
                           .verbs = TRAIN,
                           .help = "resume from FILE if it exists, and save the run in it. The designed mechanism is "
                                   "kept beside it, in FILE.mechanism. As secret as the key"},
    [OPTION_EVERY] = {.name = "every",
                      .kind = KIND_COUNT,
                      .argument = "N",
                      .count_low = 1,
                      .preset = "100",
                      .verbs = TRAIN,
                      .help = "steps between checkpoints"},
    [OPTION_PUBLIC_TEST_CURVE] =
        {.name = "public-test-curve",
         .kind = KIND_FILE,
         .argument = "FILE",
         .verbs = TRAIN,
         .help =
             "write loss and accuracy on the test data (or the hold-out) at about 50 steps of the run, as CSV (step, "
             "loss, accuracy). The guarantee does not cover the test data: with this option you declare that they "
             "are public, or that exact figures about them may be published"},
    [OPTION_NOISELESS] = {.name = "noiseless",
                          .verbs = TRAIN,
                          .help = "add no noise, and clip only if --clip is given: not private, for comparison"},
    [OPTION_THREADS] = {.name = "threads",
                        .kind = KIND_COUNT,
                        .argument = "T",
                        .count_low = 1,
                        .count_high = 1024,
                        .verbs = PLAN | DESIGN | VERIFY | REPORT | EVALUATE | OPTIMIZE | ACCOUNT | CALIBRATE | NOISE |
                                 BENCH | TRAIN | PREDICT | AUDIT,
                        .help = "number of threads. Default: one per processor; no figure depends on it"},
    [OPTION_JSON] = {.name = "json",
                     .verbs = PLAN | DESIGN | VERIFY | EVALUATE | OPTIMIZE | ACCOUNT | CALIBRATE | NOISE | COUNT |
                              QUERY | INSPECT | BENCH | TRAIN | PREDICT | AUDIT | REPORT,
                     .help = "print one JSON object instead of a table. noise, count: needs --out. report: the object "
                             "that the page is drawn from"},
    [OPTION_OUT] = {.name = "out",
                    .letter = 'o',
                    .kind = KIND_FILE,
                    .argument = "FILE",
                    .verbs = PLAN | DESIGN | REPORT | EVALUATE | OPTIMIZE | CALIBRATE | NOISE | BOUND | COUNT | TRAIN |
                             PREDICT | AUDIT,
                    .help = "write there" /* options/verbs.c has the words of each verb */},
    [OPTION_THROUGH] = {.name = "through",
                        .kind = KIND_CHOICE,
                        .argument = "WHAT",
                        .values = "noise|train",
                        .preset = "noise",
                        .verbs = AUDIT,
                        .help = "where the canaries go: through the noise stream, or through the trainer with its "
                                "clipping and its sampler"},
    [OPTION_CANARIES] = {.name = "canaries",
                         .kind = KIND_COUNT,
                         .argument = "N",
                         .count_low = 20,
                         .count_high = 1000000,
                         .preset = "1000",
                         .verbs = AUDIT,
                         .help =
                             "number of canaries; more canaries give a sharper bound. --through train: up to 20000"},
    [OPTION_HELP] = {.name = "help",
                     .letter = 'h',
                     .verbs = PLAN | DESIGN | VERIFY | REPORT | EVALUATE | OPTIMIZE | ACCOUNT | CALIBRATE | QUERY |
                              NOISE | BOUND | COUNT | INSPECT | BENCH | HELP | TRAIN | PREDICT | AUDIT,
                     .help = "explain the verb and its options"},
};
