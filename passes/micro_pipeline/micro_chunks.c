/* micro_chunks.c: a chunk plan in the place of a pair: what is cut up before its steps, and put together behind them.
 *
 * Rows are views of their tensor and of one buffer (coalesce_tensor), so products read and write them in place. Where
 * rows do not lie along the outermost dimension they are put in order by copies, as the pair did. */
#include "passes/micro_pipeline/micro_write.h"
#include "program/grow.h"

static weft_status make_space(micro_writing *w, chunk_space space, int32_t dtype, size_t count, int64_t columns,
                              size_t offset, const char *stem) {
    const micro_pair *p = w->pair;
    int64_t nsub = w->plan.nsub, shortest = micro_piece_rows(w->rows, nsub, nsub - 1);
    bool in_turn = micro_is_in_turn(w, space);
    for (size_t i = 0; i < count; i++) {
        int64_t rows = micro_piece_rows(w->rows, nsub, in_turn ? 0 : (int64_t)i % nsub), dims[3] = {rows, columns};
        if (p->is_batched) memcpy(dims, (int64_t[]){p->dims[0], rows / p->dims[0], columns}, sizeof dims);
        TRY(micro_new_var(w, stem, (int64_t)(offset + i), dtype, p->is_batched ? 3 : 2, dims,
                          &w->spaces[space][offset + i]));
        if (!in_turn || shortest == rows) continue;
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
    w->events = ARENA_ARRAY(w->m->scratch, const char *, w->plan.count + 1);
    return w->parts && w->begun && w->events ? NULL : base_out_of_memory();
}

/* The rank's rows as they are sent: behind the path, but for a cast that widens them. */
static weft_status put_own(micro_writing *w, weft_var **x) {
    const micro_pair *p = w->pair;
    weft_var *from = *x;
    if (from->dtype != p->sent) {
        TRY(micro_new_var(w, "cast", 0, p->sent, from->ndim, from->dims, x));
        TRY(micro_put_cast(w, from, *x));
    }
    if (p->path.is_transposed) {
        int64_t dims[WEFT_MAX_RANK];
        from = *x;
        for (uint32_t i = 0; i < from->ndim; i++) dims[i] = from->dims[p->path.perm[i]];
        TRY(micro_new_var(w, "transposed", 0, p->sent, from->ndim, dims, x));
        TRY(micro_put_permute(w, from, p->path.perm, *x));
    }
    if (!p->is_merged) return NULL;
    from = *x;
    TRY(micro_new_var(w, "merged", 0, p->sent, p->ndim, p->dims, x));
    return micro_put_view(w, from, *x);
}

/* Right operands that others have in more dimensions, as matrices. */
static weft_status put_matrices(const micro_writing *w) {
    for (size_t k = 0; k < w->pair->nproducts && !w->pair->is_batched; k++) {
        micro_product *x = &w->pair->products[k];
        if (x->role != MICRO_OUTER) TRY(micro_put_matrix(w, x->b, &x->b));
    }
    return NULL;
}

/* The product's left operand of a scatter. */
static weft_status put_left(const micro_writing *w, weft_var **out) {
    static const int64_t turned[] = {1, 0};
    const micro_pair *p = w->pair;
    weft_var *matrix;
    *out = p->x;
    if (!p->is_turned) return NULL;
    TRY(micro_put_matrix(w, p->x, &matrix));
    TRY(micro_new_var(w, "turned", 0, p->dtype, 2, p->dims, out));
    return micro_put_permute(w, matrix, turned, *out);
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
        return micro_put_together(w, w->spaces[CHUNK_RESULTS] + k * w->nchunks, w->nchunks, micro_is_inner(w->pair),
                                  x->out);
    weft_var *sum = x->out;
    if (micro_widens(w->pair))
        TRY(micro_new_var(w, "wide_sum", (int64_t)k, w->pair->summed, sum->ndim, sum->dims, &sum));
    TRY(x->role == MICRO_OUTER || w->plan.nsub == 1 ? micro_put_view(w, totals[0], sum)
                                                    : micro_put_together(w, totals, (size_t)w->plan.nsub, false, sum));
    return sum == x->out ? NULL : micro_put_cast(w, sum, x->out);
}

static weft_status write_gather(micro_writing *w) {
    const micro_pair *p = w->pair;
    TRY(cut_own(w));
    TRY(make_space(w, CHUNK_ROWS, p->sent, w->plan.nbuffers ? (size_t)w->plan.nbuffers : w->nchunks, w->width, 0,
                   "rows"));
    for (size_t k = 0; k < p->nproducts; k++)
        TRY(!micro_is_sum(&p->products[k]) ? make_space(w, CHUNK_RESULTS, p->dtype, w->nchunks,
                                                        micro_columns(&p->products[k]), k * w->nchunks, "product")
                                           : make_total(w, k));
    TRY(micro_put_steps(w));
    for (size_t k = 0; k < p->nproducts; k++) TRY(put_product(w, k));
    if (p->keeps_whole) TRY(put_whole(w));
    return micro_put_rests(w);
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
    uint32_t ndim = p->ndim;
    *out = w->spaces[CHUNK_RESULTS][0];
    size_t count = p->kind == MICRO_REDUCE ? w->nchunks : (size_t)w->plan.nsub;
    if (count == 1 && !p->path.is_transposed) return NULL;
    memcpy(dims, p->dims, ndim * sizeof *dims);
    if (p->kind == MICRO_SCATTER) dims[p->dim] /= w->plan.nranks;
    dims[ndim - 1] = (*out)->dims[1];
    weft_var *pieces = *out;
    TRY(micro_new_var(w, "sums", 0, pieces->dtype, ndim, dims, out));
    if (count == 1) return micro_put_view(w, pieces, *out);
    return micro_put_together(w, w->spaces[CHUNK_RESULTS], count, false, *out);
}

static weft_status write_reduce(micro_writing *w) {
    const micro_pair *p = w->pair;
    weft_var *sum;
    int64_t columns = micro_columns(&p->products[0]);
    TRY(micro_cut_rows(w, p->x, p->is_scattered ? p->ring.nranks : 1, "rows", w->spaces[CHUNK_OWN]));
    TRY(make_space(w, CHUNK_RESULTS, p->sent, w->nchunks, columns, 0, "sum"));
    if (p->is_scattered) {
        TRY(make_space(w, CHUNK_OUTGOING, p->sent, (size_t)w->plan.nturns, columns, 0, "outgoing"));
        TRY(make_space(w, CHUNK_INCOMING, p->sent, (size_t)w->plan.nbuffers, columns, 0, "incoming"));
        if (w->plan.widens) TRY(make_space(w, CHUNK_TOTALS, p->summed, (size_t)w->plan.nsub, columns, 0, "wide_sum"));
    }
    TRY(micro_put_steps(w));
    TRY(put_sums(w, &sum));
    return p->path.is_transposed ? micro_put_permute(w, sum, p->path.perm, p->result)
                                 : micro_put_view(w, sum, p->result);
}

/* The operands of each chunk: rows of a member, or all rows and a member's columns. */
static weft_status cut_operands(micro_writing *w, int64_t *out_columns) {
    const micro_pair *p = w->pair;
    const micro_product *x = &p->products[0];
    weft_var *left;
    TRY(put_left(w, &left));
    *out_columns = micro_columns(x);
    if (!micro_is_columns(p)) return micro_cut_members(w, left, w->spaces[CHUNK_OWN]);
    *out_columns /= w->plan.nranks;
    TRY(micro_cut_rows(w, left, 1, "rows", w->spaces[CHUNK_OWN]));
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
    TRY(make_space(w, CHUNK_OUTGOING, p->sent, (size_t)w->plan.nturns, columns, 0, "outgoing"));
    if (p->exchanges) {
        TRY(make_space(w, CHUNK_RESULTS, p->sent, w->nchunks, columns, 0, "product"));
        TRY(micro_put_steps(w));
        return micro_put_together(w, w->spaces[CHUNK_RESULTS], w->nchunks, false, p->result);
    }
    TRY(make_space(w, CHUNK_INCOMING, p->sent, (size_t)w->plan.nbuffers, columns, 0, "incoming"));
    TRY(make_space(w, CHUNK_RESULTS, p->summed, (size_t)w->plan.nsub, columns, 0, "sum"));
    TRY(micro_put_steps(w));
    TRY(put_sums(w, &sum));
    if (p->reduce == WEFT_REDUCE_AVG) TRY(put_mean(w, &sum));
    if (micro_widens(p)) {
        weft_var *wide = sum;
        TRY(micro_new_var(w, "rounded", 0, p->sent, wide->ndim, wide->dims, &sum));
        TRY(micro_put_cast(w, wide, sum));
    }
    return p->path.is_transposed ? micro_put_permute(w, sum, p->path.perm, p->result)
                                 : micro_put_view(w, sum, p->result);
}

static int member_of(const ring *r, int64_t rank) {
    for (int i = 0; i < r->nranks; i++)
        if (r->ranks[i] == rank) return i;
    return -1;
}

static bool same_kind(const chunk_plan *a, const chunk_plan *b) {
    return a->kind == b->kind && a->nranks == b->nranks && a->nsub == b->nsub && a->in_rank_order == b->in_rank_order &&
           a->keeps_rows == b->keeps_rows && a->exchanges == b->exchanges && a->widens == b->widens &&
           a->both_ways == b->both_ways && a->is_scattered == b->is_scattered && a->multiplies == b->multiplies &&
           a->accumulates == b->accumulates;
}

weft_status micro_find_plan(micro_pass *m, const micro_pair *p, int member, chunk_plan *out) {
    chunk_plan asked = {.kind = p->kind,
                        .nranks = p->ring.nranks,
                        .member = member,
                        .nsub = p->pieces,
                        .in_rank_order = m->strict_bits,
                        .both_ways = m->both_ways && p->ring.nranks > 2,
                        .keeps_rows = p->keeps_whole,
                        .exchanges = p->exchanges,
                        .is_scattered = p->is_scattered,
                        .widens = p->kind != MICRO_GATHER && micro_widens(p),
                        .multiplies = micro_has_role(p, false),
                        .accumulates = micro_has_role(p, true)};
    for (size_t i = 0; i < m->nmade; i++)
        if (m->made[i].member == member && same_kind(&m->made[i], &asked)) return *out = m->made[i], NULL;
    TRY(chunk_plan_make(m->scratch, &asked, out));
    TRY(grow(m->scratch, &m->made, &m->made_capacity, m->nmade + 1, sizeof *m->made));
    m->made[m->nmade++] = *out;
    return NULL;
}

/* Plans are proved once for each kind: all else of a pair does not show in them. */
static weft_status prove(micro_pass *m, const chunk_plan *plan) {
    const char *message = NULL;
    for (size_t i = 0; i < m->nmade; i++) {
        if (m->made[i].member != plan->member || !same_kind(&m->made[i], plan)) continue;
        if (m->made[i].is_proved) return NULL;
        m->made[i].is_proved = true;
    }
    arena memory;
    arena_init(&memory, &m->program->context->allocator);
    chunk_plan *all = ARENA_ARRAY(&memory, chunk_plan, plan->nranks), one = *plan;
    weft_status status = all ? NULL : base_out_of_memory();
    for (int i = 0; i < plan->nranks && !status; i++) {
        one.member = i;
        status = chunk_plan_make(&memory, &one, &all[i]);
    }
    if (!status) status = chunk_plans_prove(&memory, all, &message);
    if (message) status = weft_pass_refuse(m->pass, "the chunk plan is wrong: %s", message);
    arena_fini(&memory);
    return status;
}

static int64_t free_ring(const weft_program *p) {
    int64_t id = 0;
    for (size_t i = 0; i < p->nrings; i++)
        if (p->rings[i].id >= id) id = p->rings[i].id + 1;
    return id;
}

/* Of one way a message goes up to n - 1 members on, of both ways half as far each. */
static uint64_t users_of(int nranks, bool both_ways, int lane) {
    uint64_t users = 0;
    bool back = lane >= MICRO_WAY_LANES;
    int most = both_ways ? nranks / 2 : back ? 0 : nranks - 1;
    for (int from = 0; from < nranks; from++)
        for (int k = 1; k <= most; k++) {
            int s = back ? nranks - k : k;
            if (chunk_lane(nranks, from, s, back) == lane)
                users |= UINT64_C(1) << from | UINT64_C(1) << (from - s + nranks) % nranks;
        }
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
        out->members[k] = users_of(of->nranks, m->both_ways && of->nranks > 2, k);
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
    int member = member_of(&p->ring, pass_rank(m->pass));
    if (micro_sends(p)) TRY(find_lanes(m, &p->ring, &w.lanes));
    if (member < 0 && pass_rank(m->pass) < 0) member = 0; /* all do the same */
    if (member < 0) return NULL;                          /* another rank's ring */
    TRY(micro_find_plan(m, p, member, &w.plan));
    TRY(prove(m, &w.plan));
    w.rows = micro_rows(p);
    w.width = p->dims[p->ndim - 1];
    w.nchunks = (size_t)(micro_sends(p) ? w.plan.nranks * w.plan.nsub : w.plan.nsub);
    TRY(begin(&w));
    TRY(micro_begin_writing(&w));
    TRY(put_matrices(&w));
    TRY(p->kind == MICRO_GATHER ? write_gather(&w) : p->kind == MICRO_SCATTER ? write_scatter(&w) : write_reduce(&w));
    for (size_t i = 0; i < p->nops; i++) weft_op_remove(p->ops[i]);
    return NULL;
}
