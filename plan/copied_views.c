/* copied_views.c: views that kernels materialise, and the bytes that they are copies of.
 *
 * In the program such a view and its source are the same bytes; in the plan they are two buffers, the view's filled
 * when its op runs. So nobody may notice: when bytes of the source are written after that, the copy is stale, and
 * reading it (or a copy of it) is an error; so is writing into a copy, which the source would not see. One sweep in
 * program order: a write makes stale what was copied of these bytes, each copy once. */
#include "plan/builder.h"

enum { NONE = -1 };

typedef struct span {
    int32_t root;
    int64_t begin, end;
} span;

/* A view that was materialised. */
typedef struct copied {
    int32_t value, source;
    weft_op *by, *stale_by; /* by: NULL where the view was made anew since */
    span own, from;
    int32_t next_here, next_from; /* in the lists below, or NONE */
} copied;

typedef struct checker {
    plan_builder *b;
    copied *copies;
    size_t ncopies, capacity;
    int32_t *here;  /* by root: the copies in it; NONE */
    int32_t *from;  /* by root: those of it that are not stale; NONE */
    int32_t *stale; /* a stack: copies whose own copies are still to be marked */
} checker;

static span span_of(const plan_builder *b, int32_t value) {
    span s;
    s.root = plan_find_root(b, value, &s.begin);
    s.end = s.begin + b->values[value].nbytes;
    return s;
}

static bool meet(const span *a, const span *b) {
    return a->root == b->root && a->begin < b->end && b->begin < a->end;
}

/* --- the three things that happen to bytes ------------------------------------------------------------------------ */

static weft_status read_bytes(const checker *c, weft_op *op, const char *reader, int32_t value) {
    const plan_builder *b = c->b;
    span s = span_of(b, value);
    char maker[160], writer[160];
    for (int32_t k = c->here[s.root]; k != NONE; k = c->copies[k].next_here) {
        const copied *v = &c->copies[k];
        if (!v->by || !v->stale_by || !meet(&v->own, &s)) continue;
        return plan_error(
            b, WEFT_UNSUPPORTED, op,
            "%s reads \"%s\", which %s made as a view of \"%s\" that is no byte range of it, after %s wrote "
            "these bytes",
            reader, b->values[value].name, op_place(v->by, maker, sizeof maker), b->values[v->source].name,
            op_place(v->stale_by, writer, sizeof writer));
    }
    return NULL;
}

/* What was copied of these bytes, directly and through copies, is stale from now on. */
static void make_stale(checker *c, weft_op *op, span written) {
    size_t nstale = 0;
    for (;;) {
        for (int32_t *link = &c->from[written.root]; *link != NONE;) {
            copied *v = &c->copies[*link];
            if (v->by && !meet(&v->from, &written)) {
                link = &v->next_from;
                continue;
            }
            if (v->by) {
                v->stale_by = op;
                c->stale[nstale++] = *link;
            }
            *link = v->next_from;
        }
        if (!nstale) return;
        written = c->copies[c->stale[--nstale]].own;
    }
}

static weft_status write_bytes(checker *c, weft_op *op, int32_t value) {
    span s = span_of(c->b, value);
    char maker[160];
    if (s.begin == s.end) return NULL;
    for (int32_t k = c->here[s.root]; k != NONE; k = c->copies[k].next_here) {
        const copied *v = &c->copies[k];
        if (v->by && meet(&v->own, &s))
            return plan_error(c->b, WEFT_UNSUPPORTED, op,
                              "it writes \"%s\", which %s made as a view of \"%s\" that is no byte range of it",
                              c->b->values[value].name, op_place(v->by, maker, sizeof maker),
                              c->b->values[v->source].name);
    }
    make_stale(c, op, s);
    return NULL;
}

