/* inspect.c: slots, streams and positions of ops, for messages and for hosts that do not see the structs. */
#include <stdio.h>

#include "program/ir.h"
#include "weft/edits.h"

size_t weft_op_nslots(const weft_op *op, bool output) {
    return op_nslots(op, output);
}

const char *weft_op_slot(const weft_op *op, bool output, size_t slot_index, size_t *out_nargs) {
    if (slot_index >= op_nslots(op, output)) return NULL;
    const slot *s = op_slot(op, output, slot_index);
    *out_nargs = s->nargs;
    return s->name->bytes;
}

weft_var *weft_op_arg(const weft_op *op, bool output, size_t slot_index, size_t index) {
    if (slot_index >= op_nslots(op, output)) return NULL;
    const slot *s = op_slot(op, output, slot_index);
    return index < s->nargs ? slot_var(op, s, index) : NULL;
}

void weft_op_arg_names(const weft_op *op, bool output, size_t slot_index, const char **out_names) {
    if (slot_index >= op_nslots(op, output)) return;
    const slot *s = op_slot(op, output, slot_index);
    for (size_t i = 0; i < s->nargs; i++) out_names[i] = slot_var(op, s, i)->name->bytes;
}

const char *weft_op_stream(const weft_op *op) {
    return op->dist && op->dist->execution_stream ? op->dist->execution_stream : "";
}

const char *weft_op_event_recorded(const weft_op *op) {
    return op->dist && op->dist->event_to_record ? op->dist->event_to_record : "";
}

const char *weft_op_event_awaited(const weft_op *op, size_t index) {
    return op->dist && index < op_dist_nwaits(op->dist) ? op->dist->waits->events[index] : NULL;
}

size_t weft_op_index(const weft_op *op) {
    size_t index = 0;
    for (const weft_op *o = op->prev; o; o = o->prev) index++;
    return index;
}

const char *op_place(const weft_op *op, char *out, size_t out_nbytes) {
    snprintf(out, out_nbytes, "%s #%zu", op->type->bytes, weft_op_index(op));
    return out;
}
