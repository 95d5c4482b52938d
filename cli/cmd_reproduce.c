/* SPDX-License-Identifier: Apache-2.0 */
#include "options/verbs.h"
#include "output.h"
#include "progress.h"
#include "reproduce/reproduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse_name(const char *name) {
    char accepted[1200] = "all", shown[SHOWN];
    for (int i = 0; i < published_table_count; i++) {
        size_t used = strlen(accepted);
        snprintf(accepted + used, sizeof accepted - used, ", %s", published_tables[i]->name);
    }
    return fail(EXIT_USAGE, "reproduce %s: accepted: %s", show(name, shown), accepted);
}

static int print_cells(const arguments *given, const cell *cells, int64_t count) {
    text_buffer t = {0};
    double perturb = given->number[OPTION_PERTURB];
    if (option_given(given, OPTION_JSON))
        add_cells_json(&t, cells, count, perturb);
    else if (option_given(given, OPTION_MARKDOWN))
        add_cells_markdown(&t, cells, count, perturb);
    else
        add_cells_text(&t, cells, count, perturb);
    int code = text_print(&t);
    text_free(&t);
    return code;
}

int cmd_reproduce(const arguments *given) {
    const published_table *table = find_published_table(given->operand);
    if (table == NULL && strcmp(given->operand, "all") != 0) return refuse_name(given->operand);
    if (option_given(given, OPTION_JSON) && option_given(given, OPTION_MARKDOWN))
        return fail(EXIT_USAGE, "reproduce takes only one of --json and --markdown");
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* until text_print */
    int64_t count = count_cells(table);
    cell *cells = allocate(count, sizeof *cells);
    if (cells == NULL) return fail_memory();
    int code = compute_cells(table, given->number[OPTION_PERTURB], (int)given->count[OPTION_THREADS], cells);
    if (code == 0) code = print_cells(given, cells, count);
    if (code == 0 && !all_agree(cells, count)) code = EXIT_NEGATIVE;
    free(cells);
    return code;
}
