/* micro_chunks.c: a chunk plan as ordinary ops, in the place of a pair.
 *
 * Rows are views of their tensor and of one buffer (coalesce_tensor), so products read and write them in place. Where
 * rows do not lie along the outermost dimension they are put in order by copies, as the pair did. Each step is an op on
 * its stream; events say what it waits for, so that the order of streams holds under every reading. */
#include <stdio.h>

#include "passes/micro_pipeline/micro_write.h"
#include "program/grow.h"

static const char *const streams[] = {[CHUNK_COMPUTE] = "", [CHUNK_SENDS] = "micro_pipeline_sends",
                                      [CHUNK_RECEIVES] = "micro_pipeline_receives",
                                      [CHUNK_SUMS] = "micro_pipeline_sums"};

/* --- steps -------------------------------------------------------------------------------------------------------- */

static const char *event_of(const micro_writing *w, int64_t step, char *words, size_t room) {
    micro_name(words, room, "micro_pipeline/", w->number, (const char *[]){"/", NULL}, step);
    return words;
}

static weft_status record(const micro_writing *w, weft_op *op, int64_t step) {
    char words[64];
    return weft_op_set_event_recorded(op, event_of(w, step, words, sizeof words));
}

/* What it waits for: `begin` too, if it is the first of its stream. */
static weft_status set_order(const micro_writing *w, const chunk_step *s, bool is_first, weft_op *op) {
    char words[CHUNK_WAITS + 1][64];
    const char *events[CHUNK_WAITS + 1];
    size_t n = 0;
    for (int32_t i = 0; i < s->nwaits; i++, n++) events[n] = event_of(w, s->waits[i], words[n], sizeof words[n]);
    if (is_first) events[n] = event_of(w, -1, words[n], sizeof words[n]), n++;
    return n ? weft_op_set_events_awaited(op, n, events) : NULL;
}

/* Whether buffers of a space take one piece after another. */
static bool is_in_turn(const micro_writing *w, int space) {
    return space == CHUNK_OUTGOING || (space == CHUNK_INCOMING && !w->plan.in_rank_order) ||
           (space == CHUNK_ROWS && w->plan.nbuffers);
}

/* What a step reads or writes; buffers that take pieces in turn are of the piece's rows. */
static weft_var *var_at(const micro_writing *w, const chunk_step *s, int space, int32_t index, size_t product) {
    bool is_last = s->chunk % w->plan.nsub + 1 == w->plan.nsub;
    if (is_in_turn(w, space) && is_last && w->last[space][0])
        return w->last[space][index];
    size_t offset = space == CHUNK_RESULTS || space == CHUNK_TOTALS ? product * w->nchunks : 0;
    return space == CHUNK_SPACES ? NULL : w->spaces[space][offset + (size_t)index];
}

static weft_status make_product(const micro_writing *w, weft_var *left, bool trans_left, weft_var *right, bool trans_right,
                                weft_var *to, weft_op **out) {
    TRY(micro_new_op(w, "matmul_v2", "X", left, "Out", to, out));
    TRY(weft_op_add_input(*out, "Y", right));
    TRY(weft_op_set_attr_bool(*out, "trans_x", trans_left));
    return weft_op_set_attr_bool(*out, "trans_y", trans_right);
}

static weft_status make_message(const micro_writing *w, const chunk_step *s, weft_op **out) {
    bool sends = s->action == CHUNK_SEND;
    weft_var *v = sends ? var_at(w, s, s->from, s->from_buffer, 0) : var_at(w, s, s->to, s->buffer, 0);
    TRY(micro_new_op(w, sends ? "p_send" : "p_recv", "x", sends ? v : NULL, "out", sends ? NULL : v, out));
    TRY(weft_op_set_attr_int(*out, "ring_id", w->lanes.lanes[s->lane]));
    uint64_t before = w->lanes.members[s->lane] & ((UINT64_C(1) << s->peer) - 1);
    TRY(weft_op_set_attr_int(*out, "peer", __builtin_popcountll(before)));
    TRY(weft_op_set_attr_bool(*out, "dynamic_shape", false));
    return sends ? NULL : weft_op_set_attr_int(*out, "dtype", v->dtype);
}

