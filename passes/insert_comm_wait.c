/* insert_comm_wait: a wait for each pending result of an asynchronous collective, directly before its first consumer.
 *
 * What counts are bytes: getitem, view, t, detach and the like are no consumers. One that reads through a view taken
 * before, even before the collective, is one. The wait takes the value that the consumer itself reads, if that is the
 * pending result or a getitem of it. Else it takes the pending result (its first getitem or alias, if there is one).
 * From the consumer on readers get the value, and views of it, through the wait (wait_views.h), until an op makes it
 * anew. A pending result that nothing consumes gets no wait: it is drained at the end of the step. Source: pytorch.md
 * 2.4; unlike there one wait serves all later readers, whatever view they go through. */
#include <stdio.h>
#include <stdlib.h>

#include "passes/certificate.h"
#include "passes/wait_views.h"
#include "program/fused_run.h"

#define WAIT_STEM "wait_tensor"

/* A pending result without a wait. */
typedef struct open_wait {
    const pending *pending;
    const use *value;  /* what is waited for: the var may change its name before */
    uint32_t argument; /* place among the consumer's arguments */
} open_wait;

typedef struct inserter {
    weft_pass_context *pass;
    weft_program *program;
    pending_list found;
    open_wait *waits;
    size_t nwaits, nviews;
    uint64_t name_number; /* of the name that was tried last */
} inserter;

/* --- deciding ----------------------------------------------------------------------------------------------------- */

static bool makes(const weft_op *op, const weft_var *v) {
    FOR_EACH_USE(u, v) {
        if (u->is_output && use_op(v->program, u) == op) return true;
    }
    return false;
}

/* Whether `v` is a pending result of the collective under one of its names: an output, its alias, a getitem of it. */
static bool names_pending(const weft_op *collective, const weft_var *v) {
    if (makes(collective, v)) return true;
    FOR_EACH_USE(u, v) {
        if (!u->is_output || !op_is(use_op(v->program, u), "getitem")) continue;
        const weft_var *of = op_x(use_op(v->program, u));
        return of && makes(collective, of);
    }
    return false;
}

/* The name that later readers most likely use: a pending result's first getitem before its consumer, else the alias
 * that is the collective's own value where it writes in place, else the output. */
static const use *usual_name(const pending *p) {
    const weft_op *first = NULL;
    FOR_EACH_USE(u, p->var) {
        const weft_op *op = use_op(p->var->program, u);
        bool names = !u->is_output && op_is(op, "getitem") && op_out(op) && op->order < p->consumer->order;
        if (names && (!first || op->order < first->order)) first = op;
    }
    if (first) return op_args(first, true);
    const use *alias = pending_alias(p);
    return alias ? alias : p->out;
}

/* What the wait takes: the consumer's own argument, if it is the pending result or a getitem of it. */
static void choose_value(const inserter *n, open_wait *w) {
    const pending *p = w->pending;
    uint32_t class = access_class(&n->found.index, p->var), argument = 0;
    w->value = usual_name(p);
    w->argument = UINT32_MAX;
    FOR_EACH_ARG(p->consumer, false, u) {
        bool touches_it = access_class(&n->found.index, use_var(p->consumer->program, u)) == class;
        if (touches_it && w->argument == UINT32_MAX) w->argument = argument;
        argument++;
        if (!touches_it || !names_pending(p->op, use_var(p->consumer->program, u))) continue;
        w->value = u;
        w->argument = argument - 1;
        return;
    }
}

static weft_status leave_late(inserter *n, const pending *p) {
    return weft_pass_left(n->pass, p->consumer, WEFT_REASON_IN_USE, "touches \"%s\" before the wait for it, #%u",
                          p->var->name->bytes, p->wait_position);
}

static weft_status decide(inserter *n) {
    n->waits = ARENA_ARRAY(pass_scratch(n->pass), open_wait, n->found.count + 1);
    if (!n->waits) return base_out_of_memory();
    for (size_t i = 0; i < n->found.count; i++) {
        const pending *p = &n->found.items[i];
        if (p->wait && p->consumer && p->consumer_position < p->wait_position) TRY(leave_late(n, p));
        if (p->wait || !p->consumer) continue;
        open_wait *w = &n->waits[n->nwaits++];
        w->pending = p;
        choose_value(n, w);
    }
    return NULL;
}

/* Waits before one consumer in the order of its arguments. */
static int by_consumer(const void *a, const void *b) {
    const open_wait *x = a, *y = b;
    uint32_t p = x->pending->consumer_position, q = y->pending->consumer_position;
    if (p != q) return p < q ? -1 : 1;
    if (x->argument != y->argument) return x->argument < y->argument ? -1 : 1;
    return x->pending < y->pending ? -1 : x->pending > y->pending;
}

/* --- editing ------------------------------------------------------------------------------------------------------ */

static weft_status new_result(inserter *n, const weft_var *like, weft_var **out) {
    char message[sizeof WAIT_STEM + 24] = WAIT_STEM;
    while (interner_find(&n->program->names, message, strlen(message)))
        snprintf(message, sizeof message, WAIT_STEM "_%llu", (unsigned long long)++n->name_number);
    TRY(weft_block_add_var(n->program->blocks[0], message, (weft_dtype)like->dtype, like->ndim, like->dims, out));
    (*out)->kind = like->kind;
    (*out)->dist = like->dist;
    return NULL;
}

static weft_op *place_of(const pending *p) {
    weft_op *first = fused_run_first(p->consumer);
    return weft_op_is_before(p->op, first) ? first : p->consumer;
}

static weft_status insert(inserter *n, const open_wait *w) {
    weft_op *wait;
    weft_var *value = use_var(n->program, w->value), *result;
    TRY(new_result(n, value, &result));
    TRY(weft_op_create(n->program, "wait_tensor", &wait));
    TRY(weft_op_add_input(wait, "X", value));
    TRY(weft_op_add_output(wait, "Out", result));
    if (op_find_attr(w->pending->op, "op_role")) TRY(weft_op_set_attr_int(wait, "op_role", op_role(w->pending->op)));
    TRY(pass_claim_add(n->pass, (pass_claim){.kind = CLAIM_WAIT, .op = wait, .other = w->pending->op, .var = value}));
    weft_block_insert_before(n->program->blocks[0], place_of(w->pending), wait);
    size_t nviews;
    TRY(wait_take_readers(n->pass, w->pending, wait, &nviews));
    n->nviews += nviews;
    return NULL;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    inserter n = {.pass = pass, .program = program};
    TRY(pending_of(pass, program, &n.found));
    if (!n.found.count) return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING, "no collective is asynchronous");
    TRY(decide(&n));
    if (n.nwaits > 1) qsort(n.waits, n.nwaits, sizeof *n.waits, by_consumer);
    int64_t unused = 0;
    for (size_t i = 0; i < n.found.count; i++) unused += !n.found.items[i].wait && !n.found.items[i].consumer;
    TRY(weft_pass_count_add(pass, "waits inserted", (int64_t)n.nwaits));
    if (unused) TRY(weft_pass_count_add(pass, "pending results that nothing consumes", unused));
    if (n.nwaits) TRY(weft_pass_did(pass, "%zu of %zu pending results got a wait", n.nwaits, n.found.count));
    for (size_t i = 0; i < n.nwaits; i++) TRY(insert(&n, &n.waits[i]));
    return n.nviews ? weft_pass_count_add(pass, "views taken behind a wait", (int64_t)n.nviews) : NULL;
}

const weft_pass pass_insert_comm_wait = {.run = run};
