/* spmd_mistake.h: one thing wrong in how a rank's program places, moves or adds up parts. */
#ifndef TESTS_SUPPORT_SPMD_MISTAKE_H
#define TESTS_SUPPORT_SPMD_MISTAKE_H

#include "program/ir.h"

/* Makes a mistake in block 0; equal programs get the same by one `salt`. *out_what is what kind it is. False: the
 * program has nothing with which that can be made. */
bool spmd_mistake(weft_program *p, uint64_t salt, const char **out_what);

#endif
