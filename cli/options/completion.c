/* SPDX-License-Identifier: Apache-2.0 */
#include "options/completion.h"

#include "options/options.h"

#include <string.h>

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

void add_bash_completion(text_buffer *t) {
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

void add_zsh_completion(text_buffer *t) {
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
