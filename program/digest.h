/* digest.h: a short text that distinguishes programs, whatever form they were written in. */
#ifndef PROGRAM_DIGEST_H
#define PROGRAM_DIGEST_H

#include "program/ir.h"

enum { PROGRAM_DIGEST_NBYTES = 33 };

/* 32 hexadecimal digits of ops, arguments, attrs, streams, events, used vars and rings; what a file says of its own
 * nodes (attrs fx_*) is left out. Told apart, not protected: it is no cryptographic hash. Linear. */
void program_digest(const weft_program *p, char *out);

#endif
