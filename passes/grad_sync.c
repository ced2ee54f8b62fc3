/* Gradient syncs: which collectives reduce which gradients, and between what.
 *
 * The collectives are found by what they are: an all-reduce, in place, of sum or mean. They are also found by the
 * namescope in which data parallelism puts them; nothing depends on the names of variables. A sync is a run of accesses
 * to the gradient's bytes: a reduce, then any reduces over other rings and any scales of the same var, until something
 * else touches the bytes. */
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
        const weft_op *op = grad_sync_reduce(syncs, &syncs->items[i]);
        if (op->dist && op->dist->execution_stream && op_stream(op, of_ring)) return true;
    }
    return false;
}

const mesh *grad_sync_mesh(const grad_syncs *syncs, const grad_sync *s) {
    const weft_op *op = grad_sync_reduce(syncs, s);
    if (op->dist && op_dist_mesh(op->dist)) return op_dist_mesh(op->dist);
    return s->var->dist ? s->var->dist->mesh : NULL;
}

uint32_t grad_sync_next(const grad_syncs *syncs, const grad_sync *s) {
    size_t n, after = s->before + grad_sync_nops(s);
    const access *accesses = accesses_of(&syncs->index, s->var, &n);
    return after < n ? accesses[after].position : UINT32_MAX;
}

weft_op *grad_sync_last_of(const grad_syncs *syncs, const grad_sync *s, grad_kind kind) {
    weft_op *op = NULL;
    for (size_t at = grad_sync_nops(s); !op && at-- > 0;) op = grad_sync_op(syncs, s, kind, at);
    return op;
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

weft_op *grad_reduce_wait(const weft_op *reduce) {
    weft_op *before = reduce->prev;
    if (!before || !op_is_collective(before, COLLECTIVE_WAIT_COMPUTE) || before->slots->nargs != 0) return NULL;
    return op_ring(before) == op_ring(reduce) ? before : NULL;
}

/* Whether an access reduces or scales `v` itself, and no other var of its class. */
static grad_kind kind_at(const grad_syncs *found, const access *x, const weft_var *v) {
    grad_kind kind = (grad_kind)found->kinds[x->position];
    return kind != GRAD_OTHER && op_x(access_op(&found->index, x->position)) == v ? kind : GRAD_OTHER;
}

/* The sync that starts with the access at `at`. */
static void add_sync(grad_syncs *found, weft_var *v, const access *accesses, size_t naccesses, size_t at) {
    grad_sync *s = &found->items[found->count++];
    *s = (grad_sync){.var = v, .factor = 1, .before = (uint32_t)at};
    s->at = (uint32_t)(accesses - found->index.all) + s->before;
    for (grad_kind kind; at < naccesses && (kind = kind_at(found, &accesses[at], v)); at++) {
        *(kind == GRAD_REDUCE ? &s->nreduces : &s->nscales) += 1;
        if (kind == GRAD_SCALE) s->factor *= attr_float(access_op(&found->index, accesses[at].position), "scale", 1.0);
    }
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

/* What each op is; `wanted` gets the class of each gradient. */
static size_t find_kinds(grad_syncs *found, bit_set *wanted) {
    size_t n = 0, i = 0;
    FOR_EACH_OP(op, found->index.program->blocks[0]) {
        if (op_is_grad_scale(op)) {
            found->kinds[i] = GRAD_SCALE;
        } else if (op_is_grad_reduce(op)) {
            found->kinds[i] = GRAD_REDUCE, n++;
            bit_set_add(wanted, access_class(&found->index, op_x(op)));
        } else {
            found->nothers += op_is_all_reduce(op, NULL);
        }
        i++;
    }
    return n;
}

static weft_status find_syncs(weft_program *p, arena *a, grad_syncs *out) {
    grad_syncs found = {.count = 0};
    TRY(access_index_begin(p, a, &found.index));
    bit_set wanted;
    found.kinds = ARENA_ARRAY(a, uint8_t, found.index.nops + 1);
    if (!found.kinds || !bit_set_init(&wanted, a, p->nall_vars)) return base_out_of_memory();
    size_t nreduces = find_kinds(&found, &wanted);
    TRY(access_index_gather(&found.index, a, &wanted));
    if (!(found.items = ARENA_ARRAY(a, grad_sync, nreduces + 1))) return base_out_of_memory();
    for (size_t i = 0; i < found.index.nops && nreduces; i++) {
        if (found.kinds[i] != GRAD_REDUCE) continue;
        weft_var *v = op_x(access_op(&found.index, i));
        size_t n;
        const access *accesses = accesses_of(&found.index, v, &n);
        size_t at = find_access(accesses, n, (uint32_t)i);
        if (!continues_sync(&found, accesses, at, v)) add_sync(&found, v, accesses, n, at);
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

/* Forgets the scales that were removed. Returns the position of the first reduce, which finds the sync again. */
static uint32_t drop_scales(const grad_syncs *found, grad_sync *s) {
    const access *ops = grad_sync_ops(found, s);
    uint32_t kept = 0, first = ops->position;
    double factor = 1;
    for (size_t k = 0; k < grad_sync_nops(s); k++) {
        const weft_op *scale = grad_sync_op(found, s, GRAD_SCALE, k);
        if (!scale) continue;
        if (scale->block)
            factor *= attr_float(scale, "scale", 1.0), kept++;
        else
            found->kinds[ops[k].position] = GRAD_REMOVED;
    }
    s->nscales = kept;
    s->factor = factor;
    return first;
}

/* Takes the accesses of removed scales out of the class of `s`. */
static void drop_accesses(grad_syncs *found, const grad_sync *s) {
    access_index *x = &found->index;
    uint32_t class = bit_set_index(&x->gathered, access_class(x, s->var)), kept = 0;
    access *list = x->all + x->first[class];
    for (uint32_t i = 0; i < x->count[class]; i++)
        if (found->kinds[list[i].position] != GRAD_REMOVED) list[kept++] = list[i];
    x->count[class] = kept;
}

void grad_syncs_keep(weft_pass_context *pass, weft_program *p) {
    pass_finding *shared = pass_shared_finding(pass);
    grad_syncs *found = shared->value;
    if (!found || found->index.class_of) return;
    for (size_t i = 0; i < found->count; i++) found->items[i].before = drop_scales(found, &found->items[i]);
    for (size_t i = 0; i < found->count; i++) {
        grad_sync *s = &found->items[i];
        drop_accesses(found, s);
        size_t n;
        const access *accesses = accesses_of(&found->index, s->var, &n);
        s->before = (uint32_t)find_access(accesses, n, s->before);
        s->at = (uint32_t)(accesses - found->index.all) + s->before;
    }
    shared->edits = p->edits;
}

weft_status grad_syncs_none(weft_pass_context *pass, const grad_syncs *syncs) {
    return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING,
                          "no all-reduce in block 0 has the namescope " DATA_PARALLEL_NAMESCOPE
                          " (%zu all-reduces of other purpose)",
                          syncs->nothers);
}
