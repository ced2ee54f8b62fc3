/* Ops: argument slots, and what a reader wants to know of them.
 *
 * A use links one argument with its var. It is in the var's list exactly while its op stands in a block. So an op that
 * a pass has made and not inserted changes nothing that others see. */
#include "program/grow.h"
#include "program/ir.h"
#include "program/name.h"
#include "program/uses.h"

static const slot_table no_slots;

weft_status op_create(weft_program *p, const name *type, weft_op **out) {
    uint32_t id;
    weft_op *op = pool_take(&p->ops, 1, &id);
    if (!op) return base_out_of_memory();
    *op = (weft_op){.program = p, .generation = p->generation, .type = type, .id = id, .slots = &no_slots};
    *out = op;
    return NULL;
}

weft_status weft_op_create(weft_program *program, const char *type, weft_op **out_op) {
    const name *n;
    TRY(program_name(program, type, strlen(type), &n));
    return op_create(program, n, out_op);
}

/* --- slots and arguments ------------------------------------------------------------------------------------------ */

/* Before a change: the op gets a table of its own, with room for `more` slots. */
static weft_status own_slots(weft_op *op, uint32_t more, slot_table **out) {
    enum { FEW_SLOTS = 4 }; /* what an op has that is made slot by slot, so that most never grow */
    uint32_t count = slot_table_count(op->slots), wanted = count + more;
    if (!op->slot_capacity || wanted > op->slot_capacity) {
        uint32_t capacity = wanted > FEW_SLOTS ? 2 * wanted : FEW_SLOTS;
        slot_table *own = arena_alloc(&op->program->arena, slot_table_nbytes(capacity));
        if (!own) return base_out_of_memory();
        memcpy(own, op->slots, slot_table_nbytes(count));
        op->slots = own;
        op->slot_capacity = capacity;
    }
    *out = (slot_table *)op->slots;
    return NULL;
}

static weft_status insert_slot(weft_op *op, bool output, uint32_t index, const name *slot_name) {
    slot_table *t;
    TRY(own_slots(op, 1, &t));
    uint32_t at = output ? t->ninputs + index : index, end = output ? t->nargs : t->ninput_args;
    bool is_last = index == (output ? t->noutputs : t->ninputs);
    uint32_t first = is_last ? end : t->slots[at].first;
    memmove(t->slots + at + 1, t->slots + at, (slot_table_count(t) - at) * sizeof *t->slots);
    t->slots[at] = (slot){.name = slot_name, .first = first};
    *(output ? &t->noutputs : &t->ninputs) += 1;
    op_changed(op);
    return NULL;
}

weft_status op_append_slot(weft_op *op, bool output, const name *slot_name, uint32_t *out) {
    *out = op_nslots(op, output);
    return insert_slot(op, output, *out, slot_name);
}

/* Puts the arguments from `from` on at `to`, whose first has that id. Where they overlap `to` is behind. */
static void move_args(weft_op *op, const use *from, use *to, uint32_t id, uint32_t count) {
    for (uint32_t i = count; i-- > 0;) {
        to[i] = from[i];
        if (op->block) use_set_neighbours(op->program, &to[i], id + i, id + i);
    }
}

weft_status op_reserve_args(weft_op *op, size_t more) {
    weft_program *p = op->program;
    size_t nargs = op->slots->nargs, count = nargs + more;
    if (count <= op->arg_capacity) return NULL;
    if (op->arg_capacity && pool_extend(&p->uses, op->args_id, op->arg_capacity, count - op->arg_capacity)) {
        op->arg_capacity = (uint32_t)count;
        return NULL;
    }
    size_t capacity = count > 2 * nargs ? count : 2 * nargs;
    uint32_t id;
    use *args = pool_take(&p->uses, capacity, &id);
    if (!args) return base_out_of_memory();
    move_args(op, op->args, args, id, (uint32_t)nargs);
    op->args = args;
    op->args_id = id;
    op->arg_capacity = (uint32_t)capacity;
    return NULL;
}

