/* profile.c: profiles of runs, read back, and set beside the instructions of a plan.
 *
 * An op is found by its type, the first var that it writes, and how many such ops came before: positions change as
 * passes rewrite a program, these stay. What passes put in and take out may be on one side alone. Anything else that is
 * missing on one side shows that the profile is of another program. */
#include "plan/profile.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "ops/collectives.h"
#include "plan/timeline/timeline.h"
#include "program/grow.h"

typedef struct profile_row {
    const char *type, *output;
    double seconds;
    uint32_t order;                /* in the profile */
    size_t at;                     /* in its text */
    bool is_collective, is_beside; /* is_beside: on another stream than the first op */
} profile_row;

/* Ranks that ran the same plan. */
typedef struct profile_ranks {
    profile_row *rows;
    size_t nrows, capacity;
    const char *stream; /* of the first op; NULL: not said */
    double rest;        /* what a step takes besides collectives, in seconds; 0: not said */
    double longer;      /* that takes so many times as long as the ops do: 1 or more */
} profile_ranks;

struct weft_profile {
    weft_context *context;
    arena arena;
    json_cursor text;
    profile_ranks *groups;
    size_t ngroups, capacity;
    double step_seconds;
};

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* A key and its colon; *out_more: false at the end of the object. */
static weft_status next_key(weft_profile *p, bool first, json_t **out_key, bool *out_more) {
    json_cursor *c = &p->text;
    *out_more = false;
    if (first) TRY(json_expect(c, '{'));
    if (json_accept(c, '}')) return NULL;
    if (!first) TRY(json_expect(c, ','));
    size_t at = c->at;
    TRY(json_take(c, out_key));
    if (!json_is_string(*out_key)) {
        json_decref(*out_key);
        return json_error(c, at, "expected a key");
    }
    *out_more = true;
    weft_status status = json_expect(c, ':');
    if (status) json_decref(*out_key);
    return status;
}

/* A number in the text, not negative. */
static weft_status read_seconds(weft_profile *p, double *out) {
    size_t at = p->text.at;
    json_t *number;
    TRY(json_take(&p->text, &number));
    *out = json_is_number(number) ? json_number_value(number) : -1;
    json_decref(number);
    return *out >= 0 && isfinite(*out) ? NULL : json_error(&p->text, at, "expected seconds");
}

static weft_status fill_row(weft_profile *p, const json_t *from, size_t at, profile_ranks *g, profile_row *row) {
    const char *type, *output, *stream = "";
    double seconds, median = -1;
    if (json_unpack((json_t *)from, "{s:s,s:s,s:F,s?F,s?s}", "op", &type, "output", &output, "seconds", &seconds,
                    "median_seconds", &median, "stream", &stream) != 0)
        return json_error(&p->text, at, "expected an op of a profile: op, output, seconds");
    if (median >= 0) seconds = median;
    if (!(seconds >= 0) || !isfinite(seconds)) return json_error(&p->text, at, "%s: expected seconds", type);
    row->type = arena_string(&p->arena, type, strlen(type));
    row->output = arena_string(&p->arena, output, strlen(output));
    row->seconds = seconds;
    row->at = at;
    if (!g->stream) g->stream = arena_string(&p->arena, stream, strlen(stream));
    row->is_beside = !g->stream || strcmp(stream, g->stream) != 0;
    const collective_schema *c = collectives_find(p->context, type);
    row->is_collective = c && c->kind != COLLECTIVE_NONE;
    return row->type && row->output ? NULL : base_out_of_memory();
}

static weft_status read_rows(weft_profile *p, profile_ranks *g) {
    bool more;
    TRY(json_next(&p->text, true, &more));
    while (more) {
        json_t *row;
        size_t at = p->text.at;
        TRY(json_take(&p->text, &row));
        weft_status status = grow(&p->arena, &g->rows, &g->capacity, g->nrows + 1, sizeof *g->rows);
        if (!status) status = fill_row(p, row, at, g, &g->rows[g->nrows]);
        json_decref(row);
        TRY(status);
        g->rows[g->nrows].order = (uint32_t)g->nrows;
        g->nrows++;
        TRY(json_next(&p->text, false, &more));
    }
    return NULL;
}

static weft_status read_value(weft_profile *p, const char *key, int depth);

static weft_status read_object(weft_profile *p, int depth) {
    bool more;
    json_t *key;
    TRY(next_key(p, true, &key, &more));
    while (more) {
        weft_status status = read_value(p, json_string_value(key), depth);
        json_decref(key);
        TRY(status);
        TRY(next_key(p, false, &key, &more));
    }
    return NULL;
}

