/* overlap_pass.c: a host with a pass of its own that is as able as a built-in one: it does what `overlap_comm` does.
 *
 *   cc overlap_pass.c $(pkg-config --cflags --libs weft) -o overlap_pass
 *   ./overlap_pass PROGRAM...      runs both passes over each program and compares what they leave, byte by byte
 *
 * The pass finds gradients that are all-reduced in place. It moves the reduces and the scales around them to a stream
 * of their own. Events order them against whatever else touches the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/access.h"
#include "weft/attr.h"
#include "weft/collective.h"
#include "weft/pass.h"

#define SCOPE "auto_parallel/data_parallel"
#define EVENT "grad_sync/"

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        weft_status try_status_ = (expression);                                                                        \
        if (try_status_) return try_status_;                                                                           \
    } while (0)

typedef enum kind { OTHER, REDUCE, SCALE } kind;

/* A gradient's reduces and scales: accesses [first, end) of its bytes, with nothing else between. */
typedef struct sync {
    weft_var *var;
    size_t first, end;
} sync;

/* An op must wait for the op at `source`, which is on another stream. */
typedef struct need {
    struct need *next;
    size_t source;
} need;

/* The last accesses of some bytes on one stream, and those among them that belong to a sync. Positions count from 1. */
typedef struct touch {
    struct touch *next;
    size_t stream, read, write, sync_read, sync_write;
} touch;

typedef struct work {
    weft_pass_context *pass;
    weft_program *program;
    weft_accesses *accesses;
    size_t nops, nsyncs, nstreams;
    kind *kinds;    /* by position */
    sync *syncs;    /* in the order of their first reduces */
    bool *in_sync;  /* by position */
    size_t *stream; /* by position; 0: compute */
    char (*streams)[64];
    need **needs;  /* by position */
    bool *records; /* by position */
} work;

static weft_status no_memory(void) {
    return weft_status_create(WEFT_OUT_OF_MEMORY, NULL, "my_overlap: out of memory");
}

/* --- which ops are gradient syncs --------------------------------------------------------------------------------- */

static weft_var *first_input(const weft_op *op) {
    weft_var *x = weft_op_input(op, "X", 0);
    return x ? x : weft_op_input(op, "x", 0);
}

static bool is_in_place(const weft_op *op) {
    const weft_var *x = first_input(op), *out = weft_op_output(op, "Out", 0);
    return x && weft_var_block(x) && x == (out ? out : weft_op_output(op, "out", 0));
}

static kind kind_of(const weft_op *op) {
    weft_collective c;
    if (!strstr(weft_op_attr_string(op, "op_namescope", ""), SCOPE) || !is_in_place(op)) return OTHER;
    if (strcmp(weft_op_type(op), "scale") == 0)
        return weft_op_ninputs(op, "ScaleTensor") == 0 && weft_op_attr_float(op, "bias", 0) == 0 ? SCALE : OTHER;
    bool is_reduce = weft_op_collective(op, &c) && strcmp(c.kind, "all_reduce") == 0 && !c.is_list;
    return is_reduce && (c.reduce == WEFT_REDUCE_SUM || c.reduce == WEFT_REDUCE_AVG) ? REDUCE : OTHER;
}

/* What the i-th access of the var's bytes does to the var itself. */
static kind kind_at(const work *w, const weft_var *var, size_t i) {
    weft_access a = weft_accesses_at(w->accesses, var, i);
    return first_input(a.op) == var ? w->kinds[a.position] : OTHER;
}

static size_t access_of(const work *w, const weft_var *var, size_t position) {
    size_t i = 0;
    while (weft_accesses_at(w->accesses, var, i).position < position) i++;
    return i;
}

static bool continues_sync(const work *w, const weft_var *var, size_t i) {
    kind k = SCALE;
    while (i > 0 && k == SCALE) k = kind_at(w, var, --i);
    return k == REDUCE;
}

static void find_syncs(work *w) {
    for (size_t i = 0; i < w->nops; i++) w->kinds[i] = kind_of(weft_accesses_op(w->accesses, i));
    for (size_t i = 0; i < w->nops; i++) {
        if (w->kinds[i] != REDUCE) continue;
        weft_var *var = first_input(weft_accesses_op(w->accesses, i));
        size_t n = weft_accesses_count(w->accesses, var), first = access_of(w, var, i), end = first;
        if (continues_sync(w, var, first)) continue;
        while (end < n && kind_at(w, var, end) != OTHER)
            w->in_sync[weft_accesses_at(w->accesses, var, end++).position] = true;
        w->syncs[w->nsyncs++] = (sync){var, first, end};
    }
}

