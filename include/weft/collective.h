/* weft/collective.h: what an op does on a ring, and where it runs. The library's table of collectives answers: nothing
 * has to be guessed from names. */
#ifndef WEFT_COLLECTIVE_H
#define WEFT_COLLECTIVE_H

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Texts are static. */
typedef struct weft_collective {
    /* "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "scatter", "send", "recv",
     * "barrier", "other" communicate. "split" keeps the rank's part, "identity" has a gradient that is summed over the
     * ring. "wait_compute", "wait_comm", "wait_tensor" make streams wait, "sync_compute", "sync_comm" the host. */
    const char *kind;
    bool communicates;
    bool is_list; /* it moves an argument for each part, or several tensors at once; else one tensor */
    int reduce;   /* a weft_reduce; -1: it reduces nothing */
    int64_t ring_id;
    int64_t root; /* index in the ring of the root, or of the other member of a send or recv; -1: it has none */
    const char *in_slot, *out_slot; /* of what is moved; NULL: none */
    /* The attr that says whether it leaves the compute stream. "async_op": it only begins, if that is true.
     * "use_calc_stream": it leaves unless that is true. NULL: it does not. */
    const char *stream_attr;
    bool is_async; /* it only begins: what it writes is pending until the wait_tensor for it */
} weft_collective;

/* False: the op does nothing on a ring. One of a type that nobody knows, with an attr ring_id, is "other". O(1). */
bool weft_op_collective(const weft_op *op, weft_collective *out_collective);

/* The stream on which a plan runs the op. It is the one that a pass or Paddle named. Else a collective that leaves the
 * compute stream has its ring's own, "ring_ID". "" is the compute stream, whatever its name. Cut to nbytes - 1 bytes;
 * returns the bytes that all of it needs. */
size_t weft_op_runs_on(const weft_op *op, char *out_text, size_t nbytes);

#ifdef __cplusplus
}
#endif
#endif
