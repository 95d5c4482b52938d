/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At most K rows of each user and window, chosen at random, as counts in lines.
 *
 * Notation. A row is (user, line, column). The tag of a user is HMAC-SHA256(tag key, name), cut to 128 bits, so that neither
 * memory nor the state file has names. Each row gets a rank, 64 bits of HMAC-SHA256(coin key, tag, window, ...), and the
 * K rows of the smallest ranks are kept (a bottom-K sample; Efraimidis and Spirakis 2006 with equal weights): every K of a
 * user's rows with the same probability, but for equal ranks, whose probability is below n^2 / 2^65 for n rows. Ranks
 * depend on the user's tag, the window and the row's place among the rows of this user alone. So one user more or less changes
 * nothing of the others, and the counts move by at most K in each window: this is what the noise is made for.
 *
 * Once in a line: the rank belongs to the line, and within it another number chooses the row. A line that was
 * left out or displaced cannot come back, because the largest rank that is kept never grows.
 *
 * Calls after each other. A row that was counted cannot be taken back, so the state file has, for each user of a window that
 * may continue, the rows that were counted; the next call has the rest of K. The file is written before the counts are given
 * to the caller. It has the counts before the last call too, and a keyed hash of its rows: a program that was killed
 * between the file and its output runs again and gets the same counts; the same lines with other rows are refused, since the
 * difference of both outputs would be more than K rows of somebody. The file (little-endian):
 *
 *     magic (16)   SHA-256 of what must agree (32)   first, lines, start, users (8 each)   hash of the rows (32)
 *     users: tag (16)  window, before, after (8 each)      HMAC-SHA256 (32)
 */
#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"
#include "noise/noise.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[17] = "dpmf user limit\n", WHAT[] = "state of the limit";
enum { TAG = 16, MOST = 10000, NAME_MOST = 1 << 20 };
#define CELLS_MOST ((int64_t)1 << 28)

typedef struct kept_row {
    uint64_t rank, within; /* within: of the row among those of its line, where a user counts once in it */
    int64_t cell;          /* line * columns + column */
} kept_row;

typedef struct user {
    uint8_t tag[TAG];
    int64_t window, before, rows; /* rows that were counted before this call; rows of this call, kept or not */
    int64_t kept, room;           /* rows[0] is the heap's largest rank; room 1: it is `one` */
    union {
        kept_row one, *many;
    } at;
    int used; /* 0: the place is free */
} user;

struct dpmf_limiter {
    int64_t at_most, first, lines, columns, start; /* start: the stream's first line */
    int once, again, finished;                     /* again: these lines were limited before */
    int64_t *window;
    char *state;
    int file;
    uint8_t tag_key[32], coin_key[32], mac_key[32], agreed[32], seen[32];
    EVP_MD_CTX *rows; /* of all rows */
    user *table;
    int64_t places, users; /* places: a power of 2 */
};

typedef struct file_head {
    char magic[16];
    uint8_t agreed[32];
    int64_t first, lines, start, users;
    uint8_t seen[32];
} file_head;

typedef struct file_user {
    uint8_t tag[TAG];
    int64_t window, before, after;
} file_user;

_Static_assert(sizeof(file_head) == 112 && sizeof(file_user) == 40, "no padding");

/* ---- users ---- */

static kept_row *rows_of(user *u) {
    return u->room > 1 ? u->at.many : &u->at.one;
}

static user *place_of(user *table, int64_t places, const uint8_t tag[TAG], int64_t window) {
    uint64_t h;
    memcpy(&h, tag, sizeof h); /* keyed already: users cannot choose names that collide */
    h ^= (uint64_t)window * 0x9E3779B97F4A7C15u;
    for (h ^= h >> 32;; h++) {
        user *u = &table[h & (uint64_t)(places - 1)];
        if (!u->used || (u->window == window && memcmp(u->tag, tag, TAG) == 0)) return u;
    }
}