weft_status op_append_room(weft_op *op, bool output, const char *slot_name, size_t nargs, uint32_t *out) {
    const name *n;
    TRY(program_name(op->program, slot_name, strlen(slot_name), &n));
    TRY(op_append_slot(op, output, n, out));
    return op_reserve_args(op, nargs);
}

weft_status op_append_arg(weft_op *op, bool output, uint32_t slot_index, weft_var *v) {
    weft_program *p = op->program;
    slot_table *t;
    TRY(own_slots(op, 0, &t));
    TRY(op_reserve_args(op, 1));
    uint32_t slot_at = output ? t->ninputs + slot_index : slot_index, nslots = slot_table_count(t);
    uint32_t at = t->slots[slot_at].first + t->slots[slot_at].nargs++, id = op->args_id + at;
    use *u = op->args + at;
    move_args(op, u, u + 1, id + 1, t->nargs - at);
    for (uint32_t i = slot_at + 1; i < nslots; i++) t->slots[i].first++;
    t->nargs++;
    t->ninput_args += !output;
    *u = use_make(op, v, output);
    op_changed(op);
    if (op->block) use_link(p, u, id);
    return NULL;
}

/* Room for the first arguments of an op. */
static weft_status take_args(weft_op *op, uint32_t count) {
    if (count && !(op->args = pool_take(&op->program->uses, count, &op->args_id))) return base_out_of_memory();
    op->arg_capacity = count;
    return NULL;
}

static bool same_slots(const slot_table *a, const slot_table *b) {
    return a->ninputs == b->ninputs && a->noutputs == b->noutputs && a->nargs == b->nargs &&
           memcmp(a->slots, b->slots, slot_table_count(a) * sizeof(slot)) == 0;
}

weft_status op_set_slots(weft_op *op, const slot_table *slots) {
    weft_program *p = op->program;
    const slot_table **known = &p->known_slots[(op->type->id * 31 + slots->nargs) % PROGRAM_KNOWN_SLOTS];
    if (!*known || !same_slots(*known, slots)) {
        const slot_table *copy = arena_copy(&p->arena, slots, slot_table_nbytes(slot_table_count(slots)));
        if (!copy) return base_out_of_memory();
        *known = copy;
    }
    op->slots = *known;
    op->slot_capacity = 0;
    return take_args(op, slots->nargs);
}

const slot *op_find_slot(const weft_op *op, bool output, const char *slot_name) {
    const slot *end = op_slot(op, output, op_nslots(op, output));
    for (const slot *s = op_slot(op, output, 0); s < end; s++)
        if (name_is_short(s->name, slot_name)) return s;
    return NULL;
}

weft_var *op_find_var(const weft_op *op, text name_text) {
    const use *end = op->args + op->slots->nargs;
    for (const use *u = op->args; u < end; u++) { /* most texts are the var's own name: it need not be read */
        weft_var *v = use_var(op->program, u);
        if (v->name->bytes == name_text.bytes) return v->block ? v : NULL;
    }
    for (const use *u = op->args; u < end; u++) {
        weft_var *v = use_var(op->program, u);
        const name *n = v->name;
        if (n->nbytes == name_text.nbytes && memcmp(n->bytes, name_text.bytes, name_text.nbytes) == 0)
            return v->block ? v : NULL;
    }
    return block_find_text(op->block, name_text.bytes, name_text.nbytes);
}

static weft_status add_arg(weft_op *op, bool output, const char *slot_name, weft_var *var) {
    TRY(op_remove_attr(op, "fx_node")); /* its text holds no longer */
    uint32_t index = 0, count = op_nslots(op, output);
    const slot *s = op_find_slot(op, output, slot_name);
    if (s) {
        index = (uint32_t)(s - op_slot(op, output, 0));
    } else {
        const name *n;
        TRY(program_name(op->program, slot_name, strlen(slot_name), &n));
        while (index < count && strcmp(op_slot(op, output, index)->name->bytes, slot_name) < 0) index++;
        TRY(insert_slot(op, output, index, n));
    }
    return var ? op_append_arg(op, output, index, var) : NULL;
}

weft_status weft_op_add_input(weft_op *op, const char *slot_name, weft_var *var) {
    return add_arg(op, false, slot_name, var);
}

