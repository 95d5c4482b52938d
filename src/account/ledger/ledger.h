/* SPDX-License-Identifier: Apache-2.0 */
/* A list of different runs on the same data: what its files share. */
#ifndef DPMF_ACCOUNT_LEDGER_H
#define DPMF_ACCOUNT_LEDGER_H

#include "account/allocation/allocation.h"
#include "account/capped/capped.h"
#include "account/product/curves.h"

/* What was run, as accounting knows it; compositions counts all of its equals. */
typedef struct dpmf_i_account_ledger_entry {
    dpmf_i_account_composed run;
} dpmf_i_account_ledger_entry;

struct dpmf_ledger {
    dpmf_adjacency adjacency;
    double gaussian; /* the sum of mu^2 of all that is Gaussian */
    int64_t count, room;
    double budget_epsilon, budget_delta;  /* of a ledger on disk; 0: none */
    int64_t runs;                         /* entries of a ledger on disk */
    dpmf_i_account_ledger_entry *entries; /* owned; no two alike, in an order that does not depend on that of adding */
};

/* ---- account/ledger/parts.c: its entries as parts of a list ---- */

/* Two sizes of blocks, where units do not fill them equally: the larger curve of both. */
typedef struct dpmf_i_account_ledger_blocks {
    int count;
    dpmf_i_account_capped_scheme sizes[2];
} dpmf_i_account_ledger_blocks;

typedef struct dpmf_i_account_ledger_numbers {
    dpmf_i_account_product_gaussian gaussian;
    dpmf_i_account_product_poisson poisson;
    dpmf_i_account_ledger_blocks capped;
    dpmf_i_account_allocation_blocks allocation;
} dpmf_i_account_ledger_numbers;

typedef struct dpmf_i_account_ledger_parts {
    int count;
    int64_t most;                           /* for how many there is room */
    dpmf_i_account_product_part *parts;     /* owned */
    dpmf_i_account_ledger_numbers *numbers; /* owned: what the parts borrow */
} dpmf_i_account_ledger_parts;

DPMF_MUST_CHECK dpmf_status dpmf_i_account_ledger_parts_create(const dpmf_ledger *ledger,
                                                               dpmf_i_account_ledger_parts *out);
void dpmf_i_account_ledger_parts_free(dpmf_i_account_ledger_parts *parts);

#endif
