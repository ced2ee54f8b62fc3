/* show_picture.c: a picture of a program's block 0, in the language of Graphviz: a box an op, an arrow from the op that
 * writes a value to each that reads it. It is dashed where a stream waits for an event. dot, where it is there, makes
 * SVG. */
#include <errno.h>
#include <search.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/show_parts.h"

enum {
    MOST_DRAWN = 1000,
    MANY = 100
}; /* boxes: what dot draws at all, and what it draws in seconds with names at arrows */

typedef struct edge {
    const weft_var *var; /* NULL: an event */
    const char *event;
    size_t to;
    ptrdiff_t from; /* -1: nothing in the block has written it */
} edge;

/* Which op has last written a var, or recorded an event. */
typedef struct maker {
    const void *key;
    size_t op;
} maker;

typedef struct picture {
    const weft_op **ops;
    bool *shown;
    size_t nops;
    edge *edges; /* in the order of `to` */
    size_t nedges, capacity;
    void *writers; /* tree of maker */
    void *events;
    bool failed;
} picture;

/* --- who reads what whom writes ----------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    const maker *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const maker *)a)->key, ((const maker *)b)->key);
}

typedef int compare(const void *a, const void *b);

static void note_maker(picture *p, void **tree, compare *by, const void *key, size_t op) {
    maker *mine = malloc(sizeof *mine);
    if (!mine) {
        p->failed = true;
        return;
    }
    *mine = (maker){key, op};
    maker **found = tsearch(mine, tree, by);
    if (!found || *found != mine) free(mine);
    if (found)
        (*found)->op = op;
    else
        p->failed = true;
}

static ptrdiff_t find_maker(void *const *tree, compare *by, const void *key) {
    maker **found = tfind(&(maker){key, 0}, tree, by);
    return found ? (ptrdiff_t)(*found)->op : -1;
}

static void add_edge(picture *p, edge e) {
    if (p->nedges == p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 256;
        edge *more = realloc(p->edges, capacity * sizeof *more);
        if (!more) {
            p->failed = true;
            return;
        }
        p->edges = more;
        p->capacity = capacity;
    }
    p->edges[p->nedges++] = e;
}

static void add_op(picture *p, size_t index) {
    const weft_op *op = p->ops[index];
    for (int output = 0; output < 2; output++)
        for (size_t s = 0; s < weft_op_nslots(op, output); s++) {
            size_t nargs = 0;
            weft_op_slot(op, output, s, &nargs);
            for (size_t i = 0; i < nargs; i++) {
                const weft_var *v = weft_op_arg(op, output, s, i);
                if (!v) continue;
                if (output)
                    note_maker(p, &p->writers, by_address, v, index);
                else
                    add_edge(p, (edge){v, NULL, index, find_maker(&p->writers, by_address, v)});
            }
        }
    const char *name;
    for (size_t i = 0; (name = weft_op_event_awaited(op, i)); i++)
        add_edge(p, (edge){NULL, name, index, find_maker(&p->events, by_name, name)});
    if (weft_op_event_recorded(op)[0]) note_maker(p, &p->events, by_name, weft_op_event_recorded(op), index);
}

static weft_status picture_init(picture *p, const weft_block *block) {
    size_t n = weft_block_nops(block);
    *p = (picture){.ops = calloc(n + 1, sizeof *p->ops), .shown = calloc(n + 1, sizeof *p->shown)};
    if (!p->ops || !p->shown) return cli_no_memory();
    for (const weft_op *op = weft_block_first_op(block); op; op = weft_op_next(op)) p->ops[p->nops++] = op;
    for (size_t i = 0; i < p->nops; i++) add_op(p, i);
    return p->failed ? cli_no_memory() : NULL;
}

static void picture_fini(picture *p) {
    tdestroy(p->writers, free);
    tdestroy(p->events, free);
    free(p->ops);
    free(p->shown);
    free(p->edges);
}

/* --- what is drawn ------------------------------------------------------------------------------------------------ */

/* One step further along every arrow. */
static void add_neighbours(picture *p, bool *next) {
    memcpy(next, p->shown, p->nops * sizeof *next);
    for (size_t i = 0; i < p->nedges; i++) {
        const edge *e = &p->edges[i];
        if (e->from < 0) continue;
        if (p->shown[e->from]) next[e->to] = true;
        if (p->shown[e->to]) next[e->from] = true;
    }
    memcpy(p->shown, next, p->nops * sizeof *next);
}

