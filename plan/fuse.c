/* fuse.c: row-tiled fusion: which neighbours on a stream may run tile by tile of a few rows. What one writes is then
 * still in the cache when the next reads it.
 *
 * An op that works row by row (OP_ROWS) splits its arguments that have as many elements as its largest output evenly,
 * in order; what else it reads or writes (a scale, a bias, a sum over rows) it may touch at any time. So instructions
 * may be fused if they have equally many elements and if, wherever one writes bytes that another touches, both split
 * exactly these bytes. Then every row sees what it would have seen without tiles: results are the same to the bit.
 *
 * The invariant: this looks at bytes as they lie, after memory was laid out; it adds no lifetime, no wait and no order.
 * Only the first instruction of a group may wait, and all have one guard. */
#include "plan/fuse.h"

typedef struct span {
    plan_space space;
    int64_t begin, end;
    bool is_write, is_split;
} span;

static int64_t numel_of(const plan_value *v) {
    int64_t n = 1;
    for (int i = 0; i < v->shape.ndim; i++) n *= v->shape.dims[i];
    return n;
}

/* Elements of the largest output: what the instruction splits. */
static int64_t main_numel(const weft_plan *plan, const plan_instr *i) {
    int64_t most = 0;
    for (uint32_t k = 0; k < i->out_first[i->schema->noutputs]; k++) {
        if (i->out[k] < 0) continue;
        int64_t n = numel_of(&plan->values[i->out[k]]);
        if (n > most) most = n;
    }
    return most;
}

static void add_span(const weft_plan *plan, int32_t value, bool is_write, int64_t numel, span *spans, size_t *n) {
    if (value < 0 || plan->values[value].nbytes == 0) return;
    const plan_value *v = &plan->values[value];
    spans[(*n)++] = (span){v->space, v->offset, v->offset + v->nbytes, is_write, numel_of(v) == numel};
}

/* False if the instruction has more arguments than a group may have, or row indices. */
static bool list_spans(const weft_plan *plan, const plan_instr *i, span spans[PLAN_GROUP_ARGS], size_t *out_n) {
    const op_schema *s = i->schema;
    uint32_t nin = i->in_first[s->ninputs], nout = i->out_first[s->noutputs];
    int64_t numel = main_numel(plan, i);
    *out_n = 0;
    if (nin + nout + 2 > PLAN_GROUP_ARGS) return false; /* 2 guards */
    for (uint32_t k = 0; k < nin + nout; k++) {
        int32_t value = k < nin ? i->in[k] : i->out[k - nin];
        if (value >= 0 && plan->values[value].rows >= 0) return false;
    }
    add_span(plan, i->guard, false, -1, spans, out_n);
    add_span(plan, i->outer_guard, false, -1, spans, out_n);
    for (size_t slot_index = 0; slot_index < s->ninputs; slot_index++)
        for (uint32_t k = i->in_first[slot_index]; k < i->in_first[slot_index + 1]; k++)
            if (!s->inputs[slot_index].only_type) add_span(plan, i->in[k], false, numel, spans, out_n);
    for (uint32_t k = 0; k < nout; k++) add_span(plan, i->out[k], true, numel, spans, out_n);
    return true;
}

static bool overlap(const span *a, const span *b) {
    return a->space == b->space && a->begin < b->end && b->begin < a->end;
}

/* Whether b may be fused with a; *out_shares: they touch the same bytes. */
static bool agree(const weft_plan *plan, const plan_instr *a, const plan_instr *b, bool *out_shares) {
    span of_a[PLAN_GROUP_ARGS], of_b[PLAN_GROUP_ARGS];
    size_t na, nb;
    if (!list_spans(plan, a, of_a, &na) || !list_spans(plan, b, of_b, &nb)) return false;
    for (size_t i = 0; i < na; i++)
        for (size_t k = 0; k < nb; k++) {
            const span *x = &of_a[i], *y = &of_b[k];
            if (!overlap(x, y)) continue;
            bool equal = x->begin == y->begin && x->end == y->end && x->is_split && y->is_split;
            if ((x->is_write || y->is_write) && !equal) return false;
            *out_shares |= equal;
        }
    return true;
}

/* Whether `next`, the next instruction of their stream, may be fused with all of a group. */
static bool may_join(const weft_plan *plan, const plan_instr *const *members, size_t count, const plan_instr *next) {
    const plan_instr *head = members[0];
    bool shares = false;
    if (count >= PLAN_GROUP_INSTRS || !(head->schema->effects & OP_ROWS) || !(next->schema->effects & OP_ROWS))
        return false;
    if (next->nwaits || next->guard != head->guard || next->outer_guard != head->outer_guard) return false;
    if (main_numel(plan, head) != main_numel(plan, next)) return false;
    for (size_t i = 0; i < count; i++)
        if (!agree(plan, members[i], next, &shares)) return false;
    return shares;
}

typedef struct group {
    plan_instr *members[PLAN_GROUP_INSTRS];
    size_t count;
} group;

weft_status plan_fuse(weft_plan *plan) {
    group *groups = NULL;
    arena scratch;
    arena_init(&scratch, &plan->context->allocator);
    groups = ARENA_ARRAY(&scratch, group, plan->nstreams ? plan->nstreams : 1);
    for (size_t i = 0; groups && i < plan->ninstrs; i++) {
        plan_instr *instr = &plan->instrs[i];
        group *g = &groups[instr->stream];
        if (g->count && may_join(plan, (const plan_instr *const *)g->members, g->count, instr)) {
            g->members[g->count++] = instr;
            g->members[0]->nfused++;
        } else {
            g->members[0] = instr;
            g->count = 1;
        }
    }
    weft_status status = groups ? NULL : base_out_of_memory();
    arena_fini(&scratch);
    return status;
}

weft_status plan_check_fused(const weft_plan *plan) {
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *head = &plan->instrs[i], *members[PLAN_GROUP_INSTRS] = {head};
        size_t count = 1;
        bool legal = head->nfused < PLAN_GROUP_INSTRS;
        for (size_t k = i + 1; legal && count <= head->nfused && k < plan->ninstrs; k++) {
            if (plan->instrs[k].stream != head->stream) continue;
            legal = !plan->instrs[k].nfused && may_join(plan, members, count, &plan->instrs[k]);
            members[count++] = &plan->instrs[k];
        }
        if (!legal || count <= head->nfused)
            return weft_status_create(WEFT_PARSE, plan->program->place,
                                      "fused: instruction %zu (%s) and the next %u of its stream cannot be fused", i,
                                      head->schema->type, head->nfused);
    }
    return NULL;
}
