/* Who touches which bytes, in program order.
 *
 * Two vars are in one alias class if an op makes one a view of the other's buffer (coalesce_tensor, share_data,
 * share_buffer); all that is asked of a var is asked of its class. What a sub-block reads and writes counts as done by
 * the op that runs it. One sweep of the ops notes what each touches; those notes are then sorted by class, by
 * counting, so that they stay in program order within one. */
#include "passes/access.h"

/* --- visiting the arguments of an op, sub-blocks included ----------------------------------------------------------
 */

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

/* --- alias classes -------------------------------------------------------------------------------------------------
 */

static bool makes_views(weft_op *op) {
    return op_has_effect(op, OP_ALIASES) || op_is(op, "share_data") || op_is(op, "share_buffer");
}

static uint32_t find_class(uint32_t *parent, uint32_t v) {
    while (parent[v] != v) v = parent[v] = parent[parent[v]];
    return v;
}

static void join_args(uint32_t *parent, const weft_op *op) {
    uint32_t joined = UINT32_MAX;
    for (int output = 0; output < 2; output++) {
        FOR_EACH_ARG(op, output, u) {
            uint32_t c = find_class(parent, u->var_id);
            if (joined == UINT32_MAX)
                joined = c;
            else if (c < joined)
                joined = parent[joined] = c;
            else
                parent[c] = joined;
        }
    }
}

static weft_status build_classes(access_index *x, arena *a) {
    weft_program *p = x->program;
    size_t n = p->nall_vars;
    x->class_of = ARENA_ARRAY(a, uint32_t, n + 1);
    x->class_size = ARENA_ARRAY(a, uint32_t, n + 1);
    if (!x->class_of || !x->class_size) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) x->class_of[i] = (uint32_t)i;
    for (size_t i = 0; i < p->nblocks; i++) {
        FOR_EACH_OP(op, p->blocks[i]) {
            if (makes_views(op)) join_args(x->class_of, op);
        }
    }
    for (size_t i = 0; i < n; i++) x->class_size[x->class_of[i] = find_class(x->class_of, (uint32_t)i)]++;
    return NULL;
}

/* --- the index -----------------------------------------------------------------------------------------------------
 */

/* An access that is not in its class yet. */
typedef struct note {
    uint32_t class, position, flags;
} note;

typedef struct sweeper {
    access_index *x;
    arena *arena;
    note *notes;
    size_t count, capacity;
    uint32_t position, flags; /* of the op being swept; flags that all its accesses get */
} sweeper;

static weft_status more_notes(sweeper *w) {
    size_t capacity = w->capacity ? w->capacity * 2 : w->x->nops * 4 + 16;
    note *notes = ARENA_ARRAY(w->arena, note, capacity);
    if (!notes) return base_out_of_memory();
    if (w->count) memcpy(notes, w->notes, w->count * sizeof *notes);
    w->notes = notes;
    w->capacity = capacity;
    return NULL;
}

static weft_status note_use(void *user, const use *u, bool nested) {
    sweeper *w = user;
    if (w->count == w->capacity) TRY(more_notes(w));
    uint32_t class = w->x->class_of[u->var_id];
    uint32_t flags = w->flags | (u->is_output ? ACCESS_WRITE : ACCESS_READ) | (nested ? ACCESS_NESTED : 0u);
    w->notes[w->count++] = (note){class, w->position, flags};
    w->x->first[class + 1]++;
    return NULL;
}

static weft_status sweep(sweeper *w) {
    access_index *x = w->x;
    for (size_t i = 0; i < x->nops; i++) {
        weft_op *op = x->ops[i];
        if (op_has_effect(op, OP_NO_BYTES)) continue;
        w->position = (uint32_t)i;
        w->flags = makes_views(op) ? ACCESS_ALIAS : 0;
        TRY(access_visit(op, w->arena, note_use, w));
    }
    if (w->count > UINT32_MAX) return weft_status_create(WEFT_LIMIT, x->program->place, "too many arguments");
    return NULL;
}

/* Notes of one op and one class become one access. */
static void sort_notes(access_index *x, const note *notes, size_t count) {
    for (size_t i = 0; i < x->program->nall_vars; i++) x->first[i + 1] += x->first[i];
    for (size_t i = 0; i < count; i++) {
        const note *n = &notes[i];
        access *last = x->all + x->first[n->class] + x->count[n->class];
        if (x->count[n->class] && last[-1].position == n->position)
            last[-1].flags |= n->flags;
        else
            *last = (access){x->ops[n->position], n->position, n->flags}, x->count[n->class]++;
    }
}

static weft_status list_ops(access_index *x, arena *a) {
    weft_block *b = x->program->blocks[0];
    if (b->nops >= UINT32_MAX) return weft_status_create(WEFT_LIMIT, x->program->place, "too many ops");
    if (!(x->ops = ARENA_ARRAY(a, weft_op *, b->nops + 1))) return base_out_of_memory();
    FOR_EACH_OP(op, b) x->ops[x->nops++] = op;
    return NULL;
}

void access_index_mark(const access_index *index) {
    for (size_t i = 0; i < index->nops; i++) index->ops[i]->mark = i;
}

weft_status access_index_build(weft_program *p, arena *a, access_index *out) {
    access_index x = {.program = p};
    TRY(list_ops(&x, a));
    TRY(build_classes(&x, a));
    x.first = ARENA_ARRAY(a, uint32_t, p->nall_vars + 1);
    x.count = ARENA_ARRAY(a, uint32_t, p->nall_vars + 1);
    if (!x.first || !x.count) return base_out_of_memory();
    sweeper w = {.x = &x, .arena = a};
    TRY(sweep(&w));
    if (!(x.all = ARENA_ARRAY(a, access, w.count + 1))) return base_out_of_memory();
    sort_notes(&x, w.notes, w.count);
    *out = x;
    return NULL;
}
