/* read_heads.c: what an op does, apart from its inputs, as the key of a head: its type, the attrs that its kernel reads
 * (the schema's, where they are not the default; all but bookkeeping for a type that is not in the table), the ranks of
 * its ring, and how many arguments its slots have. */
#include "proof/equivalence/read.h"

#include <stdio.h>

static void put_strings(buffer *b, const name *const *items, size_t count) {
    for (size_t i = 0; i < count; i++) head_put_text(b, items[i]->bytes, items[i]->nbytes);
}

static void put_double(buffer *b, double d) {
    buffer_append(b, &d, sizeof d);
}

static void put_scalars(buffer *b, const scalar *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        head_put_int(b, items[i].type);
        head_put_int(b, items[i].type == SCALAR_BOOLEAN ? items[i].b : items[i].i);
        put_double(b, items[i].r);
        put_double(b, items[i].imaginary);
    }
}

/* INT and LONG, FLOAT and FLOAT64 are one kind: kernels convert. */
static void put_attr(buffer *b, const weft_attr *a) {
    switch (a->type) {
    case ATTR_INT:
    case ATTR_LONG: buffer_text(b, "i"), head_put_int(b, a->u.i); break;
    case ATTR_BLOCK: break; /* its body is an argument */
    case ATTR_BOOLEAN: buffer_text(b, "i"), head_put_int(b, a->u.b); break;
    case ATTR_FLOAT:
    case ATTR_FLOAT64: buffer_text(b, "f"), put_double(b, a->u.f); break;
    case ATTR_STRING:
    case ATTR_VAR: buffer_text(b, "s"), head_put_text(b, attr_text(a).bytes, a->count); break;
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_BLOCKS:
        buffer_text(b, "I"), head_put_int(b, (int64_t)a->count);
        buffer_append(b, a->u.ints, a->count * sizeof *a->u.ints);
        break;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S:
        buffer_text(b, "F"), head_put_int(b, (int64_t)a->count);
        buffer_append(b, a->u.floats, a->count * sizeof *a->u.floats);
        break;
    case ATTR_BOOLEANS:
        buffer_text(b, "B"), head_put_int(b, (int64_t)a->count);
        buffer_append(b, a->u.bools, a->count * sizeof *a->u.bools);
        break;
    case ATTR_STRINGS:
    case ATTR_VARS:
        buffer_text(b, "S"), head_put_int(b, (int64_t)a->count);
        put_strings(b, a->u.strings, a->count);
        break;
    case ATTR_SCALAR: buffer_text(b, "c"), put_scalars(b, a->u.scalar, 1); break;
    case ATTR_SCALARS:
        buffer_text(b, "C"), head_put_int(b, (int64_t)a->count);
        put_scalars(b, a->u.scalars, a->count);
        break;
    }
}

static bool is_default(const weft_attr *a, const weft_attr *fallback) {
    switch (fallback->type) {
    case ATTR_INT:
    case ATTR_LONG: return (a->type == ATTR_INT || a->type == ATTR_LONG) && a->u.i == fallback->u.i;
    case ATTR_FLOAT:
    case ATTR_FLOAT64: return (a->type == ATTR_FLOAT || a->type == ATTR_FLOAT64) && a->u.f == fallback->u.f;
    case ATTR_BOOLEAN: return a->type == ATTR_BOOLEAN && a->u.b == fallback->u.b;
    case ATTR_STRING:
        return a->type == ATTR_STRING && a->count == fallback->count &&
               memcmp(attr_text(a).bytes, attr_text(fallback).bytes, a->count) == 0;
    default: return a->count == 0 && fallback->count == 0;
    }
}

/* Attrs that choose a stream or a library, or are there for people. */
static bool is_bookkeeping(const char *n) {
    static const char *const names[] = {"op_role",          "op_role_var",
                                        "op_namescope",     "op_callstack",
                                        "op_device",        "with_quant_attr",
                                        "use_mkldnn",       "use_cudnn",
                                        "mkldnn_data_type", "x_data_format",
                                        "use_calc_stream",  "use_model_parallel",
                                        "dist_attr",        "skip_eager_deletion_vars"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(n, names[i]) == 0) return true;
    return false;
}

/* --- rings -------------------------------------------------------------------------------------------------------- */

