/* collective_info.c: what an op does on a ring, for hosts (weft/collective.h). */
#include <stdio.h>

#include "ops/collectives.h"
#include "weft/collective.h"

static const char *stream_attr_of(collective_stream stream) {
    return stream == COLLECTIVE_ASYNC_OP ? "async_op" : stream == COLLECTIVE_CALC_STREAM ? "use_calc_stream" : NULL;
}

bool weft_op_collective(const weft_op *op, weft_collective *out) {
    const collective_schema *c = op_collective(op);
    bool is_row = c && c->kind != COLLECTIVE_NONE;
    if (!is_row && !op_communicates(op)) return false;
    collective_kind kind = is_row ? c->kind : COLLECTIVE_OTHER;
    *out = (weft_collective){.kind = collective_kind_name(kind),
                             .communicates = collective_communicates(kind),
                             .is_list = is_row && collective_has_lists(c),
                             .reduce = op_collective_reduce(op),
                             .ring_id = op_ring(op),
                             .root = op_collective_root(op),
                             .in_slot = is_row ? c->in : NULL,
                             .out_slot = is_row ? c->out : NULL,
                             .stream_attr = is_row ? stream_attr_of(c->stream) : NULL,
                             .is_async = op_is_async(op)};
    return true;
}

size_t weft_op_runs_on(const weft_op *op, char *out_text, size_t nbytes) {
    char of_ring[RING_STREAM_NBYTES];
    const char *stream = op_stream(op, of_ring);
    int needed = snprintf(out_text, nbytes, "%s", stream ? stream : "");
    return needed < 0 ? 0 : (size_t)needed;
}
