/* trace.h: what the two forms of a timeline share. */
#ifndef EXECUTOR_TRACE_H
#define EXECUTOR_TRACE_H

#include "executor/executor.h"

/* Start of the first event, in nanoseconds. */
int64_t trace_origin(const weft_executor *x);
/* The first value that an instruction writes, for people; "" if there is none. */
const char *trace_value_name(const rank_state *rank, const plan_instr *instr);

/* The page around the data: lines of HTML, CSS and JavaScript; trace_page_head ends where the title goes, and so on. */
extern const char *const trace_page_head[], *const trace_page_body[], *const trace_page_script[];

#endif
