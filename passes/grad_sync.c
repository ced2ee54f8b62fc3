/* Gradient syncs: which collectives reduce which gradients, and between what.
 *
 * The collectives are found by what they are (an all-reduce, in place, of sum or mean) and by the namescope in which
 * data parallelism puts them; nothing depends on the names of variables. A sync is a run of accesses to the gradient's
 * bytes: a reduce, then any reduces over other rings and any scales of the same var, until something else touches the
 * bytes. */
#include "passes/grad_sync.h"

#define DATA_PARALLEL_NAMESCOPE "auto_parallel/data_parallel"

/* In place: the one tensor that it reads is the one that it writes. */
static bool is_in_place(const weft_op *op) {
    const weft_var *x = op_x(op);
    return x && x->block && x == op_out(op);
}

bool op_is_grad_reduce(const weft_op *op) {
    weft_reduce reduce;
    return op_is_all_reduce(op, &reduce) && (reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG) &&
           is_in_place(op) && op_in_namescope(op, DATA_PARALLEL_NAMESCOPE);
}

bool op_is_grad_scale(const weft_op *op) {
    return op_is(op, "scale") && is_in_place(op) && weft_op_ninputs(op, "ScaleTensor") == 0 &&
           attr_float(op, "bias", 0.0) == 0.0 && op_in_namescope(op, DATA_PARALLEL_NAMESCOPE);
}

bool grad_syncs_have_streams(const grad_syncs *syncs) {
    char of_ring[RING_STREAM_NBYTES];
    for (size_t i = 0; i < syncs->count; i++) {
        const weft_op *op = syncs->items[i].reduces[0].op;
        if (op->dist && op->dist->execution_stream && op_stream(op, of_ring)) return true;
    }
    return false;
}

