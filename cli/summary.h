/* summary.h: what weft run and weft simulate say of their steps at the end, as lines on stderr or as JSON. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include "cli/json.h"
#include "weft/plan.h"

typedef struct summary {
    int nranks;
    size_t nsteps;   /* were done; of the last nseconds of them the times are known */
    double *seconds; /* become sorted */
    size_t nseconds;
    size_t nplanned, nkept, ngone; /* plans, by shapes of the feeds */
    const weft_plan *plan;         /* of a rank */
    bool has_overlap;              /* what follows is known: there is a timeline, of the last steps; nlast 0: of all */
    size_t ncollectives, nhidden, nlast;
    double collective_seconds, hidden_seconds;
} summary;

void summary_print(summary *s);
json_t *summary_json(summary *s);

#endif
