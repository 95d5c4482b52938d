/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: first every file given (all files of a directory), then mutations of them.
 *
 *     fuzz_NAME [--executions N] [--seed S] FILE_OR_DIRECTORY...
 *
 * The same files, N and S give the same inputs on every machine. The last line of the output has the number of inputs;
 * any crash, hang of more than a minute or broken invariant ends the process with another code than 0, and the input
 * that did it is written to ./crash-input.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_MAX = 1 << 20, FILES_MAX = 4096, HANG_SECONDS = 60 };

/* Optional parts: a target's mutator, and the sanitizers' last call. */
#pragma weak LLVMFuzzerCustomMutator
void __sanitizer_set_death_callback(void (*callback)(void));
#pragma weak __sanitizer_set_death_callback

static struct input {
    uint8_t *bytes;
    size_t size;
} files[FILES_MAX];
static size_t file_count;

static uint64_t random_state = 1;
static const uint8_t *current; /* what the target is working on */
static size_t current_size;

static size_t below(size_t bound) {
    return fuzz_below(&random_state, bound);
}

/* ---- crashes ---- */

static void save_current(void) {
    static const char name[] = "crash-input", said[] = "the input that did it is in ./crash-input\n";
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file >= 0 && write(file, current, current_size) == (ssize_t)current_size && close(file) == 0)
        (void)!write(fuzz_messages, said, sizeof said - 1);
}

static void on_signal(int number) {
    save_current();
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_for_crashes(void) {
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    const int sanitized = __sanitizer_set_death_callback != NULL;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (!sanitized || signals[i] == SIGALRM || signals[i] == SIGABRT) signal(signals[i], on_signal);
    }
    if (sanitized) __sanitizer_set_death_callback(save_current);
}

/* A copy without a byte to spare, so that the sanitizers see a read past the end. */
static void run(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    REQUIRE(exact != NULL);
    memcpy(exact, bytes, size);
    current = exact;
    current_size = size;
    alarm(HANG_SECONDS);
    LLVMFuzzerTestOneInput(exact, size);
    alarm(0);
    REQUIRE(memcmp(exact, bytes, size) == 0); /* inputs are only read */
    free(exact);
}

/* ---- mutations ---- */

static size_t insert(uint8_t *data, size_t size, size_t max_size, size_t at, const void *bytes, size_t count) {
    if (count > max_size - size) return size;
    memmove(data + at + count, data + at, size - at);
    memcpy(data + at, bytes, count);
    return size + count;
}

static size_t erase(uint8_t *data, size_t size, size_t at, size_t count) {
    memmove(data + at, data + at + count, size - at - count);
    return size - count;
}

static uint8_t odd_byte(void) {
    static const uint8_t bytes[] = "\0\1\x7f\x80\xff\xc0\xed{}[]():,.\"'\\ \n-+eE09aufl<";
    return below(2) == 0 ? bytes[below(sizeof bytes - 1)] : (uint8_t)below(256);
}

/* Some number in the text becomes another one. */
static size_t edit_number(uint8_t *data, size_t size, size_t max_size) {
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "2",
                                          "3",
                                          "1e3",
                                          "0.5",
                                          "1e999",
                                          "1e-400",
                                          "1e15",
                                          "1e16",
                                          "255",
                                          "256",
                                          "00",
                                          "4294967296",
                                          "2147483648",
                                          "9007199254740992",
                                          "9007199254740993",
                                          "9223372036854775807",
                                          "18446744073709551616",
                                          "0.1000000000000000055511151231257827"};
    size_t at = below(size), end;
    for (size_t i = 0; i < size && (data[at] < '0' || data[at] > '9'); i++)
        at = (at + 1) % size;
    if (data[at] < '0' || data[at] > '9') return size;
    if (below(2) == 0) {
        data[at] = (uint8_t)('0' + (int)below(10));
        return size;
    }
    while (at > 0 && data[at - 1] >= '0' && data[at - 1] <= '9')
        at--;
    for (end = at; end < size && data[end] >= '0' && data[end] <= '9';)
        end++;
    const char *number = numbers[below(sizeof numbers / sizeof numbers[0])];
    size = erase(data, size, at, end - at);
    return insert(data, size, max_size, at, number, strlen(number));
}

/* A little-endian word, often the first of the file: near its value, or an extreme. */
static void edit_word(uint8_t *data, size_t size) {
    static const uint64_t words[] = {0,          1,          7,
                                     8,          0x7fff,     0x8000,
                                     0xffff,     0x7fffffff, 0x80000000,
                                     UINT32_MAX, INT64_MAX,  (uint64_t)1 << 63,
                                     UINT64_MAX, 16 << 20,   (16 << 20) + 8};
    const size_t width = (size_t)1 << below(4);
    if (size < width) return;
    size_t at = below(2) == 0 && size >= 16 ? below(16 - width + 1) : below(size - width + 1);
    uint64_t word = 0;
    memcpy(&word, data + at, width);
    word = below(2) == 0 ? word + below(35) - 17 : words[below(sizeof words / sizeof words[0])];
    memcpy(data + at, &word, width);
}

