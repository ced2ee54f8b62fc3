/* aten_schemas.c: signatures of ATen ops, read as far as they tell of memory. */
#include "program/fx/aten_schemas.h"

static const struct {
    const char *target, *signature;
} rows[] = {
#define ATEN(target, signature) {target, signature},
#include "program/fx/aten_schemas.def"
#undef ATEN
};

const char *aten_signature(const char *target, size_t nbytes) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].target) == nbytes && memcmp(rows[i].target, target, nbytes) == 0) return rows[i].signature;
    return NULL;
}

/* "Tensor(a) x", "Tensor(a!) x", "Tensor(a -> *) x": it is written, or shares its bytes with a result. */
static bool only_makes_tensors(const char *signature) {
    return !strstr(signature, "Tensor(") && !strstr(signature, "-> Scalar");
}

bool op_is_functional(const weft_op *op) {
    const char *signature = aten_signature(op->type->bytes, strlen(op->type->bytes));
    return signature && only_makes_tensors(signature);
}

/* --- parameters --------------------------------------------------------------------------------------------------- */

/* Where the parameter ends: at a comma or a bracket that closes none of its own. */
static const char *end_of(const char *at) {
    for (int depth = 0; *at; at++) {
        depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
        if (depth < 0 || (depth == 0 && *at == ',')) return at;
    }
    return at;
}

bool aten_next_parameter(const char **at, aten_parameter *out) {
    const char *start = *at + strspn(*at, "(, "), *end = end_of(start), *stop = start;
    if (*start == '*') { /* those behind it come by name */
        *at = end_of(start);
        return aten_next_parameter(at, out);
    }
    if (start == end) return false;
    const char *alias = strstr(start, "Tensor(");
    bool has_alias = alias && alias < end;
    for (int depth = 0; stop < end && (*stop != '=' || depth); stop++) depth += (*stop == '(') - (*stop == ')');
    const char *last = stop;
    while (last > start && last[-1] != ' ') last--;
    *out = (aten_parameter){.name = last, .name_nbytes = (size_t)(stop - last)};
    if (has_alias) out->alias = alias[7];
    if (has_alias) out->is_written = alias[8] == '!';
    *at = end;
    return true;
}

bool aten_gives(const char *signature, char alias) {
    const char *at = strstr(signature, "->"), *arrow = at;
    while (at && (at = strstr(at + 1, "->"))) arrow = at; /* "Tensor(a -> *)" has one too */
    for (at = arrow; alias && at && (at = strstr(at, "Tensor(")); at++)
        if (at[7] == alias) return true;
    return false;
}
