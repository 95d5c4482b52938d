/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs, in the order in which help shows them. */
#include "options/verbs.h"

const verb_row verbs[VERB_TOTAL] = {
    [VERB_PLAN] =
        {
            .name = "plan",
            .usage = "plan --units N --epsilon E --delta D [OPTION]...",
            .summary = "find the batch size and the number of steps of a training run",
            .description =
                "Designs a mechanism for each point of a grid of batch sizes and epochs, with DP-SGD (independent "
                "noise, Poisson sampling) beside it. Points are compared by noise per epoch of progress, sigma x loss "
                "/ epochs: for one data set that is noise over signal at the end of the run. For each number of epochs "
                "the rule goes from the fewest steps to more, as long as each doubling costs at most --within of the "
                "noise (at 1000 steps, half of that at 2000); of the points that it finds, the one with the least "
                "noise is "
                "recommended. Every row has the "
                "figures of design with its steps and epochs. The default of --sampling is any. -o saves the "
                "recommended mechanism with its sigma, as design -o does.",
            .run = cmd_plan,
        },
    [VERB_DESIGN] =
        {
            .name = "design",
            .usage = "design --steps N --epochs K --epsilon E --delta D [OPTION]...\n"
                     "design --steps N --participation min-sep:K,B --epsilon E --delta D\n"
                     "design --steps N --unit user --at-most K --epsilon E --delta D\n"
                     "design --users U --rounds N --per-round M --epsilon E --delta D",
            .summary = "find the best mechanism for a training run: compare, choose, save",
            .description =
                "Compares every family that applies, each optimized for the participation and calibrated to the same "
                "(epsilon, delta), by sigma x loss; chooses one and explains the choice. The participation is cyclic "
                "with ceil(N/K) steps per epoch, or that of --participation. --users, --rounds and --per-round say the "
                "same in the "
                "words of federated learning: groups of M users in turn, or with --separation users who return "
                "late enough; the unit is then user. With --sampling block-cyclic, amplified "
                "banded mechanisms and "
                "amplified DP-SGD are candidates too, for batches sampled exactly this way. A candidate is eligible if "
                "it fits --memory and its noise takes at most --max-overhead times as long as independent noise by a "
                "cost model, which gives the same answer on every machine. Among those within 0.1 % of the least "
                "noise, the one with the fewest "
                "buffers is chosen. -o saves it with its sigma.",
            .run = cmd_design,
        },
    [VERB_EVALUATE] =
        {
            .name = "evaluate",
            .usage = "evaluate --steps N --family NAME [OPTION]...\nevaluate FILE [OPTION]...",
            .operand = "FILE",
            .summary = "losses, sensitivity and per-step error of a mechanism",
            .description = "Evaluates a mechanism, given by options or by a mechanism FILE, on a workload under a "
                           "participation. Every loss includes the sensitivity; every figure is labelled as exact or "
                           "as a bound. With a FILE, the workload, participation, adjacency, weights, strategy and "
                           "kind of sensitivity come from it, and an option that contradicts it is refused, but for "
                           "--workload: the mechanism is then priced on that workload, with --weights for it. With "
                           "--epsilon and --delta the mechanism gets its sigma too.",
            .run = cmd_evaluate,
        },
    [VERB_OPTIMIZE] =
        {
            .name = "optimize",
            .usage = "optimize --steps N --family NAME [OPTION]...",
            .summary = "find the best mechanism of a family, and its distance from the best possible",
            .description =
                "Finds the best strategy of a family for a workload, a participation and a loss, and evaluates it. "
                "dense is the best of all: under single participation two bounds enclose its loss at any number of "
                "steps, and its matrix is formed up to 8192 steps; under several participations it is the best whose "
                "columns of one unit are orthogonal. tvblt is the optimum of single or cyclic participation as a noise "
                "stream with few buffers (over several epochs with replayed seeds, or --shared-seeds). banded, "
                "banded-toeplitz and bisr take --bands; blt and tvblt take --buffers, a number or the "
                "fewest that reach a ratio; lowrank takes both. The answer states what is proven about the result: two "
                "bounds and "
                "their scope, or how flat the loss is where the search ended. With --epsilon and --delta the mechanism "
                "gets its sigma too.",
            .run = cmd_optimize,
        },
    [VERB_ACCOUNT] =
        {
            .name = "account",
            .usage = "account --sigma S (--delta D | --epsilon E) [OPTION]...\n"
                     "account --epsilon E --delta D [OPTION]...\n"
                     "account --rho R --delta D [--gaussian] [OPTION]...\n"
                     "account --sigma S --epsilon E --delta D --largest WHAT [OPTION]...\n"
                     "account --delta D (--advantage A | --tpr T --fpr R) [OPTION]...\n"
                     "account FILE (--delta D | --epsilon E | both) [OPTION]...\n"
                     "account --compose PART... [--times N,N,...] (--delta D|--epsilon E)",
            .operand = "FILE",
            .summary = "compute (epsilon, delta) from sigma, and sigma from (epsilon, delta)",
            .description =
                "Two of sigma, epsilon and delta give the third; rho-zCDP and delta give epsilon. "
                "sigma is per unit of sensitivity: a whole run of correlated noise without sampling is one "
                "composition. With sampling it is per unit of the largest column norm. Every answer is labelled as "
                "exact, a proven upper bound or an estimate, and ends with the guarantee in sentences. A FILE gives "
                "the strategy, where its bands or entries matter, its adjacency, and sigma if it has one. --first "
                "accounts for the first steps only, --tuning for the best of a random number of runs. --risk adds what "
                "an attack can achieve, and --advantage or --tpr ask for the sigma that limits it.",
            .run = cmd_account,
        },
    [VERB_CALIBRATE] =
        {
            .name = "calibrate",
            .usage = "calibrate FILE --epsilon E --delta D -o OUT [OPTION]...\n"
                     "calibrate FILE --delta D (--advantage A | --tpr T --fpr R) -o OUT",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "find the sigma of a mechanism file for (epsilon, delta)",
            .description =
                "Gives any mechanism FILE, including one made of your own matrix, the least sigma for (epsilon, "
                "delta), and saves it with its guarantee in OUT. A sigma in FILE is ignored. With --sampling the "
                "result is for batches sampled exactly this way: its sensitivity is then the largest column norm. The "
                "sensitivity is computed again first. Without -o the answer is only printed. With a largest risk in "
                "the "
                "place of epsilon, OUT gets the epsilon at delta of the sigma that limits the risk.",
            .run = cmd_calibrate,
        },
    [VERB_NOISE] =
        {
            .name = "noise",
            .usage = "noise FILE --dim M --rows A:B [OPTION]...\nnoise FILE --dim M --dry-run [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "make rows of correlated noise, in order, each once",
            .description =
                "Writes rows of the noise that the mechanism FILE adds to sums of clipped gradients: row t is clip x "
                "sigma x sensitivity x row t of W Z. A key gives the same bits for any shard, thread count or resume "
                "point. Without --key-file the key is fresh and forgotten. With --state no row is given twice or left "
                "out: --rows must begin where the state file stands, or, with --replay, before. Anybody who has the "
                "rows can remove the noise: keep them as secret as the key.",
            .run = cmd_noise,
        },
    [VERB_BOUND] =
        {
            .name = "bound",
            .usage = "bound --user C --time C --at-most K --range A:B --seed-key FILE",
            .summary = "make daily counts of events, with at most K rows of each user",
            .description =
                "Reads events from standard input, CSV with a header line, and writes the lines that count reads: a "
                "date and the number of rows, for each day (--by) of --range. Of each user and window at most K rows "
                "are "
                "counted, chosen at random by the key; the choice among the rows of one user does not depend on "
                "others. "
                "Call it once for each "
                "day or for any number of days, without gaps: the state file beside the key remembers each user (as a "
                "keyed hash), so that --per ever and --per month hold over all calls. The last range may be asked for "
                "again with the same rows, and gives the same lines. The counts are exact, and as secret as the data: "
                "publish what count makes of them, with the mechanism of design and the same words.",
            .run = cmd_bound,
        },
    [VERB_COUNT] =
        {
            .name = "count",
            .usage = "count FILE [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "publish private running sums of numbers on standard input",
            .description = "Reads one row of --columns numbers per line, separated by spaces, tabs or commas, or CSV. "
                           "For each row it immediately writes a line: the private running sums (the workload of the "
                           "mechanism FILE, applied to the rows with noise) and then their standard deviation. A row "
                           "is a sum over privacy units, and each unit must add at most --clip to it in l2 norm; you "
                           "must ensure this. With --key-file or --state you can stop the count at any moment and "
                           "resume it: the same command gives the missing lines, each once, with the same bits. "
                           "Without them the key is fresh and forgotten, so two streams never share noise.",
            .run = cmd_count,
        },
    [VERB_QUERY] =
        {
            .name = "query",
            .usage = "query STREAM --mechanism FILE --range A:B[-C:D],... [OPTION]...\n"
                     "query STREAM --mechanism FILE (--last 30d | --by month) [OPTION]...\n"
                     "query STREAM --mechanism FILE (--cdf | --smooth) [OPTION]...",
            .operand = "STREAM",
            .operands_needed = 1,
            .summary = "compute intervals for totals, ranges and differences of a released stream",
            .description =
                "STREAM is the output of count, FILE the mechanism that it used. --range: the sum over the lines A to "
                "B, both included and counted from 1, minus that over C to D, with its standard deviation (exact, with "
                "all correlations of the noise) and the interval at --level. Several ranges, --last, --by and several "
                "columns make a table, with intervals that hold each alone and all together. --cdf: the totals of all "
                "lines with bands "
                "that hold for all of them together at --level or more. --smooth: all totals, each with its own "
                "interval: no linear unbiased estimate of a past total gains from later lines. --monotone: for data "
                "that are not negative, totals that never decrease and are not below 0. Nothing here costs privacy.",
            .run = cmd_query,
        },
    [VERB_TRAIN] =
        {
            .name = "train",
            .usage = "train --data DIR|FILE --epsilon E --delta D [OPTION]...\n"
                     "train FILE --data DIR|FILE [OPTION]...\n"
                     "train --data DIR|FILE --noiseless [OPTION]...",
            .operand = "FILE",
            .summary = "train a small model privately, and print its accuracy",
            .description =
                "Trains softmax regression or a network of one hidden layer. In each step the gradients of a batch are "
                "clipped and summed, a row of correlated noise is added, and the optimizer uses the result. The "
                "mechanism is designed for --epsilon and --delta and two of --steps, --batch and --epochs, or comes "
                "from a FILE; batches are drawn as it assumes. Data are a directory of IDX files (those of MNIST, "
                "plain or gzip), or a CSV file. A run with --checkpoint can be killed at any moment and gives the same "
                "model when you "
                "run it again. Weights are private; accuracy is measured on data that the guarantee does not cover.",
            .run = cmd_train,
        },
    [VERB_PREDICT] =
        {
            .name = "predict",
            .usage = "predict WEIGHTS --model MODEL --data DIR|FILE [OPTION]...",
            .operand = "WEIGHTS",
            .operands_needed = 1,
            .summary = "apply a trained model to new examples",
            .description =
                "Prints one line per example: the class and its probability, by the model whose weights `train -o` "
                "wrote. The model and --scale must be those of the training. The order of the weights: the first "
                "layer's (outputs x features, row by row), its biases, then the same of the second layer. The weights "
                "have the privacy of their training; the examples given here get none.",
            .run = cmd_predict,
        },
    [VERB_INSPECT] =
        {
            .name = "inspect",
            .usage = "inspect FILE [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "show the contents of a mechanism file",
            .description = "Shows the contents and claims of a mechanism file. Nothing is computed again except the "
                           "digest, which must match.",
            .run = cmd_inspect,
        },
    [VERB_VERIFY] =
        {
            .name = "verify",
            .usage = "verify FILE [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "compute every figure of a mechanism file again",
            .description =
                "Computes sensitivity, losses, bounds and privacy again, by another method where there is one: up to "
                "2000 steps the decoder is read from the noise stream itself. Checks the digest, and the distribution "
                "of the noise by a short test. Reports what was proven and what was not. For a ledger FILE: composes "
                "all entries and compares them with its budget. Exit code 3 means that something does not hold.",
            .run = cmd_verify,
        },
    [VERB_AUDIT] =
        {
            .name = "audit",
            .usage = "audit FILE [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "attack the noise of a mechanism with planted canaries, for a lower bound on epsilon",
            .description = "Makes a separate run, with canaries that are each in or out with probability 1/2 and a key "
                           "that is thrown away, and guesses from the release which were in. Prints the epsilon that "
                           "the guesses, and the size of the noise, prove at the requested confidence. It touches no "
                           "data and no key of yours. Exit code 3 means that the bound is above the claim; at most 1 - "
                           "confidence of all audits accuse a true claim. A bound below the claim proves nothing.",
            .run = cmd_audit,
        },
    [VERB_REPORT] =
        {
            .name = "report",
            .usage = "report FILE --out PAGE.html|--json [OPTION]...\n"
                     "report STREAM --mechanism FILE --out PAGE.html|--json [OPTION]...",
            .operand = "FILE",
            .operands_needed = 1,
            .summary = "write a page with the statement, the comparison and the pictures",
            .description =
                "Writes a self-contained HTML page about a mechanism file: the privacy statement, the comparison with "
                "other families at equal privacy, C and its inverse, coefficients, the error of every step beside the "
                "optimum's, noise against bands and buffers, epsilon against delta, and the cost. With --mechanism, "
                "the page is about a STREAM that count wrote: its totals with bands that hold together at --level, the "
                "requested ranges with their intervals, and the statement. --json prints the figures of the page.",
            .run = cmd_report,
        },
    [VERB_BENCH] =
        {
            .name = "bench",
            .usage = "bench [NAME] [OPTION]...",
            .operand = "NAME",
            .summary = "measure times, as ratios to something measured in the same run",
            .description =
                "Runs the benchmarks, or the one called NAME: optimum, optimizers or noise. Every row is a median of "
                "repeats and is compared with a limit or a peer measured in the same run. Debian's OpenBLAS may not "
                "recognize the processor: set OPENBLAS_CORETYPE where LAPACK is the peer.",
            .run = cmd_bench,
        },
    [VERB_HELP] =
        {
            .name = "help",
            .usage = "help [VERB]\nhelp --format man|bash|zsh",
            .operand = "VERB",
            .summary = "explain a verb, print the manual page or a completion script",
            .description = "Without a VERB, lists the verbs. With a VERB, explains it and its options.",
            .run = cmd_help,
        },
};

