/* session.h: what weft run and weft simulate share: programs, what is fed, in which order ops are launched. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/reading.h"
#include "weft/plan.h"
#include "weft/tensor.h"
#include "weft/timeline.h"

typedef struct cli_session {
    const cli_args *args;
    int nranks;
    int first_rank, nlocal;    /* the ranks of this process; nlocal 0: all */
    size_t first_step, nsteps; /* that are fed; nsteps 0: all */
    weft_program **programs;   /* as many as were named; NULL: of a rank that is elsewhere */
    weft_tensors **feeds;      /* one set, or one a rank; NULL: nothing is fed */
    size_t nfeeds;
    char *fetch_list;
    const char **fetches;
    size_t nfetches;
    cli_reading reading;
    weft_plan_order **orders; /* by program; NULL: by_bytes */
    weft_delay *delays;
    size_t ndelays;
} cli_session;

/* Reads --ranks (0: not said yet), --reading, --late, --delay and --fetch; false after printing a usage error. */
bool cli_session_init(cli_session *s, const cli_args *args);
void cli_session_fini(cli_session *s);
/* Programs of the ranks here; where --ranks is not given, one program's rings say how many ranks there are. Loads each
 * once. */
WEFT_MUST_USE weft_status cli_session_load_programs(cli_session *s);
/* Those of other ranks too. */
WEFT_MUST_USE weft_status cli_session_load_all_programs(cli_session *s);
void cli_session_drop_others(cli_session *s); /* programs of ranks that are elsewhere */
/* What --reading asks for, of programs that are as they will be planned. */
WEFT_MUST_USE weft_status cli_session_make_orders(cli_session *s);
WEFT_MUST_USE weft_status cli_session_load_feeds(cli_session *s); /* --feed: what the ranks here need of it */
/* Parameters, or a state of all ranks: likewise. */
WEFT_MUST_USE weft_status cli_session_load_params(cli_session *s, const char *path, weft_tensors **out_params);
bool cli_session_has_rank(const cli_session *s, size_t rank);
bool cli_session_feeds_per_rank(const cli_session *s);

/* Whether every --trace names a form; false after printing a usage error. */
bool trace_name_is_good(const cli_args *args);

/* `path` with every `mark`, or "{rank}", replaced; the caller frees. NULL: out of memory. */
char *path_with(const char *path, const char *mark, long long number);
char *rank_path(const char *path, int rank);
bool has_rank(const char *path);

#endif
