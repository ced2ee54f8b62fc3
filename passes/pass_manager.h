/* pass_manager.h: what passes of the library may use beside weft/pass.h, and what the manager's files share. */
#ifndef PASSES_PASS_MANAGER_H
#define PASSES_PASS_MANAGER_H

#include "base/yaml.h"
#include "passes/rank_edits.h"
#include "program/digest.h"
#include "program/ir.h"
#include "weft/pass.h"

/* --- for passes --------------------------------------------------------------------------------------------------- */

/* Scratch memory of the running pass, freed when it returns. */
arena *pass_scratch(weft_pass_context *pass);

/* What the passes of one run hand on to each other: a finding about the program as it is while its `edits` are these.
 */
typedef struct pass_finding {
    arena arena; /* of the value */
    void *value;
    uint64_t edits;
} pass_finding;
pass_finding *pass_shared_finding(weft_pass_context *pass);
/* The one of pending.h. */
pass_finding *pass_pending_finding(weft_pass_context *pass);

/* The rank whose program is made of a serial one; -1: that of all ranks, which must be equal then. A pass that asks
 * may make another program for each rank. */
int64_t pass_rank(const weft_pass_context *pass);
/* The same for a pass that says what its program depends on besides its rings: on where the rank stands along these
 * mesh axes (bits). PASS_TOLD_APART: on the rank. */
int64_t pass_rank_told(const weft_pass_context *pass);
#define PASS_TOLD_APART UINT32_MAX
void pass_tells_apart(const weft_pass_context *pass, uint32_t axes);
/* Whether the rank is the last along these axes is what its program depends on. */
void pass_tells_ends(const weft_pass_context *pass, uint32_t axes);
/* Where attrs that say where ranks stand can be noted, instead of telling ranks apart by them; NULL: nobody asks for
 * them, or passes follow that may look at them. */
rank_edits *pass_rank_edits(const weft_pass_context *pass);

/* What this run of the pass makes is not held against the program before, and why: as weft_pass.changes_meaning, for a
 * pass whose options decide. The words must outlive the report. */
void pass_changes_meaning(weft_pass_context *pass, const char *how);

/* Whether an option that is a number was given the word that it may be instead. */
bool pass_option_is_word(const weft_pass_context *pass, const char *option);

#define PASS(name, summary) extern const weft_pass pass_##name;
#include "passes/passes.def"
#undef PASS

/* --- the table of passes, in the context's slot ------------------------------------------------------------------- */

/* The value of one option. Strings are NUL-terminated copies. */
typedef struct option_value {
    bool given;
    bool b;
    int64_t i;
    double f;
    const char *s;
    const char *const *strings;
    size_t nstrings;
} option_value;

typedef struct registered_pass {
    weft_pass pass;               /* name and summary filled in from passes.def */
    const option_value *defaults; /* one an option */
} registered_pass;

/* Makes the table from passes.def; called by weft_context_create. */
WEFT_MUST_USE weft_status passes_register(weft_context *context);
const registered_pass *passes_find(weft_context *context, const char *name);
/* The registered name nearest to `name`, NULL if none is near. */
const char *passes_suggest(weft_context *context, const char *name);

/* --- options ------------------------------------------------------------------------------------------------------ */

/* Index of the option, or SIZE_MAX. */
size_t option_find(const weft_pass *pass, const char *name);
/* Reads `node` as a value of `option`; errors carry the node's line and column. */
WEFT_MUST_USE weft_status option_read(weft_context *context, const weft_pass *pass, const weft_option *option,
                                      const yaml_node *node, const char *place, arena *a, option_value *out);
/* The error for an unknown option: lists those there are. */
WEFT_MUST_USE weft_status option_unknown(weft_context *context, const weft_pass *pass, const yaml_node *key,
                                         const char *place);

/* --- pass lists --------------------------------------------------------------------------------------------------- */

typedef struct pass_entry {
    const weft_pass *pass;
    option_value *values;
} pass_entry;

struct weft_pass_list {
    weft_context *context;
    arena arena;
    pass_entry *entries;
    size_t count;
    weft_prove prove;
    bool certify;
};

/* --- reports ------------------------------------------------------------------------------------------------------ */

typedef struct named_count {
    const char *what;
    int64_t amount;
} named_count;

typedef struct left_alone {
    const weft_op *op;   /* only while the pass runs */
    const char *message; /* with the op's place in front once the pass is done */
    weft_reason reason;
} left_alone;

typedef struct pass_certificate pass_certificate;

typedef struct pass_report {
    const char *name;
    double seconds;
    size_t nops_before, nops_after;
    const char **did;
    size_t ndid, did_capacity;
    named_count *counts;
    size_t ncounts, count_capacity;
    left_alone *left;
    size_t nleft, left_capacity;
    const char *failure;     /* NULL: the pass succeeded */
    weft_equivalence *proof; /* NULL: not compared with the program before, */
    const char *not_proved;  /* and why not; NULL: nobody asked */
    double proof_seconds;
    pass_certificate *certificate; /* what the pass claims (certificate.h); NULL: nobody asked */
} pass_report;

struct weft_report {
    weft_context *context;
    arena arena; /* all text */
    pass_report *passes;
    size_t npasses;
    bool certified;                     /* claims were asked for: */
    char digest[PROGRAM_DIGEST_NBYTES]; /* of the first program, */
    int64_t *order;                     /* numbers of the last program's ops */
    size_t norder;
};

struct weft_pass_context {
    weft_context *context;
    const pass_entry *entry;
    weft_report *report;
    pass_report *out;
    pass_finding *shared, *pending_list;
    pass_certificate *certificate; /* where the pass claims (certificate.h); NULL: nobody asked */
    int64_t rank;
    struct pass_told *told;
    bool keeps_edits; /* passes behind it keep places */
    arena scratch;
};

/* What passes said of the programs of ranks. */
typedef struct pass_told {
    bool is_told;         /* they may differ: in rings, */
    uint32_t apart, ends; /* by pass_tells_apart and pass_tells_ends, */
    rank_edits *edits;    /* and in attrs; NULL: these are not asked for */
} pass_told;
/* A rank's program that communicates holds what others do not: an error, since no other rank's is made of it. */
WEFT_MUST_USE weft_status pass_check_all_ranks(const weft_program *program);
/* weft_pass_list_run_rank; `told` zeroed but for the edits. */
WEFT_MUST_USE weft_status pass_list_run_told(const weft_pass_list *list, weft_program *program, int64_t rank,
                                             pass_told *told, weft_report **out_report);
/* The first of two that is not NULL; the other one is freed. */
WEFT_MUST_USE weft_status pass_keep_first(weft_status first, weft_status second);

WEFT_MUST_USE weft_status report_create(weft_context *context, size_t max_passes, weft_report **out_report);
/* Puts the place of its op in front of every left-alone entry: O(ops + entries log entries). */
WEFT_MUST_USE weft_status report_place_left(weft_report *report, pass_report *of);

#endif
