/* micro_steps.c: the steps of a chunk plan as ops.
 *
 * Each step is an op on its stream, or a few; events say what it waits for, so that the order of streams holds under
 * every reading. */
#include "passes/micro_pipeline/micro_write.h"

static const char *const streams[] = {[CHUNK_COMPUTE] = "",
                                      [CHUNK_SENDS] = "micro_pipeline_sends",
                                      [CHUNK_RECEIVES] = "micro_pipeline_receives",
                                      [CHUNK_SUMS] = "micro_pipeline_sums",
                                      [CHUNK_SENDS_BACK] = "micro_pipeline_sends_back",
                                      [CHUNK_RECEIVES_BACK] = "micro_pipeline_receives_back"};

/* Step -1: before the first. */
static weft_status event_of(const micro_writing *w, int64_t step, const char **out) {
    const char **known = &w->events[step + 1];
    char words[64];
    if (!*known) {
        micro_name(words, sizeof words, "micro_pipeline/", w->number, (const char *[]){"/", NULL}, step);
        *known = arena_string(&w->m->program->arena, words, strlen(words));
    }
    *out = *known;
    return *known ? NULL : base_out_of_memory();
}

static weft_status record(const micro_writing *w, weft_op *op, int64_t step) {
    op_dist *d;
    TRY(op_dist_get(op, &d));
    return event_of(w, step, &d->event_to_record);
}

static weft_status await(const micro_writing *w, weft_op *op, size_t n, const char *const *events) {
    op_dist *d;
    if (!n) return NULL;
    TRY(op_dist_get(op, &d));
    return op_dist_set_waits(w->m->program, d, events, n);
}

/* What it waits for: `begin` too, if it is the first of its stream. */
static weft_status set_order(const micro_writing *w, const chunk_step *s, bool is_first, weft_op *op) {
    const char *events[CHUNK_WAITS + 1];
    size_t n = 0;
    for (int32_t i = 0; i < s->nwaits; i++) TRY(event_of(w, s->waits[i], &events[n++]));
    if (is_first) TRY(event_of(w, -1, &events[n++]));
    return await(w, op, n, events);
}

bool micro_is_in_turn(const micro_writing *w, int space) {
    return space == CHUNK_OUTGOING || (space == CHUNK_INCOMING && !w->plan.in_rank_order) ||
           (space == CHUNK_ROWS && w->plan.nbuffers);
}

/* What a step reads or writes; buffers that take pieces in turn are of the piece's rows. */
static weft_var *var_at(const micro_writing *w, const chunk_step *s, int space, int32_t index, size_t product) {
    bool is_last = s->chunk % w->plan.nsub + 1 == w->plan.nsub;
    if (micro_is_in_turn(w, space) && is_last && w->last[space][0]) return w->last[space][index];
    size_t offset = space == CHUNK_RESULTS || space == CHUNK_TOTALS ? product * w->nchunks : 0;
    return space == CHUNK_SPACES ? NULL : w->spaces[space][offset + (size_t)index];
}

/* With its bias, if it has one: the graph's op rounds both at once. */
static weft_status make_biased(const micro_writing *w, const micro_product *of, weft_var *left, weft_var *right,
                               weft_var *to, weft_op **out) {
    static const char *const factors[] = {"alpha", "beta"};
    bool is_batched = left->ndim == 3;
    const char *const slots[] = {"self", is_batched ? "batch1" : "mat1", is_batched ? "batch2" : "mat2"};
    weft_var *const operands[] = {of->bias, left, right};
    uint32_t index;
    TRY(micro_new_op(w, weft_op_type(of->op), NULL, NULL, "out", to, out));
    for (int i = 0; i < 3; i++) {
        TRY(op_append_room(*out, false, slots[i], 1, &index));
        TRY(op_append_arg(*out, false, index, operands[i]));
    }
    for (int i = 0; i < 2; i++) {
        const weft_attr *a = op_find_attr(of->op, factors[i]);
        if (a) TRY(weft_op_copy_attr(*out, a));
    }
    return NULL;
}

static weft_status make_product(const micro_writing *w, weft_var *left, bool trans_left, weft_var *right,
                                bool trans_right, weft_var *to, weft_op **out) {
    bool is_plain = !trans_left && !trans_right && left->ndim == 3; /* a batch of them: of a graph's bmm */
    TRY(micro_new_op(w, is_plain ? "bmm" : "matmul_v2", "X", left, "Out", to, out));
    if (is_plain) return weft_op_add_input(*out, "Y", right);
    TRY(weft_op_add_input(*out, "Y", right));
    TRY(micro_add_bool(w, *out, MICRO_TRANS_X, trans_left));
    return micro_add_bool(w, *out, MICRO_TRANS_Y, trans_right);
}