const ring *op_ring_of(const weft_program *p, const weft_op *op, char *label, size_t nbytes) {
    int64_t id = op_ring(op);
    const ring *of = program_find_ring(p, id);
    if (!of) {
        snprintf(label, nbytes, "ring %lld", (long long)id);
        return NULL;
    }
    int at = snprintf(label, nbytes, "ranks");
    for (int i = 0; i < of->nranks && i < 8 && (size_t)at < nbytes; i++)
        at += snprintf(label + at, nbytes - (size_t)at, "%c%lld", i ? ',' : ' ', (long long)of->ranks[i]);
    if (of->nranks > 8 && (size_t)at < nbytes) snprintf(label + at, nbytes - (size_t)at, ",...");
    return of;
}

static void put_ring(reader *r, const weft_op *op, buffer *b) {
    char label[96];
    const ring *of = op_ring_of(r->p, op, label, sizeof label);
    buffer_text(b, of ? "R" : "r");
    if (of)
        head_put_int(b, of->nranks), buffer_append(b, of->ranks, (size_t)of->nranks * sizeof *of->ranks);
    else
        head_put_int(b, op_ring(op));
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

/* The program's names of a schema's attrs: then attrs are found by pointer. */
static weft_status names_of(reader *r, const op_schema *s, const name ***out) {
    const name ***at = &r->attr_names[s->index];
    if (!*at) {
        if (!(*at = ARENA_ARRAY(&r->memory, const name *, s->nattrs + 1))) return base_out_of_memory();
        for (size_t i = 0; i < s->nattrs; i++) {
            const char *n = s->attrs[i].name;
            if (!is_bookkeeping(n)) (*at)[i] = interner_find(&r->p->names, n, strlen(n));
        }
    }
    *out = *at;
    return NULL;
}

/* in_dtype and out_dtype of reductions: that of all that the op reads and writes is what they are by default. */
static bool says_own_dtype(const weft_op *op, const weft_attr *a, const weft_attr *fallback) {
    bool is_dtype = name_is(a->name, "in_dtype") || name_is(a->name, "out_dtype");
    if (!is_dtype || (a->type != ATTR_INT && a->type != ATTR_LONG) || fallback->u.i != -1) return false;
    FOR_EACH_ARG(op, false, in) {
        if (use_var(op->program, in)->dtype != a->u.i) return false;
    }
    FOR_EACH_ARG(op, true, out) {
        if (use_var(op->program, out)->dtype != a->u.i) return false;
    }
    return true;
}

static weft_status put_known_attrs(reader *r, const weft_op *op, const op_schema *s, buffer *b) {
    const name **names = NULL;
    TRY(names_of(r, s, &names));
    for (size_t i = 0; i < s->nattrs; i++) {
        const weft_attr *a = NULL;
        for (size_t k = 0; k < op->nattrs && names[i] && !a; k++)
            if (op->attrs[k].name == names[i]) a = &op->attrs[k];
        if (!a || is_default(a, &s->attrs[i].default_value) || says_own_dtype(op, a, &s->attrs[i].default_value))
            continue;
        if (name_is(names[i], "ring_id")) continue;
        head_put_int(b, (int64_t)i);
        put_attr(b, a);
    }
    return NULL;
}

static void put_all_attrs(const weft_op *op, buffer *b) {
    for (size_t i = 0; i < op->nattrs; i++) {
        const name *n = op->attrs[i].name;
        if (is_bookkeeping(n->bytes) || name_is(n, "ring_id")) continue;
        head_put_text(b, n->bytes, n->nbytes);
        put_attr(b, &op->attrs[i]);
    }
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

static bool is_grad_slot(const char *n) {
    size_t nbytes = strlen(n);
    return nbytes >= 5 && strcmp(n + nbytes - 5, "@GRAD") == 0;
}

static uint8_t slot_role(const op_schema *s, const slot *in) {
    if (!s) return ROLE_FIXED;
    for (size_t i = 0; i < s->ninputs; i++)
        if (name_is(in->name, s->inputs[i].name) && s->inputs[i].only_type) return ROLE_TYPE_ONLY;
    if (name_is(in->name, "XShape")) return ROLE_TYPE_ONLY;
    if (strcmp(s->type, "check_finite_and_unscale") == 0)
        return name_is(in->name, "X") ? ROLE_LINEAR : ROLE_FIXED; /* in Out, not in FoundInfinite: normal.c */
    bool is_product = strcmp(s->type, "elementwise_mul_grad") == 0 || strcmp(s->type, "elementwise_div_grad") == 0;
    if (is_product && name_is(in->name, "Y")) return ROLE_FACTOR;
    bool linear = (s->effects & OP_LINEAR) ||
                  ((s->effects & OP_LINEAR_X) && s->ninputs && name_is(in->name, s->inputs[0].name)) ||
                  ((s->effects & OP_LINEAR_GRAD) && is_grad_slot(in->name->bytes));
    return linear ? ROLE_LINEAR : ROLE_FIXED;
}

/* Whether the marks of linearity hold for this op: they are about sums, and about scales without bias. */
static bool pulls(const weft_op *op, const op_schema *s) {
    if (!s || !(s->effects & (OP_LINEAR | OP_LINEAR_X | OP_LINEAR_GRAD))) return false;
    if (s->collective && s->collective->reduce_attr) {
        int reduce = op_collective_reduce(op);
        return reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG;
    }
    return !op_is(op, "scale") || attr_float(op, "bias", 0.0) == 0.0;
}

/* `most`: of a slot's arguments those that count. */
static weft_status make_head(reader *r, weft_op *op, uint32_t most, uint32_t *out) {
    const op_schema *s = op_schema_of(op);
    buffer *b = head_begin(r->t, HEAD_OP);
    head_put_text(b, op->type->bytes, op->type->nbytes);
    if (s)
        TRY(put_known_attrs(r, op, s, b));
    else
        put_all_attrs(op, b);
    if (op_find_attr(op, "ring_id")) put_ring(r, op, b);
    uint8_t small[64], *roles = small;
    size_t nargs = op_nargs(op, false), at = 0;
    if (nargs > sizeof small && !(roles = arena_alloc(&r->memory, nargs))) return base_out_of_memory();
    for (size_t i = 0; i < op_nslots(op, false); i++) {
        const slot *in = op_slot(op, false, i);
        if (!in->nargs) continue;
        head_put_text(b, in->name->bytes, in->name->nbytes);
        uint32_t n = in->nargs < most ? in->nargs : most;
        head_put_int(b, n);
        uint8_t role = slot_role(s, in);
        for (size_t k = 0; k < n; k++) roles[at++] = role;
    }
    head h = {.kind = HEAD_OP,
              .label = op->type->bytes,
              .schema = s,
              .op = op,
              .roles = roles,
              .nargs = (uint32_t)at,
              .pulls = pulls(op, s)};
    if (op_is(op, "scale") && nargs == 1) {
        h.number = attr_float(op, "scale", 1.0);
        h.bias = attr_float(op, "bias", 0.0) * (attr_bool(op, "bias_after_scale", true) ? 1.0 : h.number);
    }
    return head_finish(r->t, &h, out);
}

weft_status op_head(reader *r, weft_op *op, uint32_t *out) {
    return make_head(r, op, UINT32_MAX, out);
}

weft_status op_head_of_one(reader *r, weft_op *op, uint32_t *out) {
    return make_head(r, op, 1, out);
}

weft_status out_term(reader *r, const weft_op *op, uint32_t op_term, const slot *s, size_t index, uint32_t *out) {
    const weft_var *v = slot_var(op, s, index);
    bool rows = v->kind == WEFT_SELECTED_ROWS;
    buffer *b = head_begin(r->t, HEAD_OUT);
    head_put_text(b, s->name->bytes, s->name->nbytes);
    head_put_int(b, (int64_t)index);
    head_put_int(b, v->dtype);
    head_put_int(b, rows);
    uint32_t id;
    int64_t where[2] = {rows, (int64_t)index};
    head h = {.kind = HEAD_OUT, .label = s->name->bytes, .dtype = v->dtype, .ints = where, .nints = 2};
    TRY(head_finish(r->t, &h, &id));
    value x = value_of(op_term);
    static const int64_t none[1] = {0}; /* a scalar has no extents, but they are known */
    const int64_t *dims = v->ndim ? v->dims : none;
    return term_make(r->t, id, &x, 1, v->dtype, v->ndim, v->has_tensor && !rows ? dims : NULL, out);
}

weft_status next_message(reader *r, const weft_op *op, int64_t *out_number) {
    mailbox m = {op_ring(op), op_collective_root(op), 0, op_collective_kind(op) == COLLECTIVE_SEND};
    size_t i = 0;
    while (i < r->nmailboxes &&
           (r->mailboxes[i].ring != m.ring || r->mailboxes[i].peer != m.peer || r->mailboxes[i].is_send != m.is_send))
        i++;
    if (i == r->nmailboxes) {
        TRY(vector_reserve(&r->t->context->allocator, &r->mailboxes, &r->mailboxes_capacity, r->nmailboxes + 1,
                           sizeof m));
        r->mailboxes[r->nmailboxes++] = m;
    }
    *out_number = r->mailboxes[i].count++;
    return NULL;
}
