/* wait_views.h: what a wait gives reaches its readers as data. */
#ifndef PASSES_WAIT_VIEWS_H
#define PASSES_WAIT_VIEWS_H

#include "passes/pending.h"

/* Whoever stands behind the wait of `p` and names its pending result reads the result of the wait. Whoever names a view
 * of it reads a view of that. A view that nobody reads before moves behind the wait; another is made anew. *out_nmoved
 * counts both. Steps: uses of the names and views concerned. */
WEFT_MUST_USE weft_status wait_take_readers(weft_pass_context *pass, const pending *p, weft_op *wait,
                                            size_t *out_nmoved);

#endif
