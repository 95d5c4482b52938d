/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The families: one row each, from which every list of them, every error text about them, the help and the completion of
 * the command line and the Python package come. A row says what the family is called, what it takes, and how it is made
 * from a workload and read from a mechanism file; who optimizes it is in optimize/optimize.c, by the same numbers.
 */
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- from a workload; bands, nu and stamps are checked before ---- */

static dpmf_status create_identity(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return toeplitz_create_identity(dpmf_workload_steps(a), out);
}
static dpmf_status create_workload(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return workload_strategy_create(a, out);
}
static dpmf_status create_root(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    return toeplitz_create_root(a, o->nu, out);
}
static dpmf_status create_bsr(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    return toeplitz_create_bsr(a, o->bands, out);
}
static dpmf_status create_bisr(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    return toeplitz_create_bisr(a, o->bands, out);
}
static dpmf_status create_unbounded(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return unbounded_create(dpmf_workload_steps(a), out);
}
static dpmf_status create_tree(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    if (o->decoder == DPMF_DECODER_OPTIMAL)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "family " DPMF_FAMILY_TREE ": decoder optimal, accepted restart; the best decoder of a "
                         "tree is the family " DPMF_FAMILY_TREE_FULL);
    return tree_create(TREE_VANILLA, dpmf_workload_steps(a), out);
}
static dpmf_status create_tree_online(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return tree_create(TREE_ONLINE, dpmf_workload_steps(a), out);
}
static dpmf_status create_tree_full(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return tree_create(TREE_FULL, dpmf_workload_steps(a), out);
}
static dpmf_status create_fft(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return fft_create(dpmf_workload_steps(a), 0, out);
}
static dpmf_status create_fft_opt(const dpmf_workload *a, const dpmf_strategy_options *o, dpmf_strategy **out) {
    (void)o;
    return fft_create(dpmf_workload_steps(a), 1, out);
}

/* ---- the table ---- */

/* `class_name`: that of the family's table of operations; `read` makes any strategy of the class from a file. */
typedef struct family_row {
    dpmf_family shown;
    dpmf_status (*create)(const dpmf_workload *block, const dpmf_strategy_options *o, dpmf_strategy **out);
    const char *class_name;
    strategy_reader read;
    const char *other_class; /* NULL, or a second class of the family */
    strategy_reader read_other;
} family_row;

