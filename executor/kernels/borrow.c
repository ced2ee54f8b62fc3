/* borrow.c: calls of another op's kernel. */
#include "executor/kernels/borrow.h"

/* Arguments as the lender sees them. */
typedef struct side {
    tensor args[BORROW_SLOTS];
    uint32_t first[BORROW_SLOTS + 1];
} side;

static void arrange(int count, const signed char *from, const tensor *args, const uint32_t *first, side *out) {
    for (int s = 0; s < count; s++) {
        bool is_there = from[s] >= 0 && first[from[s]] < first[from[s] + 1];
        out->first[s] = (uint32_t)s;
        out->args[s] = is_there ? args[first[from[s]]] : (tensor){.dtype = WEFT_DTYPE_NONE, .height = -1};
    }
    out->first[count] = (uint32_t)count;
}

weft_status borrow_prepare(kernel_prepare *p, const kernel *lender, const borrowed_slots *slots, borrowed *out) {
    side in, outs;
    arrange(slots->nin, slots->in, p->in, p->in_first, &in);
    arrange(slots->nout, slots->out, p->out, p->out_first, &outs);
    kernel_prepare inner = *p;
    inner.in = in.args;
    inner.out = outs.args;
    inner.in_first = in.first;
    inner.out_first = outs.first;
    inner.state = NULL;
    inner.split = (row_split){0};
    TRY(lender->prepare(&inner));
    p->workspace_nbytes = inner.workspace_nbytes;
    *out = (borrowed){lender, slots, inner.state, inner.split};
    return NULL;
}

weft_status borrow_run(const kernel_call *c, const borrowed *b) {
    side in, outs;
    arrange(b->slots->nin, b->slots->in, c->in, c->in_first, &in);
    arrange(b->slots->nout, b->slots->out, c->out, c->out_first, &outs);
    kernel_call inner = *c;
    inner.in = in.args;
    inner.out = outs.args;
    inner.in_first = in.first;
    inner.out_first = outs.first;
    inner.state = b->state;
    inner.split = b->split;
    return b->lender->run(&inner);
}
