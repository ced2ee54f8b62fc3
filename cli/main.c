/* main.c: finds the sub-command, parses its options by its table, runs it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char *const severities[] = {"note", "warning", "error"};

static uint64_t hash(uint64_t number, const char *text) {
    while (*text) number = (number ^ (unsigned char)*text++) * UINT64_C(1099511628211);
    return number;
}

/* Whether that warning was printed before, if few were. Plans of several ranks and batches tell the same. */
static bool was_told(cli_told *told, const weft_diagnostic *d) {
    uint64_t text = hash(hash((uint64_t)d->line << 32 | (uint32_t)d->column, d->place), d->message);
    size_t n = told->counts[WEFT_WARNING];
    for (size_t i = 0; i < n && i < CLI_MOST_TOLD; i++)
        if (told->texts[i] == text) return true;
    if (n < CLI_MOST_TOLD) told->texts[n] = text;
    return false;
}

/* Errors come back as statuses too; the sink shows what a status can only count: findings with their places. */
static void print_diagnostic(void *user, const weft_diagnostic *d) {
    static const colour colours[] = {CYAN, YELLOW, RED};
    const char *on = cli_colour(stderr, colours[d->severity]), *off = cli_colour(stderr, PLAIN);
    cli_told *told = user;
    if (d->severity == WEFT_WARNING && was_told(told, d)) return;
    if (told->counts[d->severity]++ >= CLI_MOST_TOLD) return;
    if (d->severity == WEFT_ERROR && !told->text[0]) {
        char place[64] = "";
        if (d->line > 0) snprintf(place, sizeof place, ":%d:%d", d->line, d->column);
        snprintf(told->text, sizeof told->text, "%s%s%s%s", d->place, place, d->place[0] ? ": " : "", d->message);
    }
    if (d->line > 0)
        fprintf(stderr, "%s:%d:%d: %s%s:%s %s\n", d->place, d->line, d->column, on, severities[d->severity], off,
                d->message);
    else
        fprintf(stderr, "%s%s%s%s:%s %s\n", d->place, d->place[0] ? ": " : "", on, severities[d->severity], off,
                d->message);
}

static void print_left_out(const cli_told *told) {
    for (size_t k = 0; k < sizeof told->counts / sizeof *told->counts; k++) {
        size_t more = told->counts[k] > CLI_MOST_TOLD ? told->counts[k] - CLI_MOST_TOLD : 0;
        if (more) fprintf(stderr, "weft: %zu more %s%s like these\n", more, severities[k], more > 1 ? "s" : "");
    }
}

/* The option that `word` names, with `*value` set when it was written --name=value. */
static const cli_option *match_among(const cli_option *options, size_t noptions, const char *word, const char **value) {
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    *value = equals ? equals + 1 : NULL;
    for (size_t i = 0; i < noptions; i++) {
        const cli_option *o = &options[i];
        if (strncmp(o->name, word, n) == 0 && o->name[n] == '\0') return o;
        if (o->letter && word[0] == '-' && word[1] == o->letter && word[2] == '\0') return *value = NULL, o;
    }
    return NULL;
}

static const cli_option *match_option(const cli_command *command, const char *word, const char **value) {
    const cli_option *o = match_among(command->options, command->noptions, word, value);
    return o ? o : match_among(cli_common_options, cli_ncommon_options, word, value);
}

/* Fills args from the words after the sub-command; EXIT_DONE, or EXIT_USAGE after saying why. */
static int parse_words(cli_args *args, int nwords, char **words) {
    const cli_command *command = args->command;
    bool options_ended = false;
    for (int i = 0; i < nwords; i++) {
        const char *word = words[i], *value = NULL;
        if (options_ended || word[0] != '-' || word[1] == '\0') {
            args->positional[args->npositional++] = word;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            options_ended = true;
            continue;
        }
        const cli_option *o = match_option(command, word, &value);
        if (!o) return cli_usage_error(command, "no option \"%s\"", word);
        if (o->argument && o->argument[0] != '[' && !value) {
            if (++i == nwords) return cli_usage_error(command, "%s needs %s", o->name, o->argument);
            value = words[i];
        }
        if (!o->argument && value) return cli_usage_error(command, "%s takes no value", o->name);
        args->names[args->ngiven] = o->name;
        args->values[args->ngiven++] = value ? value : "";
    }
    int npositional = (int)args->npositional;
    if (npositional < command->min_positional ||
        (command->max_positional >= 0 && npositional > command->max_positional))
        return cli_usage_error(command, "expected %s, found %d argument%s", command->arguments, npositional,
                               npositional == 1 ? "" : "s");
    return EXIT_DONE;
}

static bool wants_help(int nwords, char **words) {
    for (int i = 0; i < nwords && strcmp(words[i], "--") != 0; i++)
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) return true;
    return false;
}

static int run_command(const cli_command *command, int nwords, char **words) {
    if (wants_help(nwords, words)) return cli_print_help(stdout, command), EXIT_DONE;
    size_t room = (size_t)nwords + 1;
    cli_told told = {.text = ""};
    cli_args args = {.command = command, .told = &told};
    args.positional = calloc(room, sizeof *args.positional);
    args.names = calloc(room, sizeof *args.names);
    args.values = calloc(room, sizeof *args.values);
    int result = EXIT_WORK_FAILED;
    if (!args.positional || !args.names || !args.values) {
        fprintf(stderr, "weft: out of memory\n");
        goto done;
    }
    if ((result = parse_words(&args, nwords, words)) != EXIT_DONE) goto done;
    const char *colours = cli_value(&args, "--color");
    if (colours && !cli_set_colour(colours)) {
        result = cli_usage_error(command, "--color: expected auto, always or never, found \"%s\"", colours);
        goto done;
    }
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = print_diagnostic,
                                    .diagnostic_user = &told, .max_kept_nbytes = 1};
    weft_status status = weft_context_create(&options, &args.context);
    result = status ? cli_fail(&args, status) : command->run(&args);
done:
    weft_context_destroy(args.context);
    print_left_out(&told);
    free(args.positional);
    free(args.names);
    free(args.values);
    return result;
}

/* Else a file that is opened would take the place of a closed stream, and get what is printed. What is read or written
 * there fails: the other direction is open. */
static void fill_closed_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0) exit(EXIT_WORK_FAILED);
}

/* A flush that failed before has lost what it had, and the last one succeeds. */
static bool is_output_lost(void) {
    return fflush(stdout) != 0 || ferror(stdout);
}

int main(int argc, char **argv) {
    fill_closed_streams();
    if (argc < 2) return cli_print_overview(stderr), EXIT_USAGE;
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) return printf("%s\n", weft_version()), EXIT_DONE;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return cli_print_overview(stdout), EXIT_DONE;
    const cli_command *command = cli_find_command(word);
    if (!command) {
        fprintf(stderr, "weft: no command \"%s\"; `weft help` lists them\n", word);
        return EXIT_USAGE;
    }
    int result = run_command(command, argc - 2, argv + 2);
    if (is_output_lost() && result == EXIT_DONE) {
        fprintf(stderr, "weft: cannot write to standard output\n");
        result = EXIT_WORK_FAILED;
    }
    return result;
}
