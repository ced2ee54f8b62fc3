/* streams.c: the stream of an op: as the op names it (op_stream in ops/) or a given order does. */
#include "plan/builder.h"

weft_status plan_stream_of(plan_builder *b, const weft_op *op, int32_t *out_stream) {
    if (!b->nstreams) TRY(plan_find_stream(b, op, "compute", out_stream));
    *out_stream = 0;
    if (!op) return NULL;
    if (b->given) return *out_stream = plan_given_stream(b, op), NULL;
    char of_ring[RING_STREAM_NBYTES];
    const char *stream = op_stream(op, of_ring);
    return stream ? plan_find_stream(b, op, stream, out_stream) : NULL;
}
