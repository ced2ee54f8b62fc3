/* accesses.c: which values each instruction reads and writes; and what follows at once: what must be there before a
 * step, what a step changes, and so what lives across steps. */
#include "plan/builder.h"

typedef struct list {
    plan_builder *b;
    size_t capacity, count;
} list;

static weft_status add(list *l, int32_t value, bool is_write) {
    plan_builder *b = l->b;
    for (; value >= 0; value = b->values[value].rows) {
        if (!b->values[value].nbytes) continue;
        if (l->count == l->capacity) {
            size_t grown = l->capacity ? 2 * l->capacity : 4 * b->ninstrs + 16;
            plan_access *more = ARENA_ARRAY(&b->scratch, plan_access, grown);
            if (!more) return base_out_of_memory();
            if (l->count) memcpy(more, b->accesses, l->count * sizeof *more);
            b->accesses = more;
            l->capacity = grown;
        }
        b->accesses[l->count++] = (plan_access){value, is_write};
    }
    return NULL;
}

/* coalesce_tensor reads what it copies, that is inputs that are not their own outputs, and writes the whole buffer. */
static weft_status add_coalesce(list *l, const plan_instr *i) {
    const plan_builder *b = l->b;
    uint32_t nins = i->in_first[i->schema->ninputs], nouts = i->out_first[i->schema->noutputs];
    for (uint32_t k = 0; k < nins; k++)
        if (k >= nouts || i->in[k] != i->out[k]) TRY(add(l, i->in[k], false));
    for (uint32_t k = 0; k < nouts; k++)
        if (i->out[k] >= 0 && b->values[i->out[k]].view_of < 0) TRY(add(l, i->out[k], true));
    for (uint32_t k = 0; k < nouts; k++) TRY(add(l, i->out[k], true));
    return NULL;
}

static weft_status add_instr(list *l, const plan_instr *i) {
    TRY(add(l, i->guard, false));
    TRY(add(l, i->outer_guard, false));
    if (i->schema->effects & OP_ALIASES) return add_coalesce(l, i);
    for (size_t s = 0; s < i->schema->ninputs; s++) {
        if (i->schema->inputs[s].only_type) continue;
        for (uint32_t k = i->in_first[s]; k < i->in_first[s + 1]; k++) TRY(add(l, i->in[k], false));
    }
    for (uint32_t k = 0; k < i->out_first[i->schema->noutputs]; k++) TRY(add(l, i->out[k], true));
    return NULL;
}

/* Under which guard a value was written: under none is for good; -1 is none, UNWRITTEN never. */
enum { UNWRITTEN = -2 };

/* Whether the value, or a buffer around it, was written wherever the instruction runs. */
static bool is_covered(const plan_builder *b, const int32_t *written, int32_t value, const plan_instr *reader) {
    for (; value >= 0; value = b->values[value].view_of) {
        int32_t guard = written[value];
        if (guard == -1 || (guard >= 0 && (guard == reader->guard || guard == reader->outer_guard))) return true;
    }
    return false;
}

/* A buffer whose first access is a read holds something from before the step: a parameter, or a feed. So does a
 * persistable value that is read where its writer may have been skipped. What is read as a view is read of its base. */
static weft_status mark_first_reads(plan_builder *b) {
    size_t n = b->nvalues ? b->nvalues : 1;
    uint8_t *root_written = ARENA_ARRAY(&b->scratch, uint8_t, n);
    int32_t *written = ARENA_ARRAY(&b->scratch, int32_t, n);
    if (!root_written || !written) return base_out_of_memory();
    for (size_t v = 0; v < b->nvalues; v++) written[v] = UNWRITTEN;
    for (size_t i = 0; i < b->ninstrs; i++)
        for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++) {
            int32_t value = b->accesses[k].value, root = b->root_of[value], base = plan_base_of(b, value);
            plan_value *v = &b->values[base];
            if (b->accesses[k].is_write) {
                b->values[value].is_written = true;
                root_written[root] = 1;
                bool is_whole = b->values[value].nbytes == v->nbytes;
                if (is_whole && written[base] != -1) written[base] = b->instrs[i].guard;
            } else if (!root_written[root] || (v->persistable && !is_covered(b, written, base, &b->instrs[i]))) {
                v->is_read_first = true;
                v->is_feed |= !v->persistable;
            }
        }
    return NULL;
}

/* Writing a buffer writes its slices, and the other way round. */
static weft_status spread_writes(plan_builder *b) {
    uint8_t *direct = ARENA_ARRAY(&b->scratch, uint8_t, b->nvalues ? b->nvalues : 1);
    if (!direct) return base_out_of_memory();
    for (size_t v = 0; v < b->nvalues; v++) direct[v] = b->values[v].is_written;
    for (size_t v = 0; v < b->nvalues; v++)
        for (int32_t up = b->values[v].view_of; up >= 0; up = b->values[up].view_of) {
            if (direct[v]) b->values[up].is_written = true;
            if (direct[up]) b->values[v].is_written = true;
        }
    for (size_t v = 0; v < b->nvalues; v++) /* views of one base overlap, or may: what writes one writes all */
        if (b->view_ops[v]) b->values[v].is_written |= b->values[plan_base_of(b, (int32_t)v)].is_written;
    return NULL;
}

weft_status plan_list_accesses(plan_builder *b) {
    list l = {.b = b};
    b->first_access = ARENA_ARRAY(&b->scratch, uint32_t, b->ninstrs + 1);
    if (!b->first_access) return base_out_of_memory();
    for (size_t i = 0; i < b->ninstrs; i++) {
        b->first_access[i] = (uint32_t)l.count;
        TRY(add_instr(&l, &b->instrs[i]));
    }
    b->first_access[b->ninstrs] = (uint32_t)l.count;
    TRY(mark_first_reads(b));
    TRY(spread_writes(b));
    for (size_t v = 0; v < b->nvalues; v++)
        if (b->values[v].persistable || b->values[v].is_feed || b->values[v].is_fetch)
            b->roots[b->root_of[v]].persistent = true;
    return NULL;
}
