/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the entries of a ledger into parts of a list: each kind of run is given by its curve. */
#include "account/ledger/ledger.h"

#include "base/memory.h"
#include <math.h>

static dpmf_status fill_capped(const void *of, int reversed, int64_t count, double step, double mass,
                               const dpmf_run *run, double *out) {
    const ledger_blocks *blocks = of;
    (void)mass;
    (void)run;
    for (int64_t i = 0; i < count; i++) {
        out[i] = 0;
        for (int j = 0; j < blocks->count; j++)
            out[i] = fmax(out[i], capped_curve(&blocks->sizes[j], reversed, expm1((double)i * step)));
    }
    return DPMF_OK;
}

static double reach_capped(const void *of, int reversed, double mass) {
    const ledger_blocks *blocks = of;
    double far = 0;
    for (int j = 0; j < blocks->count; j++) {
        const grid_part part = capped_part(&blocks->sizes[j], 1);
        far = fmax(far, part.reach(part.of, reversed, mass));
    }
    return far;
}

static grid_part blocks_part(const account_question *c, ledger_blocks *blocks) {
    const int64_t small = c->units / c->blocks, large = small + (c->units % c->blocks != 0);
    blocks->count = 0;
    for (int64_t size = large; size >= small; size--) {
        /* Where the cap cannot bind, a cap without effect is used: the curve is then that of Poisson sampling. */
        const int64_t cap = c->cap < size ? c->cap : size - 1;
        capped_scheme *s = &blocks->sizes[blocks->count++];
        capped_make(c->probability, c->sigma, cap, size, c->adjacency, s);
        if (c->cap >= size) s->binding = 0;
    }
    return (grid_part){blocks, fill_capped, reach_capped, c->compositions};
}

static dpmf_status add_entry(const account_question *c, ledger_parts *p) {
    ledger_numbers *n = &p->numbers[p->count];
    if (c->picks > 0) {
        TRY(allocation_blocks_create(c, &n->allocation));
        for (int i = 0; i < n->allocation.count; i++)
            p->parts[p->count++] = n->allocation.parts[i];
    } else if (account_cap_binds(c)) {
        p->parts[p->count++] = blocks_part(c, &n->capped);
    } else {
        n->poisson = (grid_poisson){c->probability, 1 / c->sigma, c->adjacency == DPMF_ADJACENCY_REPLACE_ONE};
        p->parts[p->count++] = grid_poisson_part(&n->poisson, c->compositions);
    }
    return DPMF_OK;
}

dpmf_status ledger_parts_create(const dpmf_ledger *ledger, ledger_parts *out) {
    const int64_t most = ALLOCATION_PARTS * ledger->count + 1;
    ledger_parts p = {.most = most};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(most, sizeof *p.parts, "the parts of a ledger", (void **)&p.parts));
    TRY_DONE(base_alloc(most, sizeof *p.numbers, "the numbers of a ledger", (void **)&p.numbers));
    if (ledger->gaussian > 0) {
        p.numbers[0].gaussian.mu = sqrt(ledger->gaussian);
        p.parts[p.count++] = grid_gaussian_part(&p.numbers[0].gaussian, 1);
    }
    for (int64_t i = 0; i < ledger->count; i++)
        TRY_DONE(add_entry(&ledger->entries[i], &p));
    *out = p;
    return DPMF_OK;
done:
    ledger_parts_free(&p);
    return status;
}

void ledger_parts_free(ledger_parts *parts) {
    for (int64_t i = 0; parts->numbers != NULL && i < parts->most; i++)
        allocation_blocks_free(&parts->numbers[i].allocation);
    base_free(parts->parts);
    base_free(parts->numbers);
    *parts = (ledger_parts){0};
}
