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

/* Paddle 2.6's all-reduces say that they use the compute stream, the later ones that they do not. */
static bool leaves_compute(const weft_op *op) {
    size_t n = sizeof all_reduce_prefix - 1;
    if (strncmp(op->type->bytes, all_reduce_prefix, n) == 0) return !attr_bool(op, "use_calc_stream", false);
    return attr_bool(op, "async_op", false);
}

static bool is_compute(const char *stream) {
    return !*stream || !strcmp(stream, "default") || !strcmp(stream, "DefaultStream") || !strcmp(stream, "compute");
}

const char *op_stream(const weft_op *op, char *buffer_of_ring) {
    const char *named = op->dist ? op->dist->execution_stream : NULL;
    if (named && !is_compute(named)) return named;
    if (!leaves_compute(op)) return NULL;
    snprintf(buffer_of_ring, RING_STREAM_NBYTES, "ring_%lld", (long long)op_ring(op));
    return buffer_of_ring;
}

static weft_var *first_arg(const weft_op *op, bool output, const char *upper, const char *lower) {
    const slot *s = op_find_slot(op, output, upper);
    if (!s) s = op_find_slot(op, output, lower);
    return s && s->nargs ? s->args[0]->var : NULL;
}

weft_var *op_x(const weft_op *op) {
    return first_arg(op, false, "X", "x");
}
weft_var *op_out(const weft_op *op) {
    return first_arg(op, true, "Out", "out");
}
