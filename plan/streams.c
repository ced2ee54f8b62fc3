/* streams.c: which stream an op runs on: the one that a pass or Paddle named, a ring's own for an all-reduce that does
 * not use the compute stream, else compute. Names mean nothing beyond being equal or not. */
#include <stdio.h>

#include "plan/builder.h"

static bool is_compute(const char *stream) {
    return !strcmp(stream, "default") || !strcmp(stream, "DefaultStream") || !strcmp(stream, "compute") || !*stream;
}

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
    const char *named = op->dist ? op->dist->execution_stream : NULL;
    if (named && !is_compute(named)) return plan_find_stream(b, op, named, out_stream);
    if (strncmp(op->type->bytes, "c_allreduce_", 12) == 0 && !attr_bool(op, "use_calc_stream", false)) {
        char of_ring[32];
        snprintf(of_ring, sizeof of_ring, "ring_%lld", (long long)op_ring(op));
        return plan_find_stream(b, op, of_ring, out_stream);
    }
    return NULL;
}
