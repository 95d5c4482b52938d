/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include "options/verbs.h"

#include <stdlib.h>

static int evaluate_and_print(const arguments *given, const problem *p) {
    answer a = {0};
    if (option_given(given, OPTION_PER_STEP)) {
        a.per_step = allocate(dpmf_workload_get(p->workload).steps, sizeof *a.per_step);
        if (a.per_step == NULL) return fail_memory();
    }
    int code = evaluate_problem(given, p, &a);
    if (code == 0) code = print_answer(given, p, &a);
    free(a.per_step);
    return code;
}

int cmd_evaluate(const arguments *given) {
    problem p = {0};
    int code = check_guarantee_options(given);
    if (code == 0 && option_is(given, OPTION_NORMALIZE, "within"))
        code = fail(EXIT_USAGE, "--normalize within is for optimize: evaluate accepts none and after");
    if (code == 0) code = given->operand != NULL ? problem_from_file(given, &p) : problem_from_options(given, &p);
    if (code == 0) code = evaluate_and_print(given, &p);
    problem_free(&p);
    return code;
}
