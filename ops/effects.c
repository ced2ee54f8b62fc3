/* effects.c: what passes and proofs ask of collectives, whatever the era's spelling. */
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
