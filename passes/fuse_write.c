/* Writing the buckets of fuse_allreduce_buckets into the program. All ops and vars are made before the first edit.
 *
 *   concat     coalesce_tensor copies the members into one buffer right after the last producer; all_reduce of it in
 *              place; what used the members' results uses the slices
 *   in_place   the same, but coalesce_tensor stands before the first producer and copies nothing: producers write the
 *              slices. A member that cannot is copied into its slice where it was reduced, or before the reduce
 *   coalesced  one all_reduce_coalesced of all members; their waits stay, or follow it
 *
 * A result whose bytes others know too (a persistable var, say) is copied back behind the wait. New ops carry marks
 * that grow with their bucket, beyond those of old ops: a bucket renames what comes after it, among new ops too. */
#include <stdio.h>

#include "passes/bucket_tensor.h"
#include "passes/fuse_allreduce.h"

#define NEW_OP (UINT32_C(1) << 31)

/* The new ops of one bucket. */
typedef struct written {
    const fused_bucket *bucket;
    bucket_tensor tensor;
    weft_op *reduce, *wait; /* wait NULL: none */
    weft_var **slices;      /* by part */
    weft_op **copies;       /* by part: into its slice; NULL: none */
    weft_op **backs;        /* by part: out of it; NULL: none */
    uint32_t mark;
} written;

typedef struct writer {
    fusion *f;
    weft_op **behind; /* by anchor: the last op that was put there */
    written *all;
} writer;

