/* fixed.h: programs whose open extents have numbers. */
#ifndef PROOF_SPMD_FIXED_H
#define PROOF_SPMD_FIXED_H

#include "ops/open_extents.h"

/* Copies of a serial program and of the ranks' programs; zeroed: none. */
typedef struct fixed_programs {
    weft_context *context;
    weft_program *serial;
    weft_program **programs;
    size_t nprograms, room;
} fixed_programs;

WEFT_MUST_USE weft_status fixed_make(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                                     const open_extents *e, fixed_programs *out);
/* With stand-ins: numbers that no other extent is likely to be. *out_is false: nothing is open, or the programs take
 * no such numbers. */
WEFT_MUST_USE weft_status fixed_stand_in(const weft_program *serial, const weft_program *const *programs,
                                         size_t nprograms, size_t nranks, bool *out_is, fixed_programs *out);
void fixed_fini(fixed_programs *f);

#endif