static weft_status make_sum(const micro_writing *w, weft_var *sum, weft_var *x, weft_op **out) {
    TRY(micro_new_op(w, "elementwise_add", "X", sum, "Out", sum, out));
    return weft_op_add_input(*out, "Y", x);
}

/* The pair's collective, of a piece in place. */
static weft_status make_reduce(const micro_writing *w, weft_var *v, weft_op **out) {
    weft_op *of = w->pair->collective;
    bool is_new = op_find_slot(of, false, "x");
    TRY(micro_new_op(w, weft_op_type(of), is_new ? "x" : "X", v, is_new ? "out" : "Out", v, out));
    TRY(weft_op_set_attr_int(*out, "ring_id", w->pair->ring.id));
    const weft_attr *reduce = op_find_attr(of, "reduce_type");
    if (reduce) TRY(weft_op_set_attr_int(*out, "reduce_type", reduce->u.i));
    /* it stays on the plan's stream */
    return is_new ? weft_op_set_attr_bool(*out, "async_op", false) : weft_op_set_attr_bool(*out, "use_calc_stream", true);
}

/* The ops of a step, in order. */
typedef struct step_ops {
    weft_op **all;
    size_t count;
} step_ops;

/* A chunk as the products' operand: if it is cast, in a var of its own. */
static weft_status make_operand(const micro_writing *w, const chunk_step *s, step_ops *ops, weft_var **out) {
    weft_var *x = var_at(w, s, s->from, s->from_buffer, 0), *made;
    *out = x;
    if (x->dtype == w->pair->dtype) return NULL;
    TRY(micro_new_var(w, "cast_rows", s->chunk, w->pair->dtype, 2, x->dims, &made));
    TRY(micro_make_cast(w, x, made, &ops->all[ops->count++]));
    *out = made;
    return NULL;
}

/* A product in the types that the graph rounds it to on the way to `to`: its own, that of messages, that of sums. */
static weft_status make_rounded(const micro_writing *w, const chunk_step *s, weft_var *x, weft_var *b, bool trans,
                                weft_var *to, step_ops *ops) {
    const micro_pair *p = w->pair;
    int32_t types[] = {p->dtype, p->kind == MICRO_GATHER ? p->dtype : p->sent, to->dtype};
    int last = 2; /* the first of the types at the end that are one */
    while (last > 0 && types[last - 1] == types[last]) last--;
    weft_var *made = NULL;
    for (int i = 0; i <= last; i++) {
        weft_var *from = made;
        if (i && types[i] == types[i - 1]) continue;
        made = to;
        if (i < last) TRY(micro_new_var(w, "unrounded", s->chunk, types[i], 2, to->dims, &made));
        TRY(i ? micro_make_cast(w, from, made, &ops->all[ops->count++]) :
                make_product(w, x, false, b, trans, made, &ops->all[ops->count++]));
    }
    return NULL;
}

static weft_status make_products(const micro_writing *w, const chunk_step *s, step_ops *ops) {
    const micro_pair *p = w->pair;
    weft_var *x;
    TRY(make_operand(w, s, ops, &x));
    for (size_t k = 0; k < p->nproducts; k++) {
        const micro_product *of = &p->products[k];
        if (micro_is_sum(of)) continue;
        weft_var *b = of->role == MICRO_COLUMNS ? w->parts[s->chunk] : of->b;
        TRY(make_rounded(w, s, x, b, of->trans, var_at(w, s, s->to, s->buffer, k), ops));
    }
    return NULL;
}

