/* ranges.h: the last reads and writes of every byte of one buffer, stream by stream. */
#ifndef PROOF_SCHEDULE_RANGES_H
#define PROOF_SCHEDULE_RANGES_H

#include "base/points.h"
#include "proof/schedule/schedule.h"

typedef struct epochs {
    uint32_t read, write; /* 0: none */
} epochs;

/* A segment tree over the parts between neighbouring end points of accesses. Node 1 is the root, node nleaves + i the
 * part i. A node keeps two accesses for each of the streams that touch the buffer: the last to all of its bytes
 * (`whole`) and the last to any of them (`any`). */
typedef struct byte_ranges {
    int64_t *points; /* npoints, sorted: part i is [points[i], points[i + 1]) */
    size_t npoints, nleaves;
    uint32_t *streams; /* those that touch it */
    size_t nstreams;
    epochs *whole, *any; /* node * nstreams + index of the stream */
} byte_ranges;

WEFT_MUST_USE weft_status ranges_build(byte_ranges *r, arena *a);
/* Parts [*out_low, *out_high) of an access whose ends are points. */
void ranges_find(const byte_ranges *r, int64_t begin, int64_t end, size_t *out_low, size_t *out_high);
/* The last access by stream `index` that conflicts with one of parts [low, high). 0: none. */
uint32_t ranges_last(const byte_ranges *r, size_t low, size_t high, size_t index, bool is_write);
void ranges_note(byte_ranges *r, size_t low, size_t high, size_t index, bool is_write, uint32_t epoch);

#endif
