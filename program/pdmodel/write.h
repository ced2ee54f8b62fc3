/* write.h: parts of a program as the wire form. */
#ifndef PROGRAM_PDMODEL_WRITE_H
#define PROGRAM_PDMODEL_WRITE_H

#include "program/form.h"

/* What of a block is written: by place of ops and of vars. */
typedef struct pdmodel_parts {
    const bool *ops, *vars;
    size_t max_nargs; /* slots with more are left out of `ops` */
} pdmodel_parts;

/* parts: of each block. */
WEFT_MUST_USE weft_status pdmodel_print_parts(const weft_program *p, const pdmodel_parts *parts, buffer *out);

#endif
