/* weft/pass.h: passes, lists of passes in YAML, and reports of what they did. */
#ifndef WEFT_PASS_H
#define WEFT_PASS_H

#include "weft/equivalent.h"
#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_pass_list weft_pass_list;
typedef struct weft_report weft_report;
/* What a running pass is given: its options, where to report, scratch memory. */
typedef struct weft_pass_context weft_pass_context;

typedef enum weft_option_type {
    WEFT_OPTION_BOOL,
    WEFT_OPTION_INT,
    WEFT_OPTION_FLOAT,
    WEFT_OPTION_STRING,
    WEFT_OPTION_STRINGS /* a YAML sequence of strings */
} weft_option_type;

/* One option of a pass. `default_value` is the default, as it would be written in YAML; `choices` ("flush|cap") limits
 * a string; NULL: any. To a number it adds words that may be given instead. */
typedef struct weft_option {
    const char *name;
    weft_option_type type;
    const char *default_value;
    const char *choices;
    const char *summary;
} weft_option;

/* A pass. It analyses, decides, then edits: a pass that returns a status must have left the program unchanged. */
typedef struct weft_pass {
    const char *name;
    const char *summary;
    const weft_option *options;
    size_t noptions;
    weft_status (*run)(weft_pass_context *pass, weft_program *program, void *user);
    void *user;
    const char *changes_meaning; /* NULL: the program computes what it did, which can be proved; else how it does not */
    /* Some attrs say which part of a value a rank has: bounds of slices and pads, rows of tables. The pass neither
     * looks at these, nor copies ops that have them. Ranks whose programs differ in no more share what it makes. */
    bool keeps_places;
} weft_pass;

/* Adds a host's pass to the context's table; the struct and its strings must outlive the context. */
WEFT_MUST_USE weft_status weft_pass_register(weft_context *context, const weft_pass *pass);
size_t weft_pass_count(weft_context *context);
const weft_pass *weft_pass_at(weft_context *context, size_t index);
const weft_pass *weft_pass_find(weft_context *context, const char *name);

/* Why a candidate was left alone. */
typedef enum weft_reason {
    WEFT_REASON_DEPENDENCY, /* another access stands between */
    WEFT_REASON_DTYPE,
    WEFT_REASON_RING,
    WEFT_REASON_LIMIT, /* a size limit or cap */
    WEFT_REASON_ROLE,
    WEFT_REASON_IN_USE, /* the value is read, written or aliased in another way */
    WEFT_REASON_SHAPE,  /* shape or container not known or not dense */
    WEFT_REASON_SCALE,  /* factors differ or cannot be folded */
    WEFT_REASON_MESH,
    WEFT_REASON_NOTHING, /* nothing to do here */
    WEFT_REASON_COUNT
} weft_reason;
const char *weft_reason_name(weft_reason reason);

/* For passes: options by name (must be declared), and reporting. */
bool weft_pass_option_bool(const weft_pass_context *pass, const char *name);
int64_t weft_pass_option_int(const weft_pass_context *pass, const char *name);
double weft_pass_option_float(const weft_pass_context *pass, const char *name);
const char *weft_pass_option_string(const weft_pass_context *pass, const char *name); /* "" if empty */
size_t weft_pass_option_strings(const weft_pass_context *pass, const char *name, const char *const **out_values);
/* Whether the pass list or --set gave this option a value. */
bool weft_pass_option_given(const weft_pass_context *pass, const char *name);
/* Zeroed scratch memory, aligned for any type, that goes when `run` returns; NULL: there is none left. */
void *weft_pass_alloc(weft_pass_context *pass, size_t nbytes);
/* One line of what was done; a named count ("scales removed"); a candidate left alone and why. */
WEFT_MUST_USE weft_status weft_pass_did(weft_pass_context *pass, const char *format, ...) WEFT_PRINTF(2, 3);
WEFT_MUST_USE weft_status weft_pass_count_add(weft_pass_context *pass, const char *what, int64_t amount);
WEFT_MUST_USE weft_status weft_pass_left(weft_pass_context *pass, const weft_op *op, weft_reason reason,
                                         const char *format, ...) WEFT_PRINTF(4, 5);
/* A refusal to be returned from run; names the pass. */
WEFT_MUST_USE weft_status weft_pass_refuse(weft_pass_context *pass, const char *format, ...) WEFT_PRINTF(2, 3);

/* Parses a pass list: YAML text ("passes: [...]", or the short form "a, b: {k: v}"). Unknown passes, unknown or
 * repeated options and values of the wrong type are errors with line and column. */
WEFT_MUST_USE weft_status weft_pass_list_parse(weft_context *context, const char *yaml, size_t nbytes,
                                               const char *place, weft_pass_list **out_list);
