/* attr_place.h: which attrs of an op say nothing of what it computes. */
#ifndef PASSES_ATTR_PLACE_H
#define PASSES_ATTR_PLACE_H

#include "program/ir.h"

/* Where the op stands in the program's text, and in which part of training. */
static inline bool attr_is_of_place(const weft_attr *a) {
    static const char *const names[] = {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device"};
    if (strncmp(a->name->bytes, "op_", 3) != 0) return attr_is_of_node(a);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(a->name->bytes, names[i]) == 0) return true;
    return false;
}

#endif
