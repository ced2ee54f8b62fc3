/* fixed.h: programs whose open extents have numbers. */
#ifndef PROOF_SPMD_FIXED_H
#define PROOF_SPMD_FIXED_H

#include "ops/open_extents.h"

/* Rows of a rank, where stand-ins are taken for open extents. */
enum { FIXED_ROWS = 104729 };

/* Copies of a serial program and of the ranks' programs. */
typedef struct fixed_programs {
    weft_context *context;
    weft_program *serial;
    weft_program **programs;
    size_t nprograms, room;
} fixed_programs;

/* With these extents, if any; `folds`: and with numbers that inference knows written down. */
WEFT_MUST_USE weft_status fixed_make(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                                     const open_extents *e, bool folds, fixed_programs *out);
/* Numbers that are known, and stand-ins for open extents: numbers that no other extent is likely to be. *out_rows 0:
 * nothing is open, or the programs take no stand-ins. */
WEFT_MUST_USE weft_status fixed_stand_in(const weft_program *serial, const weft_program *const *programs,
                                         size_t nprograms, size_t nranks, int64_t *out_rows, fixed_programs *out);
void fixed_fini(fixed_programs *f);

#endif
