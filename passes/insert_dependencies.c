/* insert_dependencies: buckets become safe under Paddle's executor, which orders ops by the names of their variables.
 *
 * A bucket's reduce names the fused variable, its producers and consumers name the members; only bytes connect them. So
 * around each bucket's sync goes nop(all members -> fused) and nop(fused -> all members): the first makes the reduce
 * wait for every member's producer, not only for the last one's; the second makes consumers and later writers wait for
 * the reduce. nop touches nothing; both stand on the sync's stream, where they cost no compute time. Gradients that are
 * reduced alone need none: their names already order them. Dependencies that Paddle's pass left (last member -> fused)
 * are completed. Buckets are found by identity: the sync's var is what a coalesce_tensor before it fused. Sources:
 * paddle.md 11.13 to 11.17. */
#include "passes/grad_sync.h"
#include "program/grow.h"

#define DEPENDENCY_NAMESCOPE "/data_parallel_overlap_dep"

typedef struct bucket {
    const grad_sync *sync;
    weft_op *coalesce;
    weft_op *before, *after; /* what is there already, or NULL */
} bucket;

/* What comes before the sync goes before this. */
static weft_op *start_of(const grad_syncs *syncs, const grad_sync *s) {
    weft_op *reduce = grad_sync_reduce(syncs, s), *wait = grad_reduce_wait(reduce);
    return wait ? wait : reduce;
}

static weft_op *last_op(const grad_syncs *syncs, const grad_sync *s) {
    return access_op(&syncs->index, grad_sync_last(syncs, s));
}

/* The coalesce_tensor that made the sync's var. */
static weft_op *coalesce_of(const grad_syncs *syncs, const grad_sync *s) {
    size_t n;
    const access *accesses = accesses_of(&syncs->index, s->var, &n);
    for (size_t i = s->before; i-- > 0;) {
        weft_op *op = access_op(&syncs->index, accesses[i].position);
        if (op_is(op, "coalesce_tensor") && weft_op_output(op, "FusedOutput", 0) == s->var) return op;
    }
    return NULL;
}

static bool is_dependency(const weft_op *op, const char *side, bool output, const weft_var *fused) {
    if (!op || !op_is(op, "nop") || !op_in_namescope(op, DEPENDENCY_NAMESCOPE)) return false;
    const slot *s = op_find_slot(op, output, side);
    return s && s->nargs == 1 && slot_var(op, s, 0) == fused;
}

/* Which vars a slot names: those whose stamp is the latest. */
typedef struct var_marks {
    uint32_t *stamps; /* by var id */
    uint32_t latest;
} var_marks;

static const slot *members_of(const weft_op *coalesce) {
    return op_find_slot(coalesce, true, "Output");
}

/* How many members of the bucket the slot does not name; in linear time, by marks. */
static size_t count_missing(const weft_op *op, bool output, const weft_op *coalesce, var_marks *marks) {
    const slot *members = members_of(coalesce);
    const slot *s = op_find_slot(op, output, output ? "Out" : "X");
    marks->latest++;
    for (size_t i = 0; s && i < s->nargs; i++) marks->stamps[slot_args(op, s)[i].var_id] = marks->latest;
    size_t missing = 0;
    for (size_t i = 0; i < members->nargs; i++)
        missing += marks->stamps[slot_args(coalesce, members)[i].var_id] != marks->latest;
    return missing;
}

static weft_status add_missing(weft_op *op, bool output, const weft_op *coalesce, var_marks *marks) {
    const slot *members = members_of(coalesce);
    const char *side = output ? "Out" : "X";
    if (count_missing(op, output, coalesce, marks) == 0) return NULL;
    for (size_t i = 0; i < members->nargs; i++) {
        weft_var *v = slot_var(coalesce, members, i);
        if (marks->stamps[v->id] == marks->latest) continue;
        TRY(output ? weft_op_add_output(op, side, v) : weft_op_add_input(op, side, v));
    }
    return NULL;
}

static weft_status set_nop_dist(weft_op *op, const weft_op *reduce) {
    const op_dist *of = reduce->dist;
    op_dist *d;
    if (!of) return NULL;
    TRY(op_dist_get(op, &d));
    d->execution_stream = of->execution_stream;
    return op_dist_set_mesh(op->program, d, op_dist_mesh(of));
}

