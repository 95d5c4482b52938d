/* SPDX-License-Identifier: Apache-2.0 */
/* A list of different runs on the same data: declarations that its files share. */
#ifndef DPMF_ACCOUNT_LEDGER_H
#define DPMF_ACCOUNT_LEDGER_H

#include "account/allocation/allocation.h"
#include "account/capped/capped.h"
#include "account/grid/curves.h"

struct dpmf_ledger {
    dpmf_adjacency adjacency;
    double gaussian; /* the sum of mu^2 of all that is Gaussian */
    int64_t count, room;
    double budget_epsilon, budget_delta; /* of a ledger on disk; 0: none */
    int64_t runs;                        /* entries of a ledger on disk */
    account_question
        *entries; /* owned: what was run, its steps in `compositions`; no two alike, in an order that does not
                                * depend on that of adding */
};

/* ---- account/ledger/parts.c: its entries as parts of a list ---- */

/* Blocks that the units do not fill equally have two sizes: this is the larger curve of both. */
typedef struct ledger_blocks {
    int count;
    capped_scheme sizes[2];
} ledger_blocks;

typedef struct ledger_numbers {
    grid_gaussian gaussian;
    grid_poisson poisson;
    ledger_blocks capped;
    allocation_blocks allocation;
} ledger_numbers;

typedef struct ledger_parts {
    int count;
    int64_t most;            /* the number that there is room for */
    grid_part *parts;        /* owned */
    ledger_numbers *numbers; /* owned: what the parts borrow */
} ledger_parts;

DPMF_MUST_CHECK dpmf_status ledger_parts_create(const dpmf_ledger *ledger, ledger_parts *out);
void ledger_parts_free(ledger_parts *parts);

#endif
