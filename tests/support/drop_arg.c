/* drop_arg.c: see drop_arg.h. */
#include "tests/support/drop_arg.h"

#include "program/uses.h"
#include "tests/support/must.h"

void drop_arg(weft_op *op, const slot *s, uint32_t at) {
    weft_program *p = op->program;
    uint32_t index = (uint32_t)(s - op->slots->slots), nslots = slot_table_count(op->slots);
    slot_table *own = arena_copy(&p->arena, op->slots, slot_table_nbytes(nslots));
    must(own ? NULL : base_out_of_memory());
    uint32_t from = s->first + at, id = op->args_id;
    if (op->block) use_unlink(p, &op->args[from]);
    for (uint32_t i = from; i + 1 < own->nargs; i++) {
        op->args[i] = op->args[i + 1];
        if (op->block) use_set_neighbours(p, &op->args[i], id + i, id + i);
    }
    own->slots[index].nargs--;
    own->nargs--;
    own->ninput_args -= index < own->ninputs;
    for (uint32_t i = index + 1; i < nslots; i++) own->slots[i].first--;
    op->slots = own;
    op->slot_capacity = nslots;
    op_changed(op);
}