/* ---- the options that most runs give ---- */

const verb_tour tours[VERB_TOTAL] = {
    [VERB_PLAN] = {.first = {{OPTION_UNITS, "--units 60000"},
                             {OPTION_EPSILON, "--epsilon 3"},
                             {OPTION_DELTA, "--delta 1e-6"},
                             {OPTION_EPOCHS, "--epochs 2..8"},
                             {OPTION_BATCH, "--batch 64..4096"}},
                   .out = "save the recommended mechanism with its sigma"},
    [VERB_DESIGN] = {.first = {{OPTION_STEPS, "--steps 2000"},
                               {OPTION_EPOCHS, "--epochs 10"},
                               {OPTION_EPSILON, "--epsilon 8"},
                               {OPTION_DELTA, "--delta 1e-6"},
                               {OPTION_SAMPLING, "--sampling block-cyclic"}},
                     .out = "save the chosen mechanism with its sigma"},
    [VERB_EVALUATE] = {.first = {{OPTION_STEPS, "--steps 2000"},
                                 {OPTION_FAMILY, "--family bsr"},
                                 {OPTION_BANDS, "--bands 16"},
                                 {OPTION_WORKLOAD, "--workload momentum:0.9"},
                                 {OPTION_PARTICIPATION, "--participation cyclic:20,100"}},
                       .out = "save the mechanism, without sigma unless --epsilon and --delta are given"},
    [VERB_OPTIMIZE] = {.first = {{OPTION_STEPS, "--steps 1000"},
                                 {OPTION_FAMILY, "--family tvblt"},
                                 {OPTION_BUFFERS, "--buffers 4"},
                                 {OPTION_WORKLOAD, "--workload momentum:0.9"},
                                 {OPTION_PARTICIPATION, "--participation cyclic:10,100"}},
                       .out = "save the mechanism, without sigma unless --epsilon and --delta are given"},
    [VERB_ACCOUNT] = {.first = {{OPTION_EPSILON, "--epsilon 8"},
                                {OPTION_DELTA, "--delta 1e-5"},
                                {OPTION_SIGMA, "--sigma 0.8"},
                                {OPTION_SAMPLING, "--sampling poisson:0.01"},
                                {OPTION_COMPOSITIONS, "--compositions 10000"}}},
    [VERB_CALIBRATE] = {.first = {{OPTION_EPSILON, "--epsilon 8"},
                                  {OPTION_DELTA, "--delta 1e-5"},
                                  {OPTION_SAMPLING, "--sampling block-cyclic:0.01,8"},
                                  {OPTION_OUT, "-o calibrated.dpmf"},
                                  {OPTION_UNIT, "--unit user"}},
                        .out = "save the mechanism with its sigma"},
    [VERB_NOISE] = {.first = {{OPTION_DIM, "--dim 1e6"},
                              {OPTION_ROWS, "--rows 0:100"},
                              {OPTION_CLIP, "--clip 1"},
                              {OPTION_KEY_FILE, "--key-file run.key"},
                              {OPTION_OUT, "-o rows.f32"}},
                    .out = "write there instead of to standard output; the file appears when it is complete"},
    [VERB_BOUND] = {.first = {{OPTION_USER, "--user person"},
                              {OPTION_TIME, "--time day"},
                              {OPTION_AT_MOST, "--at-most 3 --per month"},
                              {OPTION_RANGE, "--range 2024-02-01:2024-02-29"},
                              {OPTION_SEED_KEY, "--seed-key bound.key"}},
                    .out = "the lines, in a file for its owner alone"},
    [VERB_COUNT] = {.first = {{OPTION_KEY_FILE, "--key-file count.key"},
                              {OPTION_COLUMNS, "--columns 3"},
                              {OPTION_CLIP, "--clip 1"},
                              {OPTION_FOLLOW, "--follow daily.txt"},
                              {OPTION_OUT, "-o totals.txt"}},
                    .out = "write there instead of to standard output: the file appears when it is complete or, with a "
                           "state file, grows line by line"},
    [VERB_QUERY] = {.first = {{OPTION_MECHANISM, "--mechanism counts.dpmf"},
                              {OPTION_RANGE, "--range 100:200"},
                              {OPTION_LEVEL, "--level 0.95"},
                              {OPTION_CDF, "--cdf"},
                              {OPTION_SMOOTH, "--smooth"}}},
    [VERB_TRAIN] = {.first = {{OPTION_DATA, "--data /usr/share/datasets/fashion-mnist"},
                              {OPTION_EPSILON, "--epsilon 8"},
                              {OPTION_DELTA, "--delta 1e-5"},
                              {OPTION_BATCH, "--batch 2000"},
                              {OPTION_EPOCHS, "--epochs 10"}},
                    .out = "the weights, as .npy"},
    [VERB_PREDICT] = {.first = {{OPTION_MODEL, "--model mlp:128"},
                                {OPTION_DATA, "--data new.csv"},
                                {OPTION_SCALE, "--scale rows"},
                                {OPTION_LABEL, "--label class"},
                                {OPTION_OUT, "-o answers.csv"}},
                      .out = "write the answers there instead of to standard output"},
    [VERB_AUDIT] = {.first = {{OPTION_CANARIES, "--canaries 10000"},
                              {OPTION_THROUGH, "--through train"},
                              {OPTION_DELTA, "--delta 1e-5"},
                              {OPTION_CONFIDENCE, "--confidence 0.99"},
                              {OPTION_OUT, "-o audit.html"}},
                    .out = "a page with the pictures"},
    [VERB_REPORT] = {.first = {{OPTION_OUT, "-o page.html"},
                               {OPTION_DIM, "--dim 1e6"},
                               {OPTION_MECHANISM, "--mechanism counts.dpmf"},
                               {OPTION_RANGE, "--range 1:31,32:59"},
                               {OPTION_LEVEL, "--level 0.95"}},
                     .out = "the page (required without --json)"},
    [VERB_HELP] = {.first = {{OPTION_FORMAT, "help --format man | man -l -"}}},
};