static dpmf_status grow_table(dpmf_limiter *l) {
    if (2 * l->users < l->places) return DPMF_OK;
    const int64_t places = l->places == 0 ? 1024 : 2 * l->places;
    user *table = NULL;
    TRY(base_alloc(places, sizeof *table, "the users of a limit", (void **)&table));
    for (int64_t i = 0; i < l->places; i++)
        if (l->table[i].used) *place_of(table, places, l->table[i].tag, l->table[i].window) = l->table[i];
    crypto_wipe_free(l->table, l->places * (int64_t)sizeof *table);
    l->table = table;
    l->places = places;
    return DPMF_OK;
}

static dpmf_status find_user(dpmf_limiter *l, const uint8_t tag[TAG], int64_t window, user **out) {
    TRY(grow_table(l));
    user *u = place_of(l->table, l->places, tag, window);
    if (!u->used) {
        memcpy(u->tag, tag, TAG);
        u->window = window;
        u->room = 1;
        u->used = 1;
        l->users++;
    }
    *out = u;
    return DPMF_OK;
}

/* ---- the rows that are kept: a heap, the largest rank first ---- */

static void sift_down(kept_row *rows, int64_t count) {
    for (int64_t i = 0;;) {
        int64_t larger = 2 * i + 1;
        if (larger + 1 < count && rows[larger + 1].rank > rows[larger].rank) larger++;
        if (larger >= count || rows[larger].rank <= rows[i].rank) return;
        const kept_row moved = rows[i];
        rows[i] = rows[larger];
        rows[i = larger] = moved;
    }
}

static dpmf_status keep(user *u, kept_row row, int64_t most) {
    kept_row *rows = rows_of(u);
    if (u->kept == most) {
        if (row.rank >= rows[0].rank) return DPMF_OK;
        rows[0] = row;
        sift_down(rows, u->kept);
        return DPMF_OK;
    }
    if (u->kept == u->room) {
        const int64_t room = 2 * u->room < most ? 2 * u->room : most;
        kept_row *more = NULL;
        TRY(base_alloc(room, sizeof *more, "the rows of a user", (void **)&more));
        memcpy(more, rows, (size_t)u->kept * sizeof *more);
        if (u->room > 1) crypto_wipe_free(rows, u->room * (int64_t)sizeof *rows);
        u->at.many = rows = more;
        u->room = room;
    }
    int64_t i = u->kept++;
    for (; i > 0 && rows[(i - 1) / 2].rank < row.rank; i = (i - 1) / 2)
        rows[i] = rows[(i - 1) / 2];
    rows[i] = row;
    return DPMF_OK;
}

static dpmf_status coin(const dpmf_limiter *l, const user *u, int use, int64_t a, int64_t b, uint64_t *out) {
    uint8_t text[1 + TAG + 24], mac[NOISE_MAC];
    text[0] = (uint8_t)use;
    memcpy(text + 1, u->tag, TAG);
    memcpy(text + 1 + TAG, &u->window, 8);
    memcpy(text + 9 + TAG, &a, 8);
    memcpy(text + 17 + TAG, &b, 8);
    TRY(noise_mac(l->coin_key, text, sizeof text, mac));
    memcpy(out, mac, sizeof *out);
    return DPMF_OK;
}

static dpmf_status add_once(dpmf_limiter *l, user *u, int64_t line, int64_t cell, int64_t most) {
    kept_row row = {.cell = cell}, *rows = rows_of(u);
    TRY(coin(l, u, 1, l->first, u->rows, &row.within));
    for (int64_t i = 0; i < u->kept; i++)
        if (rows[i].cell / l->columns == line) {
            if (row.within < rows[i].within) rows[i].cell = cell, rows[i].within = row.within;
            return DPMF_OK;
        }
    TRY(coin(l, u, 2, l->first + line, 0, &row.rank));
    return keep(u, row, most);
}

