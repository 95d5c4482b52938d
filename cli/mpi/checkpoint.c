/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of a training run on P processes. Rank r at step s writes the trainer's own checkpoint (authenticated, mode
 * 0600, with the noise buffers of its share) to FILE.s.r-of-P. When all are on the disk, rank 0 writes FILE, whole or not
 * at all:
 *
 *     dpmf training by several processes 1
 *     step 120
 *     parts 4
 *
 * and removes those of the step before. A run killed anywhere leaves a FILE whose parts are all there. FILE itself is not
 * authenticated: it can only name checkpoints that are. Going on needs P processes again: each has the noise buffers and
 * the state file of its share.
 */
#include "team.h"

#include "base/atomic_file.h"
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char MAGIC[] = "dpmf training by several processes 1\n";
enum { NAME_MAX_HERE = 4096, LIST_MAX = 200 };

typedef struct list {
    int64_t step, parts; /* step -1: there is none */
} list;

static void part_name(const char *path, int64_t step, int64_t rank, int64_t ranks, char out[NAME_MAX_HERE]) {
    snprintf(out, NAME_MAX_HERE, "%s.%lld.%lld-of-%lld", path, (long long)step, (long long)rank, (long long)ranks);
}

static int read_list(const char *path, list *out) {
    char text[LIST_MAX + 1], shown[SHOWN], more = 0;
    long long step = -1, parts = 0;
    *out = (list){-1, 0};
    FILE *file = fopen(path, "r");
    if (file == NULL && errno == ENOENT) return 0;
    if (file == NULL) return fail(EXIT_UNABLE, "cannot read the checkpoint %s: %s", show(path, shown), strerror(errno));
    text[fread(text, 1, LIST_MAX, file)] = '\0';
    fclose(file);
    const size_t head = sizeof MAGIC - 1;
    if (strncmp(text, MAGIC, head) != 0 || sscanf(text + head, "step %lld\nparts %lld %c", &step, &parts, &more) != 2 ||
        step < 0 || parts < 1)
        return fail(EXIT_UNABLE, "%s is not a checkpoint of a training run on several processes", show(path, shown));
    *out = (list){step, parts};
    return 0;
}

static int write_list(const char *path, int64_t step) {
    char text[LIST_MAX], shown[SHOWN];
    atomic_file file;
    const int length = snprintf(text, sizeof text, "%sstep %lld\nparts %d\n", MAGIC, (long long)step, own_team.ranks);
    const bool ok = atomic_file_open(&file, path, true) && atomic_file_write(&file, text, (size_t)length) &&
                    atomic_file_commit(&file, true);
    atomic_file_close(&file);
    if (ok) return 0;
    return fail(EXIT_UNABLE, "cannot %s the checkpoint %s: %s", file.failed, show(path, shown), file.reason);
}

/* Files that cannot be removed do no harm. */
static void remove_parts(const char *path, list of) {
    char name[NAME_MAX_HERE];
    for (int64_t r = 0; of.step >= 0 && r < of.parts && r < 1 << 20; r++) {
        part_name(path, of.step, r, of.parts, name);
        unlink(name);
    }
}

int team_save(training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    const int64_t step = dpmf_trainer_step(t->trainer);
    char own[NAME_MAX_HERE];
    list before = {-1, 0};
    int code = team_same_weights(t);
    if (code != 0) return code;
    part_name(path, step, own_team.rank, own_team.ranks, own);
    dpmf_status status = dpmf_trainer_save(t->trainer, own);
    code = team_all(status == DPMF_OK ? 0 : fail_status(status, NULL));
    if (code != 0) return code;
    if (own_team.rank == 0) {
        code = read_list(path, &before);
        if (code == 0) code = write_list(path, step);
        if (code == 0 && (before.step != step || before.parts != own_team.ranks)) remove_parts(path, before);
    }
    return team_all(code);
}

static int load(training *t, const char *path, list found) {
    char own[NAME_MAX_HERE], shown[SHOWN];
    if (found.parts != own_team.ranks)
        return fail(EXIT_USAGE,
                    "--checkpoint %s: the run in it used %lld processes and can only be resumed with the same number, "
                    "not with %d",
                    show(path, shown), (long long)found.parts, own_team.ranks);
    part_name(path, found.step, own_team.rank, own_team.ranks, own);
    dpmf_status status = dpmf_trainer_load(t->trainer, own);
    if (status != DPMF_OK) return fail_status(status, NULL);
    t->resumed_at = dpmf_trainer_step(t->trainer);
    if (t->resumed_at == found.step) return 0;
    return fail(EXIT_UNABLE, "--checkpoint %s: its part is for step %lld, not for %lld", show(path, shown),
                (long long)t->resumed_at, (long long)found.step);
}

int team_resume(training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    list found = {-1, 0};
    char shown[SHOWN];
    if (path == NULL) return 0; /* on all of them: they have agreed on that */
    int code = 0;
    if (strlen(path) > NAME_MAX_HERE - 80)
        code = fail(EXIT_USAGE, "--checkpoint %s: the name is too long", show(path, shown));
    else if (own_team.rank == 0)
        code = read_list(path, &found);
    code = team_all(code);
    if (code != 0) return code;
    team_send(&found, sizeof found);
    if (found.step < 0) return 0;
    code = team_all(load(t, path, found));
    return code == 0 ? team_same_weights(t) : code;
}
