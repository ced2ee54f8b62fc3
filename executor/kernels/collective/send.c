/* send.c: ops between two members of a ring.
 *
 * Every type has one argument, an input of those that send and an output of those that receive. A part of a tensor
 * (partial_send, partial_recv) is one of `num` equal ones in the order of its elements. Extents are known before the
 * run here, so nothing is sent of them where dynamic_shape says that Paddle would. */
#include "executor/comm/comm.h"
#include "executor/kernels/collective/collective.h"
#include "ops/collectives.h"

typedef struct send_state {
    comm_request request; /* all but the address */
    size_t offset;        /* of the part, in bytes */
} send_state;

static weft_status prepare_state(kernel_prepare *p) {
    send_state *s = KERNEL_STATE(p, send_state);
    if (!s) return base_out_of_memory();
    bool sends = op_collective(p->op)->kind == COLLECTIVE_SEND;
    const tensor *x = sends ? type_in(p, 0) : type_out(p, 0);
    TRY(require_ring_type(p, x));
    int64_t peer = op_collective_root(p->op), num = 1, id = 0;
    if (peer < 0 || peer >= p->ring_nranks || peer == p->ring_index)
        return kernel_unsupported(p, "expected another member of a ring of %d ranks as peer of member %d, found %lld",
                                  p->ring_nranks, p->ring_index, (long long)peer);
    if (op_collective(p->op)->form == COLLECTIVE_PART) {
        num = attr_int(p->op, "num", 1);
        id = attr_int(p->op, "id", 0);
    }
    if (num < 1 || id < 0 || id >= num || x->numel % num != 0)
        return kernel_unsupported(p, "expected a part of %lld elements, found part %lld of %lld", (long long)x->numel,
                                  (long long)id, (long long)num);
    s->request = (comm_request){.kind = comm_kind_of(p->op),
                                .dtype = x->dtype,
                                .count = x->numel / num,
                                .peer = (int)peer,
                                .op = p->schema->type};
    s->offset = (size_t)(id * s->request.count) * weft_dtype_nbytes(x->dtype);
    return NULL;
}

static void ask(const kernel_call *c, int round, comm_request *out) {
    const send_state *s = c->state;
    (void)round;
    *out = s->request;
    if (out->kind == COMM_SEND)
        out->src = (const char *)arg_in(c, 0)->data + s->offset;
    else
        out->dst = (char *)arg_out(c, 0)->data + s->offset;
}

/* What no part is received for holds zeros. */
static weft_status clear_rest(const kernel_call *c, int round) {
    const send_state *s = c->state;
    if (round || s->request.kind == COMM_SEND) return NULL;
    const tensor *out = arg_out(c, 0);
    size_t part = (size_t)s->request.count * weft_dtype_nbytes(out->dtype), end = s->offset + part;
    if (s->offset) memset(out->data, 0, s->offset);
    if (end < tensor_nbytes(out)) memset((char *)out->data + end, 0, tensor_nbytes(out) - end);
    return NULL;
}

static const kernel_rounds send_rounds = {1, ask, clear_rest};

static weft_status prepare(kernel_prepare *p) {
    p->rounds = &send_rounds;
    return prepare_state(p);
}

static weft_status run(const kernel_call *c) {
    return run_rounds(c, &send_rounds);
}

const kernel kernel_send_v2 = {prepare, run};
const kernel kernel_p_send = {prepare, run};
const kernel kernel_partial_send = {prepare, run};
const kernel kernel_recv_v2 = {prepare, run};
const kernel kernel_p_recv = {prepare, run};
const kernel kernel_partial_recv = {prepare, run};