/* Adds `x`, in the sum's type. */
static weft_status add_to(const micro_writing *w, const chunk_step *s, weft_var *sum, weft_var *x, step_ops *ops) {
    weft_var *wide = x;
    if (x->dtype != sum->dtype) {
        TRY(micro_new_var(w, "wide", s->chunk, sum->dtype, 2, x->dims, &wide));
        TRY(micro_make_cast(w, x, wide, &ops->all[ops->count++]));
    }
    return make_sum(w, sum, wide, &ops->all[ops->count++]);
}

/* Adds what a chunk gives to each sum of products; the first of a sum is where it is formed. */
static weft_status make_additions(const micro_writing *w, const chunk_step *s, step_ops *ops) {
    const micro_pair *p = w->pair;
    weft_var *x, *to, *made;
    TRY(make_operand(w, s, ops, &x));
    for (size_t k = 0; k < p->nproducts; k++) {
        const micro_product *of = &p->products[k];
        if (!micro_is_sum(of)) continue;
        weft_var *other = w->parts[k * w->nchunks + (size_t)s->chunk];
        bool is_outer = of->role == MICRO_OUTER;
        size_t at = k * w->nchunks + (is_outer ? 0 : (size_t)s->buffer);
        made = to = w->spaces[CHUNK_TOTALS][at];
        if (w->begun[at] || to->dtype != p->dtype)
            TRY(micro_new_var(w, "part_of_sum", s->chunk, p->dtype, 2, to->dims, &made));
        if (is_outer && !of->is_left)
            TRY(make_product(w, other, true, x, false, made, &ops->all[ops->count++]));
        else
            TRY(make_product(w, x, is_outer, other, of->trans, made, &ops->all[ops->count++]));
        if (w->begun[at])
            TRY(add_to(w, s, to, made, ops));
        else if (made != to)
            TRY(micro_make_cast(w, made, to, &ops->all[ops->count++]));
        w->begun[at] = true;
    }
    return NULL;
}

static weft_status make_ops(const micro_writing *w, const chunk_step *s, step_ops *ops) {
    switch ((chunk_action)s->action) {
    case CHUNK_MULTIPLY: return make_products(w, s, ops);
    case CHUNK_SEND:
    case CHUNK_RECEIVE: return make_message(w, s, &ops->all[ops->count++]);
    case CHUNK_REDUCE: return make_reduce(w, var_at(w, s, s->to, s->buffer, 0), &ops->all[ops->count++]);
    case CHUNK_ACCUMULATE: return make_additions(w, s, ops);
    case CHUNK_ADD: return add_to(w, s, var_at(w, s, s->to, s->buffer, 0), var_at(w, s, s->from, s->from_buffer, 0), ops);
    default:
        if (s->stream == CHUNK_SUMS) /* what begins a sum */
            return micro_make_cast(w, var_at(w, s, s->from, s->from_buffer, 0), var_at(w, s, s->to, s->buffer, 0),
                                   &ops->all[ops->count++]);
        return micro_new_op(w, "assign", "X", var_at(w, s, s->from, s->from_buffer, 0), "Out", var_at(w, s, s->to, s->buffer, 0),
                      &ops->all[ops->count++]);
    }
}

static weft_status put_step(const micro_writing *w, size_t index, bool is_first) {
    const chunk_step *s = &w->plan.steps[index];
    step_ops ops = {.all = ARENA_ARRAY(w->m->scratch, weft_op *, 3 * w->pair->nproducts + 2)};
    if (!ops.all) return base_out_of_memory();
    TRY(make_ops(w, s, &ops));
    for (size_t k = 0; k < ops.count; k++) {
        weft_op *op = ops.all[k];
        TRY(weft_op_set_attr_int(op, "micro_pipeline_step", (int64_t)index));
        TRY(weft_op_set_attr_int(op, "micro_pipeline_chunk", s->chunk));
        if (s->stream != CHUNK_COMPUTE) TRY(weft_op_set_stream(op, streams[s->stream]));
        if (k == 0) TRY(set_order(w, s, is_first, op));
        if (k + 1 == ops.count && s->signals) TRY(record(w, op, (int64_t)index));
        TRY(micro_put(w, op));
    }
    return NULL;
}