/* The ops that are asked for, and what is `depth` arrows away from them. */
static weft_status choose(picture *p, const cli_args *args) {
    long long around = -1, ring = -1, depth = cli_given(args, "--around") ? 2 : 1;
    bool all = !cli_given(args, "--around") && !cli_given(args, "--ring"), any = all;
    cli_int(args, "--around", 0, 1LL << 40, &around);
    cli_int(args, "--ring", 0, INT64_MAX, &ring);
    cli_int(args, "--depth", 0, 1 << 20, &depth);
    if (around >= (long long)p->nops)
        return weft_status_create(WEFT_NOT_FOUND, args->positional[0], "--around: block 0 has %zu ops, found %lld",
                                  p->nops, around);
    for (size_t i = 0; i < p->nops; i++) {
        bool on_ring = ring >= 0 && weft_op_attr_int(p->ops[i], "ring_id", -1) == ring;
        p->shown[i] = all ? op_is_shown(args, p->ops[i]) : on_ring || (long long)i == around;
        any |= p->shown[i];
    }
    if (!any) return weft_status_create(WEFT_NOT_FOUND, args->positional[0], "no op is on ring %lld", ring);
    bool *next = malloc(p->nops + 1);
    if (!next) return cli_no_memory();
    for (long long k = 0; !all && k < depth && k < (long long)p->nops; k++) add_neighbours(p, next);
    free(next);
    return NULL;
}

/* --- the text ----------------------------------------------------------------------------------------------------- */

static void put_escaped(FILE *to, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', to);
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, to);
    }
}

/* As in a timeline: forward, backward, optimize, collective. */
static const char *colour_of(const weft_op *op) {
    int role = weft_op_role(op);
    if (weft_op_attr_int(op, "ring_id", -1) >= 0) return "#bfe6d2";
    if (role == WEFT_ROLE_NOT_SPECIFIED) return "#eeeeee";
    if (role & (WEFT_ROLE_OPTIMIZE | WEFT_ROLE_LR_SCHED)) return "#d9d2f2";
    return role & WEFT_ROLE_BACKWARD ? "#f8dcc2" : "#cfe1f5";
}

static void put_op(FILE *to, const weft_op *op, size_t index, bool is_marked) {
    long long ring = weft_op_attr_int(op, "ring_id", -1);
    fprintf(to, "  op%zu [label=\"%zu ", index, index);
    put_escaped(to, weft_op_type(op));
    if (ring >= 0) fprintf(to, "\\nring %lld", ring);
    if (weft_op_stream(op)[0]) fputs("\\n", to), put_escaped(to, weft_op_stream(op));
    fprintf(to, "\", fillcolor=\"%s\"%s];\n", colour_of(op), is_marked ? ", penwidth=3" : "");
}

/* "float32[4, 8]" */
static void put_type(FILE *to, const weft_var *v) {
    const char *dtype = weft_dtype_name(weft_var_dtype(v));
    fprintf(to, "%s[", dtype ? dtype : "?");
    for (size_t i = 0; i < weft_var_ndim(v); i++) fprintf(to, "%s%lld", i ? ", " : "", (long long)weft_var_dims(v)[i]);
    fputc(']', to);
}

/* Parameters and feeds: what comes from outside of the block. dot takes a second line of the same node as the first. */
static void put_source(FILE *to, const weft_var *v) {
    fputs("  \"v ", to);
    put_escaped(to, weft_var_name(v));
    fputs("\" [shape=oval, fillcolor=white, label=\"", to);
    put_escaped(to, weft_var_name(v));
    fputs("\\n", to);
    put_type(to, v);
    fputs("\"];\n", to);
}

static void put_edge(FILE *to, const edge *e, bool is_named) {
    const char *label = e->var ? weft_var_name(e->var) : e->event;
    if (e->from < 0 && !e->var) return;
    if (e->from < 0) {
        put_source(to, e->var);
        fputs("  \"v ", to);
        put_escaped(to, label);
        fprintf(to, "\" -> op%zu;\n", e->to);
        return;
    }
    fprintf(to, "  op%zd -> op%zu [%s=\"", e->from, e->to, is_named ? "label" : "edgetooltip");
    put_escaped(to, label);
    fprintf(to, "\"%s];\n", e->var ? "" : ", style=dashed, color=\"#b03030\", fontcolor=\"#b03030\"");
}

