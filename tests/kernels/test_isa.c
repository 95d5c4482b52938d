/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of the instruction set: one for all kernels, made once per process, or the one that DPMF_KERNELS names. */
#include "kernels/block/block.h"
#include "kernels/combine/combine.h"
#include "kernels/isa.h"
#include "kernels/ladder/ladder.h"
#include "kernels/multiply/multiply.h"
#include "kernels/seed/seed.h"
#include "kernels/toeplitz/toeplitz.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SETS = KERNELS_ISA_COUNT };
static const char *const names[SETS] = {"avx512", "vaes", "avx2", "ref"}; /* from the widest on */

static int same(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

/* The first set from `from` on whose needs this machine meets, for the seed kernels or for the others. */
static int first_from(int from, int seed) {
    while (seed ? kernels_seed_find(names[from]) == NULL : kernels_ladder_find(names[from]) == NULL)
        from++;
    return from;
}

/* Runs in a process that has not chosen yet: 0 if DPMF_KERNELS = wanted (NULL: not set) gives the right set. */
static int chosen_wrongly(const char *wanted) {
    int from = 0;
    if (wanted != NULL)
        setenv("DPMF_KERNELS", wanted, 1);
    else
        unsetenv("DPMF_KERNELS");
    for (int i = 0; i < SETS; i++)
        if (wanted != NULL && same(wanted, names[i]) && (first_from(i, 0) == i || first_from(i, 1) == i)) from = i;
    const char *name = names[first_from(from, 0)], *seed = names[first_from(from, 1)];
    int right = same(kernels_ladder_get()->name, name) && same(kernels_toeplitz_get()->name, name) &&
                same(kernels_combine_get()->name, name) && same(kernels_multiply_get()->name, name) &&
                same(kernels_block_get()->name, name) && same(kernels_seed_get()->name, seed);
    setenv("DPMF_KERNELS", same(name, "ref") ? "avx2" : "ref", 1); /* too late */
    return !(right && same(kernels_ladder_get()->name, name));
}

static void test_the_environment_chooses_for_all_kernels(void **state) {
    static const char *const wanted[] = {NULL, "ref", "avx2", "vaes", "avx512", "", "avx", "REF", "mmx"};
    (void)state;
    for (int i = 0; i < (int)(sizeof wanted / sizeof *wanted); i++) {
        int how = -1;
        const pid_t child = fork(); /* the choice is made once in a process, and not yet in this one */
        assert_true(child >= 0);
        if (child == 0) _exit(chosen_wrongly(wanted[i]));
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
    }
}

static void test_a_set_is_found_by_its_name_alone(void **state) {
    (void)state;
    for (int i = 0; i < SETS; i++) {
        const kernels_ladder_set *ladder = kernels_ladder_find(names[i]);
        const kernels_block_set *block = kernels_block_find(names[i]);
        assert_int_equal(ladder == NULL, block == NULL);
        if (ladder != NULL) assert_string_equal(ladder->name, names[i]);
        if (block != NULL) assert_string_equal(block->name, names[i]);
    }
    assert_non_null(kernels_ladder_find("ref"));
    assert_non_null(kernels_seed_find("ref"));
    assert_null(kernels_ladder_find(""));
    assert_null(kernels_ladder_find("ref "));
    assert_null(kernels_seed_find("mmx"));
}

static void test_a_place_that_the_build_leaves_out_is_not_found(void **state) {
    (void)state;
    int here;
    const kernels_isa_table alone = {.set[KERNELS_ISA_REF] = &here};
    assert_ptr_equal(kernels_isa_find(&alone, "ref"), &here);
    assert_null(kernels_isa_find(&alone, "avx2"));
    assert_null(kernels_isa_find(&alone, "avx512"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_environment_chooses_for_all_kernels),
        cmocka_unit_test(test_a_set_is_found_by_its_name_alone),
        cmocka_unit_test(test_a_place_that_the_build_leaves_out_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