weft_status weft_op_add_output(weft_op *op, const char *slot_name, weft_var *var) {
    return add_arg(op, true, slot_name, var);
}

void use_rename(use *u, weft_var *to) {
    weft_program *p = to->program;
    weft_op *op = use_op(p, u);
    uint32_t id = use_id(op, u);
    if (op->block) use_unlink(p, u);
    *u = use_make(op, to, u->is_output);
    op_changed(op);
    if (op->block) use_link(p, u, id);
}

static void rename_placements(const op_placement *list, size_t count, const name *from, const name *to) {
    for (size_t i = 0; i < count; i++)
        if (list[i].var == from) ((op_placement *)list)[i].var = to;
}

void use_rename_placed(use *u, weft_var *to) {
    const weft_op *op = use_op(to->program, u);
    const name *from = use_var(to->program, u)->name;
    const op_dist_rest *d = op->dist ? op->dist->rest : NULL;
    if (d) rename_placements(d->inputs, d->ninputs, from, to->name);
    if (d) rename_placements(d->outputs, d->noutputs, from, to->name);
    use_rename(u, to);
}

static void rename_args(weft_op *op, bool output, const weft_var *from, weft_var *to) {
    FOR_EACH_ARG(op, output, u) {
        if (u->var_id == from->id) use_rename(u, to);
    }
}

void weft_op_rename_input(weft_op *op, const weft_var *from, weft_var *to) {
    rename_args(op, false, from, to);
}
void weft_op_rename_output(weft_op *op, const weft_var *from, weft_var *to) {
    rename_args(op, true, from, to);
}

static weft_var *arg_at(const weft_op *op, bool output, const char *slot_name, size_t index) {
    const slot *s = op_find_slot(op, output, slot_name);
    return s && index < s->nargs ? slot_var(op, s, index) : NULL;
}

static size_t count_args(const weft_op *op, bool output, const char *slot_name) {
    const slot *s = op_find_slot(op, output, slot_name);
    return s ? s->nargs : 0;
}

weft_var *weft_op_input(const weft_op *op, const char *slot_name, size_t index) {
    return arg_at(op, false, slot_name, index);
}
weft_var *weft_op_output(const weft_op *op, const char *slot_name, size_t index) {
    return arg_at(op, true, slot_name, index);
}
size_t weft_op_ninputs(const weft_op *op, const char *slot_name) {
    return count_args(op, false, slot_name);
}
size_t weft_op_noutputs(const weft_op *op, const char *slot_name) {
    return count_args(op, true, slot_name);
}

const char *weft_op_type(const weft_op *op) {
    return op->type->bytes;
}
weft_op *weft_op_next(const weft_op *op) {
    return op->next;
}
weft_op *weft_op_prev(const weft_op *op) {
    return op->prev;
}
weft_block *weft_op_block(const weft_op *op) {
    return op->block;
}
bool weft_op_is_before(const weft_op *a, const weft_op *b) {
    return a->order < b->order;
}
int weft_op_role(const weft_op *op) {
    return (int)weft_op_attr_int(op, "op_role", WEFT_ROLE_NOT_SPECIFIED);
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

weft_status op_like(weft_op *pattern, weft_var *var, weft_op **out) {
    weft_program *p = pattern->program;
    uint32_t nargs = pattern->slots->nargs;
    weft_op *op;
    TRY(op_create(p, pattern->type, &op));
    op->slots = pattern->slots;
    pattern->slot_capacity = 0;
    TRY(take_args(op, nargs));
    for (uint32_t i = 0; i < nargs; i++) op->args[i] = use_make(op, var, i >= op->slots->ninput_args);
    op_share_attrs(op, pattern);
    *out = op;
    return NULL;
}

weft_status op_set_unknown_fields(weft_op *op, text bytes) {
    op->unknown_fields = NULL;
    if (!bytes.nbytes) return NULL;
    op->unknown_fields = arena_copy(&op->program->arena, &bytes, sizeof bytes);
    return op->unknown_fields ? NULL : base_out_of_memory();
}

bool op_in_namescope(const weft_op *op, const char *part) {
    return strstr(weft_op_attr_string(op, "op_namescope", ""), part) != NULL;
}