static weft_status read_groups(weft_profile *p) {
    bool more;
    TRY(json_next(&p->text, true, &more));
    while (more) {
        TRY(grow(&p->arena, &p->groups, &p->capacity, p->ngroups + 1, sizeof *p->groups));
        p->groups[p->ngroups++] = (profile_ranks){0};
        TRY(read_object(p, 1));
        TRY(json_next(&p->text, false, &more));
    }
    return NULL;
}

/* Depth 0: of the profile; 1: of ranks that ran the same plan. */
static weft_status read_value(weft_profile *p, const char *key, int depth) {
    if (depth == 0 && strcmp(key, "ranks") == 0) return read_groups(p);
    if (depth == 0 && strcmp(key, "median_step_seconds") == 0) return read_seconds(p, &p->step_seconds);
    if (depth == 0 && strcmp(key, "step_seconds") == 0 && p->step_seconds <= 0)
        return read_seconds(p, &p->step_seconds);
    if (depth == 1 && strcmp(key, "rest_seconds") == 0) return read_seconds(p, &p->groups[p->ngroups - 1].rest);
    if (depth == 1 && strcmp(key, "ops") == 0) return read_rows(p, &p->groups[p->ngroups - 1]);
    return json_skip(&p->text);
}

/* A step takes longer than the medians of its ops and its collectives: threads wake up, a rank is late, now and then
 * an op takes longer. Where all ran one after another it is told how much: each op takes its part in proportion. */
static double find_longer(const profile_ranks *g) {
    double ops = 0;
    for (size_t i = 0; i < g->nrows; i++) {
        if (g->rows[i].is_beside) return 1;
        if (!g->rows[i].is_collective) ops += g->rows[i].seconds;
    }
    return g->rest > ops && ops > 0 ? g->rest / ops : 1;
}

static weft_status read_all(weft_profile *p) {
    TRY(read_object(p, 0));
    for (size_t g = 0; g < p->ngroups; g++) p->groups[g].longer = find_longer(&p->groups[g]);
    if (!json_at_end(&p->text)) return json_error(&p->text, p->text.at, "expected the end of the profile");
    for (size_t g = 0; g < p->ngroups; g++)
        if (p->groups[g].nrows) return NULL;
    return json_error(&p->text, 0, "no profile of a run: expected ranks with ops, as weft run --profile=F.json writes");
}

weft_status weft_profile_parse(weft_context *context, const void *bytes, size_t nbytes, const char *place,
                               weft_profile **out_profile) {
    enum { MOST_VALUES = 1000 };
    weft_profile *p = base_alloc(&context->allocator, sizeof *p);
    if (!p) return base_out_of_memory();
    *p = (weft_profile){.context = context};
    arena_init(&p->arena, &context->allocator);
    p->text = (json_cursor){.context = context,
                            .bytes = arena_string(&p->arena, bytes, nbytes),
                            .place = arena_string(&p->arena, place ? place : "", place ? strlen(place) : 0),
                            .nbytes = nbytes,
                            .most_values = MOST_VALUES};
    weft_status status = p->text.bytes && p->text.place ? read_all(p) : base_out_of_memory();
    if (status)
        weft_profile_destroy(p);
    else
        *out_profile = p;
    return status;
}

weft_status weft_profile_load(weft_context *context, const char *path, weft_profile **out_profile) {
    char *bytes;
    size_t nbytes;
    TRY(file_read(&context->allocator, path, context->max_file_nbytes, &bytes, &nbytes));
    weft_status status = weft_profile_parse(context, bytes, nbytes, path, out_profile);
    weft_bytes_free(context, bytes, nbytes);
    return status;
}

void weft_profile_destroy(weft_profile *p) {
    if (!p) return;
    weft_context *context = p->context;
    arena_fini(&p->arena);
    base_free(&context->allocator, p, sizeof *p);
}

double weft_profile_step_seconds(const weft_profile *p) {
    return p->step_seconds;
}

/* --- beside a plan ------------------------------------------------------------------------------------------------ */

/* An op on either side. */
typedef struct entry {
    const char *type, *output;
    uint32_t order;
    bool may_differ;
} entry;

static int by_name(const void *a, const void *b) {
    const entry *x = a, *y = b;
    int types = strcmp(x->type, y->type), outputs = types ? 0 : strcmp(x->output, y->output);
    if (types || outputs) return types ? types : outputs;
    return (x->order > y->order) - (x->order < y->order);
}

