/* weft/plan_instr.h: the instructions of a plan, one by one, for a host whose own runtime follows the schedule.
 *
 * What a runtime does: allocate weft_plan_summary.persistent_nbytes and temporary_nbytes, aligned to 64 bytes. The
 * first lasts, the second holds for a step. Run each stream's instructions in order. Before one, wait until the streams
 * of its waits have completed so many instructions of the step. An instruction whose guard is false is skipped, and
 * counts as completed. */
#ifndef WEFT_PLAN_INSTR_H
#define WEFT_PLAN_INSTR_H

#include "weft/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_plan_instr {
    const weft_op *op;   /* of the plan: its type and attrs. Its arguments are weft_plan_instr_arg */
    size_t op_index;     /* of the op in block 0 of the program */
    size_t stream;       /* below weft_plan_nstreams */
    size_t position;     /* among the stream's instructions, from 0 */
    size_t nwaits;       /* weft_plan_instr_wait */
    int64_t ring_id;     /* of a collective; -1: it is none */
    int64_t guard;       /* it runs if the first byte of this bool value is not 0; -1: always */
    int64_t outer_guard; /* that of the enclosing conditional, tested first; -1: none */
} weft_plan_instr;

/* Wait until `stream` has completed its first `count` instructions of this step. */
typedef struct weft_plan_wait {
    size_t stream, count;
} weft_plan_wait;

/* Where a value (weft_plan_value_at) lies. Values may overlap: a bucket's members, in-place pairs, lifetimes apart. */
typedef struct weft_plan_buffer {
    bool is_persistent; /* in the bytes that last; else in those of a step */
    int64_t offset, nbytes;
    int64_t view_of; /* the value that it is a part of; -1: none */
    int64_t rows;    /* of selected rows: the value with row indices; -1: it is dense */
} weft_plan_buffer;

size_t weft_plan_nstreams(const weft_plan *plan);
const char *weft_plan_stream_name(const weft_plan *plan, size_t stream); /* 0 is "compute"; borrowed */
/* In an order in which one thread may run them all. Each of the following is O(1); an index must be in range. */
size_t weft_plan_ninstrs(const weft_plan *plan);
weft_plan_instr weft_plan_instr_at(const weft_plan *plan, size_t instr);
weft_plan_wait weft_plan_instr_wait(const weft_plan *plan, size_t instr, size_t index);
/* Slots in the order of the op's definition: how many, the name and number of arguments of one, and an argument as the
 * number of a value; -1: it is empty. */
size_t weft_plan_instr_nslots(const weft_plan *plan, size_t instr, bool output);
const char *weft_plan_instr_slot(const weft_plan *plan, size_t instr, bool output, size_t slot, size_t *out_nargs);
int64_t weft_plan_instr_arg(const weft_plan *plan, size_t instr, bool output, size_t slot, size_t index);
weft_plan_buffer weft_plan_buffer_at(const weft_plan *plan, size_t value);

#ifdef __cplusplus
}
#endif
#endif
