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
/* Start of the first event, in nanoseconds. */
int64_t trace_origin(const timeline *t);

/* The page around the data: lines of HTML, CSS and JavaScript; trace_page_head ends where the title goes, and so on. */
extern const char *const trace_page_head[], *const trace_page_body[], *const trace_page_script[];

#endif
