/* stats.h: the communication of a program in numbers. */
#ifndef CLI_STATS_H
#define CLI_STATS_H

#include "cli/cli.h"
#include "weft/program.h"

/* Collectives of one type, ring and element type. */
typedef struct comm_row {
    const char *type; /* the program's: it must outlive the row */
    long long ring;
    weft_dtype dtype;
    size_t count;
    double nbytes, least, most; /* of the inputs: in all, and of the smallest and largest one */
} comm_row;

typedef struct comm_stats {
    comm_row *rows;
    size_t nrows;
    uint64_t *fingerprints; /* of the buckets that passes marked, in order; ranks that train together have the same */
    size_t nbuckets;
} comm_stats;

/* Takes a program's numbers; comm_stats_fini frees them. */
WEFT_MUST_USE weft_status comm_stats_take(const weft_program *program, comm_stats *out);
void comm_stats_fini(comm_stats *stats);
void comm_stats_print(FILE *to, const comm_stats *before, const comm_stats *after);

#endif