dpmf_status dpmf_limiter_add(dpmf_limiter *l, const void *name, int64_t size, int64_t line, int64_t column) {
    uint8_t mac[NOISE_MAC];
    user *u = NULL;
    if (l == NULL || name == NULL || size < 1 || size > NAME_MOST)
        return base_fail(DPMF_ERROR_ARGUMENT, "limit: a user's name of %lld bytes, accepted: 1 to %d", (long long)size,
                         NAME_MOST);
    if (l->finished || line < 0 || line >= l->lines || column < 0 || column >= l->columns)
        return base_fail(DPMF_ERROR_ARGUMENT, "limit: line %lld, column %lld, accepted: 0 to %lld and 0 to %lld%s",
                         (long long)line, (long long)column, (long long)l->lines - 1, (long long)l->columns - 1,
                         l->finished ? ", before the end" : "");
    const int64_t cell = line * l->columns + column;
    TRY(noise_mac(l->tag_key, name, (size_t)size, mac));
    if (EVP_DigestUpdate(l->rows, mac, TAG) != 1 || EVP_DigestUpdate(l->rows, &cell, sizeof cell) != 1)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute a SHA-256");
    TRY(find_user(l, mac, l->window[line], &u));
    const int64_t most = l->at_most - u->before;
    kept_row row = {.cell = cell};
    if (most <= 0) return DPMF_OK;
    dpmf_status status = l->once ? add_once(l, u, line, cell, most) : coin(l, u, 0, l->first, u->rows, &row.rank);
    if (status == DPMF_OK && !l->once) status = keep(u, row, most);
    u->rows++;
    return status;
}

/* ---- the state file ---- */

static dpmf_status fail_state(const dpmf_limiter *l, const char *why) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_ARGUMENT, "the %s '%s' %s", WHAT, base_show_path(l->state, shown), why);
}

/* A user may count again after this call: the window continues, or the same lines come again. */
static int must_stay(const dpmf_limiter *l, const user *u) {
    return u->used && (u->before > 0 || (u->window == l->window[l->lines] && u->kept > 0));
}

static dpmf_status write_state(dpmf_limiter *l, int replace) {
    file_head head = {.first = l->first, .lines = l->lines, .start = l->start};
    uint8_t *bytes = NULL;
    int existed = 0;
    dpmf_status status = DPMF_OK;
    memcpy(head.magic, MAGIC, sizeof head.magic);
    memcpy(head.agreed, l->agreed, sizeof head.agreed);
    memcpy(head.seen, l->seen, sizeof head.seen);
    if (!replace) head.lines = 0; /* nothing has been limited yet */
    for (int64_t i = 0; i < l->places; i++)
        head.users += must_stay(l, &l->table[i]);
    const int64_t covered = (int64_t)sizeof head + head.users * (int64_t)sizeof(file_user), size = covered + NOISE_MAC;
    TRY(base_alloc(size, 1, WHAT, (void **)&bytes));
    memcpy(bytes, &head, sizeof head);
    uint8_t *at = bytes + sizeof head;
    for (int64_t i = 0; i < l->places; i++) {
        const user *u = &l->table[i];
        if (!must_stay(l, u)) continue;
        file_user f = {.window = u->window, .before = u->before, .after = u->before + u->kept};
        memcpy(f.tag, u->tag, TAG);
        memcpy(at, &f, sizeof f);
        at += sizeof f;
    }
    TRY_DONE(noise_mac(l->mac_key, bytes, (size_t)covered, bytes + covered));
    status = crypto_secret_create(l->state, WHAT, bytes, (size_t)size, replace, &existed, replace ? NULL : &l->file);
    if (existed && !replace) status = fail_state(l, "was made by another program at this moment");
done:
    crypto_wipe_free(bytes, size);
    return status;
}

static dpmf_status take_users(dpmf_limiter *l, const file_head *head, const uint8_t *bytes) {
    for (int64_t i = 0; i < head->users; i++, bytes += sizeof(file_user)) {
        file_user f;
        user *u = NULL;
        memcpy(&f, bytes, sizeof f);
        const int64_t before = l->again ? f.before : f.after;
        if (before < 1 || f.window < l->window[0]) continue;
        TRY(find_user(l, f.tag, f.window, &u));
        u->before = before;
    }
    return DPMF_OK;
}

