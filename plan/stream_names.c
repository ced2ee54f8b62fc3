/* stream_names.c: the streams of a plan, numbered as they are first named; 0 is compute. */
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
