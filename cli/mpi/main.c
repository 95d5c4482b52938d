/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpirun -n P dpmf-mpi VERB [OPTION]... [FILE]: dpmf on several processes. `train` uses all of them; any other verb is
 * run by rank 0, as dpmf does.
 *
 * How the processes stay together. Between two exchanges of data there is always one exchange of outcomes
 * (exchange_outcomes), and it is the first thing that a process does which has failed: so it never leaves the others
 * waiting, wherever they are. After an outcome that ends the run nothing is exchanged but the message.
 *
 * What is said goes to stderr, by code that knows nothing of this; it is kept in a file, and the first failing process's
 * is printed by rank 0.
 */
#include "base/atomic_file.h"
#include "dpmf_mpi.h"
#include "ledger.h"
#include "output.h"
#include "train/train.h"

#include <errno.h>
#include <mpi.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTCOME_FAILED, OUTCOME_CANCELLED, OUTCOME_STOPPED, OUTCOME_FINE }; /* the lowest wins */
enum { SAID_MAX = 4000 };

static struct { int rank, ranks; } own_team = {0, 1};

static int stderr_kept = -1;     /* a copy of the real one; -1: nothing is kept back */
static FILE *said;               /* where fd 2 leads meanwhile */
static int ended_by = -1;        /* the rank whose outcome ended the run */
static int ended_code;           /* and its exit code */
static int reduced_in_this_step; /* did the trainer come as far as `reduce`? */

/* ---- outcomes ---- */

static int exchange_outcomes(int outcome, int code) {
    struct {
        int outcome, rank;
    } mine = {outcome, own_team.rank}, first;
    MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    if (first.outcome == OUTCOME_FAILED || first.outcome == OUTCOME_CANCELLED) {
        MPI_Bcast(&code, 1, MPI_INT, first.rank, MPI_COMM_WORLD);
        ended_by = first.rank;
        ended_code = code;
    }
    return first.outcome;
}

static int team_all(int code) {
    if (ended_by >= 0) return ended_code;
    const int outcome = code == 0 ? OUTCOME_FINE : code == EXIT_CANCELLED ? OUTCOME_CANCELLED : OUTCOME_FAILED;
    exchange_outcomes(outcome, code);
    return ended_by >= 0 ? ended_code : 0;
}

/* A step that one process must not take is taken by none; the run may still be kept, so it has not ended yet. */
static dpmf_status share_step(dpmf_status status) {
    const int outcome = status == DPMF_OK                ? OUTCOME_FINE
                        : status == DPMF_ERROR_CANCELLED ? OUTCOME_STOPPED
                                                         : OUTCOME_FAILED;
    switch (exchange_outcomes(outcome, EXIT_UNABLE)) {
    case OUTCOME_FINE:
        return DPMF_OK;
    case OUTCOME_FAILED:
        return status != DPMF_OK ? status : DPMF_ERROR_IO;
    default:
        return DPMF_ERROR_CANCELLED;
    }
}

