/* written.h: while a program is read: whether it may read bytes that nothing wrote before. Where it does not, there is
 * nothing to look for (uninitialised.c); where it is not sure, it says that it may. */
#ifndef PROOF_SCHEDULE_WRITTEN_H
#define PROOF_SCHEDULE_WRITTEN_H

#include "proof/schedule/schedule.h"

/* What is known of a buffer. */
typedef struct written_buffer {
    uint32_t nunwritten; /* of its parts */
    bool is_written;     /* all of it; or it was given */
    bool is_made;        /* something writes it */
    bool is_early;       /* it was read before it was written */
    bool has_parts;
} written_buffer;

typedef struct written {
    proof_schedule *schedule;
    written_buffer *buffers;
    size_t nbuffers, buffer_capacity;
    bool *parts; /* of all buffers */
    size_t nparts, part_capacity;
} written;

/* Lays out `nparts` parts in a buffer. Out: their numbers are *out_first and those behind. */
WEFT_MUST_USE weft_status written_divide(written *w, uint32_t buffer_id, size_t nparts, uint32_t *out_first);
/* The event at hand touches bytes of a buffer; `part`: they lie in this one, a number plus one; 0: in no single one. */
WEFT_MUST_USE weft_status written_touch(written *w, const proof_access *x, uint32_t part);
/* Sets schedule->may_read_unwritten. */
void written_end(written *w);

#endif