/* An op that touches nothing, for the events around the plan. */
static weft_status put_fence(micro_writing *w, int64_t records, size_t nawaited, const char *const *awaited) {
    weft_op *op;
    TRY(micro_new_op(w, "nop", "X", w->spaces[CHUNK_OWN][0], NULL, NULL, &op));
    if (records < 0) TRY(record(w, op, records));
    if (nawaited) TRY(weft_op_set_events_awaited(op, nawaited, awaited));
    if (!w->front) w->front = op;
    return micro_put(w, op);
}

static weft_status as_matrix(micro_writing *w, weft_var *v, weft_var **out) {
    int64_t dims[2] = {micro_numel(v, 0, v->ndim - 1), v->dims[v->ndim - 1]};
    *out = v;
    if (v->ndim == 2) return NULL;
    TRY(micro_new_var(w, "matrix", 0, v->dtype, 2, dims, out));
    return micro_put_view(w, v, *out);
}

/* What else an op of the pair made, by an op of its own. */
static weft_status put_rest(micro_writing *w, const micro_term *t) {
    weft_var *left = t->left, *right = t->right;
    weft_op *op;
    if (t->trans_left && !t->trans_right) {
        TRY(as_matrix(w, t->left, &left));
        TRY(as_matrix(w, t->right, &right));
    }
    TRY(make_product(w, left, t->trans_left, right, t->trans_right, t->out, &op));
    return micro_put(w, op);
}

static weft_status put_rests(micro_writing *w) {
    for (size_t i = 0; i < w->pair->nrest; i++) TRY(put_rest(w, &w->pair->rest[i]));
    return NULL;
}

