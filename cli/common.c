/* common.c: option values, messages, files: what every sub-command needs. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

const cli_option cli_common_options[] = {
    {"--color", 0, "WHEN", "colours: auto (default: on a terminal, unless NO_COLOR is set), always, never"},
};
const size_t cli_ncommon_options = sizeof cli_common_options / sizeof *cli_common_options;

const char *cli_value(const cli_args *args, const char *name) {
    for (size_t i = args->ngiven; i-- > 0;)
        if (strcmp(args->names[i], name) == 0) return args->values[i];
    return NULL;
}

bool cli_given(const cli_args *args, const char *name) {
    return cli_value(args, name) != NULL;
}

bool cli_read_int(const char *text, long long low, long long high, long long *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high) return false;
    *out = value;
    return true;
}

bool cli_int(const cli_args *args, const char *name, long long low, long long high, long long *out) {
    const char *text = cli_value(args, name);
    if (!text || cli_read_int(text, low, high, out)) return true;
    cli_usage_error(args->command, "%s: expected a whole number from %lld to %lld, found \"%s\"", name, low, high,
                    text);
    return false;
}

bool cli_double(const cli_args *args, const char *name, double *out) {
    const char *text = cli_value(args, name);
    if (!text) return true;
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0)) {
        cli_usage_error(args->command, "%s: expected a number that is not negative, found \"%s\"", name, text);
        return false;
    }
    *out = value;
    return true;
}

enum { NAME_ROOM = 64 };

/* "weft COMMAND:", which is before an error. */
static const char *name_of(const cli_command *command, char out[NAME_ROOM]) {
    snprintf(out, NAME_ROOM, "%sweft %s:%s", cli_colour(stderr, RED), command->name, cli_colour(stderr, PLAIN));
    return out;
}

int cli_fail(const cli_args *args, weft_status status) {
    return cli_fail_as(args, "", status);
}

int cli_fail_as(const cli_args *args, const char *speaker, weft_status status) {
    const char *place = weft_status_place(status), *told = args->told ? args->told->text : "";
    char text[sizeof args->told->text], name[NAME_ROOM];
    snprintf(text, sizeof text, "%s%s%s", place, place[0] ? ": " : "", weft_status_message(status));
    if (!*told || strncmp(text, told, strlen(told)) != 0)
        fprintf(stderr, "%s%s %s\n", speaker, name_of(args->command, name), text);
    weft_status_free(status);
    return EXIT_WORK_FAILED;
}

static void print_usage(FILE *to, const cli_command *command) {
    fprintf(to, "usage: weft %s %s\n", command->name, command->arguments);
}

int cli_usage_error(const cli_command *command, const char *format, ...) {
    va_list arguments;
    char name[NAME_ROOM];
    va_start(arguments, format);
    fprintf(stderr, "%s ", name_of(command, name));
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    print_usage(stderr, command);
    return EXIT_USAGE;
}

static void print_option(FILE *to, const cli_option *o) {
    char left[64];
    const char *argument = o->argument ? o->argument : "";
    snprintf(left, sizeof left, "%s%s%s", o->name, *argument && *argument != '[' ? " " : "", argument);
    if (o->letter)
        fprintf(to, "  -%c, %-24s %s\n", o->letter, left, o->help);
    else
        fprintf(to, "  %-28s %s\n", left, o->help);
}

void cli_print_help(FILE *to, const cli_command *command) {
    print_usage(to, command);
    fprintf(to, "\n%s\n\noptions\n", command->summary);
    for (size_t i = 0; i < command->noptions; i++) print_option(to, &command->options[i]);
    for (size_t i = 0; i < cli_ncommon_options; i++) print_option(to, &cli_common_options[i]);
    if (command->print_more) command->print_more(to);
    if (command->example) fprintf(to, "\nexample\n  %s\n", command->example);
}

static weft_status io_error(const char *path, const char *doing) {
    return weft_status_create(WEFT_IO, path, "cannot %s: %s", doing, strerror(errno));
}

/* Pipes and devices cannot be replaced. */
static weft_status write_as_it_is(const char *path, const char *bytes, size_t nbytes) {
    FILE *file = fopen(path, "wb");
    if (!file) return io_error(path, "open");
    bool good = fwrite(bytes, 1, nbytes, file) == nbytes;
    good = fclose(file) == 0 && good;
    return good ? NULL : io_error(path, "write");
}

static weft_status write_file(const char *path, const char *bytes, size_t nbytes) {
    if (strcmp(path, "-") == 0)
        return fwrite(bytes, 1, nbytes, stdout) == nbytes ? NULL : io_error("standard output", "write");
    struct stat found;
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) return write_as_it_is(path, bytes, nbytes);
    size_t room = strlen(path) + 16;
    char *temporary = malloc(room);
    if (!temporary) return weft_status_create(WEFT_OUT_OF_MEMORY, path, "out of memory");
    snprintf(temporary, room, "%s.tmp%ld", path, (long)getpid());
    weft_status status = NULL;
    FILE *file = fopen(temporary, "wb");
    bool opened = file != NULL;
    bool good = opened && fwrite(bytes, 1, nbytes, file) == nbytes;
    if (opened) good = (fclose(file) == 0) && good;
    if (!good || rename(temporary, path) != 0) {
        status = io_error(path, "write");
        if (opened) unlink(temporary);
    }
    free(temporary);
    return status;
}

weft_status cli_write_taken(const cli_args *args, const char *path, char *bytes, size_t nbytes) {
    weft_status status = write_file(path, bytes, nbytes);
    weft_bytes_free(args->context, bytes, nbytes);
    return status;
}

weft_status cli_read(const char *path, char **out_bytes, size_t *out_nbytes) {
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file) return io_error(path, "read");
    char *bytes = NULL;
    size_t nbytes = 0, capacity = 0;
    weft_status status = NULL;
    for (;;) {
        if (capacity - nbytes < 4096) {
            capacity = capacity ? 2 * capacity : 8192;
            char *grown = realloc(bytes, capacity);
            if (!grown) {
                status = weft_status_create(WEFT_OUT_OF_MEMORY, path, "out of memory");
                goto done;
            }
            bytes = grown;
        }
        size_t got = fread(bytes + nbytes, 1, capacity - nbytes - 1, file);
        nbytes += got;
        if (got == 0) break;
    }
    if (ferror(file)) {
        status = io_error(path, "read");
        goto done;
    }
    bytes[nbytes] = '\0';
    *out_bytes = bytes;
    *out_nbytes = nbytes;
    bytes = NULL;
done:
    free(bytes);
    if (!is_stdin) fclose(file);
    return status;
}

weft_status cli_no_memory(void) {
    return weft_status_create(WEFT_OUT_OF_MEMORY, NULL, "out of memory");
}

bool cli_ends_with(const char *path, const char *tail) {
    size_t n = strlen(path), m = strlen(tail);
    return n >= m && strcmp(path + n - m, tail) == 0;
}

const char *cli_bytes(double nbytes, char *out, size_t out_nbytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (nbytes >= 1024 && unit + 1 < sizeof units / sizeof *units) nbytes /= 1024, unit++;
    snprintf(out, out_nbytes, unit ? "%.1f %s" : "%.0f %s", nbytes, units[unit]);
    return out;
}
