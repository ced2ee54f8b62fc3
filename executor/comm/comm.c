/* comm.c: the kinds of collectives. */
#include "executor/comm/comm.h"

const comm_kind_row comm_kinds[COMM_KINDS] = {
    [COMM_ALL_REDUCE] = {.name = "all_reduce", .src = COMM_PART, .dst = COMM_PART, .has_reduce = true},
    [COMM_REDUCE] = {.name = "reduce",
                     .src = COMM_PART,
                     .dst = COMM_PART,
                     .has_root = true,
                     .has_reduce = true,
                     .only_root_writes = true},
    [COMM_BROADCAST] =
        {.name = "broadcast", .src = COMM_PART, .dst = COMM_PART, .has_root = true, .only_root_reads = true},
    [COMM_ALL_GATHER] = {.name = "all_gather", .src = COMM_PART, .dst = COMM_WHOLE},
    [COMM_REDUCE_SCATTER] = {.name = "reduce_scatter", .src = COMM_WHOLE, .dst = COMM_PART, .has_reduce = true},
    [COMM_ALL_TO_ALL] = {.name = "all_to_all", .src = COMM_WHOLE, .dst = COMM_WHOLE},
    [COMM_SCATTER] =
        {.name = "scatter", .src = COMM_WHOLE, .dst = COMM_PART, .has_root = true, .only_root_reads = true},
    [COMM_BARRIER] = {.name = "barrier"},
    [COMM_SEND] = {.name = "send", .src = COMM_PART, .has_peer = true},
    [COMM_RECV] = {.name = "recv", .dst = COMM_PART, .has_peer = true},
    [COMM_GROUP] = {.name = "group"},
};

const char *comm_kind_name(comm_kind kind) {
    return (unsigned)kind < COMM_KINDS ? comm_kinds[kind].name : "unknown";
}
