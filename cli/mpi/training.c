/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf-mpi train: the mechanism and the key that all share, and the table of what a process does otherwise. */
#include "team.h"

#include "output.h"

#include <stdlib.h>

static int took(dpmf_status status) {
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

/* Rank 0's mechanism, bit for bit: a design looks at the clock, and two of them may differ. */
static int share_mechanism(training *t) {
    uint8_t *bytes = NULL, *received = NULL;
    size_t size = 0;
    int code = own_team.rank == 0 ? took(dpmf_mechanism_encode(t->mechanism, &bytes, &size)) : 0;
    int64_t count = (int64_t)size;
    code = team_all(code);
    if (code != 0) goto done;
    team_send(&count, sizeof count);
    if (own_team.rank != 0) {
        received = malloc((size_t)count);
        if (received == NULL) code = fail_memory();
    }
    code = team_all(code);
    if (code != 0) goto done;
    team_send(own_team.rank == 0 ? bytes : received, count);
    if (own_team.rank != 0) {
        code = took(dpmf_mechanism_decode(received, (size_t)count, &t->own));
        t->mechanism = t->own;
    }
    code = team_all(code);
done:
    if (bytes != NULL) dpmf_bytes_free(bytes);
    free(received);
    return code;
}

/* A FILE is read by all, each its own, and compared later. */
static int get_mechanism(training *t) {
    const bool designed = t->given->operand == NULL && !option_given(t->given, OPTION_NOISELESS);
    if (!designed || own_team.rank == 0) {
        const int code = team_all(training_mechanism(t));
        return code == 0 && designed ? share_mechanism(t) : code;
    }
    int code = training_plan(t);
    if (code == 0) code = training_workload(t);
    code = team_all(code);
    return code == 0 ? share_mechanism(t) : code;
}

/* Rank 0 first: a key file that is missing is made once. A fresh key goes over the wire, as the sums of clipped gradients
 * do, which are no less secret. */
static int get_key(training *t) {
    const arguments *given = t->given;
    const bool fresh = !option_given(given, OPTION_KEY_FILE) && !option_given(given, OPTION_TESTING_SEED);
    int different = fresh, code = own_team.rank == 0 ? took(training_key(t, t->key)) : 0;
    code = team_all(code);
    if (code != 0) return code;
    team_send(&different, sizeof different);
    if (own_team.rank != 0 && different != fresh)
        code =
            fail(EXIT_USAGE, "--key-file or --testing-seed is given here but not on rank 0, or on rank 0 but not here");
    else if (own_team.rank != 0 && option_given(given, OPTION_TESTING_SEED))
        code = took(training_key(t, t->key));
    else if (own_team.rank != 0 && !fresh)
        code = took(dpmf_key_load(given->text[OPTION_KEY_FILE], 0, t->key));
    code = team_all(code);
    if (code == 0 && fresh) team_send(t->key, sizeof t->key);
    return code;
}

const training_team *team_training(void) {
    static training_team of;
    of = (training_team){.part = own_team.rank,
                         .parts = own_team.ranks,
                         .reduce = team_reduce,
                         .all = team_all,
                         .step = team_step,
                         .mechanism = get_mechanism,
                         .key = get_key,
                         .agree = team_agree,
                         .save = team_save,
                         .resume = team_resume,
                         .finish = team_same_weights};
    return &of;
}