static dpmf_status team_reduce(void *context, int64_t *sums, int64_t count) {
    const int64_t most = 1 << 28; /* numbers in a call: its count is an int */
    (void)context;
    reduced_in_this_step = 1;
    dpmf_status status = share_step(DPMF_OK);
    for (int64_t at = 0; status == DPMF_OK && at < count; at += most) {
        const int64_t part = count - at < most ? count - at : most;
        MPI_Allreduce(MPI_IN_PLACE, sums + at, (int)part, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    return status;
}

/* After `reduce` all have the same sums, and what is wrong with them is wrong for all. */
static dpmf_status team_step(dpmf_status status) {
    const int shared = reduced_in_this_step;
    reduced_in_this_step = 0;
    return shared ? status : share_step(status);
}

static void team_send(void *bytes, int64_t size) {
    const int64_t most = 1 << 30;
    for (int64_t at = 0; at < size; at += most)
        MPI_Bcast((char *)bytes + at, (int)(size - at < most ? size - at : most), MPI_BYTE, 0, MPI_COMM_WORLD);
}

static uint64_t hash_bytes(const void *bytes, size_t size) { /* FNV-1a: against mistakes, not against enemies */
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}

static int team_same_weights(training *t) {
    uint64_t own = hash_bytes(dpmf_trainer_weights(t->trainer), (size_t)t->dim * sizeof(float)), first = own;
    team_send(&first, sizeof first);
    return team_all(own == first ? 0
                                 : fail(EXIT_UNABLE,
                                        "after step %lld the weights are not those of rank 0: this MPI's "
                                        "sums are not the same everywhere",
                                        (long long)dpmf_trainer_step(t->trainer)));
}

/* ---- what is said ---- */

static void speak_freely(void) {
    if (stderr_kept < 0) return;
    dup2(stderr_kept, STDERR_FILENO);
    close(stderr_kept);
    stderr_kept = -1;
}

/* MPI itself cannot go on: its words must not stay in a file that is lost with the process. */
static void give_up(MPI_Comm *communicator, int *error, ...) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(*error, words, &length);
    speak_freely();
    fail(EXIT_UNABLE, "rank %d: MPI: %s", own_team.rank, words);
    MPI_Abort(*communicator, EXIT_UNABLE);
}

static void team_open(void) {
    MPI_Errhandler handler;
    MPI_Comm_rank(MPI_COMM_WORLD, &own_team.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &own_team.ranks);
    if (MPI_Comm_create_errhandler(give_up, &handler) == MPI_SUCCESS) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        MPI_Errhandler_free(&handler);
    }
    if (own_team.rank != 0 && freopen("/dev/null", "w", stdout) == NULL) close(STDOUT_FILENO);
    said = tmpfile();
    if (said == NULL) return; /* then everybody speaks for itself */
    stderr_kept = dup(STDERR_FILENO);
    if (stderr_kept >= 0 && dup2(fileno(said), STDERR_FILENO) < 0) speak_freely();
}

static void recall(char text[SAID_MAX]) {
    text[0] = '\0';
    if (said == NULL) return;
    fflush(stderr);
    rewind(said);
    text[fread(text, 1, SAID_MAX - 1, said)] = '\0';
    fclose(said);
    said = NULL;
}

/* "dpmf: WORDS" of rank r as "dpmf: rank r: WORDS". */
static void print_said(int from, const char *text) {
    static const char name[] = "dpmf: ";
    const size_t length = sizeof name - 1;
    if (from == 0 || strncmp(text, name, length) != 0)
        fputs(text, stderr);
    else
        fprintf(stderr, "%srank %d: %s", name, from, text + length);
    fflush(stderr);
}

