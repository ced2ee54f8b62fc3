#include "executor/devices/cuda/attrs.h"

#include <stdarg.h>
#include <stdio.h>

weft_status cuda_refuse(const char *format, ...) {
    char words[200];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return weft_status_create(WEFT_UNSUPPORTED, NULL, "%s", words);
}

static weft_status require(const tensor *t, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (t[i].height >= 0 && t[i].dtype != WEFT_DTYPE_NONE) return cuda_refuse("rows (SelectedRows)");
        if (t[i].dtype == WEFT_DTYPE_NONE || t[i].dtype == WEFT_FP32 || t[i].dtype == WEFT_INT32 ||
            t[i].dtype == WEFT_INT64 || t[i].dtype == WEFT_BOOL || t[i].dtype == WEFT_UINT8)
            continue;
        return cuda_refuse("%s, kernels for GPUs take float32", weft_dtype_name(t[i].dtype));
    }
    return NULL;
}

weft_status cuda_require_fp32(const kernel_prepare *p) {
    TRY(require(p->in, p->in_first[p->schema->ninputs]));
    return require(p->out, p->out_first[p->schema->noutputs]);
}