/* What passes put in or take out of a program, beside collectives: scales of gradients, buffers of buckets. */
static bool may_differ(const char *type) {
    static const char *const types[] = {"scale", "coalesce_tensor", "concat", "split",
                                        "slice", "assign",          "memcpy", "depend"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i], type) == 0) return true;
    return false;
}

static weft_status list_rows(const profile_ranks *g, bool all, arena *scratch, entry **out, size_t *out_count) {
    entry *list = ARENA_ARRAY(scratch, entry, g->nrows + 1);
    size_t n = 0;
    if (!list) return base_out_of_memory();
    for (size_t i = 0; i < g->nrows; i++) {
        const profile_row *r = &g->rows[i];
        if (all || !r->is_collective)
            list[n++] = (entry){r->type, r->output, r->order, r->is_collective || may_differ(r->type)};
    }
    if (n) qsort(list, n, sizeof *list, by_name);
    *out = list;
    *out_count = n;
    return NULL;
}

static weft_status list_instrs(const weft_plan *plan, bool all, arena *scratch, entry **out, size_t *out_count) {
    entry *list = ARENA_ARRAY(scratch, entry, plan->ninstrs + 1);
    size_t n = 0;
    if (!list) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        const char *type = instr->schema->type;
        bool is_collective = instr->ring_id >= 0 || op_collective_kind(instr->op) != COLLECTIVE_NONE;
        if (all || !is_collective)
            list[n++] = (entry){type, trace_value_name(plan, instr), (uint32_t)i, is_collective || may_differ(type)};
    }
    if (n) qsort(list, n, sizeof *list, by_name);
    *out = list;
    *out_count = n;
    return NULL;
}

/* The first op in order that only one side has, in *row or *instr; UINT32_MAX: none. */
typedef struct difference {
    uint32_t row, instr;
} difference;

static void note_first(uint32_t *first, const entry *e) {
    if (!e->may_differ && e->order < *first) *first = e->order;
}

static difference match(const profile_ranks *g, const entry *rows, size_t nrows, const entry *instrs, size_t ninstrs,
                        double longer, double *seconds) {
    difference d = {UINT32_MAX, UINT32_MAX};
    size_t r = 0, i = 0;
    while (r < nrows || i < ninstrs) {
        int order = r == nrows ? 1 : i == ninstrs ? -1 : strcmp(rows[r].type, instrs[i].type);
        if (!order) order = strcmp(rows[r].output, instrs[i].output);
        if (!order)
            seconds[instrs[i++].order] = longer * g->rows[rows[r++].order].seconds;
        else if (order < 0)
            note_first(&d.row, &rows[r++]);
        else
            note_first(&d.instr, &instrs[i++]);
    }
    return d;
}

static weft_status refuse(const weft_profile *p, const profile_ranks *g, const weft_plan *plan, difference d) {
    if (d.row != UINT32_MAX) {
        const profile_row *row = &g->rows[d.row];
        return json_error(&p->text, row->at, "the profile is of another program: this one has no %s that writes \"%s\"",
                          row->type, row->output);
    }
    const plan_instr *instr = &plan->instrs[d.instr];
    char op[200];
    return json_error(&p->text, 0, "the profile is of another program: it has no %s, which writes \"%s\"",
                      instr_place(instr, op, sizeof op), trace_value_name(plan, instr));
}

weft_status plan_profile_times(const weft_profile *p, const weft_plan *plan, int64_t rank, bool with_collectives,
                               arena *scratch, double **out_seconds) {
    double *seconds = ARENA_ARRAY(scratch, double, plan->ninstrs + 1);
    entry *rows = NULL, *instrs = NULL;
    size_t nrows = 0, ninstrs = 0, first = p->ngroups;
    difference found = {0, 0};
    if (!seconds) return base_out_of_memory();
    TRY(list_instrs(plan, with_collectives, scratch, &instrs, &ninstrs));
    for (size_t k = 0; k < p->ngroups; k++) {
        size_t g = (k + (size_t)(rank > 0 ? rank : 0)) % p->ngroups; /* plans of ranks are alike, or one each */
        for (size_t i = 0; i < plan->ninstrs; i++) seconds[i] = -1;
        TRY(list_rows(&p->groups[g], with_collectives, scratch, &rows, &nrows));
        double longer = with_collectives ? 1 : p->groups[g].longer;
        difference d = match(&p->groups[g], rows, nrows, instrs, ninstrs, longer, seconds);
        if (d.row == UINT32_MAX && d.instr == UINT32_MAX) return *out_seconds = seconds, NULL;
        if (first == p->ngroups) first = g, found = d;
    }
    return refuse(p, &p->groups[first], plan, found);
}
