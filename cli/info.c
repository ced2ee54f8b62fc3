/* info.c: weft info: what this build can do, or what is in a program. */
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "weft/info.h"
#include "weft/op_table.h"
#include "weft/program.h"

static const cli_option options[] = {JSON_OPTION};

static int print_json(const cli_args *args, json_t *root) {
    weft_status status = cli_json_print(args, root, stdout);
    return status ? cli_fail(args, status) : EXIT_DONE;
}

static json_t *build_json(void) {
    json_t *features = json_array();
    for (size_t i = 0; i < weft_feature_count(); i++) {
        weft_feature f = weft_feature_at(i);
        cli_json_put(&features, NULL,
                     json_pack("{s:s, s:b, s:s}", "name", f.name, "found", f.found, "detail", f.detail));
    }
    return json_pack("{s:s, s:o}", "version", weft_version(), "features", features);
}

static int print_build(void) {
    printf("%s\n", weft_version());
    for (size_t i = 0; i < weft_feature_count(); i++) {
        weft_feature f = weft_feature_at(i);
        printf("%-8s %-3s  %s\n", f.name, f.found ? "yes" : "no", f.detail);
    }
    return EXIT_DONE;
}

typedef struct type_count {
    const char *type;
    size_t count;
} type_count;

static int by_count(const void *a, const void *b) {
    const type_count *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->type, y->type);
}