static weft_status make_message(const micro_writing *w, const chunk_step *s, weft_op **out) {
    bool sends = s->action == CHUNK_SEND;
    weft_var *v = sends ? var_at(w, s, s->from, s->from_buffer, 0) : var_at(w, s, s->to, s->buffer, 0);
    TRY(micro_new_op(w, sends ? "p_send" : "p_recv", "x", sends ? v : NULL, "out", sends ? NULL : v, out));
    TRY(micro_add_int(w, *out, MICRO_RING, w->lanes.lanes[s->lane]));
    uint64_t before = w->lanes.members[s->lane] & ((UINT64_C(1) << s->peer) - 1);
    TRY(micro_add_int(w, *out, MICRO_PEER, __builtin_popcountll(before)));
    TRY(micro_add_bool(w, *out, MICRO_DYNAMIC_SHAPE, false));
    return sends ? NULL : micro_add_int(w, *out, MICRO_DTYPE, v->dtype);
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
    TRY(micro_add_int(w, *out, MICRO_RING, w->pair->ring.id));
    const weft_attr *reduce = op_find_attr(of, "reduce_type");
    if (reduce) TRY(weft_op_set_attr_int(*out, "reduce_type", reduce->u.i));
    /* it stays on the plan's stream */
    return is_new ? weft_op_set_attr_bool(*out, "async_op", false)
                  : weft_op_set_attr_bool(*out, "use_calc_stream", true);
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
    TRY(micro_new_var(w, "cast_rows", s->chunk, w->pair->dtype, x->ndim, x->dims, &made));
    TRY(micro_make_cast(w, x, made, &ops->all[ops->count++]));
    *out = made;
    return NULL;
}

/* A product in the types that the graph rounds it to on the way to `to`: its own, that of messages, that of sums. */
static weft_status make_rounded(const micro_writing *w, const chunk_step *s, const micro_product *of, weft_var *x,
                                weft_var *to, step_ops *ops) {
    const micro_pair *p = w->pair;
    weft_var *b = of->role == MICRO_COLUMNS ? w->parts[s->chunk] : of->b;
    int32_t types[] = {p->dtype, p->kind == MICRO_GATHER ? p->dtype : p->sent, to->dtype};
    int last = 2; /* the first of the types at the end that are one */
    while (last > 0 && types[last - 1] == types[last]) last--;
    weft_var *made = NULL;
    for (int i = 0; i <= last; i++) {
        weft_var *from = made;
        if (i && types[i] == types[i - 1]) continue;
        made = to;
        if (i < last) TRY(micro_new_var(w, "unrounded", s->chunk, types[i], to->ndim, to->dims, &made));
        weft_op **op = &ops->all[ops->count++];
        TRY(i                       ? micro_make_cast(w, from, made, op)
            : of->bias && !of->adds ? make_biased(w, of, x, b, made, op)
                                    : make_product(w, x, false, b, of->trans, made, op));
        if (i == 0 && of->adds) TRY(make_sum(w, made, of->bias, &ops->all[ops->count++]));
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
        TRY(make_rounded(w, s, of, x, var_at(w, s, s->to, s->buffer, k), ops));
    }
    return NULL;
}

/* Adds `x`, in the sum's type. */
static weft_status add_to(const micro_writing *w, const chunk_step *s, weft_var *sum, weft_var *x, step_ops *ops) {
    weft_var *wide = x;
    if (x->dtype != sum->dtype) {
        TRY(micro_new_var(w, "wide", s->chunk, sum->dtype, x->ndim, x->dims, &wide));
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
    case CHUNK_ADD:
        return add_to(w, s, var_at(w, s, s->to, s->buffer, 0), var_at(w, s, s->from, s->from_buffer, 0), ops);
    default:
        if (s->stream == CHUNK_SUMS) /* what begins a sum */
            return micro_make_cast(w, var_at(w, s, s->from, s->from_buffer, 0), var_at(w, s, s->to, s->buffer, 0),
                                   &ops->all[ops->count++]);
        return micro_new_op(w, "assign", "X", var_at(w, s, s->from, s->from_buffer, 0), "Out",
                            var_at(w, s, s->to, s->buffer, 0), &ops->all[ops->count++]);
    }
}

