/* ops_fixture_edges.c: what kernels make of NaN in all that they read, and of tensors without rows. */
#include <math.h>
#include <string.h>

#include "executor/kernels/typed.h"
#include "tests/support/kernel_run.h"
#include "tests/support/ops_fixture_run.h"

static void fill_with_nan(const tensor *t) {
    for (int64_t i = 0; i < t->numel; i++)
        if (t->dtype == WEFT_FP32)
            ((float *)t->data)[i] = NAN;
        else if (t->dtype == WEFT_FP64)
            ((double *)t->data)[i] = (double)NAN;
}

static bool is_real(const tensor *t) {
    return t->dtype == WEFT_FP32 || t->dtype == WEFT_FP64;
}

static bool has_nan(const tensor *t) {
    for (int64_t i = 0; i < t->numel; i++)
        if (isnan(tensor_real(t, i))) return true;
    return false;
}

/* Outputs start with all bits set: arithmetic makes no such NaN. */
static bool is_left(const tensor *t) {
    static const unsigned char set[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    size_t size = weft_dtype_nbytes(t->dtype);
    for (int64_t i = 0; is_real(t) && i < t->numel; i++)
        if (memcmp((const char *)t->data + (size_t)i * size, set, size) == 0) return true;
    return false;
}

/* Fills the floats whose elements the op looks at; false: there are none. */
static bool fill_inputs(const op_schema *schema, const case_args *a, tensor *in) {
    bool some = false;
    for (size_t s = 0; s < schema->ninputs; s++)
        for (uint32_t i = a->in_first[s]; i < a->in_first[s + 1] && !schema->inputs[s].only_type; i++)
            if (is_real(&in[i]) && in[i].numel) fill_with_nan(&in[i]), some = true;
    return some;
}

static bool check_nan(fixture_run *r, weft_op *op, const case_args *a, uint64_t number) {
    tensor *in = fixture_copies(r, a->in, a->nin, true, false), *out = fixture_copies(r, a->out, a->nout, false, false);
    bool writes = false, kept = false;
    if (!in || !out) return fixture_fail(r, "out of memory");
    bool reads = fill_inputs(op_schema_of(op), a, in);
    weft_status status = kernel_run_op(op, in, a->in_first, out, a->out_first, number, &r->arena);
    for (uint32_t i = 0; !status && i < a->nout; i++)
        if (is_real(&out[i]) && out[i].numel) writes = true, kept |= has_nan(&out[i]);
    if (reads && status) r->edges->nan_refused++;
    if (reads && writes && !status) *(kept ? &r->edges->nan_kept : &r->edges->nan_gone) += 1;
    weft_status_free(status);
    return true;
}

static bool check_empty(fixture_run *r, weft_op *op, const case_args *a, uint64_t number) {
    weft_status status = kernel_run_op(op, a->in, a->in_first, a->out, a->out_first, number, &r->arena);
    if (status) return fixture_fail_status(r, status);
    for (uint32_t i = 0; i < a->nout; i++)
        if (is_left(&a->out[i])) {
            r->edges->empty_left++;
            return true;
        }
    r->edges->empty_run++;
    return true;
}

bool fixture_check_edges(fixture_run *r, weft_op *op, const case_args *a, uint64_t number) {
    bool is_last = number == r->program->blocks[0]->nops;
    if (is_last && r->empty) return check_empty(r, op, a, number);
    if (is_last && !check_nan(r, op, a, number)) return false;
    weft_status status = kernel_run_op(op, a->in, a->in_first, a->out, a->out_first, number, &r->arena);
    return status ? fixture_fail_status(r, status) : true;
}

/* Rows of the first input of the last op that has some. */
static int64_t rows_of_first(fixture_run *r) {
    weft_op *op = NULL;
    FOR_EACH_OP(each, r->program->blocks[0]) {
        op = each;
    }
    const op_schema *schema = op ? op_schema_of(op) : NULL;
    for (size_t k = 0; schema && k < schema->ninputs; k++) {
        const slot *given = op_find_slot(op, false, schema->inputs[k].name);
        for (size_t i = 0; given && i < given->nargs; i++) {
            shape s = shape_env_get(&r->env, slot_var(op, given, i));
            if (s.ndim > 0 && s.dims[0] > 0) return s.dims[0];
            if (s.ndim > 1 && s.dims[0] == 0) return s.dims[1]; /* XShape */
        }
    }
    return 0;
}

bool fixture_make_empty(fixture_run *r) {
    int64_t rows = rows_of_first(r);
    for (size_t i = 0; rows > 0 && i < r->program->nall_vars; i++) {
        const weft_var *v = program_var(r->program, i);
        tensor *t = &r->values[i];
        shape s = shape_env_get(&r->env, v);
        if (!npz_find(&r->npz, "in/", v->name->bytes) || s.ndim < 1) continue;
        int first = s.dims[0] == 0 && s.ndim > 1;
        if (s.dims[first] != rows) continue;
        s.dims[first] = t->dims[first] = 0;
        t->numel = 0;
        r->nlinear++;
        if (shape_env_set(&r->env, v, &s)) return fixture_fail(r, "out of memory");
    }
    return rows > 0 || fixture_fail(r, "no input has rows");
}