static size_t count_shown(const picture *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->nops; i++) n += p->shown[i];
    return n;
}

/* A large picture is drawn with straight arrows, and names at them only where one points: else dot takes minutes. */
static void put_picture(picture *p, const cli_args *args, FILE *to) {
    long long around = -1;
    bool is_named = count_shown(p) <= MANY;
    cli_int(args, "--around", 0, 1LL << 40, &around);
    fputs("digraph \"", to);
    put_escaped(to, args->positional[0]);
    fputs("\" {\n  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=11];\n"
          "  edge [fontname=\"sans-serif\", fontsize=9, color=\"#66707e\"];\n",
          to);
    if (!is_named) fputs("  graph [splines=line, mclimit=0.1, nslimit=1, nslimit1=1];\n", to);
    for (size_t i = 0; i < p->nops; i++)
        if (p->shown[i]) put_op(to, p->ops[i], i, (long long)i == around);
    for (size_t i = 0; i < p->nedges; i++) {
        const edge *e = &p->edges[i];
        if (p->shown[e->to] && (e->from < 0 || p->shown[e->from])) put_edge(to, e, is_named);
    }
    fputs("}\n", to);
}

/* --- dot ---------------------------------------------------------------------------------------------------------- */

extern char **environ;

/* Starts `dot` with its stdin at *out_stdin, and its stdout ours. */
static weft_status start_dot(pid_t *out_pid, FILE **out_stdin) {
    char name[] = "dot", form[] = "-Tsvg", *const words[] = {name, form, NULL};
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) return weft_status_create(WEFT_IO, "dot", "cannot make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    int failed = posix_spawnp(out_pid, name, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    if (!failed && (*out_stdin = fdopen(ends[1], "w"))) return NULL;
    close(ends[1]);
    if (failed == ENOENT)
        return weft_status_create(WEFT_UNSUPPORTED, NULL,
                                  "--svg needs Graphviz: there is no \"dot\" in PATH; --dot prints what it would draw");
    return weft_status_create(WEFT_IO, "dot", "cannot start it: %s", strerror(failed ? failed : errno));
}

static weft_status draw(picture *p, const cli_args *args) {
    pid_t pid;
    FILE *to;
    int result = 0;
    weft_status status = start_dot(&pid, &to);
    if (status) return status;
    signal(SIGPIPE, SIG_IGN); /* its exit status says that it has ended early */
    put_picture(p, args, to);
    bool is_written = fclose(to) == 0;
    while (waitpid(pid, &result, 0) < 0 && errno == EINTR) continue;
    if (is_written && WIFEXITED(result) && WEXITSTATUS(result) == 0) return NULL;
    return weft_status_create(WEFT_RUNTIME, "dot", "it failed with exit status %d",
                              WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result));
}

/* --- the command -------------------------------------------------------------------------------------------------- */

bool picture_options_are_good(const cli_args *args) {
    static const char *const parts[] = {"--around", "--ring", "--depth"};
    bool draws = cli_given(args, "--dot") || cli_given(args, "--svg");
    long long number;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (cli_given(args, parts[i]) && !draws)
            return cli_usage_error(args->command, "%s: expected --dot or --svg", parts[i]), false;
        if (!cli_int(args, parts[i], 0, INT64_MAX, &number)) return false;
    }
    return true;
}

weft_status show_picture(const cli_args *args, const weft_program *program) {
    picture p;
    weft_status status = picture_init(&p, weft_program_block(program, 0));
    if (!status) status = choose(&p, args);
    size_t n = status ? 0 : count_shown(&p);
    if (!status && n > MOST_DRAWN && cli_given(args, "--svg"))
        status = weft_status_create(WEFT_LIMIT, args->positional[0],
                                    "--svg: %zu ops are too many for one picture (at most %d): --around OP or --ring N "
                                    "draws a part",
                                    n, MOST_DRAWN);
    if (!status && cli_given(args, "--svg"))
        status = draw(&p, args);
    else if (!status)
        put_picture(&p, args, stdout);
    picture_fini(&p);
    return status;
}
