/* borrow.c: calls of another op's kernel. */
#include "executor/kernels/borrow.h"

/* Arguments as the lender sees them. */
static void arrange(int count, const signed char *from, const tensor *args, const uint32_t *first, tensor *out_args,
                    uint32_t *out_first) {
    for (int s = 0; s < count; s++) {
        bool is_there = from[s] >= 0 && first[from[s]] < first[from[s] + 1];
        out_first[s] = (uint32_t)s;
        out_args[s] = is_there ? args[first[from[s]]] : (tensor){.dtype = WEFT_DTYPE_NONE, .height = -1};
    }
    out_first[count] = (uint32_t)count;
}

typedef struct borrow_room {
    tensor in[BORROW_SLOTS], out[BORROW_SLOTS];
    uint32_t in_first[BORROW_SLOTS + 1], out_first[BORROW_SLOTS + 1];
} borrow_room;

weft_status borrow_prepare(kernel_prepare *p, const kernel *lender, const borrowed_slots *slots, borrowed *out) {
    borrow_room room;
    arrange(slots->nin, slots->in, p->in, p->in_first, room.in, room.in_first);
    arrange(slots->nout, slots->out, p->out, p->out_first, room.out, room.out_first);
    kernel_prepare inner = *p;
    inner.in = room.in;
    inner.out = room.out;
    inner.in_first = room.in_first;
    inner.out_first = room.out_first;
    inner.state = NULL;
    inner.split = (row_split){0};
    TRY(lender->prepare(&inner));
    p->workspace_nbytes = inner.workspace_nbytes;
    *out = (borrowed){lender, slots, inner.state, inner.split, NULL};
    return NULL;
}

/* The call as the lender sees it; it lives as long as `room`. */
static kernel_call inner_call(const kernel_call *c, const borrowed *b, borrow_room *room) {
    arrange(b->slots->nin, b->slots->in, c->in, c->in_first, room->in, room->in_first);
    arrange(b->slots->nout, b->slots->out, c->out, c->out_first, room->out, room->out_first);
    kernel_call inner = *c;
    inner.in = room->in;
    inner.out = room->out;
    inner.in_first = room->in_first;
    inner.out_first = room->out_first;
    inner.state = b->state;
    inner.split = b->split;
    return inner;
}

weft_status borrow_run(const kernel_call *c, const borrowed *b) {
    borrow_room room;
    kernel_call inner = inner_call(c, b, &room);
    return b->lender->run(&inner);
}

void borrow_ask(const kernel_call *c, int round, struct comm_request *out) {
    const borrowed *b = c->state;
    borrow_room room;
    kernel_call inner = inner_call(c, b, &room);
    b->rounds->ask(&inner, round, out);
}

weft_status borrow_work(const kernel_call *c, int round) {
    const borrowed *b = c->state;
    borrow_room room;
    kernel_call inner = inner_call(c, b, &room);
    return b->rounds->work(&inner, round);
}