/* Overrides one option: "PASS.KEY=VALUE". */
WEFT_MUST_USE weft_status weft_pass_list_set(weft_pass_list *list, const char *assignment);
void weft_pass_list_destroy(weft_pass_list *list);
size_t weft_pass_list_count(const weft_pass_list *list);

/* Whether each pass's program is compared with the one before it (weft/equivalent.h). Not at all; with the verdict in
 * the report; or so that a list fails whose pass is not proved. The key `prove: off | report | require` of a pass list
 * says it too. Comparing takes longer than the passes themselves: the library does it where it is asked to, the command
 * unless the list turns that off. */
typedef enum weft_prove { WEFT_PROVE_UNSET, WEFT_PROVE_OFF, WEFT_PROVE_REPORT, WEFT_PROVE_REQUIRE } weft_prove;
weft_prove weft_pass_list_prove(const weft_pass_list *list);
void weft_pass_list_set_prove(weft_pass_list *list, weft_prove how);

/* Runs the passes in order, the structural verifier after each. Stops at the first status; passes before it stay
 * applied, the refusing one left the program as it was. `out_report` (may be NULL) is set also then. */
WEFT_MUST_USE weft_status weft_pass_list_run(const weft_pass_list *list, weft_program *program,
                                             weft_report **out_report);

/* The same for the program of one rank of the program's meshes, where a pass tells ranks apart (spmd_partition,
 * spmd_expand); -1: for that of all ranks, which must be equal then, or of the rank that the program is of.
 * WEFT_REFUSED: the program is another rank's, and communicates. */
WEFT_MUST_USE weft_status weft_pass_list_run_rank(const weft_pass_list *list, weft_program *program, int64_t rank,
                                                  weft_report **out_report);

/* The programs of all ranks, made of a serial one. */
typedef struct weft_rank_programs weft_rank_programs;
/* Makes the programs of all ranks of the program's meshes and rings, or of those that the list makes; `program` stays
 * as it is; one of a single rank, that communicates, is refused (WEFT_REFUSED). The list is run over a copy for the
 * first rank, and for each further one whose program may have other ops. Attrs that say where a rank stands are no
 * other ops where the pass that writes them ends the list. Ranks whose programs are equal share one. A list without a
 * pass that tells ranks apart (spmd_partition, spmd_expand, hierarchical_all_reduce) makes one for all. The reports are
 * those of the first rank: `out_report` may be NULL. Cost: weft_rank_programs_made times weft_pass_list_run. */
WEFT_MUST_USE weft_status weft_pass_list_run_ranks(const weft_pass_list *list, const weft_program *program,
                                                   weft_rank_programs **out_programs, weft_report **out_report);
size_t weft_rank_programs_count(const weft_rank_programs *programs);
/* How often the list was run: programs that differ in more than the ranks of their rings. */
size_t weft_rank_programs_made(const weft_rank_programs *programs);
/* Borrowed; NULL: no such rank, or no memory. Ranks that share a program get the same pointer. The first call for one
 * that differs from another in rings or attrs copies that. From one thread at a time. */
weft_program *weft_rank_programs_at(const weft_rank_programs *programs, size_t rank);
/* weft_program_save of a rank's program, without a copy of it. Writes to shared programs: from one thread at a time. */
WEFT_MUST_USE weft_status weft_rank_programs_save(const weft_rank_programs *programs, size_t rank, const char *path);
void weft_rank_programs_destroy(weft_rank_programs *programs);

void weft_report_destroy(weft_report *report);
/* Text for people: per pass time, ops before and after, counts, what it did, what it left alone and why. `verbose`
 * lists every candidate left alone; else equal reasons are counted. The caller owns the bytes. */
WEFT_MUST_USE weft_status weft_report_print(const weft_report *report, bool verbose, char **out_bytes,
                                            size_t *out_nbytes);
/* The same as JSON, each candidate left alone included: docs/json.md. The caller owns the bytes. */
WEFT_MUST_USE weft_status weft_report_json(const weft_report *report, char **out_bytes, size_t *out_nbytes);
size_t weft_report_npasses(const weft_report *report);
/* The count that pass `pass_index` reported under `what`; 0 if it did not. */
int64_t weft_report_count(const weft_report *report, size_t pass_index, const char *what);
const char *weft_report_pass_name(const weft_report *report, size_t pass_index);
size_t weft_report_nops_before(const weft_report *report, size_t pass_index);
size_t weft_report_nops_after(const weft_report *report, size_t pass_index);
double weft_report_seconds(const weft_report *report, size_t pass_index);
/* How that pass's program compares with the one before; NULL: not compared. Borrowed. */
const weft_equivalence *weft_report_equivalence(const weft_report *report, size_t pass_index);
/* Candidates that pass left alone: reason and message. */
size_t weft_report_nleft(const weft_report *report, size_t pass_index);
weft_reason weft_report_left(const weft_report *report, size_t pass_index, size_t index, const char **out_message);

#ifdef __cplusplus
}
#endif
#endif
