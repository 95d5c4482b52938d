/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The families: one row each, from which every list of them, every error text about them, the help and the completion of
 * the command line and the Python package come. A row has what the family is called, what it takes, and how it is made from
 * a workload and optimized; the classes have how it is read from a mechanism file. What an object of the family can do is in
 * its table of operations (strategy/strategy.h), in the family's folder. No other file names the families.
 */
#include "families/families.h"
#include "families/banded/banded.h"
#include "families/blt/blt.h"
#include "families/blttree/blttree.h"
#include "families/lowrank/lowrank.h"
#include "families/replay/replay.h"
#include "families/taps/taps.h"
#include "families/toeplitz/toeplitz.h"
#include "families/tree/tree.h"
#include "families/tvblt/tvblt.h"
#include "families/unbounded/unbounded.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

/* ---- from a workload; bands, nu and stamps are checked before ---- */

static dpmf_status create_identity(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return toeplitz_create_identity(a->steps, out);
}
static dpmf_status create_unbounded(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return unbounded_create(a->steps, out);
}
static dpmf_status create_tree(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    if (o->decoder == DPMF_DECODER_OPTIMAL)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "family " DPMF_FAMILY_TREE ": decoder optimal, accepted restart; the best decoder of a "
                         "tree is the family " DPMF_FAMILY_TREE_FULL);
    return tree_create(TREE_VANILLA, a->steps, o->branching == 0 ? 2 : o->branching, out);
}
static dpmf_status create_tree_online(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    return tree_create(TREE_ONLINE, a->steps, o->branching == 0 ? 2 : o->branching, out);
}
static dpmf_status create_tree_full(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    return tree_create(TREE_FULL, a->steps, o->branching == 0 ? 2 : o->branching, out);
}
static dpmf_status create_smooth_binary(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    return smooth_create(a->steps, o->decoder == DPMF_DECODER_OPTIMAL, out);
}
static dpmf_status create_fft(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return fft_create(a->steps, 0, out);
}
static dpmf_status create_fft_opt(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return fft_create(a->steps, 1, out);
}

