/* micro_chunks.c: a chunk plan as ordinary ops, in the place of a pair.
 *
 * Rows are views of their tensor and of one buffer (coalesce_tensor), so products read and write them in place. Where
 * rows do not lie along the outermost dimension they are put in order by copies, as the pair did. Each step is an op on
 * its stream; events say what it waits for, so that the order of streams holds under every reading. */
#include <stdio.h>

#include "passes/bucket_tensor.h"
#include "passes/micro_pipeline/micro_plan.h"
#include "program/grow.h"

static const char *const streams[] = {[CHUNK_COMPUTE] = "", [CHUNK_SENDS] = "micro_pipeline_sends",
                                      [CHUNK_RECEIVES] = "micro_pipeline_receives",
                                      [CHUNK_SUMS] = "micro_pipeline_sums"};

typedef struct writer {
    micro_pass *m;
    const micro_pair *pair;
    chunk_plan plan;
    size_t number;
    weft_op *anchor, *front; /* before the first is put what comes; the second begins the steps */
    int64_t rows;  /* of a chunk */
    int64_t width; /* of a row of `own` */
    weft_var **spaces[CHUNK_SPACES]; /* by buffer; results of the k-th product behind those of the one before */
    size_t nchunks;
    micro_lanes lanes;
} writer;

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static weft_status new_var(const writer *w, const char *stem, int64_t index, int32_t dtype, size_t ndim,
                           const int64_t *dims, weft_var **out) {
    char words[80];
    const name *n;
    snprintf(words, sizeof words, "micro_pipeline_%zu_%s_%lld", w->number, stem, (long long)index);
    TRY(program_unique_name(w->m->program, words, &n));
    return weft_block_add_var(w->m->block, n->bytes, (weft_dtype)dtype, ndim, dims, out);
}

static weft_status new_op(const writer *w, const char *type, const char *in, weft_var *x, const char *to,
                          weft_var *made, weft_op **out) {
    TRY(weft_op_create(w->m->program, type, out));
    if (x) TRY(weft_op_add_input(*out, in, x));
    if (made) TRY(weft_op_add_output(*out, to, made));
    const weft_attr *role = op_find_attr(w->pair->collective, "op_role");
    return role ? weft_op_set_attr_int(*out, "op_role", role->u.i) : NULL;
}

/* Which plan it is of. */
static weft_status tag(const writer *w, weft_op *op) {
    char plan[64];
    snprintf(plan, sizeof plan, "%s %zu", w->pair->kind == MICRO_GATHER ? "all_gather_matmul" : "matmul_reduce_scatter",
             w->number);
    return weft_op_set_attr_string(op, "micro_pipeline", plan);
}

static weft_status put(const writer *w, weft_op *op) {
    TRY(tag(w, op));
    weft_block_insert_before(w->m->block, w->anchor, op);
    return NULL;
}

/* `to` is a view of `x` in its own extents. */
static weft_status put_view(const writer *w, weft_var *x, weft_var *to) {
    weft_op *op;
    TRY(new_op(w, "aten_view", "self", x, "out", to, &op));
    TRY(weft_op_set_attr_longs(op, "size", to->ndim, to->dims));
    return put(w, op);
}

/* n equal parts along a dimension: views where that is the outermost. */
static weft_status put_split(const writer *w, weft_var *x, int64_t dim, int64_t n, const char *stem, weft_var **parts) {
    int64_t dims[WEFT_MAX_RANK], size = x->dims[dim] / n;
    weft_op *op;
    memcpy(dims, x->dims, x->ndim * sizeof *dims);
    dims[dim] = size;
    TRY(new_op(w, "aten_split", "self", x, NULL, NULL, &op));
    for (int64_t i = 0; i < n; i++) {
        TRY(new_var(w, stem, i, x->dtype, x->ndim, dims, &parts[i]));
        TRY(weft_op_add_output(op, "out", parts[i]));
    }
    TRY(weft_op_set_attr_longs(op, "split_size", 1, &size));
    TRY(weft_op_set_attr_int(op, "dim", dim));
    return put(w, op);
}

static weft_status put_concat(const writer *w, weft_var **parts, int64_t n, int64_t dim, weft_var *to) {
    weft_op *op;
    TRY(new_op(w, "concat", NULL, NULL, "Out", to, &op));
    for (int64_t i = 0; i < n; i++) TRY(weft_op_add_input(op, "X", parts[i]));
    TRY(weft_op_set_attr_int(op, "axis", dim));
    return put(w, op);
}