/* The head of this one and the tail of another. */
static size_t splice(uint8_t *data, size_t size, size_t max_size) {
    if (file_count == 0) return size;
    const struct input *other = &files[below(file_count)];
    size_t head = below(size + 1), from = below(other->size + 1), tail = other->size - from;
    if (head + tail > max_size) return size;
    memcpy(data + head, other->bytes + from, tail);
    return head + tail;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
    uint8_t few[8];
    if (size == 0) {
        few[0] = odd_byte();
        return insert(data, 0, max_size, 0, few, 1);
    }
    const size_t at = below(size), count = 1 + below(size - at < 16 ? size - at : 16);
    switch (below(12)) {
    case 0:
        data[at] ^= (uint8_t)(1u << below(8));
        return size;
    case 1:
    case 2:
        data[at] = odd_byte();
        return size;
    case 3:
        return below(4) == 0 ? at : erase(data, size, at, count);
    case 4:
        for (size_t i = 0; i < sizeof few; i++)
            few[i] = odd_byte();
        return insert(data, size, max_size, at, few, 1 + below(sizeof few));
    case 5: { /* a piece twice */
        uint8_t piece[16];
        memcpy(piece, data + at, count);
        return insert(data, size, max_size, below(size + 1), piece, count);
    }
    case 6: /* a piece over another */
        memmove(data + below(size - count + 1), data + at, count);
        return size;
    case 7: { /* two bytes change places */
        size_t other = below(size);
        uint8_t byte = data[at];
        data[at] = data[other];
        data[other] = byte;
        return size;
    }
    case 8:
        return splice(data, size, max_size);
    case 9:
        edit_word(data, size);
        return size;
    default:
        return edit_number(data, size, max_size);
    }
}

static size_t mutate(uint8_t *data, size_t size) {
    for (size_t steps = 1 + below(4); steps > 0; steps--) {
        if (LLVMFuzzerCustomMutator != NULL && below(4) != 0) {
            size = LLVMFuzzerCustomMutator(data, size, INPUT_MAX, (unsigned int)below(UINT32_MAX));
        } else {
            size = LLVMFuzzerMutate(data, size, INPUT_MAX);
        }
    }
    return size;
}

/* ---- files ---- */

static int load_file(const char *path) {
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &info) != 0 || info.st_size > INPUT_MAX || file_count == FILES_MAX) {
        fprintf(stderr, "cannot take the file %s (at most %d of at most %d bytes)\n", path, FILES_MAX, INPUT_MAX);
        if (file != NULL) fclose(file);
        return 0;
    }
    struct input *input = &files[file_count++];
    input->bytes = malloc((size_t)info.st_size + 1);
    REQUIRE(input->bytes != NULL);
    input->size = fread(input->bytes, 1, (size_t)info.st_size, file);
    fclose(file);
    return 1;
}

static int visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int load(const char *path) {
    struct stat info;
    struct dirent **list = NULL;
    int ok = 1;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return load_file(path);
    int count = scandir(path, &list, visible, alphasort); /* sorted: the order must not depend on the disk */
    for (int i = 0; i < count; i++) {
        char *name = malloc(strlen(path) + strlen(list[i]->d_name) + 2);
        REQUIRE(name != NULL);
        sprintf(name, "%s/%s", path, list[i]->d_name);
        ok = ok && load_file(name);
        free(name);
        free(list[i]);
    }
    free(list);
    return ok && count >= 0;
}

static int usage(void) {
    fprintf(stderr, "usage: fuzz_NAME [--executions N] [--seed S] FILE_OR_DIRECTORY...\n");
    return 2;
}

int main(int argc, char **argv) {
    static uint8_t data[INPUT_MAX];
    uint64_t executions = 0, seed = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--executions") == 0 || strcmp(argv[i], "--seed") == 0) {
            char *end = NULL;
            if (i + 1 == argc) return usage();
            uint64_t value = strtoull(argv[i + 1], &end, 10);
            if (end == argv[i + 1] || *end != '\0') return usage();
            *(argv[i][2] == 'e' ? &executions : &seed) = value;
            i++;
        } else if (!load(argv[i])) {
            return 2;
        }
    }
    if (file_count == 0) return usage();
    watch_for_crashes();
    for (size_t i = 0; i < file_count; i++)
        run(files[i].bytes, files[i].size);
    const uint64_t replayed = fuzz_accepted;
    random_state = (seed + 1) * 0x9e3779b97f4a7c15u | 1;
    for (uint64_t i = 0; i < executions; i++) {
        const struct input *input = &files[below(file_count)];
        memcpy(data, input->bytes, input->size);
        run(data, mutate(data, input->size));
    }
    printf("%" PRIu64 " of %zu files accepted, then %" PRIu64 " of %" PRIu64 " mutations (seed %" PRIu64 ")\n",
           replayed, file_count, fuzz_accepted - replayed, executions, seed);
    printf("executions %" PRIu64 "\n", (uint64_t)file_count + executions);
    for (size_t i = 0; i < file_count; i++)
        free(files[i].bytes);
    return 0;
}