static const family_row TABLE[] = {
    [STRATEGY_FAMILY_IDENTITY] = {.shown = {.name = DPMF_FAMILY_IDENTITY,
                                            .help = "independent noise, C = I (DP-SGD)",
                                            .listed = "independent noise",
                                            .closed_form = 1,
                                            .toeplitz = 1,
                                            .designed = 1},
                                  .create = create_identity,
                                  .class_name = "toeplitz",
                                  .read = toeplitz_read},
    [STRATEGY_FAMILY_WORKLOAD] = {.shown = {.name = DPMF_FAMILY_WORKLOAD,
                                            .help = "output perturbation, C = A",
                                            .listed = "output perturbation",
                                            .closed_form = 1,
                                            .toeplitz = 1,
                                            .designed = 2},
                                  .create = create_workload,
                                  .class_name = "workload",
                                  .read = workload_strategy_read},
    [STRATEGY_FAMILY_DENSE] = {.shown = {.name = DPMF_FAMILY_DENSE,
                                         .help = "any lower-triangular matrix",
                                         .listed = "any matrix",
                                         .parameters = "matrix",
                                         .optimized = 1,
                                         .optimize_constraint = 1,
                                         .designed = 15},
                               .class_name = "dense",
                               .read = dense_read},
    [STRATEGY_FAMILY_BANDED] = {.shown = {.name = DPMF_FAMILY_BANDED,
                                          .help = "any lower-triangular matrix of few diagonals",
                                          .listed = "any banded one",
                                          .parameters = "diagonals",
                                          .bands = 1,
                                          .optimized = 3,
                                          .optimize_bands = 1,
                                          .designed = 12},
                                .class_name = "banded",
                                .read = banded_read},
    [STRATEGY_FAMILY_TOEPLITZ] = {.shown = {.name = DPMF_FAMILY_TOEPLITZ,
                                            .help = "Toeplitz: the square root of the workload, given "
                                                    "coefficients, or the best ones",
                                            .listed = "the square root of the workload, given coefficients, or "
                                                      "the best ones",
                                            .parameters = "coefficients",
                                            .closed_form = 1,
                                            .nu = 1,
                                            .toeplitz = 1,
                                            .optimized = 4,
                                            .optimize_normalize = 1,
                                            .designed = 3},
                                  .create = create_root,
                                  .class_name = "toeplitz",
                                  .read = toeplitz_read},
    [STRATEGY_FAMILY_BANDED_TOEPLITZ] = {.shown = {.name = DPMF_FAMILY_BANDED_TOEPLITZ,
                                                   .help = "Toeplitz of few diagonals, given or the best ones",
                                                   .listed = "banded Toeplitz",
                                                   .parameters = "coefficients",
                                                   .bands = 1,
                                                   .toeplitz = 1,
                                                   .optimized = 5,
                                                   .optimize_bands = 1,
                                                   .optimize_normalize = 1,
                                                   .optimize_variants = 1,
                                                   .designed = 11},
                                         .class_name = "toeplitz",
                                         .read = toeplitz_read},
    [STRATEGY_FAMILY_BSR] = {.shown = {.name = DPMF_FAMILY_BSR,
                                       .help = "the first diagonals of the square root of the workload",
                                       .listed = "the first diagonals of the square root",
                                       .closed_form = 1,
                                       .bands = 1,
                                       .toeplitz = 1,
                                       .designed = 4},
                             .create = create_bsr,
                             .class_name = "toeplitz",
                             .read = toeplitz_read},
    [STRATEGY_FAMILY_BISR] = {.shown = {.name = DPMF_FAMILY_BISR,
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
                              .create = create_bisr,
                              .class_name = "toeplitz",
                              .read = toeplitz_read},
    [STRATEGY_FAMILY_BLT] = {.shown = {.name = DPMF_FAMILY_BLT,
                                       .help = "buffered linear Toeplitz: a noise stream of few buffers",
                                       .listed = "buffered linear Toeplitz",
                                       .parameters = "scale and decay",
                                       .toeplitz = 1,
                                       .optimized = 7,
                                       .optimize_buffers = DPMF_BLT_BUFFERS_MAX,
                                       .optimize_chooses = 1,
                                       .optimize_normalize = 1,
                                       .designed = 13},
                             .class_name = "blt",
                             .read = blt_read},
    [STRATEGY_FAMILY_TVBLT] =
        {.shown = {.name = DPMF_FAMILY_TVBLT,
                   .help = "the optimum as a noise stream of few buffers; over several epochs with replayed seeds",
                   .listed = "the optimum as a stream with few buffers",
                   .optimized = 2,
                   .optimize_buffers = TVBLT_NODES_MAX,
                   .optimize_shared_seeds = REPLAY_SHARED_MAX,
                   .optimize_chooses = 1,
                   .designed = 14},
         .class_name = "tvblt",
         .read = tvblt_read,
         .other_class = REPLAY_CLASS,
         .read_other = replay_read},
    [STRATEGY_FAMILY_UNBOUNDED] =
        {.shown =
             {.name = DPMF_FAMILY_UNBOUNDED,
              .help =
                  "a stream without a horizon: few buffers, and at every step near the best for this number of steps",
              .listed = "a stream without a horizon",
              .closed_form = 1},
         .create = create_unbounded,
         .class_name = "unbounded",
         .read = unbounded_read},
    [STRATEGY_FAMILY_LOWRANK] = {.shown = {.name = DPMF_FAMILY_LOWRANK,
                                           .help = "C^-1 of few diagonals plus low rank",
                                           .listed = "banded plus low-rank decoder",
                                           .optimized = 8,
                                           .optimize_bands = 1,
                                           .optimize_buffers = DPMF_LOWRANK_MAX,
                                           .designed = 16},
                                 .class_name = "lowrank",
                                 .read = lowrank_read},
    [STRATEGY_FAMILY_TREE] = {.shown = {.name = DPMF_FAMILY_TREE,
                                        .help = "binary tree that sums complete nodes",
                                        .listed = "binary trees that sum complete nodes",
                                        .closed_form = 1,
                                        .restart = DPMF_FAMILY_TREE,
                                        .designed = 6},
                              .create = create_tree,
                              .class_name = "tree",
                              .read = tree_read},
    [STRATEGY_FAMILY_TREE_ONLINE] = {.shown = {.name = DPMF_FAMILY_TREE_ONLINE,
                                               .help = "binary tree that refines each node from below (Honaker)",
                                               .listed = ", that refine each node from below (Honaker)",
                                               .closed_form = 1,
                                               .restart = DPMF_FAMILY_TREE_ONLINE,
                                               .optimal = DPMF_FAMILY_TREE_FULL,
                                               .designed = 7},
                                     .create = create_tree_online,
                                     .class_name = "tree",
                                     .read = tree_read},
    [STRATEGY_FAMILY_TREE_FULL] = {.shown = {.name = DPMF_FAMILY_TREE_FULL,
                                             .help = "binary tree with the best decoder",
                                             .listed = ", with the best decoder",
                                             .closed_form = 1,
                                             .restart = DPMF_FAMILY_TREE_ONLINE,
                                             .optimal = DPMF_FAMILY_TREE_FULL,
                                             .designed = 8},
                                   .create = create_tree_full,
                                   .class_name = "tree",
                                   .read = tree_read},
    [STRATEGY_FAMILY_FFT] = {.shown = {.name = DPMF_FAMILY_FFT,
                                       .help = "the FFT mechanism",
                                       .listed = "the FFT mechanism",
                                       .closed_form = 1,
                                       .restart = DPMF_FAMILY_FFT,
                                       .optimal = DPMF_FAMILY_FFT_OPT,
                                       .designed = 9},
                             .create = create_fft,
                             .class_name = "fft",
                             .read = fft_read},
    [STRATEGY_FAMILY_FFT_OPT] = {.shown = {.name = DPMF_FAMILY_FFT_OPT,
                                           .help = "the FFT mechanism with the best decoder",
                                           .listed = ", and its best decoder",
                                           .closed_form = 1,
                                           .restart = DPMF_FAMILY_FFT,
                                           .optimal = DPMF_FAMILY_FFT_OPT,
                                           .designed = 10},
                                 .create = create_fft_opt,
                                 .class_name = "fft",
                                 .read = fft_read},
};

_Static_assert(sizeof TABLE / sizeof TABLE[0] == STRATEGY_FAMILY_COUNT, "every family has a row");

/* ---- questions ---- */

int64_t dpmf_family_count(void) {
    return STRATEGY_FAMILY_COUNT;
}

const dpmf_family *dpmf_family_info(int64_t i) {
    return i >= 0 && i < STRATEGY_FAMILY_COUNT ? &TABLE[i].shown : NULL;
}

strategy_family_id strategy_family_find(const char *name, size_t length) {
    int i = 0;
    while (i < STRATEGY_FAMILY_COUNT &&
           (strlen(TABLE[i].shown.name) != length || memcmp(TABLE[i].shown.name, name, length) != 0))
        i++;
    return (strategy_family_id)i;
}

strategy_reader strategy_family_reader(const char *class_name) {
    for (int i = 0; i < STRATEGY_FAMILY_COUNT; i++) {
        const char *other = TABLE[i].other_class;
        if (strcmp(class_name, TABLE[i].class_name) == 0) return TABLE[i].read;
        if (other != NULL && strcmp(class_name, other) == 0) return TABLE[i].read_other;
    }
    return NULL;
}

/* One encoder may have two decoders: the family names the default, the option the other. */
static const family_row *decoded(const family_row *f, dpmf_decoder decoder) {
    const char *name = decoder == DPMF_DECODER_RESTART   ? f->shown.restart
                       : decoder == DPMF_DECODER_OPTIMAL ? f->shown.optimal
                                                         : NULL;
    return name == NULL ? f : &TABLE[strategy_family_find(name, strlen(name))];
}

dpmf_status strategy_family_create(strategy_family_id id, const dpmf_workload *block, const dpmf_strategy_options *o,
                                   dpmf_strategy **out) {
    assert(id < STRATEGY_FAMILY_COUNT && TABLE[id].create != NULL);
    return decoded(&TABLE[id], o->decoder)->create(block, o, out);
}

/* ---- lists ---- */

static int next_place(strategy_family_place place, int after) {
    int next = 0;
    for (int i = 0; i < STRATEGY_FAMILY_COUNT; i++) {
        int at = place(&TABLE[i].shown);
        if (at > after && (next == 0 || at < next)) next = at;
    }
    return next;
}

const char *strategy_family_list(strategy_family_place place, const char *last, char out[STRATEGY_FAMILY_LIST]) {
    const char *name[STRATEGY_FAMILY_COUNT];
    int count = 0, used = 0;
    for (int at = next_place(place, 0); at != 0; at = next_place(place, at))
        for (int i = 0; i < STRATEGY_FAMILY_COUNT; i++)
            if (place(&TABLE[i].shown) == at) name[count++] = TABLE[i].shown.name;
    out[0] = 0;
    for (int i = 0; i < count && used < STRATEGY_FAMILY_LIST; i++)
        used += snprintf(out + used, (size_t)(STRATEGY_FAMILY_LIST - used), "%s%s",
                         i == 0           ? ""
                         : i == count - 1 ? last
                                          : ", ",
                         name[i]);
    assert(used < STRATEGY_FAMILY_LIST);
    return out;
}
