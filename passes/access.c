/* Who touches which bytes, in program order.
 *
 * Two vars are in one alias class if an op makes one a view of the other's buffer (coalesce_tensor, share_data,
 * share_buffer, output slots "Out&X"); all that is asked of a var is asked of its class. What a sub-block reads and
 * writes counts as done by the op that runs it. One sweep of the ops gives them positions; another notes the accesses
 * of what is asked for, which are then put together by class. */
#include <stdlib.h>

#include "passes/access.h"

/* --- visiting the arguments of an op, sub-blocks included --------------------------------------------------------- */

typedef struct block_list {
    weft_block **blocks;
    size_t count;
} block_list;

static weft_status add_block(weft_program *p, int64_t index, bool *entered, block_list *list) {
    weft_block *b = index > 0 ? weft_program_block(p, (size_t)index) : NULL;
    if (!b || entered[index]) return NULL;
    entered[index] = true;
    list->blocks[list->count++] = b;
    return NULL;
}

static weft_status add_sub_blocks(const weft_op *op, bool *entered, block_list *list) {
    for (size_t i = 0; i < op->nattrs; i++) {
        const weft_attr *a = &op->attrs[i];
        if (a->type == ATTR_BLOCK) TRY(add_block(op->program, a->u.i, entered, list));
        for (size_t k = 0; a->type == ATTR_BLOCKS && k < a->count; k++)
            TRY(add_block(op->program, a->u.ints[k], entered, list));
    }
    return NULL;
}

static bool has_sub_block(const weft_op *op) {
    if (op->program->nblocks == 1) return false;
    for (size_t i = 0; i < op->nattrs; i++)
        if (op->attrs[i].type == ATTR_BLOCK || op->attrs[i].type == ATTR_BLOCKS) return true;
    return false;
}

static weft_status visit_args(const weft_op *op, bool nested, visit_use_fn visit, void *user) {
    for (int output = 0; output < 2; output++) {
        FOR_EACH_ARG(op, output, u) TRY(visit(user, u, nested));
    }
    return NULL;
}

weft_status access_visit(weft_op *op, arena *scratch, visit_use_fn visit, void *user) {
    TRY(visit_args(op, false, visit, user));
    if (!has_sub_block(op)) return NULL;
    block_list list = {.blocks = ARENA_ARRAY(scratch, weft_block *, op->program->nblocks)};
    bool *entered = ARENA_ARRAY(scratch, bool, op->program->nblocks);
    if (!list.blocks || !entered) return base_out_of_memory();
    TRY(add_sub_blocks(op, entered, &list));
    for (size_t i = 0; i < list.count; i++) {
        FOR_EACH_OP(inner, list.blocks[i]) {
            if (!op_has_effect(inner, OP_NO_BYTES)) TRY(visit_args(inner, true, visit, user));
            TRY(add_sub_blocks(inner, entered, &list));
        }
    }
    return NULL;
}

/* --- alias classes ------------------------------------------------------------------------------------------------ */

static bool makes_aliases(weft_op *op) {
    return op_has_effect(op, OP_ALIASES) || op_is(op, "share_data") || op_is(op, "share_buffer");
}

/* The arguments of a view slot (ops.h: "Out&X"); NULL: the op has none there. */
static const slot *view_args(const op_schema *schema, const weft_op *op, size_t output) {
    if (schema->outputs[output].view_of < 0) return NULL;
    const slot *s = op_find_slot(op, true, schema->outputs[output].name);
    return s && s->nargs ? s : NULL;
}

static bool makes_views(weft_op *op) {
    if (makes_aliases(op)) return true;
    if (!op_has_effect(op, OP_VIEWS)) return false;
    const op_schema *schema = op_schema_of(op);
    for (size_t o = 0; o < schema->noutputs; o++)
        if (view_args(schema, op, o)) return true;
    return false;
}

static uint32_t find_class(uint32_t *parent, uint32_t v) {
    while (parent[v] != v) v = parent[v] = parent[parent[v]];
    return v;
}

/* The smaller id stands for both, so that classes do not depend on the order of ops. */
static uint32_t join(uint32_t *parent, uint32_t a, uint32_t b) {
    a = find_class(parent, a);
    b = find_class(parent, b);
    return a < b ? (parent[b] = a) : (parent[a] = b);
}