static int team_close(int code) {
    char text[SAID_MAX];
    code = team_all(code);
    const int speaker = ended_by >= 0 ? ended_by : 0;
    speak_freely();
    recall(text);
    if (speaker != 0 && own_team.rank == speaker) MPI_Send(text, SAID_MAX, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    if (speaker != 0 && own_team.rank == 0)
        MPI_Recv(text, SAID_MAX, MPI_CHAR, speaker, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (own_team.rank == 0) print_said(speaker, text);
    return code;
}

/* ---- does everybody run the same? ---- */

/*
 * dpmf-mpi train: does everybody run the same? Processes may be started with different words, or on machines with
 * different files. Mechanism, key, dim and clip are libdpmf_mpi's to compare; here the rest of what the values of a run
 * depend on, as lines "name: value", rank 0's against everybody's. Data are compared by the bytes of their files.
 */

enum { TERMS_MAX = 4096 };

/* ---- the data ---- */

/* Adds a file to the digest; 0 if it cannot be read. */
static int add_file(EVP_MD_CTX *digest, const char *path) {
    unsigned char bytes[1 << 14];
    size_t count = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 0;
    while ((count = fread(bytes, 1, sizeof bytes, file)) > 0)
        EVP_DigestUpdate(digest, bytes, count);
    const int fine = !ferror(file);
    fclose(file);
    return fine;
}

static int add_directory(EVP_MD_CTX *digest, const arguments *given) {
    training_paths files;
    if (training_files(given, false, &files) != 0) return 0;
    for (int i = 0; i < files.count; i++)
        if (!add_file(digest, files.path[i])) return 0;
    return 1;
}

static int digest_data(const training *t, char out[65]) {
    const char *data = t->given->text[OPTION_DATA];
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (digest == NULL) return fail_memory();
    int fine = EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
    if (fine && training_has_directory(t->given))
        fine = add_directory(digest, t->given);
    else if (fine)
        fine = add_file(digest, data);
    if (fine) fine = EVP_DigestFinal_ex(digest, sum, &length) && length == 32;
    EVP_MD_CTX_free(digest);
    for (unsigned int i = 0; fine && i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
    return fine ? 0 : fail(EXIT_UNABLE, "the training data cannot be read a second time");
}

/* ---- the terms ---- */

/* A number of the schedule that depends on all of it. */
static double schedule_sum(const training *t) {
    double sum = 0.0;
    for (int64_t i = 0; t->schedule != NULL && i < t->steps; i++)
        sum += t->schedule[i] * (double)(i + 1);
    return sum;
}

static int write_terms(const training *t, char out[TERMS_MAX]) {
    const dpmf_trainer_options *o = &t->how;
    const char *label = t->given->text[OPTION_LABEL], *user = t->given->text[OPTION_USER];
    char data[65] = "";
    int code = digest_data(t, data);
    if (code != 0) return code;
    int length =
        snprintf(out, TERMS_MAX,
                 "training data: %s\nexamples: %lld\nlabel: %.100s\nuser: %.100s\nunit: %s\nunits: %lld\n"
                 "sampler: %s\nsteps: %lld\nmodel: %lld\nclip: %.17g\nzero-above: %.17g\noptimizer: %d\n"
                 "learning rate: %.17g\nmomentum: %.17g\ndecay: %.17g\nschedule: %.17g\nseed: %llu\n"
                 "noiseless: %d\ncheckpoint: %s\nevery: %lld\ntest curve: %s\n"
                 "features: %.100s\nledger: %s\nzero-above, of a coordinate: %d\nlocal steps: %lld\nlocal rate: %.17g\n"
                 "local batch: %lld\ngamma: %.17g\n",
                 data, (long long)dpmf_dataset_count(t->train), label == NULL ? "" : label, user == NULL ? "" : user,
                 o->by_unit ? "user" : "example", (long long)t->units, dpmf_sampler_get(t->sampler).text,
                 (long long)t->steps, (long long)t->hidden, o->clip, o->zero_above, (int)o->optimizer, o->learning_rate,
                 o->momentum, o->decay, schedule_sum(t), (unsigned long long)o->seed, o->noiseless,
                 option_given(t->given, OPTION_CHECKPOINT) ? "kept" : "none", (long long)t->given->count[OPTION_EVERY],
                 option_given(t->given, OPTION_PUBLIC_TEST_CURVE) ? "kept" : "none",
                 option_text(t->given, OPTION_FEATURES), option_given(t->given, OPTION_LEDGER) ? "kept" : "none",
                 o->zero_largest, (long long)o->local_steps, o->local_rate, (long long)o->local_batch, o->gamma);
    if (length > 0 && length < TERMS_MAX)
        length += snprintf(out + length, (size_t)(TERMS_MAX - length), "constraint: %d %.17g\nregularizer: %d %.17g\n",
                           (int)o->constraint, o->radius, (int)o->regularizer, o->l1);
    return length > 0 && length < TERMS_MAX ? 0 : fail(EXIT_UNABLE, "the names of columns are too long");
}

static int compare_lines(const char *own, const char *first) {
    while (*own != '\0' || *first != '\0') {
        const size_t a = strcspn(own, "\n"), b = strcspn(first, "\n");
        if (a != b || memcmp(own, first, a) != 0)
            return fail(EXIT_USAGE, "not the run of rank 0: '%.*s' here, '%.*s' there", (int)a, own, (int)b, first);
        own += a + (own[a] != '\0');
        first += b + (first[b] != '\0');
    }
    return 0;
}

/* libdpmf_mpi has told everybody who differs, in the same words: rank 0's are enough. */
static int agree_on_noise(const training *t) {
    dpmf_status status = dpmf_mpi_agree(MPI_COMM_WORLD, t->mechanism, t->dim, t->how.clip, t->key, NULL, 0);
    return status == DPMF_OK ? 0 : fail(EXIT_USAGE, "%s", dpmf_mpi_last_error());
}

static int team_agree(training *t) {
    char own[TERMS_MAX] = "", first[TERMS_MAX];
    int code = team_all(agree_on_noise(t));
    if (code == 0) code = team_all(write_terms(t, own));
    if (code != 0) return code;
    memcpy(first, own, sizeof first);
    team_send(first, sizeof first);
    return team_all(compare_lines(own, first));
}

static void team_salt(training *t) {
    team_send(t->salt, sizeof t->salt);
}

/* ---- checkpoints ---- */

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

static int team_save(training *t) {
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

static int team_resume(training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    list found = {-1, 0};
    char shown[SHOWN], first[65];
    /* The digest covers what the terms do not name: features, scales, the kind of release, the numbers themselves. */
    snprintf(first, sizeof first, "%s", dpmf_trainer_digest(t->trainer));
    team_send(first, sizeof first);
    int code = 0;
    if (strcmp(first, dpmf_trainer_digest(t->trainer)) != 0)
        code = fail(EXIT_USAGE, "not the run of rank 0: the data after --scale and --features, or --release, differ");
    code = team_all(code);
    if (code != 0 || path == NULL) return code; /* on all of them: they have agreed on that */
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

/* ---- the mechanism and the key ---- */

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
    int different = fresh, code = own_team.rank == 0 ? took(key_from_options(given, t->key)) : 0;
    code = team_all(code);
    if (code != 0) return code;
    team_send(&different, sizeof different);
    if (own_team.rank != 0 && different != fresh)
        code =
            fail(EXIT_USAGE, "--key-file or --testing-seed is given here but not on rank 0, or on rank 0 but not here");
    else if (own_team.rank != 0 && option_given(given, OPTION_TESTING_SEED))
        code = took(key_from_options(given, t->key));
    else if (own_team.rank != 0 && !fresh)
        code = took(dpmf_key_load(given->text[OPTION_KEY_FILE], 0, t->key));
    code = team_all(code);
    if (code == 0 && fresh) team_send(t->key, sizeof t->key);
    return code;
}

static const training_team *team_training(void) {
    static training_team of;
    of = (training_team){.part = own_team.rank,
                         .parts = own_team.ranks,
                         .reduce = team_reduce,
                         .all = team_all,
                         .step = team_step,
                         .mechanism = get_mechanism,
                         .key = get_key,
                         .agree = team_agree,
                         .salt = team_salt,
                         .save = team_save,
                         .resume = team_resume,
                         .finish = team_same_weights};
    return &of;
}

/* ---- the program ---- */

/* The main of cli/main.c. */
int run_alone(int argc, char **argv);
#define main run_alone
#include "../main.c"
#undef main

int main(int argc, char **argv) {
    int given = 0, code = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    team_open();
    const bool all = argc > 1 && strcmp(argv[1], "train") == 0;
    if (all && own_team.ranks > 1) training_together = team_training();
    if (all || own_team.rank == 0) code = run_alone(argc, argv);
    code = team_close(code);
    MPI_Finalize();
    return code;
}