/* A nop that is not inserted yet. */
static weft_status make_nop(const weft_op *coalesce, weft_var *fused, bool after, const weft_op *reduce,
                            weft_op **out) {
    const slot *members = members_of(coalesce);
    weft_op *op;
    uint32_t s;
    TRY(weft_op_create(coalesce->program, "nop", &op));
    TRY(op_append_room(op, after, after ? "Out" : "X", members->nargs, &s));
    for (size_t i = 0; i < members->nargs; i++) TRY(op_append_arg(op, after, s, slot_var(coalesce, members, i)));
    TRY(after ? weft_op_add_input(op, "X", fused) : weft_op_add_output(op, "Out", fused));
    TRY(weft_op_set_attr_string(op, "op_device", ""));
    TRY(weft_op_set_attr_string(op, "op_namescope", DEPENDENCY_NAMESCOPE));
    TRY(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_BACKWARD));
    TRY(set_nop_dist(op, reduce));
    *out = op;
    return NULL;
}

/* Completes or makes one of the two; *out is to be inserted, or NULL. */
static weft_status provide(const grad_syncs *syncs, bucket *b, bool after, var_marks *marks, weft_op **out) {
    weft_op *there = after ? b->after : b->before;
    *out = NULL;
    if (there) return add_missing(there, after, b->coalesce, marks);
    return make_nop(b->coalesce, b->sync->var, after, grad_sync_reduce(syncs, b->sync), out);
}

static weft_status provide_both(const grad_syncs *syncs, bucket *b, var_marks *marks) {
    weft_op *before, *after;
    TRY(provide(syncs, b, false, marks, &before));
    TRY(provide(syncs, b, true, marks, &after));
    weft_op *first = start_of(syncs, b->sync);
    if (before) weft_block_insert_before(first->block, first, before);
    if (after) weft_block_insert_after(first->block, last_op(syncs, b->sync), after);
    return NULL;
}

static bool is_complete(const bucket *b, var_marks *marks) {
    return b->before && b->after && count_missing(b->before, false, b->coalesce, marks) == 0 &&
           count_missing(b->after, true, b->coalesce, marks) == 0;
}

static bool find_bucket(const grad_syncs *syncs, const grad_sync *s, bucket *out) {
    weft_op *coalesce = coalesce_of(syncs, s);
    if (!coalesce || !members_of(coalesce)) return false;
    *out = (bucket){.sync = s, .coalesce = coalesce};
    weft_op *first = start_of(syncs, s);
    if (is_dependency(first->prev, "Out", true, s->var)) out->before = first->prev;
    if (is_dependency(last_op(syncs, s)->next, "X", false, s->var)) out->after = last_op(syncs, s)->next;
    return true;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    arena *scratch = pass_scratch(pass);
    grad_syncs syncs;
    TRY(grad_syncs_find(pass, program, &syncs));
    if (syncs.count == 0) return grad_syncs_none(pass, &syncs);
    bucket *buckets = NULL;
    var_marks marks = {.stamps = ARENA_ARRAY(scratch, uint32_t, program->nall_vars)};
    if (!marks.stamps) return base_out_of_memory();
    size_t count = 0, capacity = 0;
    int64_t inserted = 0;
    for (size_t i = 0; i < syncs.count; i++) {
        bucket b;
        if (!find_bucket(&syncs, &syncs.items[i], &b) || is_complete(&b, &marks)) continue;
        inserted += (b.before == NULL) + (b.after == NULL);
        TRY(grow(scratch, &buckets, &capacity, count + 1, sizeof *buckets));
        buckets[count++] = b;
    }
    TRY(weft_pass_count_add(pass, "dependencies", inserted));
    if (count == 0)
        return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING, "names already order every gradient's reduce");
    for (size_t i = 0; i < count; i++) TRY(provide_both(&syncs, &buckets[i], &marks));
    return weft_pass_did(pass, "ordered %zu bucket%s after all producers and before all consumers", count,
                         count == 1 ? "" : "s");
}

const weft_pass pass_insert_dependencies = {.run = run, .keeps_places = true};