/* Before it, what others do with the rows and the buffers is done; behind it, what the plan does. */
static weft_status put_steps(micro_writing *w) {
    bool begun[CHUNK_STREAMS] = {[CHUNK_COMPUTE] = true};
    int64_t last[CHUNK_STREAMS] = {-1, -1, -1, -1};
    char words[CHUNK_STREAMS][64];
    const char *awaited[CHUNK_STREAMS];
    size_t n = 0;
    for (size_t i = 0; i < w->plan.count; i++) last[w->plan.steps[i].stream] = (int64_t)i;
    /* What is received is multiplied, or added up; but products of an all-to-all stay. */
    bool stays = w->pair->kind == MICRO_SCATTER && w->pair->exchanges;
    for (int s = CHUNK_SENDS; s < CHUNK_STREAMS; s++) {
        if (last[s] < 0 || (s == CHUNK_RECEIVES && !stays)) continue;
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
    if (w->pair->kind != MICRO_GATHER) TRY(put_rests(w)); /* while the last sums are formed */
    return put_fence(w, 0, n, awaited);
}

/* --- the pair ----------------------------------------------------------------------------------------------------- */

static weft_status make_space(micro_writing *w, chunk_space space, int32_t dtype, size_t count, int64_t columns,
                              size_t offset, const char *stem) {
    int64_t nsub = w->plan.nsub, shortest = micro_piece_rows(w->rows, nsub, nsub - 1);
    bool in_turn = is_in_turn(w, space);
    for (size_t i = 0; i < count; i++) {
        int64_t dims[2] = {micro_piece_rows(w->rows, nsub, in_turn ? 0 : (int64_t)i % nsub), columns};
        TRY(micro_new_var(w, stem, (int64_t)(offset + i), dtype, 2, dims, &w->spaces[space][offset + i]));
        if (!in_turn || shortest == dims[0]) continue;
        dims[0] = shortest;
        TRY(micro_new_var(w, stem, (int64_t)(count + i), dtype, 2, dims, &w->last[space][i]));
    }
    return NULL;
}

static weft_status begin(micro_writing *w) {
    size_t nrooms = w->nchunks * (w->pair->nproducts + 1) + 2;
    for (int s = 0; s < CHUNK_SPACES; s++)
        if (!(w->spaces[s] = ARENA_ARRAY(w->m->scratch, weft_var *, nrooms))) return base_out_of_memory();
    w->parts = ARENA_ARRAY(w->m->scratch, weft_var *, nrooms);
    w->begun = ARENA_ARRAY(w->m->scratch, bool, nrooms);
    return w->parts && w->begun ? NULL : base_out_of_memory();
}

/* The rank's rows as they are sent: behind the path, but for a cast that widens them. */
static weft_status put_own(micro_writing *w, weft_var **x) {
    const micro_pair *p = w->pair;
    weft_var *from = *x;
    if (from->dtype != p->sent) {
        TRY(micro_new_var(w, "cast", 0, p->sent, from->ndim, from->dims, x));
        TRY(micro_put_cast(w, from, *x));
    }
    if (!p->path.is_transposed) return NULL;
    from = *x;
    TRY(micro_new_var(w, "transposed", 0, p->sent, from->ndim, p->dims, x));
    return micro_put_permute(w, from, *x);
}

/* Those for each member, of an all-to-all. */
static weft_status cut_own(micro_writing *w) {
    const micro_pair *p = w->pair;
    weft_var *x = p->x, **parts = &x;
    int64_t n = p->exchanges ? w->plan.nranks : 1;
    if (p->exchanges) {
        if (!(parts = ARENA_ARRAY(w->m->scratch, weft_var *, n))) return base_out_of_memory();
        TRY(micro_put_split(w, x, 0, n, NULL, "of_member", parts));
    }
    for (int64_t i = 0; i < n; i++) {
        TRY(put_own(w, &parts[i]));
        TRY(micro_cut_rows(w, parts[i], 1, "own", w->spaces[CHUNK_OWN] + i * w->plan.nsub));
    }
    return NULL;
}

/* All rows, of their chunks: behind the whole path. */
static weft_status put_whole(const micro_writing *w) {
    const micro_pair *p = w->pair;
    weft_var *whole = p->whole;
    if (micro_casts_chunks(p)) TRY(micro_new_var(w, "whole", 0, p->sent, whole->ndim, whole->dims, &whole));
    TRY(micro_put_together(w, w->spaces[CHUNK_ROWS], w->nchunks, micro_is_inner(p), whole));
    return whole == p->whole ? NULL : micro_put_cast(w, whole, p->whole);
}

/* The other operand's part for each chunk, and where the sum is formed: of an outer product in one place. */
static weft_status make_total(micro_writing *w, size_t k) {
    const micro_product *x = &w->pair->products[k];
    weft_var **parts = w->parts + k * w->nchunks, **totals = w->spaces[CHUNK_TOTALS] + k * w->nchunks;
    int64_t nsub = w->plan.nsub;
    if (x->role == MICRO_INNER) {
        TRY(micro_put_split(w, x->b, x->trans ? 1 : 0, w->plan.nranks, NULL, "operand", parts));
        for (int64_t i = (int64_t)w->nchunks - 1; i >= 0; i--) parts[i] = parts[i / nsub];
        return make_space(w, CHUNK_TOTALS, w->pair->summed, (size_t)nsub, micro_columns(x), k * w->nchunks, "total");
    }
    TRY(micro_cut_members(w, x->b, parts));
    return micro_new_var(w, "total", (int64_t)k, w->pair->summed, 2, x->out->dims, totals);
}

/* All rows of a product, or its sum. */
static weft_status put_product(micro_writing *w, size_t k) {
    const micro_product *x = &w->pair->products[k];
    weft_var **totals = w->spaces[CHUNK_TOTALS] + k * w->nchunks;
    if (!micro_is_sum(x))
        return micro_put_together(w, w->spaces[CHUNK_RESULTS] + k * w->nchunks, w->nchunks, micro_is_inner(w->pair), x->out);
    weft_var *sum = x->out;
    if (micro_widens(w->pair)) TRY(micro_new_var(w, "wide_sum", (int64_t)k, w->pair->summed, sum->ndim, sum->dims, &sum));
    TRY(x->role == MICRO_OUTER || w->plan.nsub == 1 ? micro_put_view(w, totals[0], sum) :
                                                      micro_put_together(w, totals, (size_t)w->plan.nsub, false, sum));
    return sum == x->out ? NULL : micro_put_cast(w, sum, x->out);
}

static weft_status write_gather(micro_writing *w) {
    const micro_pair *p = w->pair;
    TRY(cut_own(w));
    TRY(make_space(w, CHUNK_ROWS, p->sent, w->plan.nbuffers ? (size_t)w->plan.nbuffers : w->nchunks, w->width, 0, "rows"));
    for (size_t k = 0; k < p->nproducts; k++)
        TRY(!micro_is_sum(&p->products[k]) ?
                make_space(w, CHUNK_RESULTS, p->dtype, w->nchunks, micro_columns(&p->products[k]), k * w->nchunks, "product") :
                make_total(w, k));
    TRY(put_steps(w));
    for (size_t k = 0; k < p->nproducts; k++) TRY(put_product(w, k));
    if (p->keeps_whole) TRY(put_whole(w));
    return put_rests(w);
}

/* A mean is the sum divided by the number of ranks, once. */
static weft_status put_mean(micro_writing *w, weft_var **sum) {
    weft_var *mean;
    weft_op *op;
    weft_attr *other;
    TRY(micro_new_var(w, "mean", 0, (*sum)->dtype, (*sum)->ndim, (*sum)->dims, &mean));
    TRY(micro_new_op(w, "aten_div_scalar", "self", *sum, "out", mean, &op));
    TRY(op_set_attr(op, "other", &other));
    other->type = ATTR_FLOAT64;
    other->u.f = w->plan.nranks;
    *sum = mean;
    return micro_put(w, op);
}

/* The rank's sums, in one var of the extents that they have before the path. */
static weft_status put_sums(micro_writing *w, weft_var **out) {
    const micro_pair *p = w->pair;
    int64_t dims[WEFT_MAX_RANK];
    uint32_t ndim = p->x->ndim;
    *out = w->spaces[CHUNK_RESULTS][0];
    if (w->plan.nsub == 1 && !p->path.is_transposed) return NULL;
    memcpy(dims, p->dims, ndim * sizeof *dims);
    if (p->kind == MICRO_SCATTER) dims[p->dim] /= w->plan.nranks;
    dims[ndim - 1] = (*out)->dims[1];
    weft_var *pieces = *out;
    TRY(micro_new_var(w, "sums", 0, p->summed, ndim, dims, out));
    if (w->plan.nsub == 1) return micro_put_view(w, pieces, *out);
    return micro_put_together(w, w->spaces[CHUNK_RESULTS], (size_t)w->plan.nsub, false, *out);
}

static weft_status write_reduce(micro_writing *w) {
    const micro_pair *p = w->pair;
    weft_var *sum;
    TRY(micro_cut_rows(w, p->x, 1, "rows", w->spaces[CHUNK_OWN]));
    TRY(make_space(w, CHUNK_RESULTS, p->sent, (size_t)w->plan.nsub, micro_columns(&p->products[0]), 0, "sum"));
    TRY(put_steps(w));
    TRY(put_sums(w, &sum));
    return p->path.is_transposed ? micro_put_permute(w, sum, p->result) : micro_put_view(w, sum, p->result);
}

/* The operands of each chunk: rows of a member, or all rows and a member's columns. */
static weft_status cut_operands(micro_writing *w, int64_t *out_columns) {
    const micro_pair *p = w->pair;
    const micro_product *x = &p->products[0];
    *out_columns = micro_columns(x);
    if (!micro_is_columns(p)) return micro_cut_members(w, p->x, w->spaces[CHUNK_OWN]);
    *out_columns /= w->plan.nranks;
    TRY(micro_cut_rows(w, p->x, 1, "rows", w->spaces[CHUNK_OWN]));
    TRY(micro_put_split(w, x->b, x->trans ? 0 : 1, w->plan.nranks, NULL, "operand", w->parts));
    for (size_t i = w->nchunks, nsub = (size_t)w->plan.nsub; i-- > 0;) {
        w->spaces[CHUNK_OWN][i] = w->spaces[CHUNK_OWN][i % nsub];
        w->parts[i] = w->parts[i / nsub];
    }
    return NULL;
}

static weft_status write_scatter(micro_writing *w) {
    const micro_pair *p = w->pair;
    int64_t columns;
    weft_var *sum;
    TRY(cut_operands(w, &columns));
    TRY(make_space(w, CHUNK_OUTGOING, p->sent, 2, columns, 0, "outgoing"));
    if (p->exchanges) {
        TRY(make_space(w, CHUNK_RESULTS, p->sent, w->nchunks, columns, 0, "product"));
        TRY(put_steps(w));
        return micro_put_together(w, w->spaces[CHUNK_RESULTS], w->nchunks, false, p->result);
    }
    TRY(make_space(w, CHUNK_INCOMING, p->sent, (size_t)w->plan.nbuffers, columns, 0, "incoming"));
    TRY(make_space(w, CHUNK_RESULTS, p->summed, (size_t)w->plan.nsub, columns, 0, "sum"));
    TRY(put_steps(w));
    TRY(put_sums(w, &sum));
    if (p->reduce == WEFT_REDUCE_AVG) TRY(put_mean(w, &sum));
    if (micro_widens(p)) {
        weft_var *wide = sum;
        TRY(micro_new_var(w, "rounded", 0, p->sent, wide->ndim, wide->dims, &sum));
        TRY(micro_put_cast(w, wide, sum));
    }
    return p->path.is_transposed ? micro_put_permute(w, sum, p->result) : micro_put_view(w, sum, p->result);
}

static int member_of(const ring *r, int64_t rank) {
    for (int i = 0; i < r->nranks; i++)
        if (r->ranks[i] == rank) return i;
    return -1;
}

static bool same_kind(const chunk_plan *a, const chunk_plan *b) {
    return a->kind == b->kind && a->nranks == b->nranks && a->nsub == b->nsub && a->in_rank_order == b->in_rank_order &&
           a->keeps_rows == b->keeps_rows && a->exchanges == b->exchanges && a->widens == b->widens && a->multiplies == b->multiplies && a->accumulates == b->accumulates;
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
    micro_writing w = {.m = m, .pair = p, .number = number, .anchor = micro_anchor(m, p)};
    chunk_plan asked = {.kind = p->kind,
                        .nranks = p->ring.nranks,
                        .member = member_of(&p->ring, pass_rank(m->pass)),
                        .nsub = p->pieces,
                        .in_rank_order = m->strict_bits,
                        .keeps_rows = p->keeps_whole,
                        .exchanges = p->exchanges,
                        .widens = p->kind == MICRO_SCATTER && micro_widens(p),
                        .multiplies = micro_has_role(p, false),
                        .accumulates = micro_has_role(p, true)};
    if (p->kind != MICRO_REDUCE) TRY(find_lanes(m, &p->ring, &w.lanes));
    if (asked.member < 0 && pass_rank(m->pass) < 0) asked.member = 0; /* all do the same */
    if (asked.member < 0) return NULL; /* another rank's ring */
    TRY(prove(m, &asked));
    TRY(chunk_plan_make(m->scratch, &asked, &w.plan));
    w.rows = micro_rows(p);
    w.width = p->dims[p->x->ndim - 1];
    w.nchunks = (size_t)(p->kind == MICRO_REDUCE ? w.plan.nsub : w.plan.nranks * w.plan.nsub);
    TRY(begin(&w));
    TRY(micro_begin_writing(&w));
    TRY(p->kind == MICRO_GATHER  ? write_gather(&w) :
        p->kind == MICRO_SCATTER ? write_scatter(&w) :
                                   write_reduce(&w));
    for (size_t i = 0; i < p->nops; i++) weft_op_remove(p->ops[i]);
    return NULL;
}