static const strategy_family FAMILIES[] = {
    {.shown = {.name = DPMF_FAMILY_IDENTITY,
               .help = "independent noise, C = I (DP-SGD)",
               .listed = "independent noise",
               .closed_form = 1,
               .toeplitz = 1,
               .designed = 1},
     .create = create_identity,
     .candidates = {.turn = 1,
                    .steps_max = INT64_MAX,
                    .samplings = 1u << DPMF_SAMPLING_POISSON | 1u << DPMF_SAMPLING_ALLOCATION,
                    .keeps_schedule = 1,
                    .baseline = "independent noise (DP-SGD)",
                    .separated_as = "independent noise"}},
    {.shown = {.name = DPMF_FAMILY_WORKLOAD,
               .help = "output perturbation, C = A",
               .listed = "output perturbation",
               .closed_form = 1,
               .toeplitz = 1,
               .designed = 2},
     .create = workload_strategy_create,
     .candidates = {.turn = 7}},
    {.shown = {.name = DPMF_FAMILY_DENSE,
               .help = "any matrix, as its lower-triangular form",
               .listed = "any matrix",
               .parameters = "matrix",
               .optimized = 1,
               .optimize_constraint = 1,
               .designed = 15},
     .create_given = dense_create_given,
     .optimize = dense_optimize,
     .candidates = {.turn = 13, .search = dense_candidates, .separated = dense_separated_candidates}},
    {.shown = {.name = DPMF_FAMILY_BANDED,
               .help = "any lower-triangular matrix of few diagonals",
               .listed = "any banded one",
               .parameters = "diagonals",
               .bands = 1,
               .optimized = 3,
               .optimize_bands = 1,
               .optimize_losses = 1,
               .designed = 12},
     .optimize = banded_optimize,
     .candidates = {.turn = 12, .separated = toeplitz_general_separated_candidates}},
    {.shown = {.name = DPMF_FAMILY_TOEPLITZ,
               .help = "Toeplitz: the square root of the workload, given coefficients, or the best ones",
               .listed = "the square root of the workload, given coefficients, or the best ones",
               .parameters = "coefficients",
               .closed_form = 1,
               .nu = 1,
               .toeplitz = 1,
               .optimized = 4,
               .optimize_normalize = 1,
               .optimize_losses = 1,
               .designed = 3,
               .optimize_damped = 1},
     .optimize = toeplitz_optimize,
     .create = toeplitz_create_root,
     .candidates = {.turn = 15,
                    .samplings = 1u << DPMF_SAMPLING_BALLS_IN_BINS,
                    .search = toeplitz_candidates,
                    .separated_as = "square root of the workload"}},
    {.shown = {.name = DPMF_FAMILY_BANDED_TOEPLITZ,
               .help = "Toeplitz of few diagonals, given or the best ones",
               .listed = "banded Toeplitz",
               .parameters = "coefficients",
               .bands = 1,
               .toeplitz = 1,
               .optimized = 5,
               .optimize_bands = 1,
               .optimize_normalize = 1,
               .optimize_variants = 1,
               .optimize_losses = 1,
               .designed = 11},
     .optimize = toeplitz_optimize_variant,
     .candidates = {.turn = 14,
                    .samplings = 1u << DPMF_SAMPLING_BALLS_IN_BINS | 1u << DPMF_SAMPLING_MIN_SEPARATION,
                    .before_others = 1,
                    .search = toeplitz_band_candidates,
                    .search_last = toeplitz_bands_in_time,
                    .separated = toeplitz_separated_candidates}},
    {.shown = {.name = DPMF_FAMILY_BSR,
               .help = "the first diagonals of the square root of the workload",
               .listed = "the first diagonals of the square root",
               .closed_form = 1,
               .bands = 1,
               .toeplitz = 1,
               .designed = 4},
     .create = toeplitz_create_bsr},
    {.shown = {.name = DPMF_FAMILY_BISR,
               .help = "C^-1 Toeplitz of few diagonals: the first of the inverse "
                       "square root of the workload, given or the best ones",
               .listed = "those of its inverse",
               .parameters = "inverse_coefficients",
               .closed_form = 1,
               .bands = 1,
               .inverse = 1,
               .toeplitz = 1,
               .optimized = 6,
               .optimize_bands = 1,
               .optimize_normalize = 1,
               .designed = 5},
     .optimize = toeplitz_optimize_inverse,
     .create = toeplitz_create_bisr,
     .candidates = {.turn = 10, .search = toeplitz_inverse_candidates}},
    {.shown = {.name = DPMF_FAMILY_TAPS,
               .help =
                   "C^-1 of few entries in a row at chosen distances, the best ones: a noise stream that keeps nothing",
               .listed = "few entries of its inverse at chosen distances",
               .optimized = 9,
               .optimize_bands = 1,
               .designed = 17},
     .optimize = taps_optimize,
     .candidates = {.turn = 16, .search = taps_candidates}},
    {.shown = {.name = DPMF_FAMILY_BLT,
               .help = "buffered linear Toeplitz: a noise stream of few buffers",
               .listed = "buffered linear Toeplitz",
               .parameters = "scale and decay",
               .toeplitz = 1,
               .optimized = 7,
               .optimize_buffers = DPMF_BLT_BUFFERS_MAX,
               .optimize_chooses = 1,
               .optimize_normalize = 1,
               .designed = 13,
               .optimize_signs = 1},
     .optimize = blt_optimize,
     .candidates = {.turn = 9,
                    .samplings = 1u << DPMF_SAMPLING_BALLS_IN_BINS,
                    .search = blt_candidates,
                    .separated = blt_separated_candidates}},
    {.shown = {.name = DPMF_FAMILY_BLT_RATIONAL,
               .help = "buffered linear Toeplitz from a formula, for prefix sums: no search",
               .listed = ", from a formula",
               .closed_form = 1,
               .toeplitz = 1,
               .buffers = BLT_MAX},
     .create = blt_rational_create},
    {.shown = {.name = DPMF_FAMILY_BLT_TREE,
               .help = "a tree whose nodes' sums are released by a BLT for each level, for prefix sums",
               .listed = ", as the levels of a tree",
               .closed_form = 1,
               .buffers = BLT_MAX,
               .levels = BLTTREE_LEVELS_MAX},
     .create = blttree_create},
    {.shown =
         {.name = DPMF_FAMILY_RECURRENT,
          .help =
              "Toeplitz of constant-recurrent coefficients u' M^t v: a noise stream of as many buffers as M has rows",
          .listed = "constant-recurrent coefficients",
          .parameters = "matrix, u and v",
          .toeplitz = 1},
     .create_given = recurrent_create_given},
    {.shown = {.name = DPMF_FAMILY_TVBLT,
               .help = "the optimum as a noise stream of few buffers; over several epochs with replayed seeds",
               .listed = "the optimum as a stream with few buffers",
               .optimized = 2,
               .optimize_buffers = TVBLT_NODES_MAX,
               .optimize_shared_seeds = REPLAY_SHARED_MAX,
               .optimize_chooses = 1,
               .designed = 14},
     .optimize = tvblt_optimize,
     .candidates =
         {.turn = 8, .keeps_schedule = 1, .search = tvblt_candidates, .separated = tvblt_separated_candidates}},
    {.shown = {.name = DPMF_FAMILY_UNBOUNDED,
               .help =
                   "a stream without a horizon: few buffers, and at every step near the best for this number of steps",
               .listed = "a stream without a horizon",
               .closed_form = 1},
     .create = create_unbounded},
    {.shown = {.name = DPMF_FAMILY_LOWRANK,
               .help = "C^-1 of few diagonals plus low rank",
               .listed = "banded plus low-rank decoder",
               .optimized = 8,
               .optimize_bands = 1,
               .optimize_buffers = DPMF_LOWRANK_MAX,
               .designed = 16},
     .optimize = lowrank_optimize,
     .candidates = {.turn = 11, .search = lowrank_candidates}},
    {.shown = {.name = DPMF_FAMILY_TREE,
               .help = "tree that sums complete nodes; binary, or of a branching factor",
               .listed = "trees that sum complete nodes",
               .closed_form = 1,
               .branching = 1,
               .restart = DPMF_FAMILY_TREE,
               .designed = 6},
     .create = create_tree,
     .candidates = {.turn = 4}},
    {.shown = {.name = DPMF_FAMILY_TREE_ONLINE,
               .help = "tree that refines each node from below (Honaker)",
               .listed = ", that refine each node from below (Honaker)",
               .closed_form = 1,
               .branching = 1,
               .restart = DPMF_FAMILY_TREE_ONLINE,
               .optimal = DPMF_FAMILY_TREE_FULL,
               .designed = 7},
     .create = create_tree_online,
     .candidates = {.turn = 2, .steps_max = 1 << 20, .separated_as = "tree, estimates from below"}},
    {.shown = {.name = DPMF_FAMILY_TREE_FULL,
               .help = "tree with the best decoder",
               .listed = ", with the best decoder",
               .closed_form = 1,
               .branching = 1,
               .restart = DPMF_FAMILY_TREE_ONLINE,
               .optimal = DPMF_FAMILY_TREE_FULL,
               .designed = 8},
     .create = create_tree_full,
     .candidates = {.turn = 3, .steps_max = 1 << 20, .separated_as = "tree, least-squares estimates"}},
    {.shown = {.name = DPMF_FAMILY_SMOOTH_BINARY,
               .help = "tree over chosen leaves, with the same variance at every step (Andersson and Pagh)",
               .listed = ", over chosen leaves with the same variance at every step",
               .closed_form = 1,
               .restart = DPMF_FAMILY_SMOOTH_BINARY,
               .optimal = DPMF_FAMILY_SMOOTH_BINARY},
     .create = create_smooth_binary},
    {.shown = {.name = DPMF_FAMILY_FFT,
               .help = "the FFT mechanism",
               .listed = "the FFT mechanism",
               .closed_form = 1,
               .restart = DPMF_FAMILY_FFT,
               .optimal = DPMF_FAMILY_FFT_OPT,
               .designed = 9},
     .create = create_fft,
     .candidates = {.turn = 5}},
    {.shown = {.name = DPMF_FAMILY_FFT_OPT,
               .help = "the FFT mechanism with the best decoder",
               .listed = ", and its best decoder",
               .closed_form = 1,
               .restart = DPMF_FAMILY_FFT,
               .optimal = DPMF_FAMILY_FFT_OPT,
               .designed = 10},
     .create = create_fft_opt,
     .candidates = {.turn = 6, .steps_max = 4096}},
};

