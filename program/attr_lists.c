/* attr_lists.c: setting attrs that hold lists, and flags of vars, for hosts that build programs. */
#include "program/ir.h"

weft_status weft_op_set_attr_ints(weft_op *op, const char *n, size_t count, const int64_t *values) {
    for (size_t i = 0; i < count; i++)
        if (values[i] < INT32_MIN || values[i] > INT32_MAX)
            return weft_status_create(WEFT_INVALID_ARGUMENT, n, "expected 32-bit integers, found %lld",
                                      (long long)values[i]);
    int64_t *copy = arena_copy(&op->program->arena, values, count * sizeof *values);
    if (!copy) return base_out_of_memory();
    weft_attr *a;
    TRY(op_set_counted(op, n, ATTR_INTS, count, &a));
    a->u.ints = copy;
    return NULL;
}

weft_status weft_op_set_attr_strings(weft_op *op, const char *n, size_t count, const char *const *values) {
    const name **copy = ARENA_ARRAY(&op->program->arena, const name *, count);
    if (!copy) return base_out_of_memory();
    for (size_t i = 0; i < count; i++)
        if (!(copy[i] = name_create(&op->program->arena, values[i], strlen(values[i])))) return base_out_of_memory();
    weft_attr *a;
    TRY(op_set_counted(op, n, ATTR_STRINGS, count, &a));
    a->u.strings = copy;
    return NULL;
}

void weft_var_set_persistable(weft_var *var, bool persistable, bool is_parameter) {
    var_changed(var);
    var->persistable = var->has_persistable = persistable;
    var->is_parameter = var->has_is_parameter = is_parameter;
}

void weft_program_set_version(weft_program *program, int64_t version) {
    program->version = version;
    program->has_version = true;
}
