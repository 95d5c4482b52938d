/* SPDX-License-Identifier: Apache-2.0 */
#include "options/tour.h"

const verb_tour tours[VERB_TOTAL] = {
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