static weft_status make_copy(checker *c, weft_op *op, const plan_view *view) {
    TRY(read_bytes(c, op, "it", view->parent));
    if (c->ncopies == c->capacity) return base_out_of_memory(); /* they were counted */
    copied v = {.value = view->value, .source = view->parent, .by = op};
    v.own = span_of(c->b, view->value);
    v.from = span_of(c->b, view->parent);
    for (int32_t k = c->here[v.own.root]; k != NONE; k = c->copies[k].next_here)
        if (c->copies[k].value == view->value) c->copies[k].by = NULL;
    make_stale(c, op, v.own);
    v.next_here = c->here[v.own.root];
    v.next_from = c->from[v.from.root];
    c->here[v.own.root] = c->from[v.from.root] = (int32_t)c->ncopies;
    c->copies[c->ncopies++] = v;
    return NULL;
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

/* The value of a var, if it can have anything to do with a view. */
static int32_t known_value(const plan_builder *b, const weft_var *v) {
    return b->value_of_var[v->id];
}

static weft_status read_inputs(const checker *c, weft_op *op, const op_schema *schema) {
    for (size_t s = 0; s < schema->ninputs; s++) {
        const slot *given = schema->inputs[s].only_type ? NULL : op_find_slot(op, false, schema->inputs[s].name);
        for (size_t k = 0; given && k < given->nargs; k++) {
            int32_t value = known_value(c->b, slot_var(op, given, k));
            if (value >= 0) TRY(read_bytes(c, op, "it", value));
        }
    }
    return NULL;
}

static weft_status write_outputs(checker *c, weft_op *op, const op_schema *schema) {
    for (size_t s = 0; s < schema->noutputs; s++) {
        const slot *given = op_find_slot(op, true, schema->outputs[s].name);
        for (size_t k = 0; given && k < given->nargs; k++) {
            int32_t value = known_value(c->b, slot_var(op, given, k));
            plan_view view = {.value = NONE};
            if (value < 0) continue;
            if (schema->outputs[s].view_of >= 0) TRY(plan_find_view(c->b, op, schema, s, k, &view));
            if (view.value < 0)
                TRY(write_bytes(c, op, value));
            else if (!view.is_range)
                TRY(make_copy(c, op, &view));
        }
    }
    return NULL;
}

static weft_status check_op(checker *c, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    bool names_slices =
        op_has_effect(op, OP_ALIASES) && !attr_bool(op, "copy_data", false) && !attr_bool(op, "set_constant", false);
    if (!schema || schema->effects & (OP_NO_BYTES | OP_CONTROL) || names_slices) return NULL;
    if (!(schema->effects & OP_ONLY_VIEWS)) TRY(read_inputs(c, op, schema));
    return write_outputs(c, op, schema);
}

static size_t count_views(const plan_builder *b) {
    size_t n = 0;
    for (size_t i = 0; i < b->nsteps; i++) {
        if (!op_has_effect(b->steps[i].op, OP_ONLY_VIEWS)) continue;
        FOR_EACH_ARG(b->steps[i].op, true, u) n += u != NULL;
    }
    return n;
}

weft_status plan_check_copied_views(plan_builder *b) {
    checker c = {.b = b, .capacity = count_views(b)};
    c.copies = ARENA_ARRAY(&b->scratch, copied, c.capacity + 1);
    c.here = ARENA_ARRAY(&b->scratch, int32_t, b->nvalues + 1);
    c.from = ARENA_ARRAY(&b->scratch, int32_t, b->nvalues + 1);
    c.stale = ARENA_ARRAY(&b->scratch, int32_t, c.capacity + 1);
    if (!c.copies || !c.here || !c.from || !c.stale) return base_out_of_memory();
    for (size_t v = 0; v < b->nvalues; v++) c.here[v] = c.from[v] = NONE;
    for (size_t i = 0; i < b->nsteps; i++) TRY(check_op(&c, b->steps[i].op));
    for (size_t i = 0; i < b->options->nfetches; i++) {
        const weft_var *v = block_find_used(b->program->blocks[0], b->options->fetches[i]);
        int32_t value = v ? known_value(b, v) : NONE;
        if (value >= 0) TRY(read_bytes(&c, NULL, "the end of the step", value));
    }
    return NULL;
}