static const strategy_class CLASSES[] = {
    {"toeplitz", toeplitz_read},
    {"banded", banded_read},
    {"dense", dense_read},
    {"workload", workload_strategy_read},
    {"blt", blt_read},
    {"blt-tree", blttree_read},
    {"recurrent", recurrent_read},
    {"tvblt", tvblt_read},
    {REPLAY_CLASS, replay_read},
    {"unbounded", unbounded_read},
    {"lowrank", lowrank_read},
    {"taps", taps_read},
    {"tree", tree_read},
    {"smooth", smooth_read},
    {"fft", fft_read},
    {"normalized", wrappers_read_normalized},
    {"stamped", wrappers_read_stamped},
};

const strategy_table families_table = {.family = FAMILIES,
                                       .families = sizeof FAMILIES / sizeof FAMILIES[0],
                                       .class = CLASSES,
                                       .classes = sizeof CLASSES / sizeof CLASSES[0],
                                       .identity = toeplitz_create_identity,
                                       .matrix = dpmf_strategy_create_dense,
                                       .bands = dpmf_strategy_create_banded,
                                       .toeplitz = dpmf_strategy_create_toeplitz,
                                       .repeat = dpmf_strategy_create_stamped,
                                       .normalize = dpmf_strategy_create_normalized};