/* --- moving them -------------------------------------------------------------------------------------------------- */

/* Paddle names a stream's ops so that its executor uses that stream, not the ring's. */
static weft_status use_given_stream(weft_op *reduce) {
    const weft_attr *there = weft_op_attr(reduce, "use_calc_stream");
    weft_collective c;
    if (!there) {
        bool decides = weft_op_collective(reduce, &c) && c.stream_attr && strcmp(c.stream_attr, "use_calc_stream") == 0;
        return decides ? weft_op_set_attr_bool(reduce, "use_calc_stream", true) : NULL;
    }
    switch (weft_attr_type_of(there)) {
    case WEFT_ATTR_BOOLEAN: return weft_op_set_attr_bool(reduce, "use_calc_stream", true);
    case WEFT_ATTR_LONG: return weft_op_set_attr_long(reduce, "use_calc_stream", 1);
    default: return weft_op_set_attr_int(reduce, "use_calc_stream", 1);
    }
}

/* Paddle's own overlap has the reduce wait for the compute stream; events replace that. */
static void drop_wait(weft_op *reduce) {
    weft_op *before = weft_op_prev(reduce);
    weft_collective wait, own;
    if (!before || !weft_op_collective(before, &wait) || strcmp(wait.kind, "wait_compute") != 0) return;
    for (int output = 0; output < 2; output++)
        for (size_t s = 0, nargs; s < weft_op_nslots(before, output); s++)
            if (weft_op_slot(before, output, s, &nargs) && nargs) return;
    if (weft_op_collective(reduce, &own) && own.ring_id == wait.ring_id) weft_op_remove(before);
}

static weft_status move_sync(work *w, const sync *s, const char *stream) {
    for (size_t i = s->first; i < s->end; i++) {
        weft_access a = weft_accesses_at(w->accesses, s->var, i);
        TRY(weft_op_set_stream(a.op, stream));
        if (w->kinds[a.position] != REDUCE) continue;
        TRY(use_given_stream(a.op));
        drop_wait(a.op);
    }
    return NULL;
}

/* --- what must wait for what -------------------------------------------------------------------------------------- */

static bool is_ours(const char *event) {
    return strncmp(event, EVENT, strlen(EVENT)) == 0;
}

/* Takes away the events that this pass wrote when it ran before. */
static weft_status forget_events(work *w, weft_op *op) {
    size_t nwaits = 0, kept = 0;
    while (weft_op_event_awaited(op, nwaits)) nwaits++;
    const char **events = weft_pass_alloc(w->pass, (nwaits + 1) * sizeof *events);
    if (!events) return no_memory();
    for (size_t i = 0; i < nwaits; i++)
        if (!is_ours(weft_op_event_awaited(op, i))) events[kept++] = weft_op_event_awaited(op, i);
    if (is_ours(weft_op_event_recorded(op))) TRY(weft_op_set_event_recorded(op, NULL));
    return kept < nwaits ? weft_op_set_events_awaited(op, kept, events) : NULL;
}

static size_t stream_number(work *w, const weft_op *op) {
    char name[64];
    size_t i = 0;
    weft_op_runs_on(op, name, sizeof name);
    if (!name[0]) return 0;
    while (i < w->nstreams && strcmp(w->streams[i], name) != 0) i++;
    if (i == w->nstreams) strcpy(w->streams[w->nstreams++], name);
    return i + 1;
}

static weft_status look_at_ops(work *w) {
    for (size_t i = 0; i < w->nops; i++) {
        weft_op *op = weft_accesses_op(w->accesses, i);
        if (!weft_op_block(op)) continue; /* a wait that was removed */
        TRY(forget_events(w, op));
        w->stream[i] = stream_number(w, op);
    }
    return NULL;
}

static weft_status add_need(work *w, size_t position, size_t source) {
    need *n = weft_pass_alloc(w->pass, sizeof *n);
    if (!n) return no_memory();
    *n = (need){w->needs[position], source};
    w->needs[position] = n;
    return NULL;
}

static size_t later(size_t a, size_t b) {
    return a > b ? a : b;
}

/* What conflicts with the access on other streams, where one of the two belongs to a sync. */
static weft_status needs_of(work *w, const touch *touches, const weft_access *a) {
    for (const touch *t = touches; t; t = t->next) {
        if (t->stream == w->stream[a->position]) continue;
        bool in_sync = w->in_sync[a->position];
        size_t needed = in_sync ? t->write : t->sync_write;
        if (a->writes) needed = later(needed, in_sync ? t->read : t->sync_read);
        if (needed) TRY(add_need(w, a->position, needed - 1));
    }
    return NULL;
}

