/* diff.c: weft diff: what differs between two programs, by the lines of their YAML form (an op or a var is a line).
 *
 * The shortest edit script by E. Myers' greedy algorithm (An O(ND) Difference Algorithm and Its Variations, 1986),
 * after the common head and tail are cut off. Its trace costs D * D / 2 integers, so programs that differ in more lines
 * than max_edits are only counted. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "weft/program.h"

enum { max_edits = 3000, shown_columns = 160 };

static const cli_option options[] = {
    {"--full", 0, NULL, "do not cut long lines"},
};

typedef struct line {
    const char *text;
    size_t nbytes;
} line;

typedef struct document {
    weft_context *context;
    char *bytes;
    size_t nbytes;
    line *lines;
    size_t nlines;
} document;

static void document_fini(document *d) {
    weft_bytes_free(d->context, d->bytes, d->nbytes);
    free(d->lines);
}

static weft_status document_init(document *d, weft_context *context, const char *path) {
    *d = (document){.context = context};
    weft_program *program;
    weft_status status = weft_program_load(context, path, NULL, &program);
    if (status) return status;
    status = weft_program_print(program, WEFT_FORM_YAML, &d->bytes, &d->nbytes);
    weft_program_destroy(program);
    if (status) return status;
    size_t n = 0;
    for (size_t i = 0; i < d->nbytes; i++) n += d->bytes[i] == '\n';
    d->lines = calloc(n + 1, sizeof *d->lines);
    if (!d->lines) return weft_status_create(WEFT_OUT_OF_MEMORY, path, "out of memory");
    const char *at = d->bytes, *end = d->bytes + d->nbytes;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t nbytes = (size_t)((newline ? newline : end) - at);
        d->lines[d->nlines++] = (line){at, nbytes};
        at += nbytes + 1;
    }
    return NULL;
}

static bool same(const line *a, const line *b) {
    return a->nbytes == b->nbytes && memcmp(a->text, b->text, a->nbytes) == 0;
}

static void print_line(char sign, const line *l, bool full) {
    size_t n = full || l->nbytes <= shown_columns ? l->nbytes : shown_columns;
    printf("%s%c %.*s%s%s\n", cli_colour(stdout, sign == '-' ? RED : GREEN), sign, (int)n, l->text,
           n < l->nbytes ? "..." : "", cli_colour(stdout, PLAIN));
}

/* The furthest x on each diagonal after each number of edits. row(d) has 2d + 1 entries, diagonal k at k + d. */
typedef struct trace {
    int *rows;
    int nedits;
} trace;

static int *row(const trace *t, int d) {
    return t->rows + (size_t)d * (size_t)d;
}

/* Where the path to diagonal k with d edits comes from: x before sliding along equal lines. */
static int step(const int *previous, int d, int k) {
    bool down = k == -d || (k != d && previous[k - 1 + d - 1] < previous[k + 1 + d - 1]);
    return down ? previous[k + 1 + d - 1] : previous[k - 1 + d - 1] + 1;
}

/* Fills the trace; false if more than max_edits are needed or memory ran out. */
static bool find_edits(trace *t, const line *a, int na, const line *b, int nb) {
    size_t capacity = 0;
    for (int d = 0; d <= max_edits; d++) {
        size_t needed = (size_t)(d + 1) * (size_t)(d + 1);
        if (needed > capacity) {
            capacity = 2 * needed;
            int *grown = realloc(t->rows, capacity * sizeof *grown);
            if (!grown) return false;
            t->rows = grown;
        }
        for (int k = -d; k <= d; k += 2) {
            int x = d == 0 ? 0 : step(row(t, d - 1), d, k);
            while (x < na && x - k < nb && x - k >= 0 && same(&a[x], &b[x - k])) x++;
            row(t, d)[k + d] = x;
            if (d > 0 && k < d) row(t, d)[k + d + 1] = -1;
            if (x >= na && x - k >= nb) return t->nedits = d, true;
        }
    }
    return false;
}

/* Walks the trace back and marks deleted lines of a and inserted lines of b. */
static void mark_edits(const trace *t, int na, int nb, char *deleted, char *inserted) {
    int x = na, y = nb;
    for (int d = t->nedits; d > 0; d--) {
        const int *previous = row(t, d - 1);
        int k = x - y;
        bool down = k == -d || (k != d && previous[k - 1 + d - 1] < previous[k + 1 + d - 1]);
        int from = down ? previous[k + 1 + d - 1] : previous[k - 1 + d - 1];
        if (down)
            inserted[from - (k + 1)] = 1, y = from - (k + 1);
        else
            deleted[from] = 1, y = from - (k - 1);
        x = from;
    }
}

static void print_edits(const line *a, int na, const char *deleted, const line *b, int nb, const char *inserted,
                        bool full) {
    int x = 0, y = 0;
    while (x < na || y < nb) {
        if (x < na && deleted[x])
            print_line('-', &a[x++], full);
        else if (y < nb && inserted[y])
            print_line('+', &b[y++], full);
        else
            x++, y++;
    }
}

/* Prints the difference; the number of lines that differ, or -1 if it could not be found. */
static long diff_lines(const document *a, const document *b, bool full) {
    size_t head = 0, tail = 0, shorter = a->nlines < b->nlines ? a->nlines : b->nlines;
    while (head < shorter && same(&a->lines[head], &b->lines[head])) head++;
    while (tail < shorter - head && same(&a->lines[a->nlines - 1 - tail], &b->lines[b->nlines - 1 - tail])) tail++;
    const line *from = a->lines + head, *to = b->lines + head;
    int na = (int)(a->nlines - head - tail), nb = (int)(b->nlines - head - tail);
    trace t = {0};
    char *marks = calloc((size_t)na + (size_t)nb + 1, 1);
    long nedits = -1;
    if (marks && find_edits(&t, from, na, to, nb)) {
        mark_edits(&t, na, nb, marks, marks + na);
        print_edits(from, na, marks, to, nb, marks + na, full);
        nedits = t.nedits;
    }
    free(marks);
    free(t.rows);
    return nedits;
}

static int run(cli_args *args) {
    document a = {0}, b = {0};
    weft_status status = document_init(&a, args->context, args->positional[0]);
    if (!status) status = document_init(&b, args->context, args->positional[1]);
    int result = EXIT_DONE;
    if (!status) {
        long nedits = diff_lines(&a, &b, cli_given(args, "--full"));
        if (nedits < 0)
            fprintf(stderr, "weft diff: the programs differ in more than %d lines\n", max_edits);
        else
            fprintf(stderr, "%ld line%s differ%s\n", nedits, nedits == 1 ? "" : "s", nedits == 1 ? "s" : "");
        result = nedits == 0 ? EXIT_DONE : EXIT_WORK_FAILED;
    }
    document_fini(&a);
    document_fini(&b);
    return status ? cli_fail(args, status) : result;
}

const cli_command command_diff = {
    .name = "diff",
    .arguments = "A B [--full]",
    .summary = "Prints the lines in which the YAML forms of two programs differ; exits 0 if there are none, else 1.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 2,
    .max_positional = 2,
    .example = "weft diff rank0.pdmodel optimized.pdmodel",
    .run = run,
};
