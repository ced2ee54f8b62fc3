/* by_name_edges.c: edges between launches, and what Paddle takes for a communication op. */
#include "program/grow.h"
#include "proof/schedule/by_name.h"

weft_status by_name_push(by_name *z, list *l, uint32_t item) {
    TRY(grow(z->arena, &l->items, &l->capacity, l->count + 1, sizeof *l->items));
    l->items[l->count++] = item;
    return NULL;
}

weft_status by_name_add(by_name *z, uint32_t from, uint32_t to) {
    TRY(by_name_push(z, &z->after[from], to));
    return by_name_push(z, &z->before[to], from);
}

bool by_name_communicates(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    return (c && c->paddle & PADDLE_CHAINED) || op_find_attr(op, "ring_id");
}