/* coalesce_tensor's outputs share one buffer; what it copies from stays where it is. */
static void join_args(uint32_t *parent, weft_op *op) {
    uint32_t joined = UINT32_MAX;
    for (int output = op_has_effect(op, OP_ALIASES) ? 1 : 0; output < 2; output++) {
        FOR_EACH_ARG(op, output, u) joined = joined == UINT32_MAX ? u->var_id : join(parent, joined, u->var_id);
    }
}

/* Argument k of the output slot is a view of argument k of its input slot, or of the only one that this has. */
static void join_views(uint32_t *parent, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    for (size_t o = 0; o < schema->noutputs; o++) {
        const slot *to = view_args(schema, op, o);
        if (!to) continue;
        const slot *from = op_find_slot(op, false, schema->inputs[schema->outputs[o].view_of].name);
        for (uint32_t k = 0; from && from->nargs && k < to->nargs; k++)
            join(parent, slot_args(op, to)[k].var_id, slot_args(op, from)[k < from->nargs ? k : 0].var_id);
    }
}

/* Only where there are views: else each var is a class of its own, which needs no table. */
static weft_status build_classes(access_index *x, arena *a) {
    weft_program *p = x->program;
    size_t n = p->nall_vars;
    if (!(x->class_of = ARENA_ARRAY(a, uint32_t, n + 1)) || !bit_set_init(&x->shared, a, n))
        return base_out_of_memory();
    for (size_t i = 0; i < n; i++) x->class_of[i] = (uint32_t)i;
    for (size_t i = 0; i < p->nblocks; i++) {
        FOR_EACH_OP(op, p->blocks[i]) {
            if (op_has_effect(op, OP_VIEWS))
                join_views(x->class_of, op);
            else if (makes_views(op))
                join_args(x->class_of, op);
        }
    }
    for (size_t i = 0; i < n; i++) {
        x->class_of[i] = find_class(x->class_of, (uint32_t)i);
        if (x->class_of[i] != i) bit_set_add(&x->shared, x->class_of[i]); /* a class is named for its smallest id */
    }
    return NULL;
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

static bool has_views_below(const weft_program *p) {
    for (size_t i = 1; i < p->nblocks; i++) {
        FOR_EACH_OP(op, p->blocks[i]) {
            if (makes_views(op)) return true;
        }
    }
    return false;
}

weft_status access_index_begin(weft_program *p, arena *a, access_index *out) {
    access_index x = {.program = p};
    weft_block *b = p->blocks[0];
    if (b->nops > ACCESS_MAX_OPS) return weft_status_create(WEFT_LIMIT, p->place, "too many ops");
    if (!(x.op_ids = ARENA_ARRAY(a, uint32_t, b->nops + 1))) return base_out_of_memory();
    bool any_views = has_views_below(p);
    FOR_EACH_OP(op, b) {
        any_views = any_views || makes_views(op);
        op->mark = (uint32_t)x.nops;
        x.op_ids[x.nops++] = op->id;
    }
    if (any_views) TRY(build_classes(&x, a));
    *out = x;
    return NULL;
}

/* --- gathering ---------------------------------------------------------------------------------------------------- */

/* An access that is not among those of its class yet. */
typedef struct note {
    uint32_t class; /* its number */
    access access;
} note;

typedef struct gatherer {
    const access_index *x;
    arena *arena;
    note *notes; /* not of the arena: they are many, and soon not needed any more */
    size_t count, capacity;
    weft_op *op;  /* that is being visited, */
    size_t of_op; /* its first note */
    uint32_t position;
} gatherer;

static access access_make(uint32_t position, uint32_t flags) {
    return (access){.position = position & ACCESS_MAX_OPS, .flags = flags & 15};
}

static uint32_t class_of_id(const access_index *x, uint32_t id) {
    return x->class_of ? x->class_of[id] : id;
}

static uint32_t access_flags(weft_op *op, const use *u) {
    if (op_has_effect(op, OP_ONLY_VIEWS)) return ACCESS_ALIAS;
    return (u->is_output ? ACCESS_WRITE : ACCESS_READ) | (makes_aliases(op) ? ACCESS_ALIAS : 0u);
}

/* What an op does to a class is mostly found among its last few notes; merge_class sees to the rest. */
static note *find_note(const gatherer *g, uint32_t class) {
    enum { FEW = 8 };
    size_t end = g->count > g->of_op + FEW ? g->count - FEW : g->of_op;
    for (size_t i = g->count; i > end; i--)
        if (g->notes[i - 1].class == class) return &g->notes[i - 1];
    return NULL;
}

static weft_status note_arg(void *user, const use *u, bool nested) {
    gatherer *g = user;
    uint32_t id = class_of_id(g->x, u->var_id);
    if (!bit_set_has(&g->x->gathered, id)) return NULL;
    uint32_t flags = nested ? (u->is_output ? ACCESS_WRITE : ACCESS_READ) | ACCESS_NESTED : access_flags(g->op, u);
    uint32_t class = bit_set_index(&g->x->gathered, id);
    note *same = find_note(g, class);
    if (same) {
        same->access = access_make(g->position, same->access.flags | flags);
        return NULL;
    }
    if (g->count == g->capacity)
        TRY(vector_reserve(g->arena->allocator, &g->notes, &g->capacity, g->count + 1, sizeof *g->notes));
    g->notes[g->count++] = (note){class, access_make(g->position, flags)};
    return NULL;
}

/* By ops rather than by the wanted vars' uses, which are all over the memory: this reads it once and in order. */
static weft_status gather(gatherer *g) {
    const access_index *x = g->x;
    for (size_t i = 0; i < x->nops; i++) {
        g->op = access_op(x, i);
        g->position = (uint32_t)i;
        g->of_op = g->count;
        if (!op_has_effect(g->op, OP_NO_BYTES)) TRY(access_visit(g->op, g->arena, note_arg, g));
    }
    if (g->count > UINT32_MAX) return weft_status_create(WEFT_LIMIT, x->program->place, "too many arguments");
    return NULL;
}

/* --- sorting ------------------------------------------------------------------------------------------------------ */

static int by_position(const void *a, const void *b) {
    const access *x = a, *y = b;
    return x->position < y->position ? -1 : x->position > y->position;
}

static void sort_class(access *list, size_t count) {
    enum { FEW = 32 };
    for (size_t i = 1; i < count; i++) {
        if (list[i - 1].position <= list[i].position) continue;
        if (count > FEW) {
            qsort(list, count, sizeof *list, by_position);
            return;
        }
        access moved = list[i];
        size_t to = i;
        for (; to > 0 && list[to - 1].position > moved.position; to--) list[to] = list[to - 1];
        list[to] = moved;
    }
}

/* Accesses of one op become one. Returns how many are left. */
static uint32_t merge_class(access *list, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kept && list[kept - 1].position == list[i].position)
            list[kept - 1] = access_make(list[i].position, list[kept - 1].flags | list[i].flags);
        else
            list[kept++] = list[i];
    }
    return kept;
}

