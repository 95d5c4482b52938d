/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of families: sound in itself, with a function for everything that it shows, and true: every family can be made as its row
 * says, is refused where the row says so, and comes back from a mechanism file.
 */
#include "support/check.h"
#include "support/patterns_files.h"

#include "optimize/optimize.h"
#include "strategy/strategy.h"

#include <stdio.h>
#include <string.h>

#define check_refused(call, part)                                                                                      \
    do {                                                                                                               \
        check_fails(DPMF_ERROR_ARGUMENT, call);                                                                        \
        check_message(part);                                                                                           \
    } while (0)

enum { COUNT = 22, STEPS = 16 };

/* ---- the table alone ---- */

static int among(const dpmf_family *table, const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(table[i].name, name) == 0) return 1;
    return 0;
}

/* Are the places 1, 2, ... up to as many as there are? */
static int places_follow(const dpmf_family *table, size_t field) {
    int most = 0, count = 0;
    for (int i = 0; i < COUNT; i++) {
        int place = *(const int *)((const char *)&table[i] + field);
        if (place > most) most = place;
        count += place != 0;
        for (int j = 0; j < i && place != 0; j++)
            if (*(const int *)((const char *)&table[j] + field) == place) return 0;
    }
    return most == count;
}

/* The mistake in one row, or NULL. */
static const char *complain_of(const dpmf_family *table, int i) {
    const dpmf_family *f = &table[i];
    if (f->name == NULL || f->name[0] == 0 || f->help == NULL || f->help[0] == 0) return "a row without name or help";
    if (f->help[strlen(f->help) - 1] == '.' || f->listed == NULL || f->listed[0] == 0) return "help";
    for (int j = 0; j < i; j++)
        if (strcmp(table[j].name, f->name) == 0) return "two of one name";
    const strategy_family *row = &families_table.family[i];
    if ((f->optimized != 0) != (row->optimize != NULL)) return "optimize knows better";
    if (f->closed_form != (row->create != NULL)) return "a closed form that there is not";
    if (f->optimized == 0 && (f->optimize_bands || f->optimize_buffers || f->optimize_chooses ||
                              f->optimize_normalize || f->optimize_constraint || f->optimize_variants))
        return "options of a search that there is not";
    if (f->optimize_chooses && f->optimize_buffers == 0) return "nothing to choose";
    if (f->inverse && !f->bands) return "diagonals of the inverse, and none";
    if (f->nu && !f->closed_form) return "nu without a closed form";
    if (!f->closed_form && f->parameters == NULL && f->optimized == 0) return "no way to make one";
    if (f->restart != NULL && !among(table, f->restart)) return "a decoder's family that there is not";
    if (f->optimal != NULL && !among(table, f->optimal)) return "a decoder's family that there is not";
    if ((f->restart != NULL || f->optimal != NULL) && !f->closed_form) return "decoders without a closed form";
    return NULL;
}

static dpmf_family *named(dpmf_family *table, const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    fail_msg("no family %s", name);
    return NULL;
}

static const char *complain(const dpmf_family *table) {
    for (int i = 0; i < COUNT; i++)
        if (complain_of(table, i) != NULL) return complain_of(table, i);
    if (!places_follow(table, offsetof(dpmf_family, optimized))) return "places of optimize";
    if (!places_follow(table, offsetof(dpmf_family, designed))) return "places of design";
    return NULL;
}

static void copy_table(dpmf_family *table) {
    assert_null(dpmf_family_info(COUNT));
    for (int i = 0; i < COUNT; i++)
        table[i] = *dpmf_family_info(i);
}

static void test_the_table_is_sound(void **unused) {
    dpmf_family table[COUNT];
    (void)unused;
    copy_table(table);
    const char *complaint = complain(table);
    if (complaint != NULL) fail_msg("%s", complaint);
    assert_null(dpmf_family_info(-1));
    assert_null(dpmf_family_info(COUNT));
}

