/* collectives.c: the rows of collectives.def, and what an op's attrs say of them. table.c finds a row by its type. */
#include "ops/collectives.h"

/* The column `reduce`: the reduction, or the attr that says it. */
#define REDUCE_NONE .reduce = COLLECTIVE_NO_REDUCE
#define REDUCE_SUM .reduce = WEFT_REDUCE_SUM
#define REDUCE_MAX .reduce = WEFT_REDUCE_MAX
#define REDUCE_MIN .reduce = WEFT_REDUCE_MIN
#define REDUCE_PROD .reduce = WEFT_REDUCE_PROD
#define REDUCE_AVG .reduce = WEFT_REDUCE_AVG
#define REDUCE_reduce_type .reduce = COLLECTIVE_NO_REDUCE, .reduce_attr = "reduce_type"

/* A text, or NULL where the column is empty. */
#define TEXT(s) (sizeof(s) > 1 ? (s) : NULL)

#define COLLECTIVE(type_, kind_, form_, reduce_, root_, ring_, stream_, in_, out_, paddle_)                            \
    {.type = #type_,                                                                                                   \
     .kind = COLLECTIVE_##kind_,                                                                                       \
     .form = COLLECTIVE_##form_,                                                                                       \
     REDUCE_##reduce_,                                                                                                 \
     .root_attr = TEXT(root_),                                                                                         \
     .ring_attr = TEXT(ring_),                                                                                         \
     .stream = COLLECTIVE_##stream_,                                                                                   \
     .in = TEXT(in_),                                                                                                  \
     .out = TEXT(out_),                                                                                                \
     .paddle = PADDLE_##paddle_},
#define PADDLE_CHAINED(type_) {.type = #type_, .reduce = COLLECTIVE_NO_REDUCE, .paddle = PADDLE_CHAINED},
static const collective_schema rows[] = {
#include "ops/collectives.def"
};
#undef COLLECTIVE
#undef PADDLE_CHAINED

const collective_schema *collectives_rows(size_t *out_count) {
    *out_count = sizeof rows / sizeof *rows;
    return rows;
}

const char *collective_kind_name(collective_kind kind) {
    static const char *const names[] = {[COLLECTIVE_NONE] = "none",
                                        [COLLECTIVE_ALL_REDUCE] = "all_reduce",
                                        [COLLECTIVE_REDUCE] = "reduce",
                                        [COLLECTIVE_BROADCAST] = "broadcast",
                                        [COLLECTIVE_ALL_GATHER] = "all_gather",
                                        [COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
                                        [COLLECTIVE_ALL_TO_ALL] = "all_to_all",
                                        [COLLECTIVE_SCATTER] = "scatter",
                                        [COLLECTIVE_SEND] = "send",
                                        [COLLECTIVE_RECV] = "recv",
                                        [COLLECTIVE_BARRIER] = "barrier",
                                        [COLLECTIVE_OTHER] = "other",
                                        [COLLECTIVE_SPLIT] = "split",
                                        [COLLECTIVE_IDENTITY] = "identity",
                                        [COLLECTIVE_WAIT_COMPUTE] = "wait_compute",
                                        [COLLECTIVE_WAIT_COMM] = "wait_comm",
                                        [COLLECTIVE_WAIT_TENSOR] = "wait_tensor",
                                        [COLLECTIVE_SYNC_COMPUTE] = "sync_compute",
                                        [COLLECTIVE_SYNC_COMM] = "sync_comm"};
    return names[kind];
}

int op_collective_reduce(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    if (!c || !c->reduce_attr) return c ? c->reduce : COLLECTIVE_NO_REDUCE;
    return (int)attr_int(op, c->reduce_attr, WEFT_REDUCE_SUM);
}

int64_t op_collective_root(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    return c && c->root_attr ? attr_int(op, c->root_attr, 0) : -1;
}

const int64_t *op_collective_splits(const weft_op *op, bool gets, size_t *out_count) {
    const collective_schema *c = op_collective(op);
    *out_count = 0;
    if (!c || c->form != COLLECTIVE_SPLITS) return NULL;
    return attr_ints(op, gets ? "out_splits" : "in_splits", out_count);
}
