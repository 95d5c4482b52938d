/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All explanations: `dpmf help`, `dpmf VERB --help`, the manual page and the completion scripts of shells, all from the
 * tables of options/options.c.
 */
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, INDENT = 28 };

/* Adds words, breaking lines before WIDTH; continuation lines start at `indent`, the first one at column `at`. */
static void add_wrapped(text_buffer *t, const char *words, int indent, int at) {
    bool first = true;
    while (*words != '\0') {
        int length = (int)strcspn(words, " ");
        if (!first && at + 1 + length > WIDTH) {
            text_add(t, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            text_add(t, " ");
            at++;
        }
        text_add(t, "%.*s", length, words);
        at += length;
        words += length;
        words += strspn(words, " ");
        first = false;
    }
    text_add(t, "\n");
}

static void add_usage(text_buffer *t, const verb_row *v) {
    const char *line = v->usage;
    const char *before = "usage: ";
    while (*line != '\0') {
        int length = (int)strcspn(line, "\n");
        text_add(t, "%sdpmf %.*s\n", before, length, line);
        line += length + (line[length] == '\n');
        before = "       ";
    }
}

/* The length of "VERB, VERB: " at the start of a sentence, 0 if it does not start like that; whether `verb` is among them. */
static size_t verbs_before(const char *sentence, verb_id verb, bool *among) {
    const char *at = sentence;
    *among = false;
    for (;;) {
        const size_t length = strcspn(at, " ,:.");
        int found = 0;
        while (found < VERB_TOTAL &&
               !(strlen(verbs[found].name) == length && strncmp(verbs[found].name, at, length) == 0))
            found++;
        if (found == VERB_TOTAL) return 0;
        if (found == (int)verb) *among = true;
        at += length;
        if (strncmp(at, ": ", 2) == 0) return (size_t)(at + 2 - sentence);
        if (strncmp(at, ", ", 2) != 0) return 0;
        at += 2;
    }
}

/* The help of an option, without the sentences that are for other verbs alone. Returns whether it has this verb's own default. */
static bool add_sentences(text_buffer *t, verb_id verb, const char *help) {
    bool has_default = false;
    const char *join = "";
    while (*help != '\0') {
        const char *end = strstr(help, ". ");
        const size_t length = end != NULL ? (size_t)(end - help) : strlen(help);
        bool among;
        const size_t before = verbs_before(help, verb, &among);
        if (before == 0 || among) {
            const char first = help[before];
            text_add(t, "%s%c%.*s.", join, *join != '\0' && before > 0 ? (char)toupper((unsigned char)first) : first,
                     (int)(length - before - 1), help + before + 1);
            has_default = has_default || (before > 0 && strstr(help + before, "default is ") != NULL &&
                                          strstr(help + before, "default is ") < help + length);
            join = " ";
        }
        help += length + (end != NULL ? 2 : 0);
    }
    return has_default;
}

/* The help of an option with the other columns of the table: accepted values and the default. */
static void option_words(text_buffer *t, verb_id verb, const option_row *o) {
    const bool out = o == &options[OPTION_OUT] && tours[verb].out != NULL;
    const bool has_default = add_sentences(t, verb, out ? tours[verb].out : option_help(o));
    if (o->kind == KIND_COUNT) text_add(t, " From %" PRId64 " to %" PRId64 ".", o->count_low, option_count_high(o));
    if (o->kind == KIND_NUMBER) text_add(t, " From %g to below %g.", o->number_low, o->number_high);
    if (option_values(o, verb) != NULL) {
        const char *list = option_values(o, verb), *join = " One of ";
        int length;
        for (const char *word; (word = next_word(&list, &length)) != NULL; join = ", ")
            text_add(t, "%s%.*s", join, length, word);
        text_add(t, ".");
    }
    if (o->preset != NULL && !has_default) text_add(t, " Default: %s.", o->preset);
}

static void add_option(text_buffer *t, verb_id verb, const option_row *o, const char *example) {
    char name[80];
    text_buffer words = {0};
    if (o->letter != '\0')
        snprintf(name, sizeof name, "  -%c, --%s %s", o->letter, o->name, o->argument != NULL ? o->argument : "");
    else
        snprintf(name, sizeof name, "  --%s %s", o->name, o->argument != NULL ? o->argument : "");
    if (strlen(name) < INDENT)
        text_add(t, "%-*s", INDENT, name);
    else
        text_add(t, "%s\n%*s", name, INDENT, "");
    option_words(&words, verb, o);
    if (example != NULL) text_add(&words, " Example: %s", example);
    if (words.failed)
        t->failed = true;
    else
        add_wrapped(t, words.bytes, INDENT, INDENT);
    text_free(&words);
}

/* The example of an option that most runs give; NULL: it is not one of them. */
static const char *example_of(verb_id verb, option_id id) {
    for (int i = 0; i < FIRST_OPTIONS && tours[verb].first[i].example != NULL; i++)
        if (tours[verb].first[i].id == id) return tours[verb].first[i].example;
    return NULL;
}

static void add_first_options(text_buffer *t, verb_id verb) {
    if (tours[verb].first[0].example == NULL) return;
    text_add(t, "\nmost used:\n");
    for (int i = 0; i < FIRST_OPTIONS && tours[verb].first[i].example != NULL; i++) {
        assert(option_of_verb(tours[verb].first[i].id, verb));
        add_option(t, verb, &options[tours[verb].first[i].id], tours[verb].first[i].example);
    }
}

static void add_group(text_buffer *t, verb_id verb, int group) {
    const int end = group + 1 < option_group_total ? (int)option_groups[group + 1].from : OPTION_TOTAL;
    bool titled = false;
    for (int i = (int)option_groups[group].from; i < end; i++) {
        if (!option_of_verb((option_id)i, verb) || example_of(verb, (option_id)i) != NULL) continue;
        if (!titled) text_add(t, "\n%s:\n", option_groups[group].title);
        titled = true;
        add_option(t, verb, &options[i], NULL);
    }
}

int print_verb_help(verb_id verb) {
    text_buffer t = {0};
    add_usage(&t, &verbs[verb]);
    text_add(&t, "\n");
    add_wrapped(&t, verbs[verb].description, 0, 0);
    add_first_options(&t, verb);
    for (int i = 0; i < option_group_total; i++)
        add_group(&t, verb, i);
    return text_finish(&t);
}

int print_tour(void) {
    text_buffer t = {0};
    text_add(&t, "%s", tour_text);
    return text_finish(&t);
}

static const char about[] = "Correlated-noise mechanisms for differential privacy: designs, evaluates and runs the "
                            "noise of private training and private running sums.";
static const char conventions[] =
    "Numbers may be written as 1e6; counts also as 10k, 2M, 1G (powers of 1000). Answers go to standard output, "
    "messages to standard error, with the progress of long work: a bar on a terminal, else a line every 10 seconds "
    "(DPMF_PROGRESS in the environment: another number, 0 for none). With --json the answer is one JSON object.";

static const struct {
    const char *code, *meaning;
} exit_codes[] = {
    {"0", "done"},
    {"1", "could not do it; one line on standard error gives the reason"},
    {"2", "bad usage; one line on standard error names the option, the value and what is accepted"},
    {"3", "done, and the answer is negative; it is on standard output in full"},
    {"130", "cancelled by a signal"},
};
enum { EXIT_CODE_COUNT = sizeof exit_codes / sizeof *exit_codes };

int print_general_help(void) {
    text_buffer t = {0};
    text_add(&t, "usage: dpmf VERB [OPTION]... [FILE]\n       dpmf VERB --help\n       dpmf --version\n\n");
    add_wrapped(&t, about, 0, 0);
    text_add(&t, "\nverbs:\n");
    for (int i = 0; i < VERB_TOTAL; i++)
        text_add(&t, "  %-12s%s\n", verbs[i].name, verbs[i].summary);
    text_add(&t, "\nexit codes:\n");
    for (int i = 0; i < EXIT_CODE_COUNT; i++) {
        text_add(&t, "  %-6s", exit_codes[i].code);
        add_wrapped(&t, exit_codes[i].meaning, 8, 8);
    }
    text_add(&t, "\n");
    add_wrapped(&t, conventions, 0, 0);
    return text_finish(&t);
}

/* ---- the manual page ------------------------------------------------------------------------------------------- */

/* Text for roff: backslashes and dashes escaped; no line of ours starts with a dot or an apostrophe. */
static void add_roff(text_buffer *t, const char *words) {
    for (; *words != '\0'; words++) {
        if (*words == '-' || *words == '\\')
            text_add(t, *words == '-' ? "\\-" : "\\e");
        else
            text_add_bytes(t, words, 1);
    }
}

static void add_roff_option(text_buffer *t, verb_id verb, const option_row *o) {
    text_buffer words = {0};
    text_add(t, ".TP\n");
    if (o->letter != '\0') text_add(t, "\\fB\\-%c\\fR, ", o->letter);
    text_add(t, "\\fB\\-\\-");
    add_roff(t, o->name);
    text_add(t, "\\fR");
    if (o->argument != NULL) {
        text_add(t, " \\fI");
        add_roff(t, o->argument);
        text_add(t, "\\fR");
    }
    text_add(t, "\n");
    option_words(&words, verb, o);
    if (words.failed)
        t->failed = true;
    else
        add_roff(t, words.bytes);
    text_add(t, "\n");
    text_free(&words);
}

static void add_roff_verb(text_buffer *t, verb_id verb) {
    const char *line = verbs[verb].usage;
    text_add(t, ".SS %s\n.nf\n", verbs[verb].name);
    while (*line != '\0') {
        int length = (int)strcspn(line, "\n");
        char form[200];
        snprintf(form, sizeof form, "dpmf %.*s\n", length, line);
        add_roff(t, form);
        line += length + (line[length] == '\n');
    }
    text_add(t, ".fi\n.PP\n");
    add_roff(t, verbs[verb].description);
    text_add(t, "\n");
    for (int i = 0; i < OPTION_TOTAL; i++)
        if (option_of_verb((option_id)i, verb)) add_roff_option(t, verb, &options[i]);
}

static int print_man(void) {
    text_buffer t = {0};
    text_add(&t, ".TH DPMF 1 \"\" \"dpmf %s\" \"User Commands\"\n", dpmf_version());
    text_add(&t, ".SH NAME\ndpmf \\- correlated\\-noise mechanisms for differential privacy\n");
    text_add(&t, ".SH SYNOPSIS\n\\fBdpmf\\fR \\fIVERB\\fR [\\fIOPTION\\fR]... [\\fIFILE\\fR]\n.br\n"
                 "\\fBdpmf\\fR \\fB\\-\\-version\\fR\n.SH DESCRIPTION\n");
    add_roff(&t, about);
    text_add(&t, "\n.PP\n");
    add_roff(&t, conventions);
    text_add(&t, "\n.SH VERBS\n");
    for (int i = 0; i < VERB_TOTAL; i++)
        add_roff_verb(&t, (verb_id)i);
    text_add(&t, ".SH EXIT STATUS\n");
    for (int i = 0; i < EXIT_CODE_COUNT; i++) {
        text_add(&t, ".TP\n%s\n", exit_codes[i].code);
        add_roff(&t, exit_codes[i].meaning);
        text_add(&t, "\n");
    }
    return text_finish(&t);
}

/* The beginnings of an option's values that can be completed: "momentum:BETA" gives "momentum:". */
static void add_values(text_buffer *t, const option_row *o, verb_id verb) {
    const char *list = option_values(o, verb), *join = "";
    int length;
    for (const char *word; (word = next_word(&list, &length)) != NULL; join = " ") {
        int typed = (int)strcspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ|");
        text_add(t, "%s%.*s", join, typed < length ? typed : length, word);
    }
}

static bool takes_verb(verb_id verb) {
    return verbs[verb].operand != NULL && strcmp(verbs[verb].operand, "VERB") == 0;
}

static void add_verb_names(text_buffer *t) {
    for (int i = 0; i < VERB_TOTAL; i++)
        text_add(t, "%s%s", i > 0 ? " " : "", verbs[i].name);
}

/* ---- bash ------------------------------------------------------------------------------------------------------ */

static void add_bash_option(text_buffer *t, const option_row *o) {
    if (o->kind == KIND_FLAG) return;
    text_add(t, "    --%s", o->name);
    if (o->letter != '\0') text_add(t, "|-%c", o->letter);
    text_add(t, ")\n        ");
    if (option_values(o, VERB_TOTAL) != NULL) {
        text_add(t, "COMPREPLY=($(compgen -W '");
        add_values(t, o, VERB_TOTAL);
        text_add(t, "' -- \"$word\"))\n        ");
    } else if (o->kind == KIND_FILE) {
        text_add(t, "COMPREPLY=($(compgen -f -- \"$word\"))\n        ");
    }
    text_add(t, "return ;;\n");
}

static void add_bash_verb(text_buffer *t, verb_id verb) {
    text_add(t, "    %s)\n        options='", verbs[verb].name);
    const char *join = "";
    for (int i = 0; i < OPTION_TOTAL; i++) {
        if (!option_of_verb((option_id)i, verb)) continue;
        text_add(t, "%s--%s", join, options[i].name);
        if (options[i].letter != '\0') text_add(t, " -%c", options[i].letter);
        join = " ";
    }
    text_add(t, "'");
    if (takes_verb(verb)) {
        text_add(t, "\n        operands='");
        add_verb_names(t);
        text_add(t, "'");
    }
    text_add(t, " ;;\n");
}

static void add_bash_completion(text_buffer *t) {
    text_add(t, "# bash completion for dpmf; made by: dpmf help --format bash\n"
                "_dpmf() {\n"
                "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                "    local options='' operands=''\n"
                "    COMPREPLY=()\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                "        COMPREPLY=($(compgen -W '");
    add_verb_names(t);
    text_add(t, " --help --version' -- \"$word\"))\n"
                "        return\n"
                "    fi\n"
                "    case $before in\n");
    for (int i = 0; i < OPTION_TOTAL; i++)
        add_bash_option(t, &options[i]);
    text_add(t, "    esac\n"
                "    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < VERB_TOTAL; i++)
        add_bash_verb(t, (verb_id)i);
    text_add(t, "    esac\n"
                "    if [[ $word == -* ]]; then\n"
                "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
                "    elif [ -n \"$operands\" ]; then\n"
                "        COMPREPLY=($(compgen -W \"$operands\" -- \"$word\"))\n"
                "    else\n"
                "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
                "    fi\n"
                "}\n"
                "complete -o filenames -F _dpmf dpmf\n");
}

/* ---- zsh ------------------------------------------------------------------------------------------------------- */

/* Text inside '...[here]...' of an _arguments specification: as much as one line of a menu can show. */
static void add_zsh_text(text_buffer *t, const char *words) {
    for (; *words != '\0'; words++) {
        if (strchr(".:;,", *words) != NULL && words[1] == ' ') return;
        if (*words == '\'')
            text_add(t, "'\\''");
        else if (strchr("[]:\\", *words) != NULL)
            text_add(t, "\\%c", *words);
        else
            text_add_bytes(t, words, 1);
    }
}

static void add_zsh_option(text_buffer *t, const option_row *o, verb_id verb) {
    text_add(t, " \\\n            ");
    const char *equals = o->kind == KIND_FLAG ? "" : "=";
    if (o->letter != '\0')
        text_add(t, "'(-%c --%s)'{-%c,--%s%s}'[", o->letter, o->name, o->letter, o->name, equals);
    else
        text_add(t, "'--%s%s[", o->name, equals);
    add_zsh_text(t, option_help(o));
    text_add(t, "]");
    if (o->kind != KIND_FLAG) {
        text_add(t, ":");
        add_zsh_text(t, o->argument);
        text_add(t, ":");
    }
    if (option_values(o, verb) != NULL) {
        text_add(t, "(");
        add_values(t, o, verb);
        text_add(t, ")");
    } else if (o->kind == KIND_FILE) {
        text_add(t, "_files");
    }
    text_add(t, "'");
}

static void add_zsh_verb(text_buffer *t, verb_id verb) {
    text_add(t, "        %s)\n            _arguments", verbs[verb].name);
    for (int i = 0; i < OPTION_TOTAL; i++)
        if (option_of_verb((option_id)i, verb)) add_zsh_option(t, &options[i], verb);
    if (takes_verb(verb)) {
        text_add(t, " \\\n            '1:VERB:(");
        add_verb_names(t);
        text_add(t, ")'");
    } else if (verbs[verb].operand != NULL) {
        text_add(t, " \\\n            '1:%s:_files'", verbs[verb].operand);
    }
    text_add(t, " ;;\n");
}

static void add_zsh_completion(text_buffer *t) {
    text_add(t, "#compdef dpmf\n"
                "# zsh completion for dpmf; made by: dpmf help --format zsh\n"
                "_dpmf() {\n"
                "    local curcontext=$curcontext state line\n"
                "    local -a verbs\n"
                "    _arguments -C '(- *)--help[list the verbs]' '(- *)--version[print the version]' \\\n"
                "        '1:verb:->verb' '*::argument:->argument'\n"
                "    case $state in\n"
                "    verb)\n"
                "        verbs=(\n");
    for (int i = 0; i < VERB_TOTAL; i++) {
        text_add(t, "            '%s:", verbs[i].name);
        text_add(t, "%s'\n", verbs[i].summary);
    }
    text_add(t, "        )\n"
                "        _describe verb verbs ;;\n"
                "    argument)\n"
                "        case $line[1] in\n");
    for (int i = 0; i < VERB_TOTAL; i++)
        add_zsh_verb(t, (verb_id)i);
    text_add(t, "        esac ;;\n"
                "    esac\n"
                "}\n"
                "if [ \"$funcstack[1]\" = _dpmf ]; then\n"
                "    _dpmf \"$@\"\n"
                "else\n"
                "    compdef _dpmf dpmf\n"
                "fi\n");
}

/* ---- the verb -------------------------------------------------------------------------------------------------- */

int cmd_help(const arguments *given) {
    if (option_given(given, OPTION_FORMAT) && given->operand != NULL)
        return fail(EXIT_USAGE, "help takes only one of VERB and --format");
    if (option_is(given, OPTION_FORMAT, "man")) return print_man();
    if (option_given(given, OPTION_FORMAT)) {
        text_buffer t = {0};
        if (option_is(given, OPTION_FORMAT, "bash"))
            add_bash_completion(&t);
        else
            add_zsh_completion(&t);
        return text_finish(&t);
    }
    if (given->operand == NULL) return print_general_help();
    verb_id verb;
    const char *closest;
    char shown[SHOWN];
    if (find_verb(given->operand, &verb, &closest)) return print_verb_help(verb);
    if (closest != NULL)
        return fail(EXIT_USAGE, "unknown verb %s: did you mean '%s'?", show(given->operand, shown), closest);
    return fail(EXIT_USAGE, "unknown verb %s: 'dpmf help' lists the verbs", show(given->operand, shown));
}