static void test_planted_mistakes_are_found(void **unused) {
    dpmf_family table[COUNT];
    (void)unused;
#define PLANT(change, message)                                                                                         \
    do {                                                                                                               \
        copy_table(table);                                                                                             \
        change;                                                                                                        \
        assert_non_null(complain(table));                                                                              \
        assert_string_equal(complain(table), message);                                                                 \
    } while (0)
    PLANT(table[3].name = table[2].name, "two of one name");
    PLANT(table[5].help = "", "a row without name or help");
    PLANT(named(table, DPMF_FAMILY_TREE)->optimized = 9, "optimize knows better");
    PLANT(named(table, DPMF_FAMILY_BLT)->optimized = 0, "optimize knows better");
    PLANT(named(table, DPMF_FAMILY_FFT)->optimize_bands = 1, "options of a search that there is not");
    PLANT(named(table, DPMF_FAMILY_DENSE)->optimize_chooses = 1, "nothing to choose");
    PLANT(named(table, DPMF_FAMILY_FFT)->optimal = "fft-best", "a decoder's family that there is not");
    PLANT(named(table, DPMF_FAMILY_WORKLOAD)->closed_form = 0, "a closed form that there is not");
    PLANT(named(table, DPMF_FAMILY_BANDED)->closed_form = 1, "a closed form that there is not");
    PLANT(named(table, DPMF_FAMILY_TVBLT)->optimized = 3, "places of optimize");
    PLANT(table[0].designed = 0, "places of design");
#undef PLANT
}

/* ---- the table compared with the families ---- */

/* The mechanism file gives it back unchanged. */
static void check_file(const dpmf_workload *a, const dpmf_strategy *c) {
    dpmf_mechanism *m = NULL, *back = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    check_ok(dpmf_mechanism_create(a, NULL, c, NULL, &m));
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    check_ok(dpmf_mechanism_decode(bytes, size, &back));
    assert_string_equal(dpmf_strategy_get(dpmf_mechanism_get(back).strategy).family, dpmf_strategy_get(c).family);
    assert_string_equal(dpmf_mechanism_get(back).digest, dpmf_mechanism_get(m).digest);
    dpmf_bytes_free(bytes);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(back);
}

static void check_closed_form(const dpmf_family *f, const dpmf_workload *a) {
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *c = NULL;
    o.bands = f->bands ? 4 : 0;
    o.nu = f->nu ? 0.125 : 0;
    check_ok(dpmf_strategy_create(f->name, a, &o, &c));
    assert_string_equal(dpmf_strategy_get(c).family, f->name);
    if (f->bands) assert_int_equal(f->inverse ? dpmf_strategy_get(c).buffers + 1 : dpmf_strategy_get(c).bands, 4);
    check_file(a, c);
    dpmf_strategy_free(c);
    c = NULL;
    o.bands = f->bands ? 0 : 4; /* options that it takes are needed, others are refused */
    check_refused(dpmf_strategy_create(f->name, a, &o, &c), "bands");
    o.bands = f->bands ? 4 : 0;
    o.nu = f->nu ? 1 : 0.5;
    check_refused(dpmf_strategy_create(f->name, a, &o, &c), "nu");
    assert_null(c);
}

static void check_decoders(const dpmf_family *f, const dpmf_workload *a) {
    const char *const names[] = {
        [DPMF_DECODER_DEFAULT] = f->name, [DPMF_DECODER_RESTART] = f->restart, [DPMF_DECODER_OPTIMAL] = f->optimal};
    for (int decoder = DPMF_DECODER_DEFAULT; decoder <= DPMF_DECODER_OPTIMAL; decoder++) {
        dpmf_strategy_options o = dpmf_strategy_options_defaults();
        dpmf_strategy *c = NULL;
        o.decoder = (dpmf_decoder)decoder;
        if (names[decoder] == NULL) {
            check_refused(dpmf_strategy_create(f->name, a, &o, &c), "decoder");
            continue;
        }
        check_ok(dpmf_strategy_create(f->name, a, &o, &c));
        assert_string_equal(dpmf_strategy_get(c).family, names[decoder]);
        dpmf_strategy_free(c);
    }
}

static void test_every_closed_form_is_made_as_its_row_says(void **unused) {
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", STEPS, &a));
    for (int i = 0; i < COUNT; i++) {
        const dpmf_family *f = dpmf_family_info(i);
        if (f->closed_form)
            check_closed_form(f, a);
        else
            check_refused(dpmf_strategy_create(f->name, a, NULL, &c), "without parameters: ");
        if (f->restart != NULL || f->optimal != NULL) check_decoders(f, a);
    }
    check_refused(dpmf_strategy_create("no-such", a, NULL, &c), "identity, workload, toeplitz, bsr");
    dpmf_workload_free(a);
}

