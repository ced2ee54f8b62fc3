/* inspect.c: slots, streams and positions of ops for hosts and printers that do not see the structs. */
#include "program/ir.h"

static const slot_list *slots_of(const weft_op *op, bool output) {
    return output ? &op->outputs : &op->inputs;
}

size_t weft_op_nslots(const weft_op *op, bool output) {
    return slots_of(op, output)->count;
}

const char *weft_op_slot(const weft_op *op, bool output, size_t slot_index, size_t *out_nargs) {
    const slot_list *list = slots_of(op, output);
    if (slot_index >= list->count) return NULL;
    *out_nargs = list->slots[slot_index].nargs;
    return list->slots[slot_index].name->bytes;
}

weft_var *weft_op_arg(const weft_op *op, bool output, size_t slot_index, size_t index) {
    const slot_list *list = slots_of(op, output);
    if (slot_index >= list->count || index >= list->slots[slot_index].nargs) return NULL;
    return list->slots[slot_index].args[index].var;
}

const char *weft_op_stream(const weft_op *op) {
    return op->dist && op->dist->execution_stream ? op->dist->execution_stream : "";
}

const char *weft_op_event_recorded(const weft_op *op) {
    return op->dist && op->dist->event_to_record ? op->dist->event_to_record : "";
}

const char *weft_op_event_awaited(const weft_op *op, size_t index) {
    return op->dist && index < op->dist->nevents_to_wait ? op->dist->events_to_wait[index] : NULL;
}

size_t weft_op_index(const weft_op *op) {
    size_t index = 0;
    for (const weft_op *o = op->prev; o; o = o->prev) index++;
    return index;
}
