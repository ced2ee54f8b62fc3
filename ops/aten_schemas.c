/* aten_schemas.c: what an ATen op that has no row in ops.def does to the memory of its arguments, by its signature. */
#include "ops/aten_schemas.h"

static const char *const signatures[] = {
#define ATEN(signature) signature,
#include "ops/aten_schemas.def"
#undef ATEN
};

#define PREFIX "aten."

/* Behind the name and the overload; NULL: it is the signature of another op. */
static const char *arguments_of(const char *signature, const char *target) {
    size_t n = strlen(target);
    return strncmp(signature, target, n) == 0 && signature[n] == '(' ? signature + n : NULL;
}

/* "Tensor(a) x", "Tensor(a!) x", "Tensor(a -> *) x": it is written, or shares its bytes with a result. */
static bool has_annotation(const char *arguments) {
    return strstr(arguments, "Tensor(") != NULL;
}

bool op_is_functional(const weft_op *op) {
    const char *type = op->type->bytes;
    if (strncmp(type, PREFIX, sizeof PREFIX - 1) != 0) return false;
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const char *arguments = arguments_of(signatures[i], type + sizeof PREFIX - 1);
        if (arguments) return !has_annotation(arguments);
    }
    return false;
}