static void test_every_other_is_optimized_as_its_row_says(void **unused) {
    dpmf_workload *a = NULL;
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", STEPS, &a));
    for (int i = 0; i < COUNT; i++) {
        const dpmf_family *f = dpmf_family_info(i);
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        dpmf_optimization found;
        dpmf_strategy *c = NULL;
        o.bands = f->optimize_bands ? 2 : 0;
        o.buffers = f->optimize_buffers > 0 ? 2 : 0;
        o.tolerance = 1e-3;
        if (f->optimized == 0) {
            check_refused(dpmf_optimize(f->name, a, NULL, &o, &c, &found), "dense, tvblt, banded, toeplitz");
            continue;
        }
        check_ok(dpmf_optimize(f->name, a, NULL, &o, &c, &found));
        assert_string_equal(dpmf_strategy_get(c).family, f->name);
        check_file(a, c);
        dpmf_strategy_free(c);
        c = NULL;
        o.buffers = f->optimize_buffers + 1;
        check_refused(dpmf_optimize(f->name, a, NULL, &o, &c, &found), "buffers");
        o.buffers = 0;
        if (f->optimize_buffers > 0 && !f->optimize_chooses)
            check_refused(dpmf_optimize(f->name, a, NULL, &o, &c, &found), "buffers");
        o.bands = f->optimize_bands ? 0 : 2;
        check_refused(dpmf_optimize(f->name, a, NULL, &o, &c, &found), "bands");
        assert_null(c);
    }
    dpmf_workload_free(a);
}

/* ---- lists, participations, samplings ---- */

static int first_and_last(const dpmf_family *f) {
    return strcmp(f->name, DPMF_FAMILY_IDENTITY) == 0 ? 2 : strcmp(f->name, DPMF_FAMILY_FFT_OPT) == 0 ? 1 : 0;
}

static int none(const dpmf_family *f) {
    (void)f;
    return 0;
}

static int tied(const dpmf_family *f) {
    return f->optimize_bands;
}

static void test_lists_are_in_the_order_asked_for(void **unused) {
    char list[STRATEGY_FAMILY_LIST];
    (void)unused;
    assert_string_equal(strategy_family_list(first_and_last, " and ", list), "fft-opt and identity");
    assert_string_equal(strategy_family_list(none, " and ", list), "");
    assert_string_equal(strategy_family_list(tied, ", ", list), "banded, banded-toeplitz, bisr, taps, lowrank");
    assert_string_equal(strategy_family_find("tree-online", 4)->shown.name, DPMF_FAMILY_TREE);
    assert_null(strategy_family_find("tre", 3));
}

static void test_forms_are_of_kinds_that_can_be_read(void **unused) {
    int participations = 0, samplings = 0;
    (void)unused;
    while (dpmf_participation_form((dpmf_participation_kind)participations) != NULL) {
        char text[64];
        dpmf_participation *p = NULL;
        const char *form = dpmf_participation_form((dpmf_participation_kind)participations);
        snprintf(text, sizeof text, "%.*s%s", (int)strcspn(form, ":"), form, strchr(form, ':') != NULL ? ":2,8" : "");
        if (participations == DPMF_PARTICIPATION_PATTERNS)
            p = patterns_of_text("0 1\n", STEPS);
        else
            check_ok(dpmf_participation_parse(text, STEPS, &p));
        assert_int_equal(dpmf_participation_get(p).kind, participations);
        assert_int_equal(dpmf_participation_get(p).is_single, participations == DPMF_PARTICIPATION_SINGLE);
        dpmf_participation_free(p);
        participations++;
    }
    while (dpmf_sampling_describe((dpmf_sampling_kind)samplings) != NULL) {
        const char *form = dpmf_sampling_describe((dpmf_sampling_kind)samplings)->form, *values = strchr(form, ':');
        char text[64];
        dpmf_sampling s;
        snprintf(text, sizeof text, "%.*s%s", (int)strcspn(form, ":"), form,
                 values == NULL                ? ""
                 : strchr(values, ',') != NULL ? values[1] == 'K' || values[1] == 'M' ? ":1,4" : ":0.5,4"
                                               : ":1");
        check_ok(dpmf_sampling_parse(text, &s));
        assert_int_equal(s.kind, samplings);
        assert_int_equal(dpmf_sampling_is_none(&s), samplings == DPMF_SAMPLING_NONE);
        samplings++;
    }
    assert_int_equal(participations, DPMF_PARTICIPATION_PATTERNS + 1);
    assert_int_equal(samplings, DPMF_SAMPLING_FIXED_REPLACE + 1);
    assert_null(dpmf_participation_form((dpmf_participation_kind)-1));
    assert_null(dpmf_sampling_describe((dpmf_sampling_kind)-1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_is_sound),
        cmocka_unit_test(test_planted_mistakes_are_found),
        cmocka_unit_test(test_every_closed_form_is_made_as_its_row_says),
        cmocka_unit_test(test_every_other_is_optimized_as_its_row_says),
        cmocka_unit_test(test_lists_are_in_the_order_asked_for),
        cmocka_unit_test(test_forms_are_of_kinds_that_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
