/* help.c: the table of commands; weft help: all of them, one, or how files are found. */
#include <string.h>

#include "cli/cli.h"

#define COMMAND(name) extern const cli_command command_##name;
#include "cli/commands.def"
#undef COMMAND

static const cli_command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "cli/commands.def"
#undef COMMAND
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };

const cli_command *cli_find_command(const char *name) {
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

void cli_print_overview(FILE *to) {
    fprintf(to, "usage: weft COMMAND [ARGUMENT ...]\n\ncommands\n");
    for (size_t i = 0; i < NCOMMANDS; i++) {
        const char *summary = commands[i]->summary, *end = strchr(summary, '\n');
        fprintf(to, "  %-9s %.*s\n", commands[i]->name, end ? (int)(end - summary) : (int)strlen(summary), summary);
    }
    fprintf(to, "\n`weft help COMMAND` says more; exit status 0: done, 1: the work failed, 2: usage\n");
}

static const char files_topic[] =
    "Files\n"
    "  NAME.pdmodel       a program in Paddle's ProgramDesc form; NAME.yaml the same for reading; each also with .gz\n"
    "  NAME.fx.json       a graph that PyTorch traced, one node a line; also with .gz. Its inputs of role param or\n"
    "                     grad, and those that it writes, are persistable: saved under their names; the others are\n"
    "                     fed. Its outputs are fetch.0, fetch.1, ...: null and constant ones count too\n"
    "  NAME.dist.json     the sidecar of NAME.pdmodel: meshes, rings, placements, streams, events. When it is not\n"
    "                     there, dist.NAME.json is tried, then the same with dotted tails of NAME dropped one by one\n"
    "                     (rank0.after.prune -> dist.rank0.json); then only its meshes, rings and vars hold.\n"
    "  F.npz, F.npy       feeds, parameters, results; keys of feeds are step/name, or name for every step\n"
    "  F.pdiparams        parameters in Paddle's combined form\n"
    "  --passes, --cluster  a name without a folder that is not here is looked for among the configurations that come\n"
    "                     with Weft: data_parallel.yaml, h100_nodes.yaml\n"
    "  -                  stdin or stdout: YAML or a graph of PyTorch, which its first line tells apart; for weft plan "
    "also\n"
    "                     a printed plan. weft opt writes YAML there, or what --form says\n"
    "  A ring that no sidecar names is all ranks of the run, in order.\n";

static int run(cli_args *args) {
    if (args->npositional == 0) {
        cli_print_overview(stdout);
        printf("`weft help files` explains how files are named and found\n");
        return EXIT_DONE;
    }
    if (strcmp(args->positional[0], "files") == 0) return fputs(files_topic, stdout), EXIT_DONE;
    if (cli_print_completion(stdout, args->positional[0], commands, NCOMMANDS)) return EXIT_DONE;
    const cli_command *command = cli_find_command(args->positional[0]);
    if (!command) return cli_usage_error(args->command, "no command or topic \"%s\"", args->positional[0]);
    cli_print_help(stdout, command);
    return EXIT_DONE;
}

const cli_command command_help = {
    .name = "help",
    .arguments = "[COMMAND | files | bash | zsh | fish]",
    .summary = "Tells more about a command, or about how files are named and found.\n"
               "bash, zsh, fish: a script that completes commands and options in that shell.",
    .max_positional = 1,
    .run = run,
};