/* Calls the body for every part of a bucket: `item`, `part`, and its index `k` among all. */
#define FOR_EACH_PART(b, item, part, k)                                                                                \
    for (size_t k = 0, k##_i = 0; k##_i < (b)->items->count; k##_i++)                                                  \
        for (const reduce_item *item = (b)->items->items[k##_i]; item; item = NULL)                                    \
            for (reduce_part *part = item->parts; part < item->parts + item->nparts; part++, k++)

/* --- making ops --------------------------------------------------------------------------------------------------- */

/* What the members' collectives say of role, ring, stream; not what a file says of one node. */
static weft_status copy_attrs(weft_op *op, const weft_op *from, bool all) {
    static const char *const common[] = {"op_role", "op_namescope", "op_device", "ring_id"};
    for (size_t i = 0; i < from->nattrs; i++) {
        const weft_attr *a = &from->attrs[i];
        bool wanted = all && !attr_is_of_node(a);
        for (size_t k = 0; k < sizeof common / sizeof *common; k++) wanted = wanted || name_is(a->name, common[k]);
        if (!wanted) continue;
        weft_attr *to;
        TRY(op_set_attr(op, a->name->bytes, &to));
        *to = *a;
    }
    const op_dist *d = from->dist;
    if (!d || (!op_dist_mesh(d) && !d->execution_stream)) return NULL;
    op_dist *made;
    TRY(op_dist_get(op, &made));
    made->execution_stream = d->execution_stream;
    return op_dist_set_mesh(op->program, made, op_dist_mesh(d));
}

static weft_status set_long(weft_op *op, const char *n, uint64_t value) {
    weft_attr *a;
    TRY(op_set_attr(op, n, &a));
    a->type = ATTR_LONG;
    a->u.i = (int64_t)value;
    return NULL;
}

static weft_status make_var_like(weft_program *p, const weft_var *like, const char *stem, weft_var **out) {
    const name *n;
    TRY(program_unique_name(p, stem, &n));
    weft_var *v;
    TRY(weft_block_add_var(p->blocks[0], n->bytes, (weft_dtype)like->dtype, like->ndim, like->dims, &v));
    if (like->dist) TRY(placement_clone(p, like->dist, &v->dist));
    *out = v;
    return NULL;
}

static weft_status make_copy(const written *w, weft_var *from, weft_var *to, const reduce_item *item, weft_op **out) {
    weft_op *op;
    TRY(weft_op_create(item->op->program, "assign", &op));
    TRY(weft_op_add_input(op, "X", from));
    TRY(weft_op_add_output(op, "Out", to));
    const weft_attr *role = op_find_attr(item->op, "op_role");
    if (role) TRY(weft_op_set_attr_int(op, "op_role", role->u.i));
    op->mark = w->mark;
    *out = op;
    return NULL;
}

/* Somebody waits for a member, or copies it back. */
static bool needs_wait(const written *to) {
    FOR_EACH_PART(to->bucket, item, part, k) {
        if (part->nwaits || to->backs[k]) return true;
    }
    return false;
}

/* all_reduce of the buffer, in place, as the members' own; a pending result names it too and is waited for once. */
static weft_status make_reduce(const writer *w, written *to, size_t index) {
    weft_program *p = w->f->program;
    const reduce_item *first = to->bucket->items->items[0];
    const weft_op *like = first->op;
    char stem[64];
    bool upper = op_find_slot(like, false, "X") != NULL;
    weft_var *fused = to->tensor.fused, *alias = NULL, *done;
    TRY(weft_op_create(p, first->coalesced ? "all_reduce" : like->type->bytes, &to->reduce));
    TRY(weft_op_add_input(to->reduce, upper ? "X" : "x", fused));
    TRY(weft_op_add_output(to->reduce, upper ? "Out" : "out", fused));
    TRY(copy_attrs(to->reduce, like, true));
    if (!first->async) return NULL;
    snprintf(stem, sizeof stem, "allreduce_bucket_%zu_reduced", index);
    TRY(make_var_like(p, fused, stem, &alias));
    TRY(weft_op_add_output(to->reduce, "alias", alias));
    if (!needs_wait(to)) return NULL;
    snprintf(stem, sizeof stem, "allreduce_bucket_%zu_done", index);
    TRY(make_var_like(p, fused, stem, &done));
    TRY(weft_op_create(p, "wait_tensor", &to->wait));
    TRY(weft_op_add_input(to->wait, "X", alias));
    TRY(weft_op_add_output(to->wait, "Out", done));
    const weft_attr *role = op_find_attr(like, "op_role");
    if (role) TRY(weft_op_set_attr_int(to->wait, "op_role", role->u.i));
    to->wait->mark = to->mark;
    return NULL;
}

static weft_status make_coalesced(const writer *w, written *to) {
    const reduce_item *first = to->bucket->items->items[0];
    TRY(weft_op_create(w->f->program, "all_reduce_coalesced", &to->reduce));
    FOR_EACH_PART(to->bucket, item, part, k) {
        TRY(weft_op_add_input(to->reduce, "x", reduce_part_x(item, part)));
    }
    FOR_EACH_PART(to->bucket, item, part, k) {
        TRY(weft_op_add_output(to->reduce, "out", reduce_part_out(item, part)));
    }
    TRY(copy_attrs(to->reduce, first->op, false));
    TRY(weft_op_set_attr_int(to->reduce, "ring_id", first->ring));
    TRY(weft_op_set_attr_int(to->reduce, "reduce_type", (int64_t)first->reduce));
    return first->async ? weft_op_set_attr_bool(to->reduce, "async_op", true) : NULL;
}

static weft_status make_buffer(const writer *w, written *to, size_t index) {
    fusion *f = w->f;
    const fused_bucket *b = to->bucket;
    char stem[64];
    weft_var **inputs = ARENA_ARRAY(f->scratch, weft_var *, b->nparts);
    to->slices = ARENA_ARRAY(f->scratch, weft_var *, b->nparts);
    to->copies = ARENA_ARRAY(f->scratch, weft_op *, b->nparts);
    to->backs = ARENA_ARRAY(f->scratch, weft_op *, b->nparts);
    if (!inputs || !to->slices || !to->copies || !to->backs) return base_out_of_memory();
    FOR_EACH_PART(b, item, part, k) {
        weft_var *x = reduce_part_x(item, part);
        inputs[k] = to->slices[k] = x;
        if (f->mode == FUSE_IN_PLACE && !part->copied) continue;
        snprintf(stem, sizeof stem, "allreduce_bucket_%zu_slice_%zu", index, k);
        TRY(make_var_like(f->program, x, stem, &to->slices[k]));
        if (f->mode == FUSE_CONCAT) continue;
        inputs[k] = to->slices[k];
        TRY(make_copy(to, x, to->slices[k], item, &to->copies[k]));
    }
    const reduce_item *first = b->items->items[0];
    const op_dist *d = first->op->dist;
    snprintf(stem, sizeof stem, "allreduce_bucket_%zu", index);
    bucket_layout layout = {stem, inputs, to->slices, b->nparts, .mesh = d ? op_dist_mesh(d) : NULL};
    layout.copy = f->mode == FUSE_CONCAT;
    layout.align = f->mode == FUSE_IN_PLACE;
    TRY(bucket_tensor_make(f->program, &layout, &to->tensor));
    TRY(bucket_tensor_claim(f->pass, &layout, &to->tensor));
    to->tensor.op->mark = to->mark;
    FOR_EACH_PART(b, item, part, k) {
        weft_var *out = reduce_part_out(item, part);
        if (!part->renames && out != to->slices[k]) TRY(make_copy(to, to->slices[k], out, item, &to->backs[k]));
    }
    return NULL;
}

static weft_status claim_members(const writer *w, const written *to) {
    weft_pass_context *pass = w->f->pass;
    FOR_EACH_PART(to->bucket, item, part, k) {
        weft_var *out = reduce_part_out(item, part);
        TRY(pass_claim_add(pass, (pass_claim){.kind = CLAIM_MEMBER,
                                              .op = to->reduce,
                                              .other = item->op,
                                              .var = out,
                                              .to = to->slices ? to->slices[k] : out}));
    }
    if (!to->wait) return NULL;
    weft_var *is_pending = weft_op_input(to->wait, "X", 0);
    return pass_claim_add(pass,
                          (pass_claim){.kind = CLAIM_WAIT, .op = to->wait, .other = to->reduce, .var = is_pending});
}

static weft_status make_ops(writer *w, size_t index) {
    written *to = &w->all[index];
    *to = (written){.bucket = &w->f->buckets[index], .mark = NEW_OP + (uint32_t)index};
    if (w->f->mode == FUSE_COALESCED) {
        TRY(make_coalesced(w, to));
    } else {
        TRY(make_buffer(w, to, index));
        TRY(make_reduce(w, to, index));
    }
    to->reduce->mark = to->mark;
    TRY(claim_members(w, to));
    return set_long(to->reduce, "bucket_fingerprint", to->bucket->fingerprint);
}

/* --- renaming ----------------------------------------------------------------------------------------------------- */

/* What comes after an old op at `position` uses `to` for `from`; of the new ops, those of later buckets than `own`. */
static void rename_after(weft_var *from, weft_var *to, uint32_t position, uint32_t own) {
    const weft_program *p = from->program;
    for (use *u = use_at(p, from->first_use), *next; u && from != to; u = next) {
        const weft_op *op = use_op(p, u);
        next = use_at(p, u->next);
        if (op->mark <= (op->mark < NEW_OP ? position : own)) continue;
        use_rename_placed(u, to);
    }
}

/* The waits and the reduces themselves go last: until then others may stand behind them. */
static void rename_results(const written *b) {
    FOR_EACH_PART(b->bucket, item, part, k) {
        weft_var *out = reduce_part_out(item, part), *alias = reduce_part_alias(item, part);
        for (size_t i = 0; b->slices && i < part->nwaits; i++) {
            const weft_op *wait = part->waits[i];
            rename_after(weft_op_output(wait, "Out", 0), weft_op_input(wait, "X", 0), wait->mark, b->mark);
        }
        if (alias) rename_after(alias, out, item->position, b->mark);
        if (b->slices && part->renames) rename_after(out, b->slices[k], item->position, b->mark);
    }
}

/* --- edits -------------------------------------------------------------------------------------------------------- */

static void put(writer *w, uint32_t anchor, weft_op *op) {
    weft_block_insert_after(w->f->program->blocks[0], w->behind[anchor], op);
    w->behind[anchor] = op;
}

static void move(writer *w, uint32_t anchor, weft_op *op) {
    weft_op *behind = w->behind[anchor];
    if (behind)
        weft_op_move_after(op, behind);
    else if (op != w->f->program->blocks[0]->first)
        weft_op_move_before(op, w->f->program->blocks[0]->first);
    w->behind[anchor] = op;
}

static void put_bucket(writer *w, const written *b) {
    uint32_t anchor = b->bucket->anchor;
    if (w->f->mode == FUSE_CONCAT) put(w, anchor, b->tensor.op);
    put(w, anchor, b->reduce);
    if (b->wait) put(w, anchor, b->wait);
    for (size_t k = 0; b->backs && k < b->bucket->nparts; k++)
        if (b->backs[k]) put(w, anchor, b->backs[k]);
    for (size_t i = 0; i < b->bucket->nmoved; i++) move(w, b->bucket->moved_anchor, b->bucket->moved[i]);
}

static void earlier(weft_op **first, weft_op *op) {
    if (!*first || weft_op_is_before(op, *first)) *first = op;
}

/* Copies stand where the members were reduced, or else before the reduce; the buffer before the first of all. */
static void put_slices(const writer *w, const written *b) {
    weft_block *block = w->f->program->blocks[0];
    weft_op *first = NULL;
    FOR_EACH_PART(b->bucket, item, part, k) {
        if (!b->copies[k]) {
            earlier(&first, fuse_first_op(w->f, part));
            continue;
        }
        weft_op *before = weft_op_is_before(item->op, b->reduce) ? item->op : b->reduce;
        weft_block_insert_before(block, before, b->copies[k]);
        earlier(&first, b->copies[k]);
    }
    weft_block_insert_before(block, first, b->tensor.op);
}

static void remove_members(const written *b) {
    FOR_EACH_PART(b->bucket, item, part, k) {
        for (size_t i = 0; b->slices && i < part->nwaits; i++) weft_op_remove(part->waits[i]);
        if (part == item->parts) weft_op_remove(item->op);
    }
}

static weft_status begin(writer *w) {
    fusion *f = w->f;
    w->behind = ARENA_ARRAY(f->scratch, weft_op *, f->index.nops + 1);
    if (!w->behind) return base_out_of_memory();
    for (size_t i = 0; i < f->index.nops; i++) w->behind[i + 1] = access_op(&f->index, i);
    return NULL;
}

weft_status fuse_write(fusion *f) {
    writer w = {.f = f, .all = ARENA_ARRAY(f->scratch, written, f->nbuckets + 1)};
    if (!w.all) return base_out_of_memory();
    for (size_t i = 0; i < f->nbuckets; i++) TRY(make_ops(&w, i));
    TRY(begin(&w));
    for (size_t i = 0; i < f->nbuckets; i++) put_bucket(&w, &w.all[i]);
    for (size_t i = 0; i < f->nbuckets && f->mode == FUSE_IN_PLACE; i++) put_slices(&w, &w.all[i]);
    for (size_t i = 0; i < f->nbuckets; i++) rename_results(&w.all[i]);
    for (size_t i = 0; i < f->nbuckets; i++) remove_members(&w.all[i]);
    return NULL;
}