static void sort_notes(access_index *x, const note *notes, size_t count, size_t nclasses) {
    for (size_t i = 0; i < count; i++) x->first[notes[i].class + 1]++;
    for (size_t i = 0; i < nclasses; i++) x->first[i + 1] += x->first[i];
    for (size_t i = 0; i < count; i++) {
        const note *n = &notes[i];
        x->all[x->first[n->class] + x->count[n->class]++] = n->access;
    }
    for (size_t i = 0; i < nclasses; i++) {
        if (x->count[i] < 2) continue;
        sort_class(x->all + x->first[i], x->count[i]);
        x->count[i] = merge_class(x->all + x->first[i], x->count[i]);
    }
}

static weft_status number_wanted(access_index *x, arena *a, const bit_set *wanted, uint32_t *out_nclasses) {
    size_t n = x->program->nall_vars;
    if (wanted)
        x->gathered = *wanted;
    else if (!bit_set_init(&x->gathered, a, n))
        return base_out_of_memory();
    for (size_t i = 0; !wanted && i < n; i++) bit_set_add(&x->gathered, i);
    return bit_set_number(&x->gathered, a, out_nclasses) ? NULL : base_out_of_memory();
}

weft_status access_index_gather(access_index *x, arena *a, const bit_set *wanted) {
    uint32_t nclasses = 0;
    TRY(number_wanted(x, a, wanted, &nclasses));
    x->first = ARENA_ARRAY(a, uint32_t, nclasses + 1);
    x->count = ARENA_ARRAY(a, uint32_t, nclasses + 1);
    if (!x->first || !x->count) return base_out_of_memory();
    gatherer g = {.x = x, .arena = a};
    weft_status status = NULL;
    TRY_DONE(gather(&g));
    if (!(x->all = ARENA_ARRAY(a, access, g.count + 1))) TRY_DONE(base_out_of_memory());
    sort_notes(x, g.notes, g.count, nclasses);
done:
    base_free(a->allocator, g.notes, g.capacity * sizeof *g.notes);
    return status;
}
