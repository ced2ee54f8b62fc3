/* parts.c: ops that stack tensors or take a stack apart, along the outermost axis: their parts are byte ranges of the
 * whole, and the op is no instruction.
 *
 * That is right where nothing can observe it: parts and whole are all of the step's own. The one side is complete when
 * the op would run and not touched from then on; the other is not touched before. (The op table cannot say so, as it
 * does of views: after a real unstack the whole and its parts live on apart.) What is made of them is ranges of bytes
 * like any other, so waits, lifetimes and memory need no rule.
 *
 * What an op makes of such a part alone, where its kernel may write in the part's place, lies there too.
 *
 * Left alone: conditionals, an order that somebody else derived, and programs with views that kernels materialise
 * (whose staleness is found by op). So are parts that would not begin at a cache line. */
#include "plan/builder.h"

/* Slot of the whole and of the parts; whether the op makes the whole. */
typedef struct stacking {
    const char *type, *whole, *parts;
    bool makes_whole;
} stacking;

static const stacking stackings[] = {{"unstack", "X", "Y", false},
                                     {"unbind", "X", "Out", false},
                                     {"stack", "Y", "X", true},
                                     {"unstack_grad", "X@GRAD", "Y@GRAD", true},
                                     {"stack_grad", "Y@GRAD", "X@GRAD", false}};

static const stacking *stacking_of(const weft_op *op) {
    for (size_t i = 0; i < sizeof stackings / sizeof *stackings; i++)
        if (op_is(op, stackings[i].type)) return &stackings[i];
    return NULL;
}

static bool is_asked_for(const plan_builder *b, const weft_var *v) {
    for (size_t i = 0; i < b->options->nfeeds; i++)
        if (name_is(v->name, b->options->feeds[i].name)) return true;
    for (size_t i = 0; i < b->options->nfetches; i++)
        if (name_is(v->name, b->options->fetches[i])) return true;
    return false;
}

/* Whether the var is written before the op and not touched after it (`first`), or not touched before it. The op itself
 * touches it once. */
static bool is_on_one_side(const plan_builder *b, const weft_var *v, const weft_op *op, bool first) {
    bool is_written = false;
    int here = 0;
    FOR_EACH_USE(u, v) {
        weft_op *user = use_op(v->program, u);
        if (!user->mark || op_has_effect(user, OP_NO_BYTES)) continue;
        if (b->steps[user->mark - 1].frame >= 0 || op_has_effect(user, OP_CONTROL | OP_ALIASES)) return false;
        if (user == op)
            here++;
        else if ((user->mark < op->mark) != first)
            return false;
        is_written |= u->is_output && user != op;
    }
    return here == 1 && (is_written || !first);
}

/* The value of an argument if it may share bytes so, else -1. */
static weft_status candidate(plan_builder *b, weft_op *op, const weft_var *v, bool first, const bool *is_viewed,
                             int32_t *out_value) {
    int32_t value;
    *out_value = -1;
    if (plan_is_empty_name(v) || v->persistable || is_asked_for(b, v) || !is_on_one_side(b, v, op, first)) return NULL;
    TRY(plan_value_of(b, op, v, &value));
    const plan_value *found = &b->values[value];
    bool is_apart = found->view_of < 0 && ((size_t)value >= b->nviewed || !is_viewed[value]);
    if (is_apart && found->rows < 0 && found->nbytes % PLAN_ALIGNMENT == 0 && found->nbytes) *out_value = value;
    return NULL;
}

/* Whether everything before `axis` has extent 1, so that parts follow one another. */
static bool is_outermost(const shape *whole, int64_t axis) {
    if (axis < 0) axis += whole->ndim;
    for (int64_t i = 0; i < axis && i < whole->ndim; i++)
        if (whole->dims[i] != 1) return false;
    return axis >= 0;
}

static void place(plan_builder *b, int32_t value, int32_t whole, int64_t offset, weft_op *op) {
    b->values[value].view_of = whole;
    b->values[value].offset = offset;
    b->view_ops[value] = op;
}

