/* bucket_tensor.h: one buffer of which several vars become views. */
#ifndef PASSES_BUCKET_TENSOR_H
#define PASSES_BUCKET_TENSOR_H

#include "passes/certificate.h"

typedef struct bucket_tensor {
    weft_op *op;     /* the coalesce_tensor, not inserted */
    weft_var *fused; /* 1-D, padding included */
} bucket_tensor;

/* What the buffer is made for. */
typedef struct bucket_layout {
    const char *stem;        /* of the fused var's name */
    weft_var *const *inputs; /* what is copied in; the same as `views` where copy is false */
    weft_var *const *views;  /* as many dense tensors of one known type */
    size_t count;
    bool copy;        /* the op moves the inputs' bytes; false: something else fills the views */
    bool align;       /* each view starts at a multiple of 256 bytes */
    const mesh *mesh; /* NULL: the program does not say */
} bucket_layout;

/* Bytes that a view of so many takes where views are aligned. */
size_t bucket_tensor_padded(size_t nbytes);
/* Makes the var and the op. Padding is said explicitly, so that the layout is the same on every device. */
WEFT_MUST_USE weft_status bucket_tensor_make(weft_program *p, const bucket_layout *layout, bucket_tensor *out);
/* Claims where each view lies. */
WEFT_MUST_USE weft_status bucket_tensor_claim(weft_pass_context *pass, const bucket_layout *layout,
                                              const bucket_tensor *of);

#endif
