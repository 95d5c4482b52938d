/* SPDX-License-Identifier: Apache-2.0 */
/* The corpus of what people type and write: lines for count, logs, released streams, parameters, command lines. */
#include "cases.h"
#include "corpus.h"

static const char *root;

static void save_text(const char *folder, const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s.data", root, folder, name);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fwrite(text, strlen(text), 1, file) == 1 && fclose(file) == 0);
}

static void make_lines(void) {
    save_text("log", "plain", "p1 -2.5\n3e-1\t4\n.5,7\n");
    save_text("log", "table", "vday,a,b,c\n1,2,\"3\",4\n2,-1e2, 5 ,x\n");
    save_text("log", "header", "wtime;a;b\n2024-01-01;1;2\n\"a \"\"b\"\"\";0.25;1e3\n");
    save_text("log", "clients", "gclient,round\nada,0\nbob,3\nada,11\n\xc3\xa9ve,4\n");
    save_text("log", "json", "j{\"coefficients\":[1,0.5,0.25]}");
    save_text("log", "two", "j{\"coefficients\": [1, 5e-1], \"matrix\": [[1]]}");
}

/* As count writes it for the mechanism of case 1, with a clip of 1. */
static void make_stream(const char *name, const char *start, const char *between, const char *end, int csv) {
    char text[4096];
    int used = snprintf(text, sizeof text, "q%s", csv ? "step,value,standard_deviation\n" : "");
    dpmf_mechanism *mechanism = case_mechanism(1);
    dpmf_workload *workload = NULL;
    double error[CASE_STEPS];
    MUST(dpmf_workload_parse("prefix", CASE_STEPS, &workload));
    MUST(dpmf_error_range(workload, dpmf_mechanism_get(mechanism).strategy, 0, CASE_STEPS, NULL, error));
    for (int t = 0; t < CASE_STEPS; t++) {
        const double deviation = 0.5 * error[t];
        if (csv) used += snprintf(text + used, sizeof text - (size_t)used, "%d,", t + 1);
        used +=
            snprintf(text + used, sizeof text - (size_t)used, "%s%d%s%.6g%s\n", start, 3 * t, between, deviation, end);
    }
    dpmf_workload_free(workload);
    dpmf_mechanism_free(mechanism);
    save_text("log", name, text);
}

static void make_commands(void) {
    static const char *const line[] = {
        "design\n--steps\n1000\n--epochs\n4\n--epsilon\n2\n--delta\n1e-5\n--dim\n1M\n--memory\n1GiB\n--sampling\nany",
        "evaluate\n--steps=64\n--family\nblt\n--workload\nmomentum:0.9,cooldown:0.5:0.1\n--participation\nmin-sep:3,8",
        "optimize\n--steps\n1k\n--family\ntvblt\n--buffers\n4\n--participation\ncyclic:4,16\n--json\n-o\nfile",
        "account\n--sigma\n1.5\n--delta\n1e-6\n--sampling\npoisson:0.01\n--compositions\n100\n--engine\nrdp",
        "account\n--compose\na\nb\nc\n--times\n1,2,3\n--delta\n1e-6\n--tuning\npoisson:10",
        "noise\nm\n--dim\n10\n--rows\n0:5\n--format\nnpy\n--clip\n0.5\n--offset\n2\n--count\n3\n--testing-seed\n1",
        "count\nm\n--columns\na,b\n--time\nday\n--bad-lines\nzero\n--follow\nlog.csv\n--state\ns\n--key-file\nk",
        "query\nstream\n--mechanism\nm\n--range\n2:5-1:1\n--level\n0.9\n--column\n2",
        "train\n--data\nd\n--model\nmlp:32\n--epsilon\n3\n--delta\n1e-5\n--batch\n256\n--epochs\n5\n--decay\n0.1",
        "report\nm\n-o\npage.html",
        "help\n--format\nman",
        "verify\n--help"};
    for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
        char name[16];
        snprintf(name, sizeof name, "line%zu", i);
        save_text("command", name, line[i]);
    }
}

void corpus_make_text(const char *directory) {
    root = directory;
    make_lines();
    make_stream("stream", "", " ", "", 0);
    make_stream("stream_csv", "", ",", "", 1);
    make_stream("stream_json", "{\"step\":1,\"sums\":[", "],\"standard_deviation\":", "}", 0);
    make_commands();
}