static weft_status put_step(micro_writing *w, size_t index, bool is_first) {
    const chunk_step *s = w->step = &w->plan.steps[index];
    step_ops ops = {.all = ARENA_ARRAY(w->m->scratch, weft_op *, 4 * w->pair->nproducts + 2)};
    if (!ops.all) return base_out_of_memory();
    TRY(make_ops(w, s, &ops));
    for (size_t k = 0; k < ops.count; k++) {
        weft_op *op = ops.all[k];
        if (s->stream != CHUNK_COMPUTE) TRY(weft_op_set_stream(op, streams[s->stream]));
        if (k == 0) TRY(set_order(w, s, is_first, op));
        if (k + 1 == ops.count && s->signals) TRY(record(w, op, (int64_t)index));
        TRY(micro_put(w, op));
    }
    return NULL;
}

/* An op that touches nothing, for the events around the plan. */
static weft_status make_fence(const micro_writing *w, weft_op **out) {
    return micro_new_op(w, "nop", "X", w->spaces[CHUNK_OWN][0], NULL, NULL, out);
}

static weft_status put_front(micro_writing *w) {
    weft_op *op;
    TRY(make_fence(w, &op));
    TRY(record(w, op, -1));
    w->front = op;
    return micro_put(w, op);
}

/* What is sent of the rank's own rows, or of sums in one buffer, is a view. Who goes by names sees neither that the
 * step after writes it by another name, nor that the buffer is in use. So the fence counts as writing it. */
static weft_status add_sent(const micro_writing *w, weft_op *fence) {
    bool *added = ARENA_ARRAY(w->m->scratch, bool, 2 * w->nchunks);
    if (!added) return base_out_of_memory();
    for (size_t i = 0; i < w->plan.count; i++) {
        const chunk_step *s = &w->plan.steps[i];
        if (s->action != CHUNK_SEND || (s->from != CHUNK_OWN && s->from != CHUNK_RESULTS)) continue;
        bool *is_added = &added[(s->from == CHUNK_OWN ? 0 : w->nchunks) + (size_t)s->from_buffer];
        weft_var *v = w->spaces[s->from][s->from_buffer];
        if (!*is_added && !v->persistable) TRY(weft_op_add_output(fence, "Out", v));
        *is_added = true;
    }
    return NULL;
}

static weft_status put_back(const micro_writing *w, size_t nawaited, const char *const *awaited) {
    weft_op *op;
    TRY(make_fence(w, &op));
    TRY(await(w, op, nawaited, awaited));
    TRY(add_sent(w, op));
    return micro_put(w, op);
}

/* What else an op of the pair made, by an op of its own. */
static weft_status put_rest(micro_writing *w, const micro_term *t) {
    weft_var *left = t->left, *right = t->right;
    weft_op *op;
    if (t->trans_left && !t->trans_right && t->out->ndim == 2) {
        TRY(micro_put_matrix(w, t->left, &left));
        TRY(micro_put_matrix(w, t->right, &right));
    }
    TRY(make_product(w, left, t->trans_left, right, t->trans_right, t->out, &op));
    return micro_put(w, op);
}

weft_status micro_put_rests(micro_writing *w) {
    for (size_t i = 0; i < w->pair->nrest; i++) TRY(put_rest(w, &w->pair->rest[i]));
    return NULL;
}

weft_status micro_put_steps(micro_writing *w) {
    bool begun[CHUNK_STREAMS] = {[CHUNK_COMPUTE] = true};
    int64_t last[CHUNK_STREAMS] = {-1, -1, -1, -1, -1, -1};
    const char *awaited[CHUNK_STREAMS];
    size_t n = 0;
    for (size_t i = 0; i < w->plan.count; i++) last[w->plan.steps[i].stream] = (int64_t)i;
    /* What is received is multiplied, or added up; but products of an all-to-all stay, and sums for all. */
    bool stays = w->pair->is_scattered || (w->pair->kind == MICRO_SCATTER && w->pair->exchanges);
    for (int s = CHUNK_SENDS; s < CHUNK_STREAMS; s++) {
        bool receives = s == CHUNK_RECEIVES || s == CHUNK_RECEIVES_BACK;
        if (last[s] < 0 || (receives && !stays)) continue;
        w->plan.steps[last[s]].signals = true;
        TRY(event_of(w, last[s], &awaited[n++]));
    }
    TRY(put_front(w));
    for (size_t i = 0; i < w->plan.count; i++) {
        uint8_t stream = w->plan.steps[i].stream;
        TRY(put_step(w, i, !begun[stream]));
        begun[stream] = true;
    }
    w->step = NULL;
    if (w->pair->kind != MICRO_GATHER) TRY(micro_put_rests(w)); /* while the last sums are formed */
    return put_back(w, n, awaited);
}