const mesh *grad_sync_mesh(const grad_sync *s) {
    const weft_op *op = s->reduces[0].op;
    if (op->dist && op->dist->mesh) return op->dist->mesh;
    return s->var->dist ? s->var->dist->mesh : NULL;
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static weft_op *attached_wait(const weft_op *reduce) {
    weft_op *before = reduce->prev;
    if (!before || !op_is(before, "c_wait_compute") || before->slots->nargs != 0) return NULL;
    return op_ring(before) == op_ring(reduce) ? before : NULL;
}

/* Whether an access reduces or scales `v` itself, and no other var of its class. */
static grad_kind kind_at(const grad_syncs *found, const access *x, const weft_var *v) {
    grad_kind kind = (grad_kind)found->kinds[x->position];
    return kind != GRAD_OTHER && op_x(x->op) == v ? kind : GRAD_OTHER;
}

/* Fills in the sync that starts with the access at s->before. Its arrays have room for all of its ops. */
static void fill_sync(const grad_syncs *found, grad_sync *s) {
    size_t i = s->before;
    s->nreduces = s->nscales = 0;
    s->factor = 1;
    for (grad_kind kind; i < s->naccesses && (kind = kind_at(found, &s->accesses[i], s->var)); i++) {
        weft_op *op = s->accesses[i].op;
        weft_reduce reduce = WEFT_REDUCE_SUM;
        if (kind == GRAD_REDUCE) {
            (void)op_is_all_reduce(op, &reduce);
            s->reduces[s->nreduces++] = (grad_reduce){op, attached_wait(op), op_ring(op), reduce};
        } else {
            s->scales[s->nscales++] = op;
            s->factor *= attr_float(op, "scale", 1.0);
        }
    }
    s->first = s->accesses[s->before].position;
    s->last = s->accesses[i - 1].position;
    s->next = i < s->naccesses ? s->accesses[i].position : UINT32_MAX;
}

static weft_status add_sync(grad_syncs *found, weft_var *v, const access *accesses, size_t naccesses, size_t at,
                            arena *a) {
    size_t nreduces = 0, nscales = 0;
    for (size_t i = at; i < naccesses && kind_at(found, &accesses[i], v); i++)
        *(kind_at(found, &accesses[i], v) == GRAD_REDUCE ? &nreduces : &nscales) += 1;
    grad_sync *s = &found->items[found->count++];
    *s = (grad_sync){.var = v, .accesses = accesses, .naccesses = naccesses, .before = (uint32_t)at};
    s->reduces = ARENA_ARRAY(a, grad_reduce, nreduces);
    s->scales = nscales ? ARENA_ARRAY(a, weft_op *, nscales) : NULL;
    if (!s->reduces || (nscales && !s->scales)) return base_out_of_memory();
    fill_sync(found, s);
    return NULL;
}

/* Whether the access at `at` goes on with a sync that an earlier access began. */
static bool continues_sync(const grad_syncs *found, const access *accesses, size_t at, const weft_var *v) {
    grad_kind kind = GRAD_SCALE;
    while (at > 0 && kind == GRAD_SCALE) kind = kind_at(found, &accesses[--at], v);
    return kind == GRAD_REDUCE;
}

static size_t find_access(const access *accesses, size_t n, uint32_t position) {
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (accesses[middle].position < position)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* What each op is; `wanted` becomes true for the class of each gradient. */
static size_t find_kinds(grad_syncs *found, bool *wanted) {
    size_t n = 0;
    for (size_t i = 0; i < found->index.nops; i++) {
        weft_op *op = found->index.ops[i];
        if (op_is_grad_scale(op)) {
            found->kinds[i] = GRAD_SCALE;
        } else if (op_is_grad_reduce(op)) {
            found->kinds[i] = GRAD_REDUCE, n++;
            wanted[access_class(&found->index, op_x(op))] = true;
        } else {
            found->nothers += op_is_all_reduce(op, NULL);
        }
    }
    return n;
}

static weft_status find_syncs(weft_program *p, arena *a, grad_syncs *out) {
    grad_syncs found = {.count = 0};
    TRY(access_index_begin(p, a, &found.index));
    bool *wanted = ARENA_ARRAY(a, bool, p->nall_vars + 1);
    if (!(found.kinds = ARENA_ARRAY(a, uint8_t, found.index.nops + 1)) || !wanted) return base_out_of_memory();
    size_t nreduces = find_kinds(&found, wanted);
    TRY(access_index_gather(&found.index, a, wanted));
    if (!(found.items = ARENA_ARRAY(a, grad_sync, nreduces + 1))) return base_out_of_memory();
    for (size_t i = 0; i < found.index.nops && nreduces; i++) {
        if (found.kinds[i] != GRAD_REDUCE) continue;
        weft_var *v = op_x(found.index.ops[i]);
        size_t n;
        const access *accesses = accesses_of(&found.index, v, &n);
        size_t at = find_access(accesses, n, (uint32_t)i);
        if (continues_sync(&found, accesses, at, v)) continue;
        TRY(add_sync(&found, v, accesses, n, at, a));
    }
    *out = found;
    return NULL;
}

weft_status grad_syncs_find(weft_pass_context *pass, weft_program *p, grad_syncs *out) {
    pass_finding *shared = pass_shared_finding(pass);
    if (!shared->value || shared->edits != p->edits) {
        arena_fini(&shared->arena);
        grad_syncs *found = ARENA_NEW(&shared->arena, grad_syncs);
        shared->value = NULL;
        if (!found) return base_out_of_memory();
        TRY(find_syncs(p, &shared->arena, found));
        shared->value = found;
        shared->edits = p->edits;
    }
    *out = *(const grad_syncs *)shared->value;
    return NULL;
}

/* Takes the accesses of removed scales out of the class of `s`. */
static void drop_accesses(grad_syncs *found, grad_sync *s) {
    access_index *x = &found->index;
    uint32_t class = access_class(x, s->var), kept = 0;
    access *list = x->all + x->first[class];
    for (uint32_t i = 0; i < x->count[class]; i++)
        if (found->kinds[list[i].position] != GRAD_SCALE || list[i].op->block) list[kept++] = list[i];
    x->count[class] = kept;
    s->naccesses = kept;
    s->before = (uint32_t)find_access(s->accesses, kept, s->first);
}

/* A sync after the removal of scales of its own, and of the ops that waited for its reduces. */
static void drop_ops(grad_sync *s) {
    size_t kept = 0;
    s->factor = 1;
    for (size_t i = 0; i < s->nscales; i++) {
        if (!s->scales[i]->block) continue;
        s->factor *= attr_float(s->scales[i], "scale", 1.0);
        s->scales[kept++] = s->scales[i];
    }
    s->nscales = kept;
    for (size_t i = 0; i < s->nreduces; i++)
        if (s->reduces[i].wait && !s->reduces[i].wait->block) s->reduces[i].wait = NULL;
    s->last = s->accesses[s->before + s->nreduces + s->nscales - 1].position;
}

void grad_syncs_keep(weft_pass_context *pass, weft_program *p) {
    pass_finding *shared = pass_shared_finding(pass);
    grad_syncs *found = shared->value;
    if (!found || found->index.class_of) return;
    for (size_t i = 0; i < found->count; i++) {
        drop_accesses(found, &found->items[i]);
        drop_ops(&found->items[i]);
    }
    shared->edits = p->edits;
}

weft_status grad_syncs_none(weft_pass_context *pass, const grad_syncs *syncs) {
    return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING,
                          "no all-reduce in block 0 has the namescope " DATA_PARALLEL_NAMESCOPE
                          " (%zu all-reduces of other purpose)",
                          syncs->nothers);
}
