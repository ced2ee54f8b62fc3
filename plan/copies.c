/* copies.c: instructions that the program does not have: copies that keep kernels from reading what they have written.
 *
 * A kernel may write output argument k of a slot over input argument k of the slot that its schema names. It writes
 * over nothing else that it reads. A program may ask for more: one var as input and output of an op that cannot, or a
 * slice as input and its buffer as output. There the op writes a new value, which is then copied. */
#include <stdlib.h>

#include "plan/builder.h"

weft_status plan_add_copy(plan_builder *b, const plan_step *step, int32_t stream, int32_t from, int32_t to) {
    const op_schema *schema = ops_find(b->context, "assign");
    const name *type;
    weft_op *op;
    if (!schema) return plan_error(b, WEFT_UNSUPPORTED, step->op, "a copy is needed, and no assign is in the op table");
    TRY(program_name(b->program, "assign", 6, &type));
    TRY(op_create(b->program, type, &op));
    int role = op_role(step->op);
    if (role != WEFT_ROLE_NOT_SPECIFIED) TRY(weft_op_set_attr_int(op, "op_role", role));
    weft_block_insert_after(step->op->block, step->op, op);
    plan_args in = {&from, (uint32_t[]){0, 1}}, out = {&to, (uint32_t[]){0, 1}};
    return plan_add_instr(b, step, op, schema, stream, &in, &out);
}

/* One input argument as bytes. */
typedef struct span {
    int32_t root;
    int64_t begin, end, furthest; /* furthest: the largest end of this span and those before it on the same root */
    int32_t slot;
    uint32_t index; /* within its slot */
} span;

static int compare_spans(const void *x, const void *y) {
    const span *a = x, *c = y;
    if (a->root != c->root) return a->root < c->root ? -1 : 1;
    if (a->begin != c->begin) return a->begin < c->begin ? -1 : 1;
    if (a->slot != c->slot) return a->slot < c->slot ? -1 : 1;
    return (a->index > c->index) - (a->index < c->index);
}

/* The inputs' bytes, sorted. */
static weft_status input_spans(plan_builder *b, const op_schema *schema, const plan_args *in, span **out,
                               size_t *out_n) {
    uint32_t nargs = in->first[schema->ninputs];
    span *spans = ARENA_ARRAY(&b->scratch, span, nargs + 1);
    size_t n = 0;
    if (!spans) return base_out_of_memory();
    for (size_t s = 0; s < schema->ninputs; s++)
        for (uint32_t i = in->first[s]; i < in->first[s + 1]; i++) {
            if (in->values[i] < 0 || !b->values[in->values[i]].nbytes) continue;
            span *p = &spans[n++];
            p->root = plan_find_root(b, in->values[i], &p->begin);
            p->end = p->begin + b->values[in->values[i]].nbytes;
            p->slot = (int32_t)s;
            p->index = i - in->first[s];
        }
    if (n > 1) qsort(spans, n, sizeof *spans, compare_spans);
    for (size_t i = 0; i < n; i++) {
        bool same = i && spans[i - 1].root == spans[i].root;
        spans[i].furthest = same && spans[i - 1].furthest > spans[i].end ? spans[i - 1].furthest : spans[i].end;
    }
    *out = spans;
    *out_n = n;
    return NULL;
}

/* Whether writing `out`, argument `index` of a slot that may share the memory of input slot `pair`, spoils an input. */
static bool spoils(const span *spans, size_t n, const span *out, int32_t pair) {
    size_t low = 0, high = n; /* the first span that begins at or after the output's end */
    while (low < high) {
        size_t middle = (low + high) / 2;
        const span *s = &spans[middle];
        if (s->root < out->root || (s->root == out->root && s->begin < out->end))
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0 && spans[low].root == out->root && spans[low].furthest > out->begin) {
        const span *s = &spans[low];
        bool is_pair = s->slot == pair && s->index == out->index && s->begin == out->begin && s->end == out->end;
        if (s->end > out->begin && !is_pair) return true;
    }
    return false;
}

weft_status plan_split_overlaps(plan_builder *b, const plan_step *step, const op_schema *schema, const plan_args *in,
                                plan_args *out, int32_t **out_copies, size_t *out_ncopies) {
    span *spans = NULL, o;
    size_t n = 0, ncopies = 0;
    *out_ncopies = 0;
    if (schema->effects & OP_ALIASES) return NULL; /* coalesce_tensor: its kernel knows */
    TRY(input_spans(b, schema, in, &spans, &n));
    int32_t *copies = NULL;
    for (size_t s = 0; s < schema->noutputs; s++)
        for (uint32_t i = out->first[s]; i < out->first[s + 1]; i++) {
            int32_t value = out->values[i], fresh;
            if (value < 0 || !b->values[value].nbytes) continue;
            o.root = plan_find_root(b, value, &o.begin);
            o.end = o.begin + b->values[value].nbytes;
            o.index = i - out->first[s];
            if (!spoils(spans, n, &o, schema->outputs[s].in_place_of)) continue;
            if (b->values[value].rows >= 0)
                return plan_error(b, WEFT_UNSUPPORTED, step->op,
                                  "\"%s\" is SelectedRows and cannot be written in place", b->values[value].name);
            const char *stem = arena_format(&b->scratch, "%s@new", b->values[value].name);
            if (!copies) copies = ARENA_ARRAY(&b->scratch, int32_t, 2 * (size_t)out->first[schema->noutputs]);
            if (!stem || !copies) return base_out_of_memory();
            TRY(plan_new_value(b, stem, &b->values[value].shape, &fresh));
            copies[2 * ncopies] = out->values[i] = fresh;
            copies[2 * ncopies++ + 1] = value;
        }
    *out_copies = copies;
    *out_ncopies = ncopies;
    return NULL;
}
