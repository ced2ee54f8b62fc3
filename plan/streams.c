/* streams.c: the streams of a plan, numbered as ops name them (op_stream in ops/) or a given order does; 0 is
 * compute. */
#include "plan/builder.h"

weft_status plan_find_stream(plan_builder *b, const weft_op *op, const char *stream, int32_t *out_stream) {
    for (size_t i = 0; i < b->nstreams; i++)
        if (strcmp(b->streams[i], stream) == 0) return *out_stream = (int32_t)i, NULL;
    if (b->nstreams == PLAN_MAX_STREAMS)
        return plan_error(b, WEFT_LIMIT, op, "stream \"%s\" would be one more than %d", stream, PLAN_MAX_STREAMS);
    TRY(vector_reserve(&b->context->allocator, &b->streams, &b->stream_capacity, b->nstreams + 1, sizeof *b->streams));
    if (!(b->streams[b->nstreams] = arena_string(&b->plan->arena, stream, strlen(stream)))) return base_out_of_memory();
    *out_stream = (int32_t)b->nstreams++;
    return NULL;
}

weft_status plan_stream_of(plan_builder *b, const weft_op *op, int32_t *out_stream) {
    if (!b->nstreams) TRY(plan_find_stream(b, op, "compute", out_stream));
    *out_stream = 0;
    if (!op) return NULL;
    if (b->given) return *out_stream = plan_given_stream(b, op), NULL;
    char of_ring[RING_STREAM_NBYTES];
    const char *stream = op_stream(op, of_ring);
    return stream ? plan_find_stream(b, op, stream, out_stream) : NULL;
}