static weft_status make_cast(const writer *w, weft_var *x, weft_var *to, weft_op **out) {
    TRY(new_op(w, "cast", "X", x, "Out", to, out));
    TRY(weft_op_set_attr_int(*out, "in_dtype", x->dtype));
    return weft_op_set_attr_int(*out, "out_dtype", to->dtype);
}

static weft_status put_cast(const writer *w, weft_var *x, weft_var *to) {
    weft_op *op;
    TRY(make_cast(w, x, to, &op));
    return put(w, op);
}

static weft_status put_permute(const writer *w, weft_var *x, weft_var *to) {
    weft_op *op;
    TRY(new_op(w, "aten_permute", "self", x, "out", to, &op));
    TRY(weft_op_set_attr_longs(op, "dims", x->ndim, w->pair->path.perm));
    return put(w, op);
}

/* --- rows of tensors ---------------------------------------------------------------------------------------------- */

/* The rows of `x` as `count` matrices, one after another. */
static weft_status cut_rows(const writer *w, weft_var *x, int64_t count, const char *stem, weft_var **out) {
    weft_var *matrix = x;
    int64_t dims[2] = {micro_numel(x, 0, x->ndim - 1), x->dims[x->ndim - 1]};
    if (x->ndim != 2) {
        TRY(new_var(w, stem, -1, x->dtype, 2, dims, &matrix));
        TRY(put_view(w, x, matrix));
    }
    if (count == 1) return out[0] = matrix, NULL;
    return put_split(w, matrix, 0, count, stem, out);
}

/* The rows of all members' parts of `x` along `dim`, a matrix for each chunk. */
static weft_status cut_members(const writer *w, weft_var *x, weft_var **out) {
    int n = w->plan.nranks, nsub = w->plan.nsub;
    if (!micro_is_inner(w->pair)) return cut_rows(w, x, (int64_t)n * nsub, "rows", out);
    weft_var **parts = ARENA_ARRAY(w->m->scratch, weft_var *, n);
    if (!parts) return base_out_of_memory();
    TRY(put_split(w, x, w->pair->dim, n, "part", parts));
    for (int i = 0; i < n; i++) TRY(cut_rows(w, parts[i], nsub, "rows", out + (size_t)i * (size_t)nsub));
    return NULL;
}

/* Who goes by names finds the buffer written behind its views. */
static weft_status put_join(const writer *w, weft_var **chunks, size_t count, weft_var *whole) {
    weft_op *op;
    TRY(new_op(w, "nop", NULL, NULL, "Out", whole, &op));
    for (size_t i = 0; i < count; i++) TRY(weft_op_add_input(op, "X", chunks[i]));
    return put(w, op);
}

