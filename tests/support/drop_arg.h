/* drop_arg.h: an argument less, which no pass does. */
#ifndef TESTS_SUPPORT_DROP_ARG_H
#define TESTS_SUPPORT_DROP_ARG_H

#include "program/ir.h"

/* Takes argument `at` out of a slot of `op`, which gets a table of slots of its own: `s` is then that of before. */
void drop_arg(weft_op *op, const slot *s, uint32_t at);

#endif
