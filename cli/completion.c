/* completion.c: scripts that complete commands and options in a shell, from the tables of options. */
#include <string.h>

#include "cli/cli.h"

static void print_options(FILE *to, const cli_command *c) {
    for (size_t i = 0; i < c->noptions; i++) fprintf(to, "%s ", c->options[i].name);
    for (size_t i = 0; i < cli_ncommon_options; i++) fprintf(to, "%s ", cli_common_options[i].name);
    fprintf(to, "--help");
}

static void print_names(FILE *to, const cli_command *const *commands, size_t ncommands) {
    for (size_t i = 0; i < ncommands; i++) fprintf(to, "%s%s", i ? " " : "", commands[i]->name);
}

/* A line a command that sets `options`, between these texts. */
static void print_cases(FILE *to, const cli_command *const *commands, size_t ncommands, const char *indent,
                        const char *begin, const char *end) {
    for (size_t i = 0; i < ncommands; i++) {
        fprintf(to, "%s%s) options=%s", indent, commands[i]->name, begin);
        print_options(to, commands[i]);
        fprintf(to, "%s ;;\n", end);
    }
}

static void print_bash(FILE *to, const cli_command *const *commands, size_t ncommands) {
    fprintf(to, "_weft() {\n    local word=${COMP_WORDS[COMP_CWORD]} options=\n    COMPREPLY=()\n"
                "    if [ \"$COMP_CWORD\" = 1 ]; then\n        options=\"");
    print_names(to, commands, ncommands);
    fprintf(to, "\"\n    elif [ \"${word#-}\" != \"$word\" ]; then\n        case ${COMP_WORDS[1]} in\n");
    print_cases(to, commands, ncommands, "        ", "\"", "\"");
    fprintf(to,
            "        esac\n    fi\n    [ -z \"$options\" ] || COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n}\n"
            "complete -o default -F _weft weft\n");
}

static void print_zsh(FILE *to, const cli_command *const *commands, size_t ncommands) {
    fprintf(to, "#compdef weft\nlocal -a options\nif (( CURRENT == 2 )); then\n    options=(");
    print_names(to, commands, ncommands);
    fprintf(to, ")\nelif [[ $words[CURRENT] == -* ]]; then\n    case $words[2] in\n");
    print_cases(to, commands, ncommands, "    ", "(", ")");
    fprintf(to, "    esac\nfi\nif (( $#options )); then compadd -- $options; else _files; fi\n");
}

/* The first line of a text, in a fish string. */
static void print_line(FILE *to, const char *text) {
    for (; *text && *text != '\n'; text++) {
        if (*text == '\'' || *text == '\\') fputc('\\', to);
        fputc(*text, to);
    }
}

static void print_fish_option(FILE *to, const char *condition, const cli_option *o) {
    fprintf(to, "complete -c weft%s -l %s", condition, o->name + 2);
    if (o->letter) fprintf(to, " -s %c", o->letter);
    fprintf(to, "%s -d '", o->argument && o->argument[0] != '[' ? " -r" : "");
    print_line(to, o->help);
    fprintf(to, "'\n");
}

static void print_fish(FILE *to, const cli_command *const *commands, size_t ncommands) {
    for (size_t i = 0; i < ncommands; i++) {
        const cli_command *c = commands[i];
        fprintf(to, "complete -c weft -n __fish_use_subcommand -a %s -d '", c->name);
        print_line(to, c->summary);
        fprintf(to, "'\n");
        char condition[80];
        snprintf(condition, sizeof condition, " -n '__fish_seen_subcommand_from %s'", c->name);
        for (size_t k = 0; k < c->noptions; k++) print_fish_option(to, condition, &c->options[k]);
    }
    for (size_t k = 0; k < cli_ncommon_options; k++) print_fish_option(to, "", &cli_common_options[k]);
}

bool cli_print_completion(FILE *to, const char *shell, const cli_command *const *commands, size_t ncommands) {
    if (strcmp(shell, "bash") == 0)
        print_bash(to, commands, ncommands);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(to, commands, ncommands);
    else if (strcmp(shell, "fish") == 0)
        print_fish(to, commands, ncommands);
    else
        return false;
    return true;
}