const option_group option_groups[] = {
    {OPTION_STEPS, "the run"},
    {OPTION_FAMILY, "the mechanism"},
    {OPTION_EPSILON, "privacy"},
    {OPTION_SENSITIVITY, "computation"},
    {OPTION_DIM, "costs and candidates"},
    {OPTION_ROWS, "rows and lines"},
    {OPTION_MECHANISM, "questions about a released stream"},
    {OPTION_KEY_FILE, "keys, state and ledgers"},
    {OPTION_DATA, "data and training"},
    {OPTION_THREADS, "general"},
};
const int option_group_total = sizeof option_groups / sizeof *option_groups;

const char tour_text[] = "dpmf: correlated-noise mechanisms for differential privacy\n"
                         "\n"
                         "  The best noise for a training run, with its guarantee:\n"
                         "    dpmf design --steps 2000 --epochs 10 --epsilon 8 --delta 1e-6 -o run.dpmf\n"
                         "  Check every number in the file, and write a report page:\n"
                         "    dpmf verify run.dpmf\n"
                         "    dpmf report run.dpmf -o run.html\n"
                         "  The noise itself, or a small model trained with it:\n"
                         "    dpmf noise run.dpmf --dim 1e6 --rows 0:100 --key-file run.key -o rows.f32\n"
                         "    dpmf train run.dpmf --data DIR --key-file run.key -o weights.npy\n"
                         "  The privacy of your present training, and private running counts:\n"
                         "    dpmf account --sigma 0.8 --delta 1e-5 --sampling poisson:0.01 --compositions 10000\n"
                         "    dpmf count counts.dpmf --key-file count.key < daily.txt\n"
                         "\n"
                         "dpmf help lists all verbs, dpmf help VERB explains one.\n";
