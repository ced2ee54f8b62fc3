/* effects.c: what passes, proofs and plans ask of collectives, whatever the era's spelling. */
#include <stdio.h>

#include "ops/ops.h"

static const char all_reduce_prefix[] = "c_allreduce_";
static const struct {
    const char *suffix;
    weft_reduce reduce;
} all_reduces[] = {{"sum", WEFT_REDUCE_SUM},
                   {"max", WEFT_REDUCE_MAX},
                   {"min", WEFT_REDUCE_MIN},
                   {"prod", WEFT_REDUCE_PROD},
                   {"avg", WEFT_REDUCE_AVG}};

bool op_is_all_reduce(const weft_op *op, weft_reduce *out_reduce) {
    weft_reduce reduce = WEFT_REDUCE_SUM;
    bool found = op_is(op, "all_reduce");
    if (found) reduce = (weft_reduce)attr_int(op, "reduce_type", WEFT_REDUCE_SUM);
    size_t n = sizeof all_reduce_prefix - 1;
    if (!found && strncmp(op->type->bytes, all_reduce_prefix, n) != 0) return false;
    for (size_t i = 0; !found && i < sizeof all_reduces / sizeof *all_reduces; i++)
        if ((found = strcmp(op->type->bytes + n, all_reduces[i].suffix) == 0)) reduce = all_reduces[i].reduce;
    if (found && out_reduce) *out_reduce = reduce;
    return found;
}

bool op_communicates(const weft_op *op) {
    const op_schema *schema = op_schema_of((weft_op *)op); /* only the cached row changes */
    if (schema) return (schema->effects & OP_COLLECTIVE) != 0;
    return op_find_attr(op, "ring_id") != NULL && op_nslots(op, false) + op_nslots(op, true) > 0 &&
           strncmp(op->type->bytes, "c_sync", 6) != 0 && strncmp(op->type->bytes, "c_wait", 6) != 0;
}

bool op_is_async(const weft_op *op) {
    return attr_bool(op, "async_op", false) && op_communicates(op);
}

/* Paddle 2.6's all-reduces say that they use the compute stream, the later ones that they do not. */
static bool leaves_compute(const weft_op *op) {
    size_t n = sizeof all_reduce_prefix - 1;
    if (strncmp(op->type->bytes, all_reduce_prefix, n) == 0) return !attr_bool(op, "use_calc_stream", false);
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

static weft_var *first_arg(const weft_op *op, bool output, const char *upper, const char *lower) {
    const slot *s = op_find_slot(op, output, upper);
    if (!s) s = op_find_slot(op, output, lower);
    return s && s->nargs ? slot_var(op, s, 0) : NULL;
}

weft_var *op_x(const weft_op *op) {
    return first_arg(op, false, "X", "x");
}
weft_var *op_out(const weft_op *op) {
    return first_arg(op, true, "Out", "out");
}