static weft_status remember(work *w, touch **touches, const weft_access *a) {
    touch *t = *touches;
    while (t && t->stream != w->stream[a->position]) t = t->next;
    if (!t) {
        if (!(t = weft_pass_alloc(w->pass, sizeof *t))) return no_memory();
        t->next = *touches;
        t->stream = w->stream[a->position];
        *touches = t;
    }
    size_t now = a->position + 1;
    if (a->reads) t->read = now;
    if (a->writes) t->write = now;
    if (a->reads && w->in_sync[a->position]) t->sync_read = now;
    if (a->writes && w->in_sync[a->position]) t->sync_write = now;
    return NULL;
}

static weft_status analyse(work *w) {
    bool *seen = weft_pass_alloc(w->pass, weft_program_nvar_ids(w->program));
    if (!seen) return no_memory();
    for (size_t i = 0; i < w->nsyncs; i++) {
        const weft_var *var = w->syncs[i].var;
        size_t class = weft_accesses_class(w->accesses, var);
        touch *touches = NULL;
        for (size_t k = 0; !seen[class] && k < weft_accesses_count(w->accesses, var); k++) {
            weft_access a = weft_accesses_at(w->accesses, var, k);
            if (a.makes_views) continue;
            TRY(needs_of(w, touches, &a));
            TRY(remember(w, &touches, &a));
        }
        seen[class] = true;
    }
    return NULL;
}

/* --- fewest events ------------------------------------------------------------------------------------------------ */

static size_t *wait_place(work *w, size_t *waited, size_t position, size_t source) {
    return &waited[w->stream[position] * (w->nstreams + 1) + w->stream[source]];
}

/* Streams run in order: of an op's needs the last of each stream stays, if the op's stream did not wait for that yet.
 */
static weft_status reduce_needs(work *w) {
    size_t *waited = weft_pass_alloc(w->pass, (w->nstreams + 1) * (w->nstreams + 1) * sizeof *waited);
    if (!waited) return no_memory();
    for (size_t i = 0; i < w->nops; i++) {
        need *all = w->needs[i], *next;
        w->needs[i] = NULL;
        for (; all; all = next) {
            size_t *until = wait_place(w, waited, i, all->source);
            next = all->next;
            if (*until > all->source) continue;
            *until = all->source + 1;
            need **same = &w->needs[i];
            while (*same && w->stream[(*same)->source] != w->stream[all->source]) same = &(*same)->next;
            if (*same)
                (*same)->source = all->source;
            else
                *same = all, all->next = NULL;
        }
    }
    return NULL;
}

static weft_status write_waits(work *w, size_t position) {
    weft_op *op = weft_accesses_op(w->accesses, position);
    size_t count = 0, room = 0;
    while (weft_op_event_awaited(op, room)) room++;
    for (const need *n = w->needs[position]; n; n = n->next) room++;
    const char **events = weft_pass_alloc(w->pass, room * sizeof *events);
    if (!events) return no_memory();
    for (const char *e; (e = weft_op_event_awaited(op, count)); count++) events[count] = e;
    for (const need *n = w->needs[position]; n; n = n->next) {
        const char *event = weft_op_event_recorded(weft_accesses_op(w->accesses, n->source));
        size_t k = 0;
        while (k < count && strcmp(events[k], event) != 0) k++;
        if (k == count) events[count++] = event;
    }
    return weft_op_set_events_awaited(op, count, events);
}