/* The op that touches the var last, and the var that it may write in the place of this one; NULL: none. */
static const weft_var *written_in_place(const weft_var *v, weft_op **out_op) {
    weft_op *last = NULL;
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (op->mark && (!last || op->mark > last->mark)) last = op;
    }
    const op_schema *schema = last ? op_schema_of(last) : NULL;
    *out_op = last;
    for (size_t s = 0; schema && s < schema->noutputs; s++) {
        int in_slot = schema->outputs[s].in_place_of;
        const slot *from = in_slot < 0 ? NULL : op_find_slot(last, false, schema->inputs[in_slot].name);
        const slot *to = from ? op_find_slot(last, true, schema->outputs[s].name) : NULL;
        if (to && from->nargs == 1 && to->nargs == 1 && slot_var(last, from, 0) == v) return slot_var(last, to, 0);
    }
    return NULL;
}

/* `v` is a part. */
static weft_status place_in_place(plan_builder *b, const weft_var *v, const bool *is_viewed) {
    weft_op *by;
    const weft_var *to = written_in_place(v, &by);
    int32_t part, value;
    if (!to || !is_on_one_side(b, v, by, true)) return NULL;
    TRY(plan_value_of(b, by, v, &part));
    TRY(candidate(b, by, to, false, is_viewed, &value));
    const plan_value *p = &b->values[part];
    if (value < 0 || b->values[value].nbytes != p->nbytes || b->values[value].shape.dtype != p->shape.dtype)
        return NULL;
    place(b, value, p->view_of, p->offset, b->view_ops[part]);
    return NULL;
}

static weft_status place_parts(plan_builder *b, weft_op *op, const stacking *s, const bool *is_viewed) {
    const slot *one = op_find_slot(op, s->makes_whole, s->whole), *many = op_find_slot(op, !s->makes_whole, s->parts);
    int32_t whole, *parts = ARENA_ARRAY(&b->scratch, int32_t, many ? many->nargs + 1 : 1);
    int64_t nbytes = 0;
    if (!parts) return base_out_of_memory();
    if (!one || one->nargs != 1 || !many || !many->nargs) return NULL;
    TRY(candidate(b, op, slot_var(op, one, 0), !s->makes_whole, is_viewed, &whole));
    if (whole < 0 || !is_outermost(&b->values[whole].shape, attr_int(op, "axis", 0))) return NULL;
    for (size_t k = 0; k < many->nargs; k++) {
        TRY(candidate(b, op, slot_var(op, many, k), s->makes_whole, is_viewed, &parts[k]));
        if (parts[k] < 0 || b->values[parts[k]].shape.dtype != b->values[whole].shape.dtype) return NULL;
        nbytes += b->values[parts[k]].nbytes;
    }
    if (nbytes != b->values[whole].nbytes) return NULL;
    nbytes = 0;
    for (size_t k = 0; k < many->nargs; k++) {
        place(b, parts[k], whole, nbytes, op);
        nbytes += b->values[parts[k]].nbytes;
    }
    for (size_t k = 0; k < many->nargs && !s->makes_whole; k++)
        TRY(place_in_place(b, slot_var(op, many, k), is_viewed));
    return NULL;
}

weft_status plan_place_parts(plan_builder *b) {
    bool *is_viewed = NULL;
    for (size_t i = 0; i < b->nsteps && !b->given; i++) {
        const stacking *s = stacking_of(b->steps[i].op);
        if (!s || b->steps[i].frame >= 0) continue;
        if (!is_viewed) {
            b->nviewed = b->nvalues;
            is_viewed = ARENA_ARRAY(&b->scratch, bool, b->nvalues + 1);
            if (!is_viewed) return base_out_of_memory();
            for (size_t v = 0; v < b->nvalues; v++)
                if (b->values[v].view_of >= 0) is_viewed[b->values[v].view_of] = true;
        }
        TRY(place_parts(b, b->steps[i].op, s, is_viewed));
    }
    return NULL;
}

bool plan_parts_are_placed(const plan_builder *b, const weft_op *op) {
    const stacking *s = stacking_of(op);
    const slot *many = s ? op_find_slot(op, !s->makes_whole, s->parts) : NULL;
    int32_t value = many && many->nargs ? b->value_of_var[slot_args(op, many)[0].var_id] : -1;
    return value >= 0 && b->view_ops[value] == op;
}