static int by_type(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What keeps ops of a type from running; NULL: nothing does. */
static const char *lack_of(const char *type) {
    weft_op_info info;
    if (!weft_op_info_find(type, &info)) return "not in the op table: cannot run";
    return weft_op_can_run(type) ? NULL : "no kernel";
}

/* Counts of equal strings, most frequent first; sorts the strings. */
static type_count *count_types(const char **types, size_t n, size_t *out_ncounts) {
    type_count *counts = calloc(n ? n : 1, sizeof *counts);
    size_t ncounts = 0;
    if (!counts) return NULL;
    qsort(types, n, sizeof *types, by_type);
    for (size_t i = 0; i < n; i++) {
        if (ncounts == 0 || strcmp(counts[ncounts - 1].type, types[i]) != 0) counts[ncounts++].type = types[i];
        counts[ncounts - 1].count++;
    }
    qsort(counts, ncounts, sizeof *counts, by_count);
    *out_ncounts = ncounts;
    return counts;
}

typedef struct tally {
    size_t forward, backward, optimize, other, collectives;
} tally;

static void count_op(tally *t, const weft_op *op) {
    int role = weft_op_role(op);
    if (role & WEFT_ROLE_OPTIMIZE)
        t->optimize++;
    else if (role & WEFT_ROLE_BACKWARD)
        t->backward++;
    else if (role == WEFT_ROLE_FORWARD || role == WEFT_ROLE_LOSS)
        t->forward++;
    else
        t->other++;
    if (weft_op_attr_int(op, "ring_id", -1) >= 0) t->collectives++;
}

static void count_vars(const weft_program *program, size_t *out_vars, size_t *out_persistable, double *out_nbytes) {
    for (size_t b = 0; b < weft_program_nblocks(program); b++) {
        const weft_block *block = weft_program_block(program, b);
        for (size_t i = 0; i < weft_block_nvars(block); i++) {
            const weft_var *v = weft_block_var_at(block, i);
            ++*out_vars;
            if (!weft_var_persistable(v)) continue;
            ++*out_persistable;
            double numel = 1;
            for (size_t d = 0; d < weft_var_ndim(v); d++) numel *= (double)weft_var_dims(v)[d];
            if (weft_var_kind_of(v) == WEFT_DENSE_TENSOR)
                *out_nbytes += numel * (double)weft_dtype_nbytes(weft_var_dtype(v));
        }
    }
}

typedef struct contents {
    size_t nops, nvars, npersistable;
    double nbytes; /* of persistables */
    tally roles;
    type_count *types;
    size_t ntypes;
    weft_op_version *differing; /* op types that versions of Paddle define differently, or compute wrongly */
    size_t ndiffering;
} contents;

static weft_status note_version(const weft_op *op, contents *c) {
    weft_op_version v, *more;
    if (!weft_op_version_find(op, &v)) return NULL;
    for (size_t i = 0; i < c->ndiffering; i++)
        if (c->differing[i].type == v.type) return NULL;
    if (!(more = realloc(c->differing, (c->ndiffering + 1) * sizeof *more))) return cli_no_memory();
    c->differing = more;
    c->differing[c->ndiffering++] = v;
    return NULL;
}

static weft_status count_contents(const weft_program *program, contents *out) {
    size_t n = 0;
    *out = (contents){.nops = weft_program_nops(program)};
    const char **types = calloc(out->nops ? out->nops : 1, sizeof *types);
    if (!types) return cli_no_memory();
    weft_status status = NULL;
    for (size_t b = 0; b < weft_program_nblocks(program); b++)
        for (const weft_op *op = weft_block_first_op(weft_program_block(program, b)); op; op = weft_op_next(op)) {
            types[n++] = weft_op_type(op);
            count_op(&out->roles, op);
            if (!status) status = note_version(op, out);
        }
    count_vars(program, &out->nvars, &out->npersistable, &out->nbytes);
    out->types = count_types(types, n, &out->ntypes);
    free(types);
    return status || out->types ? status : cli_no_memory();
}

/* Which of the definitions the program gets. */
static const char *meaning_of(const weft_op_version *v) {
    return v->versions ? "right" : v->is_older ? "older" : "newer";
}

static void print_versions(const contents *c) {
    if (c->ndiffering) printf("differs between versions of Paddle (docs/differences.md)\n");
    for (size_t i = 0; i < c->ndiffering; i++) {
        const weft_op_version *v = &c->differing[i];
        if (v->versions)
            printf("  %s: Weft computes what is right, %s; wrong in %s: %s\n", v->type, v->now, v->versions, v->before);
        else
            printf("  %s: this program means the %s definition. Before 3.0.0: %s. Since: %s\n", v->type, meaning_of(v),
                   v->before, v->now);
    }
}

static void print_types(const contents *c) {
    printf("op types\n");
    for (size_t i = 0; i < c->ntypes; i++) {
        const char *lack = lack_of(c->types[i].type);
        printf("  %6zu  %s%s%s%s\n", c->types[i].count, c->types[i].type, lack ? "  (" : "", lack ? lack : "",
               lack ? ")" : "");
    }
}

static json_t *program_json(const weft_program *program, const contents *c) {
    json_t *types = json_object(), *rank = json_null();
    for (size_t i = 0; i < c->ntypes; i++)
        cli_json_put(&types, c->types[i].type, json_integer((json_int_t)c->types[i].count));
    if (weft_program_rank(program) >= 0) rank = json_integer(weft_program_rank(program));
    json_t *lacking = json_object(), *differing = json_object();
    for (size_t i = 0; i < c->ntypes; i++)
        if (lack_of(c->types[i].type)) cli_json_put(&lacking, c->types[i].type, json_string(lack_of(c->types[i].type)));
    for (size_t i = 0; i < c->ndiffering; i++)
        cli_json_put(&differing, c->differing[i].type, json_string(meaning_of(&c->differing[i])));
    json_t *ops = json_pack("{s:I, s:I, s:I, s:I, s:I}", "all", (json_int_t)c->nops, "forward",
                            (json_int_t)c->roles.forward, "backward", (json_int_t)c->roles.backward, "optimize",
                            (json_int_t)c->roles.optimize, "other", (json_int_t)c->roles.other);
    json_t *vars = json_pack("{s:I, s:I, s:I}", "all", (json_int_t)c->nvars, "persistable", (json_int_t)c->npersistable,
                             "persistable_nbytes", (json_int_t)c->nbytes);
    return json_pack("{s:I, s:o, s:I, s:o, s:o, s:o, s:I, s:o, s:o}", "blocks",
                     (json_int_t)weft_program_nblocks(program), "ops", ops, "collectives",
                     (json_int_t)c->roles.collectives, "vars", vars, "rank", rank, "op_types", types, "version",
                     (json_int_t)weft_program_version(program), "cannot_run", lacking, "differs", differing);
}

static void print_program(const weft_program *program, const contents *c) {
    const tally t = c->roles;
    char size[32];
    printf("blocks       %zu\n", weft_program_nblocks(program));
    printf("ops          %zu (forward %zu, backward %zu, optimize %zu, other %zu)\n", c->nops, t.forward, t.backward,
           t.optimize, t.other);
    printf("collectives  %zu\n", t.collectives);
    printf("vars         %zu, %zu persistable, %s\n", c->nvars, c->npersistable,
           cli_bytes(c->nbytes, size, sizeof size));
    if (weft_program_rank(program) >= 0) printf("rank         %lld\n", (long long)weft_program_rank(program));
    int64_t version = weft_program_version(program);
    if (version > 0)
        printf("Paddle       %lld.%lld.%lld\n", (long long)(version / 1000000), (long long)(version / 1000 % 1000),
               (long long)(version % 1000));
    print_types(c);
    print_versions(c);
}

static int run(cli_args *args) {
    bool as_json = cli_given(args, "--json");
    if (args->npositional == 0) return as_json ? print_json(args, build_json()) : print_build();
    weft_program *program;
    contents c = {.types = NULL};
    weft_status status = weft_program_load(args->context, args->positional[0], NULL, &program);
    if (status) return cli_fail(args, status);
    status = count_contents(program, &c);
    if (!status && as_json) status = cli_json_print(args, program_json(program, &c), stdout);
    if (!status && !as_json) print_program(program, &c);
    free(c.types);
    free(c.differing);
    weft_program_destroy(program);
    return status ? cli_fail(args, status) : EXIT_DONE;
}

const cli_command command_info = {
    .name = "info",
    .arguments = "[PROGRAM] [--json]",
    .summary = "Says what this build can do, or what is in a program.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .max_positional = 1,
    .example = "weft info serial.pdmodel",
    .run = run,
};