static dpmf_status take_state(dpmf_limiter *l, const uint8_t *bytes, int64_t size) {
    file_head head;
    char shown[BASE_SHOWN_PATH];
    if (size < (int64_t)sizeof head + NOISE_MAC || memcmp(bytes, MAGIC, sizeof head.magic) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' is not the %s", base_show_path(l->state, shown), WHAT);
    TRY(noise_mac_check(l->mac_key, WHAT, l->state, bytes, size));
    memcpy(&head, bytes, sizeof head);
    if (head.users < 0 || (size - (int64_t)sizeof head - NOISE_MAC) / (int64_t)sizeof(file_user) != head.users)
        return base_fail(DPMF_ERROR_FORMAT, "the %s '%s' has another size than it says", WHAT,
                         base_show_path(l->state, shown));
    if (head.lines == 0) return DPMF_OK; /* nothing has been counted */
    if (memcmp(head.agreed, l->agreed, sizeof head.agreed) != 0)
        return fail_state(l, "belongs to another limit, window, choice of lines or columns: with others users would be "
                             "counted beyond the limit, and a new stream needs a new key");
    l->start = head.start;
    l->again = l->first == head.first && l->lines == head.lines;
    memcpy(l->seen, head.seen, sizeof l->seen);
    if (!l->again && l->first != head.first + head.lines)
        return fail_state(l, l->first < head.first + head.lines
                                 ? "has counted some of these lines already: counted twice, users would pass the limit "
                                   "(the last range may be asked for again, with the same rows)"
                                 : "ends before these lines: there must be no gap, ask for the lines between too");
    return take_users(l, &head, bytes + sizeof head);
}

/* The lock is on the file, so the name must still be this file's: the program before replaces it. */
static dpmf_status lock_state(const dpmf_limiter *l) {
    struct stat held, named;
    if (flock(l->file, LOCK_EX | LOCK_NB) == 0 && fstat(l->file, &held) == 0 && stat(l->state, &named) == 0 &&
        held.st_ino == named.st_ino && held.st_dev == named.st_dev)
        return DPMF_OK;
    return fail_state(l, "is in use by another program");
}

static dpmf_status open_state(dpmf_limiter *l, int begin) {
    uint8_t *bytes = NULL;
    int64_t size = 0;
    TRY(crypto_secret_open(l->state, WHAT, 1, &l->file, &size));
    if (l->file < 0 && !begin)
        return fail_state(l, "is missing, and its key is not new: users would be counted a second time. If lines were "
                             "counted with this key, restore the file; a new stream needs a new key");
    if (l->file < 0) return write_state(l, 0);
    TRY(lock_state(l));
    TRY(base_alloc(size + 1, 1, WHAT, (void **)&bytes));
    dpmf_status status = crypto_secret_read(l->file, l->state, WHAT, 0, bytes, (size_t)size);
    if (status == DPMF_OK) status = take_state(l, bytes, size);
    crypto_wipe_free(bytes, size + 1);
    return status;
}

/* ---- from start to end ---- */

static dpmf_status check_options(const uint8_t *key, const dpmf_limiter_options *o) {
    if (key == NULL || o == NULL || o->window == NULL || o->state == NULL || *o->state == '\0' || o->binding == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "limit: the key, the windows, the state file or the binding is NULL");
    if (o->at_most < 1 || o->at_most > MOST)
        return base_fail(DPMF_ERROR_ARGUMENT, "limit: at most %lld rows of a user, accepted 1 to %d",
                         (long long)o->at_most, MOST);
    if (o->lines < 1 || o->columns < 1 || o->columns > CELLS_MOST || o->lines > CELLS_MOST / o->columns ||
        o->first < -((int64_t)1 << 53) || o->first > (int64_t)1 << 53)
        return base_fail(DPMF_ERROR_ARGUMENT, "limit: %lld lines of %lld columns, accepted: 1 to %lld counts",
                         (long long)o->lines, (long long)o->columns, (long long)CELLS_MOST);
    for (int64_t i = 0; i < o->lines; i++)
        if (o->window[i] > o->window[i + 1])
            return base_fail(DPMF_ERROR_ARGUMENT, "limit: the window of line %lld is after that of the next",
                             (long long)i);
    return DPMF_OK;
}

static dpmf_status take_options(dpmf_limiter *l, const uint8_t key[32], const dpmf_limiter_options *o) {
    char limits[96];
    l->at_most = o->at_most;
    l->once = o->once != 0;
    l->first = l->start = o->first;
    l->lines = o->lines;
    l->columns = o->columns;
    snprintf(limits, sizeof limits, "%lld %d %lld ", (long long)l->at_most, l->once, (long long)l->columns);
    const base_part parts[] = {{limits, strlen(limits)}, {o->binding, strlen(o->binding)}};
    TRY(base_sha256_bytes(2, parts, l->agreed));
    TRY(crypto_key_derive(key, "dpmf user limit tags 1", "", l->tag_key));
    TRY(crypto_key_derive(key, "dpmf user limit coins 1", "", l->coin_key));
    TRY(crypto_key_derive(key, "dpmf user limit authentication 1", "", l->mac_key));
    TRY(base_copy_text(o->state, &l->state));
    TRY(base_alloc(o->lines + 1, sizeof *l->window, "the windows of a limit", (void **)&l->window));
    memcpy(l->window, o->window, (size_t)(o->lines + 1) * sizeof *l->window);
    l->rows = EVP_MD_CTX_new();
    if (l->rows == NULL || EVP_DigestInit_ex(l->rows, EVP_sha256(), NULL) != 1)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not start a SHA-256");
    return DPMF_OK;
}

dpmf_status dpmf_limiter_create(const uint8_t key[DPMF_KEY_SIZE], const dpmf_limiter_options *options,
                                dpmf_limiter **out) {
    dpmf_limiter *l = NULL;
    TRY(check_options(key, options));
    TRY(base_alloc(1, sizeof *l, "a limit", (void **)&l));
    l->file = -1;
    dpmf_status status = take_options(l, key, options);
    if (status == DPMF_OK) status = open_state(l, options->begin);
    if (status == DPMF_OK)
        *out = l;
    else
        dpmf_limiter_free(l);
    return status;
}

dpmf_status dpmf_limiter_finish(dpmf_limiter *l, int64_t *counts, int *is_first) {
    uint8_t digest[32], seen[NOISE_MAC];
    if (l == NULL || counts == NULL || is_first == NULL || l->finished)
        return base_fail(DPMF_ERROR_ARGUMENT, "limit: counts is NULL, or they were given already");
    if (EVP_DigestFinal_ex(l->rows, digest, NULL) != 1)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute a SHA-256");
    l->finished = 1;
    TRY(noise_mac(l->mac_key, digest, sizeof digest, seen));
    if (l->again && CRYPTO_memcmp(seen, l->seen, sizeof seen) != 0)
        return fail_state(l, "has counted these lines from other rows: counted twice, users would pass the limit. Rows "
                             "that came late cannot be counted");
    memcpy(l->seen, seen, sizeof seen);
    if (!l->again) TRY(write_state(l, 1));
    memset(counts, 0, (size_t)(l->lines * l->columns) * sizeof *counts);
    for (int64_t i = 0; i < l->places; i++) {
        user *u = &l->table[i];
        for (int64_t k = 0; k < u->kept; k++)
            counts[rows_of(u)[k].cell]++;
    }
    *is_first = l->first == l->start;
    return DPMF_OK;
}

void dpmf_limiter_free(dpmf_limiter *l) {
    if (l == NULL) return;
    for (int64_t i = 0; i < l->places; i++)
        if (l->table[i].room > 1) crypto_wipe_free(l->table[i].at.many, l->table[i].room * (int64_t)sizeof(kept_row));
    crypto_wipe_free(l->table, l->places * (int64_t)sizeof *l->table);
    if (l->file >= 0) close(l->file);
    EVP_MD_CTX_free(l->rows);
    base_free(l->window);
    base_free(l->state);
    crypto_wipe_free(l, sizeof *l);
}
