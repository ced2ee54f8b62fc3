/* ops_fixture_half.c: recordings in half precision. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "executor/kernels/typed.h"
#include "tests/support/kernel_run.h"
#include "tests/support/ops_fixture_run.h"

/* Vars of fp32 become vars of the half type, and attrs that name fp32 name it. A var that is recorded as something else
 * than it is declared (the counts of segment_pool) stays. */
static bool halve_program(fixture_run *r) {
    static const char *const attrs[] = {"dtype", "in_dtype", "out_dtype"};
    for (size_t i = 0; i < r->program->nall_vars; i++) {
        weft_var *v = program_var(r->program, i);
        const npz_array *recorded = npz_find(&r->npz, "in/", v->name->bytes);
        bool is_other = recorded && strcmp(recorded->dtype, "<f4") != 0;
        if (v->dtype == WEFT_FP32 && !is_other) v->dtype = (int32_t)r->half;
    }
    FOR_EACH_OP(op, r->program->blocks[0]) {
        for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
            if (attr_int(op, attrs[i], -1) != WEFT_FP32) continue;
            weft_status status = weft_op_set_attr_int(op, attrs[i], r->half);
            if (status) return fixture_fail_status(r, status);
        }
    }
    return true;
}

/* Whether `got` is `want` rounded once; a NaN is as good as another. */
static bool is_rounded(fixture_run *r, const tensor *got, const tensor *want) {
    if (got->rows && memcmp(got->rows, want->rows, (size_t)got->dims[0] * sizeof *got->rows) != 0) return false;
    if (!dtype_is_half(got->dtype)) return memcmp(got->data, want->data, tensor_nbytes(got)) == 0;
    for (int64_t i = 0; i < got->numel; i++) {
        float exact = ((const float *)want->data)[i], wide;
        uint16_t rounded, found = ((const uint16_t *)got->data)[i];
        half_store(got->dtype, 1, &exact, &rounded);
        half_load(got->dtype, 1, &found, 1, &wide);
        if (found == rounded || (isnan(exact) && isnan(wide))) continue;
        return fixture_fail(r, "element %lld is %g, not %g rounded", (long long)i, (double)wide, (double)exact);
    }
    return true;
}

/* Runs `op` on half types, and `full` of the recorded program on their exact widening. */
static ops_result run_op_halved(fixture_run *r, weft_op *op, weft_op *full, uint64_t number) {
    case_args a;
    if (op_has_effect(op, OP_ALIASES)) return OPS_SKIPPED; /* its outputs are where its inputs are */
    if (!fixture_ready_op(r, op, &a)) return OPS_FAILED;
    tensor *in = fixture_copies(r, a.in, a.nin, true, true), *out = fixture_copies(r, a.out, a.nout, false, true);
    if (!in || !out) fixture_fail(r, "out of memory");
    if (!in || !out) return OPS_FAILED;
    weft_status wide = kernel_run_op(full, in, a.in_first, out, a.out_first, number, &r->arena);
    weft_status half = kernel_run_op(op, a.in, a.in_first, a.out, a.out_first, number, &r->arena);
    bool refused = wide && half;
    weft_status_free(wide);
    if (half) fixture_fail_status(r, half);
    if (half) return refused ? OPS_SKIPPED : OPS_FAILED;
    for (uint32_t i = 0; i < a.nout; i++)
        if (a.out[i].dtype != WEFT_DTYPE_NONE && !is_rounded(r, &a.out[i], &out[i])) return OPS_FAILED;
    return OPS_PASSED;
}

static ops_result run_ops_halved(fixture_run *r, const weft_program *recorded) {
    weft_op *full[64];
    size_t count = 0, i = 0;
    ops_result result = OPS_SKIPPED;
    if (!fixture_begin(r)) return OPS_FAILED;
    FOR_EACH_OP(op, recorded->blocks[0]) {
        if (count < sizeof full / sizeof *full) full[count++] = op;
    }
    FOR_EACH_OP(op, r->program->blocks[0]) {
        if (i == count) return OPS_FAILED;
        result = run_op_halved(r, op, full[i], i + 1);
        if (result != OPS_PASSED) return result;
        i++;
    }
    return result;
}

ops_result ops_fixture_run_halved(weft_context *context, const char *dir, const char *variant, weft_dtype half,
                                  ops_mode mode, char *why, size_t why_nbytes) {
    char path[600];
    weft_program *recorded = NULL;
    fixture_run r = {.context = context, .mode = mode, .half = half, .why = why, .why_nbytes = why_nbytes};
    ops_result result = OPS_FAILED;
    *why = 0;
    arena_init(&r.arena, &context->allocator);
    snprintf(path, sizeof path, "%s/%s.pdmodel", dir, variant);
    weft_status status = weft_program_load(context, path, NULL, &recorded);
    if (!status) status = weft_program_load(context, path, NULL, &r.program);
    if (!status) recorded->version = r.program->version = 0; /* of an older one casts cut (ops/versions.def) */
    if (status) {
        fixture_fail_status(&r, status);
    } else if (!fixture_has_kernels(recorded)) {
        result = OPS_SKIPPED;
    } else {
        snprintf(path, sizeof path, "%s/%s.npz", dir, variant);
        bool opened = npz_open(&r.npz, &context->allocator, path, why, why_nbytes);
        if (opened && halve_program(&r)) result = run_ops_halved(&r, recorded);
        npz_close(&r.npz);
    }
    arena_fini(&r.arena);
    weft_program_destroy(r.program);
    weft_program_destroy(recorded);
    return result;
}
