/* effects.c: what passes, proofs and plans ask of collectives, whatever the era's spelling. */
#include <stdio.h>

#include "ops/collectives.h"

bool op_is_all_reduce(const weft_op *op, weft_reduce *out_reduce) {
    const collective_schema *c = op_collective(op);
    if (!c || c->kind != COLLECTIVE_ALL_REDUCE || c->form != COLLECTIVE_WHOLE) return false;
    if (out_reduce) *out_reduce = (weft_reduce)op_collective_reduce(op);
    return true;
}

int64_t op_ring(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    return attr_int(op, c && c->ring_attr ? c->ring_attr : "ring_id", 0);
}

bool op_communicates(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    if (c && c->kind != COLLECTIVE_NONE) return collective_communicates(c->kind);
    return !op->schema && op_find_attr(op, "ring_id") != NULL && op_nslots(op, false) + op_nslots(op, true) > 0;
}

bool op_is_async(const weft_op *op) {
    return attr_bool(op, "async_op", false) && op_communicates(op);
}

/* Paddle 2.6's all-reduces say that they use the compute stream, the later ones that they do not. */
static bool leaves_compute(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    if (c && c->stream == COLLECTIVE_CALC_STREAM) return !attr_bool(op, "use_calc_stream", false);
    return op_is_async(op);
}

static bool is_compute(const char *stream) {
    return !*stream || !strcmp(stream, "default") || !strcmp(stream, "DefaultStream") || !strcmp(stream, "compute");
}

const char *op_named_stream(const weft_op *op) {
    const char *named = op->dist ? op->dist->execution_stream : NULL;
    return named && !is_compute(named) ? named : NULL;
}

const char *op_ring_stream(const weft_op *op, char *buffer_of_ring) {
    snprintf(buffer_of_ring, RING_STREAM_NBYTES, "ring_%lld", (long long)op_ring(op));
    return buffer_of_ring;
}

const char *op_stream(const weft_op *op, char *buffer_of_ring) {
    const char *named = op_named_stream(op);
    if (named) return named;
    return leaves_compute(op) ? op_ring_stream(op, buffer_of_ring) : NULL;
}

static const slot *find_slot(const weft_op *op, bool output, const char *upper, const char *lower) {
    const slot *s = op_find_slot(op, output, upper);
    return s ? s : op_find_slot(op, output, lower);
}

static weft_var *first_arg(const weft_op *op, bool output, const char *upper, const char *lower) {
    const slot *s = find_slot(op, output, upper, lower);
    return s && s->nargs ? slot_var(op, s, 0) : NULL;
}

weft_var *op_x(const weft_op *op) {
    return first_arg(op, false, "X", "x");
}
weft_var *op_out(const weft_op *op) {
    return first_arg(op, true, "Out", "out");
}

const slot *op_param_slot(const weft_op *op) {
    return find_slot(op, false, "Grad", "grad") ? find_slot(op, false, "Param", "param") : NULL;
}
const slot *op_viewed_slot(weft_op *op, const slot *output) {
    const op_schema *schema = op_has_effect(op, OP_VIEWS) ? op_schema_of(op) : NULL;
    for (size_t i = 0; schema && i < schema->noutputs; i++)
        if (schema->outputs[i].view_of >= 0 && name_is(output->name, schema->outputs[i].name))
            return op_find_slot(op, false, schema->inputs[schema->outputs[i].view_of].name);
    return NULL;
}

static bool leaves_alone(const op_schema *schema, const slot *output) {
    for (size_t i = 0; i < schema->noutputs; i++)
        if (name_is(output->name, schema->outputs[i].name)) return schema->outputs[i].untouched;
    return false;
}

bool op_shows_own_input(weft_op *op, const use *output) {
    for (uint32_t k = 0; op_has_effect(op, OP_VIEWS | OP_NAMES) && k < op_nslots(op, true); k++) {
        const slot *s = op_slot(op, true, k), *of = op_viewed_slot(op, s);
        ptrdiff_t i = output - slot_args(op, s);
        if (i >= 0 && i < (ptrdiff_t)s->nargs && leaves_alone(op_schema_of(op), s)) return true;
        if (of && i >= 0 && i < (ptrdiff_t)s->nargs && i < (ptrdiff_t)of->nargs)
            return slot_args(op, of)[i].var_id == output->var_id;
    }
    return false;
}

weft_var *op_updated_param(const weft_op *op) {
    return first_arg(op, true, "ParamOut", "param_out");
}
