/* trace.h: what the two forms of a timeline share. */
#ifndef PLAN_TIMELINE_TRACE_H
#define PLAN_TIMELINE_TRACE_H

#include "plan/timeline/timeline.h"

/* Colour and legend: what an instruction is for. */
typedef enum trace_class { TRACE_FORWARD, TRACE_BACKWARD, TRACE_OPTIMIZE, TRACE_COLLECTIVE, TRACE_CLASSES } trace_class;
trace_class trace_class_of(const plan_instr *instr);
const char *trace_class_name(trace_class class_);
/* Bytes that a collective moves: of its first input, else of its first output. */
int64_t trace_nbytes(const weft_plan *plan, const plan_instr *instr);
/* Of each stream that an instruction waits for, the number of the last instruction there that must end before it; in
 * `out`, which has room for most of them. How many. */
size_t trace_waits(const timeline *t, int rank, const plan_instr *instr, size_t most, size_t *out);
/* By the frame's clock, from its origin on. */
static inline int64_t trace_ns(const timeline_frame *f, int64_t own_ns) {
    return timeline_common_ns(&f->clock, own_ns) - f->origin_ns;
}

/* What a form prints. A part's entries go one behind another, over all processes. */
void trace_json_parts(const timeline *t, const timeline_frame *f, buffer parts[TIMELINE_PARTS]);
void trace_json_document(const timeline_frame *f, const char *title, const timeline_text *parts, buffer *out);
void trace_html_parts(const timeline *t, const timeline_frame *f, buffer parts[TIMELINE_PARTS]);
void trace_html_document(const timeline_frame *f, const char *title, const timeline_text *parts, buffer *out);

/* The page around the data: lines of HTML, CSS and JavaScript; trace_page_head ends where the title goes, trace_page_body
 * where the data goes, and the rest is a script in two parts. */
extern const char *const trace_page_head[], *const trace_page_body[], *const trace_page_script[],
    *const trace_page_view[];

#endif
