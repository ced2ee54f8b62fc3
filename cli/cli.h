/* cli.h: what the sub-commands share: option tables (from which usage, help and parsing come), output, errors. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/context.h"

/* Exit statuses, as in the manual. */
enum { EXIT_DONE = 0, EXIT_WORK_FAILED = 1, EXIT_USAGE = 2 };

/* One option: "--passes", the word for its argument (NULL: a flag; "[=F]": one that may be left out, and is written
 * --name=value), one line of help. */
typedef struct cli_option {
    const char *name;
    char letter; /* also -X; 0: none */
    const char *argument;
    const char *help;
} cli_option;

/* Options that every command has. */
extern const cli_option cli_common_options[];
extern const size_t cli_ncommon_options;

typedef struct cli_args cli_args;

typedef struct cli_command {
    const char *name;
    const char *arguments; /* "IN [-o OUT]" for the usage line */
    const char *summary;
    const cli_option *options;
    size_t noptions;
    int min_positional, max_positional; /* max -1: any number */
    const char *example;
    void (*print_more)(FILE *to); /* more of the help, behind the options; NULL: there is none */
    int (*run)(cli_args *args);
} cli_command;

enum { CLI_MOST_TOLD = 100 }; /* of one severity */

/* What the diagnostic sink printed. */
typedef struct cli_told {
    char text[2000];               /* the first error: cli_fail does not repeat it */
    size_t counts[3];              /* by severity, of what was told, printed or not */
    uint64_t texts[CLI_MOST_TOLD]; /* hashes of the warnings that were printed */
} cli_told;

/* A parsed command line. */
struct cli_args {
    const cli_told *told;
    const cli_command *command;
    weft_context *context;
    const char **positional;
    size_t npositional;
    const char **names, **values; /* options given, in order */
    size_t ngiven;
};

const cli_command *cli_find_command(const char *name);

/* The last value of an option; NULL if not given. Flags have the value "". */
const char *cli_value(const cli_args *args, const char *name);
bool cli_given(const cli_args *args, const char *name);
/* A whole number in [low, high]; false after printing a usage error. *out keeps its value if the option is absent. */
bool cli_int(const cli_args *args, const char *name, long long low, long long high, long long *out);
/* The text is a whole number from `low` to `high`; else false, and *out as it was. */
bool cli_read_int(const char *text, long long low, long long high, long long *out);
bool cli_double(const cli_args *args, const char *name, double *out);

/* Prints "weft COMMAND: place: message" to stderr, unless the sink has printed that; frees the status, returns
 * EXIT_WORK_FAILED. */
int cli_fail(const cli_args *args, weft_status status);
/* The same behind "[process 1] ", in one write: other processes write to the same stderr. */
int cli_fail_as(const cli_args *args, const char *speaker, weft_status status);
/* A usage error: the message and the usage line; returns EXIT_USAGE. */
int cli_usage_error(const cli_command *command, const char *format, ...) WEFT_PRINTF(2, 3);
void cli_print_help(FILE *to, const cli_command *command);
void cli_print_overview(FILE *to);
/* colour.c: what makes the text behind it coloured, or PLAIN again; "" where `to` takes no colours. */
typedef enum colour { PLAIN, RED, GREEN, YELLOW, BLUE, PURPLE, CYAN } colour;
const char *cli_colour(FILE *to, colour c);
bool cli_set_colour(const char *word); /* auto, always or never; false: none of these */
/* configs.c: a file as it is named, or that of the same name among the configurations that come with Weft; `below`:
 * their folder there, "" or "clusters/". Borrowed: `path`, or text in `room`. */
const char *cli_find_config(const char *path, const char *below, char *room, size_t nbytes);
/* completion.c: a script for bash, zsh or fish that completes commands and options; false: there is no such shell. */
bool cli_print_completion(FILE *to, const char *shell, const cli_command *const *commands, size_t ncommands);

/* Writes bytes that the library gave away to a file ("-": stdout) through a temporary, and frees them. */
WEFT_MUST_USE weft_status cli_write_taken(const cli_args *args, const char *path, char *bytes, size_t nbytes);
bool cli_write_all(int file, const char *bytes, size_t nbytes);
/* A file of these bytes in $TMPDIR, else /tmp, for another part of the library to read; the caller removes it (unlink).
 * The name becomes "" where there is none. */
enum { CLI_TEMPORARY_ROOM = 1024 };
WEFT_MUST_USE weft_status cli_put_temporary(const char *bytes, size_t nbytes, char name[CLI_TEMPORARY_ROOM]);
/* Reads a whole text file ("-": stdin). The caller frees with free. */
WEFT_MUST_USE weft_status cli_read(const char *path, char **out_bytes, size_t *out_nbytes);
WEFT_MUST_USE weft_status cli_no_memory(void);
bool cli_ends_with(const char *path, const char *tail);
/* "1.5 MiB" in a buffer that the caller gives. */
const char *cli_bytes(double nbytes, char *out, size_t out_nbytes);

#endif
