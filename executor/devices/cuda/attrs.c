#include "executor/devices/cuda/attrs.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/types.h"
#include "executor/devices/cuda/strided.h"

weft_status cuda_refuse(const char *format, ...) {
    char words[200];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return weft_status_create(WEFT_UNSUPPORTED, NULL, "%s", words);
}

bool element_type_of(weft_dtype dtype, element_type *out) {
    switch ((int)dtype) {
    case WEFT_FP32: *out = ELEMENT_FP32; return true;
    case WEFT_INT32: *out = ELEMENT_INT32; return true;
    case WEFT_INT64: *out = ELEMENT_INT64; return true;
    case WEFT_BOOL: *out = ELEMENT_BOOL; return true;
    case WEFT_FP16: *out = ELEMENT_FP16; return true;
    case WEFT_BF16: *out = ELEMENT_BF16; return true;
    default: return false;
    }
}

static weft_status require(const tensor *t, size_t n, weft_dtype real) {
    for (size_t i = 0; i < n; i++) {
        if (t[i].height >= 0 && t[i].dtype != WEFT_DTYPE_NONE) return cuda_refuse("rows (SelectedRows)");
        if (t[i].dtype == WEFT_DTYPE_NONE || t[i].dtype == real || t[i].dtype == WEFT_INT32 ||
            t[i].dtype == WEFT_INT64 || t[i].dtype == WEFT_BOOL || t[i].dtype == WEFT_UINT8)
            continue;
        return cuda_refuse("%s, the kernel for GPUs takes %s", weft_dtype_name(t[i].dtype), weft_dtype_name(real));
    }
    return NULL;
}

static weft_status require_all(const kernel_prepare *p, weft_dtype real) {
    TRY(require(p->in, p->in_first[p->schema->ninputs], real));
    return require(p->out, p->out_first[p->schema->noutputs], real);
}

weft_status cuda_require_fp32(const kernel_prepare *p) {
    return require_all(p, WEFT_FP32);
}

weft_status cuda_take_real(const tensor *t, int *out_type) {
    element_type type = ELEMENT_FP32;
    bool is_there = t && t->dtype != WEFT_DTYPE_NONE;
    if (is_there && t->height >= 0) return cuda_refuse("rows (SelectedRows)");
    if (is_there && !(dtype_is_float(t->dtype) && element_type_of(t->dtype, &type)))
        return cuda_refuse("%s", weft_dtype_name(t->dtype));
    *out_type = (int)type;
    return NULL;
}

static weft_status require_side(const tensor *t, const uint32_t *first, size_t nslots, unsigned own, weft_dtype real) {
    for (size_t s = 0; s < nslots; s++)
        TRY(require(t + first[s], first[s + 1] - first[s], own >> s & 1 ? real : WEFT_FP32));
    return NULL;
}

weft_status cuda_require_own_real(const kernel_prepare *p, unsigned in, unsigned out, int *out_type) {
    const tensor *x = type_in(p, 0);
    TRY(cuda_take_real(x, out_type));
    TRY(require_side(p->in, p->in_first, p->schema->ninputs, in, x->dtype));
    return require_side(p->out, p->out_first, p->schema->noutputs, out, x->dtype);
}

weft_status cuda_require_real(const kernel_prepare *p, int *out_type) {
    weft_dtype real = WEFT_FP32;
    element_type type = ELEMENT_FP32;
    for (uint32_t i = p->in_first[p->schema->ninputs]; i-- > 0;)
        if (dtype_is_half(p->in[i].dtype)) real = p->in[i].dtype;
    TRY(require_all(p, real));
    element_type_of(real, &type);
    *out_type = (int)type;
    return NULL;
}
