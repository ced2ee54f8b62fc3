/* aten_schemas.c: what an ATen op that has no row in ops.def does to the memory of its arguments, by its signature. */
#include "ops/aten_schemas.h"

static const struct {
    const char *target, *signature;
} rows[] = {
#define ATEN(target, signature) {target, signature},
#include "ops/aten_schemas.def"
#undef ATEN
};

/* "Tensor(a) x", "Tensor(a!) x", "Tensor(a -> *) x": it is written, or shares its bytes with a result. */
static bool only_makes_tensors(const char *signature) {
    return !strstr(signature, "Tensor(") && !strstr(signature, "-> Scalar");
}

bool op_is_functional(const weft_op *op) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (op_is(op, rows[i].target)) return only_makes_tensors(rows[i].signature);
    return false;
}
