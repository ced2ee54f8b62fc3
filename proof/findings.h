/* findings.h: collecting what is wrong, as messages. */
#ifndef PROOF_FINDINGS_H
#define PROOF_FINDINGS_H

#include "proof/schedule/schedule.h"

struct weft_findings {
    weft_context *context;
    arena arena;
    weft_finding *items;
    size_t count, capacity, max;
    size_t nleft_out; /* beyond max */
    const char **notes;
    size_t nnotes, note_capacity;
};

/* A finding to be filled; NULL in *out if there are enough. */
WEFT_MUST_USE weft_status finding_add(weft_findings *f, weft_verdict verdict, weft_finding **out);
/* One more op that the finding is about, doing `role`. */
WEFT_MUST_USE weft_status finding_op(weft_findings *f, weft_finding *to, const proof_schedule *s, size_t event,
                                     int64_t rank, const char *role);
WEFT_MUST_USE weft_status finding_says(weft_findings *f, const char **out, const char *format, ...) WEFT_PRINTF(3, 4);
WEFT_MUST_USE weft_status findings_add_note(weft_findings *f, const char *format, ...) WEFT_PRINTF(2, 3);
/* "sgd #12 (train.py:30)", cut to the room there is. */
const char *finding_op_text(const weft_finding_op *op, char *out, size_t room);

#endif
