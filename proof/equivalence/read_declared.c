/* read_declared.c: ops that move or fill elements, and whose results are declared otherwise than they are made.
 * Elements are followed by the extents that a program declares, and a run goes by those that its ops make: an op that
 * puts parts together along another axis may leave the same bytes under other extents, and who reads them takes other
 * elements. */
#include "ops/infer.h"
#include "proof/equivalence/read.h"

/* A single element may have one dimension or none. */
static bool contradicts(const shape *declared, const shape *made) {
    int64_t of_declared = 1, of_made = 1;
    if (declared->ndim < 0 || made->ndim < 0) return false;
    for (int32_t i = 0; i < declared->ndim; i++) of_declared = of_declared == 1 ? declared->dims[i] : 0;
    for (int32_t i = 0; i < made->ndim; i++) of_made = of_made == 1 ? made->dims[i] : 0;
    if (of_declared == 1 && of_made == 1) return false;
    return shape_extents_differ(declared, made);
}

/* Of other ops Paddle leaves declarations behind that its own inference overrides (ops/declared.c). */
static bool moves_elements(const weft_op *op) {
    static const char *const types[] = {
        "concat",          "split",        "slice",         "pad",        "stack",
        "alltoall",        "c_allgather",  "all_to_all",    "c_concat",   "c_reducescatter",
        "c_split",         "reshape2",     "reshape",       "transpose2", "transpose",
        "transpose2_grad", "aten_full",    "aten_new_full", "aten_view",  "aten_flatten",
        "aten_unsqueeze",  "aten_squeeze",
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (op_is(op, types[i])) return true;
    return false;
}

/* The op is asked alone: its arguments are as declared. */
weft_status agrees_with_declared(reader *r, weft_op *op, bool *out) {
    *out = true;
    if (!moves_elements(op)) return NULL;
    if (!r->declared.program) TRY(shape_env_init(&r->declared, r->p, &r->memory));
    weft_status status = shape_infer_op(&r->declared, op, &r->memory);
    if (status && weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    *out = !status;
    weft_status_free(status);
    FOR_EACH_ARG(op, true, u) {
        const weft_var *v = use_var(op->program, u);
        if (!v->block || v->kind != WEFT_DENSE_TENSOR || !v->has_tensor) continue;
        shape declared = shape_of_var(v), made = shape_env_get(&r->declared, v);
        if (contradicts(&declared, &made)) *out = false;
        TRY(shape_env_set(&r->declared, v, &declared));
    }
    return NULL;
}