static weft_status write_events(work *w) {
    size_t number = 0;
    for (size_t i = 0; i < w->nops; i++)
        for (const need *n = w->needs[i]; n; n = n->next) w->records[n->source] = true;
    for (size_t i = 0; i < w->nops; i++) {
        if (!w->records[i]) continue;
        weft_op *op = weft_accesses_op(w->accesses, i);
        char event[64];
        snprintf(event, sizeof event, EVENT "%zu", number++);
        if (!weft_op_event_recorded(op)[0]) TRY(weft_op_set_event_recorded(op, event));
    }
    for (size_t i = 0; i < w->nops; i++)
        if (w->needs[i]) TRY(write_waits(w, i));
    return NULL;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

static weft_status overlap(work *w, const char *stream) {
    w->nops = weft_accesses_nops(w->accesses);
    w->kinds = weft_pass_alloc(w->pass, w->nops * sizeof *w->kinds);
    w->syncs = weft_pass_alloc(w->pass, w->nops * sizeof *w->syncs);
    w->in_sync = weft_pass_alloc(w->pass, w->nops);
    w->stream = weft_pass_alloc(w->pass, w->nops * sizeof *w->stream);
    w->streams = weft_pass_alloc(w->pass, w->nops * sizeof *w->streams);
    w->needs = weft_pass_alloc(w->pass, w->nops * sizeof *w->needs);
    w->records = weft_pass_alloc(w->pass, w->nops);
    if (!w->kinds || !w->syncs || !w->in_sync || !w->stream || !w->streams || !w->needs || !w->records)
        return no_memory();
    find_syncs(w);
    if (!w->nsyncs) return weft_pass_left(w->pass, NULL, WEFT_REASON_NOTHING, "no gradient is all-reduced");
    for (size_t i = 0; i < w->nsyncs; i++) TRY(move_sync(w, &w->syncs[i], stream));
    TRY(look_at_ops(w));
    TRY(analyse(w));
    TRY(reduce_needs(w));
    TRY(write_events(w));
    return weft_pass_count_add(w->pass, "gradients overlapped", (int64_t)w->nsyncs);
}

static weft_status my_overlap(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    work w = {.pass = pass, .program = program};
    TRY(weft_accesses_create(program, &w.accesses));
    weft_status status = overlap(&w, weft_pass_option_string(pass, "stream"));
    weft_accesses_destroy(w.accesses);
    return status;
}

static const weft_option options[] = {
    {"stream", WEFT_OPTION_STRING, "gradient_sync", NULL, "name of the stream"},
};
static const weft_pass my_pass = {
    .name = "my_overlap",
    .summary = "gradient collectives on a stream of their own",
    .options = options,
    .noptions = 1,
    .run = my_overlap,
};

/* --- the comparison ----------------------------------------------------------------------------------------------- */

typedef struct outcome {
    char *yaml, *sidecar;
    size_t yaml_nbytes, sidecar_nbytes;
    int64_t noverlapped;
} outcome;

static weft_status run_one(weft_context *context, const char *path, const char *passes, outcome *out) {
    weft_program *program = NULL;
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    weft_status status = weft_program_load(context, path, NULL, &program);
    if (!status) status = weft_pass_list_parse(context, passes, strlen(passes), "host", &list);
    if (!status) status = weft_pass_list_run(list, program, &report);
    if (!status) status = weft_program_print(program, WEFT_FORM_YAML, &out->yaml, &out->yaml_nbytes);
    if (!status) status = weft_program_print_sidecar(program, &out->sidecar, &out->sidecar_nbytes);
    if (!status) out->noverlapped = weft_report_count(report, 0, "gradients overlapped");
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    return status;
}

static void free_outcome(weft_context *context, outcome *o) {
    weft_bytes_free(context, o->yaml, o->yaml_nbytes);
    weft_bytes_free(context, o->sidecar, o->sidecar_nbytes);
}

static bool same_bytes(const outcome *a, const outcome *b) {
    return a->yaml_nbytes == b->yaml_nbytes && memcmp(a->yaml, b->yaml, a->yaml_nbytes) == 0 &&
           a->sidecar_nbytes == b->sidecar_nbytes && memcmp(a->sidecar, b->sidecar, a->sidecar_nbytes) == 0;
}

/* 0: the same; counts programs in which there was something to do. */
static int compare(weft_context *context, const char *path, int *changed) {
    outcome built_in = {0}, own = {0};
    weft_status a = run_one(context, path, "passes: [overlap_comm]", &built_in);
    weft_status b = run_one(context, path, "passes: [my_overlap]", &own);
    bool same = !a && !b ? same_bytes(&built_in, &own) : weft_status_code(a) == weft_status_code(b);
    if (!same) printf("%s: differs: %s %s\n", path, weft_status_message(a), weft_status_message(b));
    *changed += own.noverlapped > 0;
    free_outcome(context, &built_in);
    free_outcome(context, &own);
    weft_status_free(a);
    weft_status_free(b);
    return !same;
}

int main(int argc, char **argv) {
    weft_context *context = NULL;
    int differ = 0, changed = 0;
    weft_status status = weft_context_create(NULL, &context);
    if (!status) status = weft_pass_register(context, &my_pass);
    for (int i = 1; i < argc && !status; i++) differ += compare(context, argv[i], &changed);
    if (status) fprintf(stderr, "overlap_pass: %s\n", weft_status_message(status));
    printf("%d programs, %d with gradients to overlap, %d differ\n", argc - 1, changed, differ);
    int failed = status != NULL || differ;
    weft_status_free(status);
    weft_context_destroy(context);
    return failed;
}