/* `whole`, of matrices that lie one after another in one buffer. */
static weft_status put_together(const writer *w, weft_var **chunks, size_t count, bool is_inner, weft_var *whole) {
    int64_t n = w->plan.nranks, dim = w->pair->dim, dims[WEFT_MAX_RANK];
    bucket_tensor joined;
    char stem[64];
    snprintf(stem, sizeof stem, "micro_pipeline_%zu_buffer", w->number);
    bucket_layout layout = {.stem = stem, .inputs = chunks, .views = chunks, .count = count};
    TRY(bucket_tensor_make(w->m->program, &layout, &joined));
    TRY(tag(w, joined.op));
    if (w->pair->kind == MICRO_GATHER) TRY(weft_op_set_attr_int(joined.op, "micro_pipeline_ring", w->pair->ring.id));
    const weft_attr *role = op_find_attr(w->pair->collective, "op_role");
    TRY(role ? weft_op_set_attr_int(joined.op, "op_role", role->u.i) : op_remove_attr(joined.op, "op_role"));
    weft_block_insert_before(w->m->block, w->front, joined.op); /* before its views are written */
    if (w->pair->kind == MICRO_SCATTER) TRY(put_join(w, chunks, count, joined.fused));
    if (!is_inner) return put_view(w, joined.fused, whole);
    weft_var *stacked, **parts = ARENA_ARRAY(w->m->scratch, weft_var *, n);
    if (!parts) return base_out_of_memory();
    memcpy(dims, whole->dims, whole->ndim * sizeof *dims);
    dims[dim] /= n;
    dims[0] *= n;
    TRY(new_var(w, "stacked", 0, whole->dtype, whole->ndim, dims, &stacked));
    TRY(put_view(w, joined.fused, stacked));
    TRY(put_split(w, stacked, 0, n, "stacked_part", parts));
    return put_concat(w, parts, n, dim, whole);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static const char *event_of(const writer *w, int64_t step, char *words, size_t room) {
    snprintf(words, room, "micro_pipeline/%zu/%lld", w->number, (long long)step);
    return words;
}

static weft_status record(const writer *w, weft_op *op, int64_t step) {
    char words[64];
    return weft_op_set_event_recorded(op, event_of(w, step, words, sizeof words));
}

/* Its stream and what it waits for: `begin` too, if it is the first of its stream. */
static weft_status set_order(const writer *w, const chunk_step *s, bool is_first, weft_op *op) {
    char words[CHUNK_WAITS + 1][64];
    const char *events[CHUNK_WAITS + 1];
    size_t n = 0;
    for (int32_t i = 0; i < s->nwaits; i++, n++) events[n] = event_of(w, s->waits[i], words[n], sizeof words[n]);
    if (is_first) events[n] = event_of(w, -1, words[n], sizeof words[n]), n++;
    if (s->stream != CHUNK_COMPUTE) TRY(weft_op_set_stream(op, streams[s->stream]));
    return n ? weft_op_set_events_awaited(op, n, events) : NULL;
}

static weft_var *var_at(const writer *w, int space, int32_t index, size_t product) {
    size_t offset = space == CHUNK_RESULTS ? product * w->nchunks : 0;
    return space == CHUNK_SPACES ? NULL : w->spaces[space][offset + (size_t)index];
}

static weft_status make_product(const writer *w, size_t k, weft_var *x, weft_var *to, weft_op **out) {
    const micro_product *of = &w->pair->products[k];
    TRY(new_op(w, "matmul_v2", "X", x, "Out", to, out));
    TRY(weft_op_add_input(*out, "Y", of->b));
    TRY(weft_op_set_attr_bool(*out, "trans_x", false));
    return weft_op_set_attr_bool(*out, "trans_y", attr_bool(of->op, "trans_y", false));
}

static weft_status make_message(const writer *w, const chunk_step *s, weft_op **out) {
    bool sends = s->action == CHUNK_SEND;
    weft_var *v = sends ? var_at(w, s->from, s->from_buffer, 0) : var_at(w, s->to, s->buffer, 0);
    TRY(new_op(w, sends ? "p_send" : "p_recv", "x", sends ? v : NULL, "out", sends ? NULL : v, out));
    TRY(weft_op_set_attr_int(*out, "ring_id", w->lanes.lanes[s->lane]));
    uint64_t before = w->lanes.members[s->lane] & ((UINT64_C(1) << s->peer) - 1);
    TRY(weft_op_set_attr_int(*out, "peer", __builtin_popcountll(before)));
    TRY(weft_op_set_attr_bool(*out, "dynamic_shape", false));
    return sends ? NULL : weft_op_set_attr_int(*out, "dtype", v->dtype);
}

static weft_status make_sum(const writer *w, const chunk_step *s, weft_op **out) {
    weft_var *sum = var_at(w, s->to, s->buffer, 0);
    TRY(new_op(w, "elementwise_add", "X", sum, "Out", sum, out));
    return weft_op_add_input(*out, "Y", var_at(w, s->from, s->from_buffer, 0));
}

/* The ops of a step, in order. */
typedef struct step_ops {
    weft_op **all;
    size_t count;
} step_ops;

/* A chunk's products; what is cast is a var of its own. */
static weft_status make_products(const writer *w, const chunk_step *s, step_ops *ops) {
    const micro_pair *p = w->pair;
    weft_var *x = var_at(w, s->from, s->from_buffer, 0), *to, *made;
    if (x->dtype != p->dtype) {
        TRY(new_var(w, "cast_rows", s->chunk, p->dtype, 2, x->dims, &made));
        TRY(make_cast(w, x, made, &ops->all[ops->count++]));
        x = made;
    }
    for (size_t k = 0; k < p->nproducts; k++) {
        made = to = var_at(w, s->to, s->buffer, k);
        if (to->dtype != p->dtype) TRY(new_var(w, "cast_product", s->chunk, p->dtype, 2, to->dims, &made));
        TRY(make_product(w, k, x, made, &ops->all[ops->count++]));
        if (made != to) TRY(make_cast(w, made, to, &ops->all[ops->count++]));
    }
    return NULL;
}

static weft_status make_ops(const writer *w, const chunk_step *s, step_ops *ops) {
    switch ((chunk_action)s->action) {
    case CHUNK_MULTIPLY: return make_products(w, s, ops);
    case CHUNK_SEND:
    case CHUNK_RECEIVE: return make_message(w, s, &ops->all[ops->count++]);
    case CHUNK_ADD: return make_sum(w, s, &ops->all[ops->count++]);
    default:
        return new_op(w, "assign", "X", var_at(w, s->from, s->from_buffer, 0), "Out", var_at(w, s->to, s->buffer, 0),
                      &ops->all[ops->count++]);
    }
}

static weft_status put_step(const writer *w, size_t index, bool is_first) {
    const chunk_step *s = &w->plan.steps[index];
    step_ops ops = {.all = ARENA_ARRAY(w->m->scratch, weft_op *, 2 * w->pair->nproducts + 2)};
    if (!ops.all) return base_out_of_memory();
    TRY(make_ops(w, s, &ops));
    for (size_t k = 0; k < ops.count; k++) {
        weft_op *op = ops.all[k];
        TRY(weft_op_set_attr_int(op, "micro_pipeline_step", (int64_t)index));
        TRY(weft_op_set_attr_int(op, "micro_pipeline_chunk", s->chunk));
        if (k == 0) TRY(set_order(w, s, is_first, op));
        if (k + 1 == ops.count && s->signals) TRY(record(w, op, (int64_t)index));
        TRY(put(w, op));
    }
    return NULL;
}

/* An op that touches nothing, for the events around the plan. */
static weft_status put_fence(writer *w, int64_t records, size_t nawaited, const char *const *awaited) {
    weft_op *op;
    TRY(new_op(w, "nop", "X", w->spaces[CHUNK_OWN][0], NULL, NULL, &op));
    if (records < 0) TRY(record(w, op, records));
    if (nawaited) TRY(weft_op_set_events_awaited(op, nawaited, awaited));
    if (!w->front) w->front = op;
    return put(w, op);
}

/* Before it, what others do with the rows and the buffers is done; behind it, what the plan does. */
static weft_status put_steps(writer *w) {
    bool begun[CHUNK_STREAMS] = {[CHUNK_COMPUTE] = true};
    int64_t last[CHUNK_STREAMS] = {-1, -1, -1, -1};
    char words[CHUNK_STREAMS][64];
    const char *awaited[CHUNK_STREAMS];
    size_t n = 0;
    for (size_t i = 0; i < w->plan.count; i++) last[w->plan.steps[i].stream] = (int64_t)i;
    for (int s = CHUNK_SENDS; s < CHUNK_STREAMS; s++) { /* what is received is multiplied, or added up */
        if (last[s] < 0 || s == CHUNK_RECEIVES) continue;
        w->plan.steps[last[s]].signals = true;
        awaited[n] = event_of(w, last[s], words[n], sizeof words[n]);
        n++;
    }
    TRY(put_fence(w, -1, 0, NULL));
    for (size_t i = 0; i < w->plan.count; i++) {
        uint8_t stream = w->plan.steps[i].stream;
        TRY(put_step(w, i, !begun[stream]));
        begun[stream] = true;
    }
    return put_fence(w, 0, n, awaited);
}

/* --- the pair ----------------------------------------------------------------------------------------------------- */

static int64_t columns_of(const micro_product *x) {
    return x->b->dims[attr_bool(x->op, "trans_y", false) ? 0 : 1];
}

static weft_status make_space(writer *w, chunk_space space, int32_t dtype, size_t count, int64_t columns,
                              size_t offset, const char *stem) {
    int64_t dims[2] = {w->rows, columns};
    for (size_t i = 0; i < count; i++)
        TRY(new_var(w, stem, (int64_t)(offset + i), dtype, 2, dims, &w->spaces[space][offset + i]));
    return NULL;
}

static weft_status begin(writer *w) {
    size_t nrooms = w->nchunks * (w->pair->nproducts + 1) + 2;
    for (int s = 0; s < CHUNK_SPACES; s++)
        if (!(w->spaces[s] = ARENA_ARRAY(w->m->scratch, weft_var *, nrooms))) return base_out_of_memory();
    return NULL;
}

/* The rank's rows as they are sent: behind the path, but for a cast that widens them. */
static weft_status put_own(writer *w, weft_var **x) {
    const micro_pair *p = w->pair;
    weft_var *from = *x;
    if (from->dtype != p->sent) {
        TRY(new_var(w, "cast", 0, p->sent, from->ndim, from->dims, x));
        TRY(put_cast(w, from, *x));
    }
    if (!p->path.is_transposed) return NULL;
    from = *x;
    TRY(new_var(w, "transposed", 0, p->sent, from->ndim, p->dims, x));
    return put_permute(w, from, *x);
}

/* All rows, of their chunks: behind the whole path. */
static weft_status put_whole(const writer *w) {
    const micro_pair *p = w->pair;
    weft_var *whole = p->whole;
    if (micro_casts_chunks(p)) TRY(new_var(w, "whole", 0, p->sent, whole->ndim, whole->dims, &whole));
    TRY(put_together(w, w->spaces[CHUNK_ROWS], w->nchunks, micro_is_inner(p), whole));
    return whole == p->whole ? NULL : put_cast(w, whole, p->whole);
}

static weft_status write_gather(writer *w) {
    const micro_pair *p = w->pair;
    weft_var *x = p->x;
    TRY(put_own(w, &x));
    TRY(cut_rows(w, x, w->plan.nsub, "own", w->spaces[CHUNK_OWN]));
    TRY(make_space(w, CHUNK_ROWS, p->sent, w->nchunks, w->width, 0, "rows"));
    for (size_t k = 0; k < p->nproducts; k++)
        TRY(make_space(w, CHUNK_RESULTS, p->dtype, w->nchunks, columns_of(&p->products[k]), k * w->nchunks, "product"));
    TRY(put_steps(w));
    for (size_t k = 0; k < p->nproducts; k++)
        TRY(put_together(w, w->spaces[CHUNK_RESULTS] + k * w->nchunks, w->nchunks, micro_is_inner(p), p->products[k].out));
    return p->keeps_whole ? put_whole(w) : NULL;
}

/* A mean is the sum divided by the number of ranks, once. */
static weft_status put_mean(writer *w, weft_var **sum) {
    weft_var *mean;
    weft_op *op;
    weft_attr *other;
    TRY(new_var(w, "mean", 0, (*sum)->dtype, (*sum)->ndim, (*sum)->dims, &mean));
    TRY(new_op(w, "aten_div_scalar", "self", *sum, "out", mean, &op));
    TRY(op_set_attr(op, "other", &other));
    other->type = ATTR_FLOAT64;
    other->u.f = w->plan.nranks;
    *sum = mean;
    return put(w, op);
}

/* The rank's sums, in one var of the extents that they have before the path. */
static weft_status put_sums(writer *w, weft_var **out) {
    const micro_pair *p = w->pair;
    int64_t dims[WEFT_MAX_RANK];
    uint32_t ndim = p->x->ndim;
    *out = w->spaces[CHUNK_RESULTS][0];
    if (w->plan.nsub == 1 && !p->path.is_transposed) return NULL;
    memcpy(dims, p->dims, ndim * sizeof *dims);
    dims[p->dim] /= w->plan.nranks;
    dims[ndim - 1] = (*out)->dims[1];
    weft_var *pieces = *out;
    TRY(new_var(w, "sums", 0, p->sent, ndim, dims, out));
    if (w->plan.nsub == 1) return put_view(w, pieces, *out);
    return put_together(w, w->spaces[CHUNK_RESULTS], (size_t)w->plan.nsub, false, *out);
}

static weft_status write_scatter(writer *w) {
    const micro_pair *p = w->pair;
    int64_t columns = columns_of(&p->products[0]);
    weft_var *sum;
    TRY(cut_members(w, p->x, w->spaces[CHUNK_OWN]));
    TRY(make_space(w, CHUNK_OUTGOING, p->sent, 2, columns, 0, "outgoing"));
    TRY(make_space(w, CHUNK_INCOMING, p->sent, (size_t)w->plan.nbuffers, columns, 0, "incoming"));
    TRY(make_space(w, CHUNK_RESULTS, p->sent, (size_t)w->plan.nsub, columns, 0, "sum"));
    TRY(put_steps(w));
    TRY(put_sums(w, &sum));
    if (p->reduce == WEFT_REDUCE_AVG) TRY(put_mean(w, &sum));
    return p->path.is_transposed ? put_permute(w, sum, p->result) : put_view(w, sum, p->result);
}

static int member_of(const ring *r, int64_t rank) {
    for (int i = 0; i < r->nranks; i++)
        if (r->ranks[i] == rank) return i;
    return -1;
}

static bool same_kind(const chunk_plan *a, const chunk_plan *b) {
    return a->kind == b->kind && a->nranks == b->nranks && a->nsub == b->nsub && a->in_rank_order == b->in_rank_order &&
           a->keeps_rows == b->keeps_rows;
}

/* Plans are proved once for each kind: all else of a pair does not show in them. */
static weft_status prove(micro_pass *m, const chunk_plan *asked) {
    const char *message = NULL;
    for (size_t i = 0; i < m->nproved; i++)
        if (same_kind(&m->proved[i], asked)) return NULL;
    arena memory;
    arena_init(&memory, &m->program->context->allocator);
    chunk_plan *all = ARENA_ARRAY(&memory, chunk_plan, asked->nranks), one = *asked;
    weft_status status = all ? NULL : base_out_of_memory();
    for (int i = 0; i < asked->nranks && !status; i++) {
        one.member = i;
        status = chunk_plan_make(&memory, &one, &all[i]);
    }
    if (!status) status = chunk_plans_prove(&memory, all, &message);
    if (message) status = weft_pass_refuse(m->pass, "the chunk plan is wrong: %s", message);
    arena_fini(&memory);
    if (status) return status;
    TRY(grow(m->scratch, &m->proved, &m->proved_capacity, m->nproved + 1, sizeof *m->proved));
    m->proved[m->nproved++] = *asked;
    return NULL;
}

static int64_t free_ring(const weft_program *p) {
    int64_t id = 0;
    for (size_t i = 0; i < p->nrings; i++)
        if (p->rings[i].id >= id) id = p->rings[i].id + 1;
    return id;
}

static uint64_t users_of(int nranks, int lane) {
    uint64_t users = 0;
    for (int from = 0; from < nranks; from++)
        for (int s = 1; s < nranks; s++)
            if (chunk_lane(nranks, from, s) == lane)
                users |= UINT64_C(1) << from | UINT64_C(1) << (from - s + nranks) % nranks;
    return users;
}

/* The same rings for all pairs on one ring: every rank makes them alike. */
static weft_status find_lanes(micro_pass *m, const ring *of, micro_lanes *out) {
    for (size_t i = 0; i < m->nlanes; i++)
        if (m->lanes[i].ring == of->id) return *out = m->lanes[i], NULL;
    *out = (micro_lanes){.ring = of->id};
    for (int k = 0; k < MICRO_LANES; k++) {
        int64_t ranks[MICRO_RANKS];
        size_t n = 0;
        out->members[k] = users_of(of->nranks, k);
        for (int i = 0; i < of->nranks; i++)
            if (out->members[k] >> i & 1) ranks[n++] = of->ranks[i];
        if (n) TRY(weft_program_set_ring(m->program, out->lanes[k] = free_ring(m->program), n, ranks));
    }
    TRY(grow(m->scratch, &m->lanes, &m->lane_capacity, m->nlanes + 1, sizeof *m->lanes));
    m->lanes[m->nlanes++] = *out;
    return NULL;
}

weft_status micro_write_chunks(micro_pass *m, micro_pair *p, size_t number) {
    writer w = {.m = m, .pair = p, .number = number, .anchor = micro_anchor(m, p)};
    int64_t rows = micro_rows(p);
    chunk_plan asked = {.kind = p->kind,
                        .nranks = p->ring.nranks,
                        .member = member_of(&p->ring, pass_rank(m->pass)),
                        .nsub = micro_pieces(m->nsub, rows),
                        .in_rank_order = m->strict_bits,
                        .keeps_rows = p->keeps_whole};
    TRY(find_lanes(m, &p->ring, &w.lanes));
    if (asked.member < 0) return NULL; /* another rank's ring */
    TRY(prove(m, &asked));
    TRY(chunk_plan_make(m->scratch, &asked, &w.plan));
    w.rows = rows / w.plan.nsub;
    w.width = p->dims[p->x->ndim - 1];
    w.nchunks = (size_t)(w.plan.nranks * w.plan.nsub);
    TRY(begin(&w));
    TRY(p->kind == MICRO_GATHER ? write_gather(&w) : write_scatter(&w));
    for (size_t i = 0; i < p->nops; i++) weft_op_remove(p->ops[i]);
    return NULL;
}
