/* weft/equivalent.h: whether two programs compute the same.
 *
 * What leaves a program is compared: persistables after the step, fetched values, losses, what it sends. Each is a
 * symbolic term over the persistables and feeds at the start of the step. Nothing is executed. docs/equivalence.md has
 * the rules. */
#ifndef WEFT_EQUIVALENT_H
#define WEFT_EQUIVALENT_H

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_grade {
    WEFT_SAME_BITS,   /* equal bit for bit */
    WEFT_SAME_REALS,  /* equal over the real numbers: rounding may differ */
    WEFT_SAME_RANGE,  /* the same, but numbers on the way have another size. fp16 may overflow or underflow where it did
                         not. A check for infinities may find other ones */
    WEFT_SAME_IF,     /* equal under a condition that the programs do not state (weft_equivalent_to_serial) */
    WEFT_NOT_PROVED,  /* they differ, or no rule shows that they do not */
    WEFT_NOT_CHECKED, /* of a pass that changes the meaning on purpose, or a list that does not ask */
    WEFT_GRADE_COUNT
} weft_grade;
/* "same bits", ...; static. */
const char *weft_grade_name(weft_grade grade);

/* What a finding of grade WEFT_NOT_PROVED says. */
typedef enum weft_difference {
    WEFT_DIFFERENCE_NONE,      /* the finding has another grade */
    WEFT_DIFFERENCE_UNKNOWN,   /* no rule tells */
    WEFT_DIFFERENCE_SUSPECTED, /* terms differ, and nobody has shown values that do */
    WEFT_DIFFERENCE_SHOWN      /* values differ: the message says which */
} weft_difference;

/* Which of these vars does the serial program leave with other values than the ranks? Programs as in
 * weft_equivalent_to_serial. Of weft_equivalent_ranks, `serial` is NULL: which vars does a rank leave with other values
 * than it did before? */
typedef struct weft_witness_question {
    const weft_program *serial;
    const weft_program *const *programs;
    size_t nprograms;
    int64_t nranks;
    const char *const *vars;
    size_t nvars;
    const weft_program *const *before; /* what ranks ran before: one program for all, or one each */
    size_t nbefore;
    const int64_t *var_ranks; /* then: whose each var is */
} weft_witness_question;

typedef struct weft_witness_answer { /* of one var; zeroed before it is asked for */
    bool differs;
    int64_t rank; /* whose value it is; -1: the mean over ranks, or their parts put together */
    int64_t element;
    double expected, found;
} weft_witness_answer;

/* Answers for each var. Where it cannot compute them it leaves the answers as they are, and says why in `out_reason`.
 * weft/witness.h has one. */
enum { WEFT_WITNESS_REASON = 256 };
typedef weft_status (*weft_witness)(void *data, const weft_witness_question *question, weft_witness_answer *answers,
                                    char out_reason[WEFT_WITNESS_REASON]);

typedef struct weft_equivalence_options {
    size_t struct_nbytes;       /* weft/status.h: begin with WEFT_EQUIVALENCE_OPTIONS_INIT */
    const char *const *fetches; /* names of vars that leave the programs too */
    size_t nfetches;
    int64_t nranks; /* weft_equivalent_to_serial with one program: ranks that run it; 0: its data-parallel ring's */
    /* weft_equivalent_to_serial: rows of the whole batch, where feeds leave them open (-1). 0: any number that divides
     * by the ranks. */
    int64_t batch;
    /* weft_equivalent_to_serial and weft_equivalent_ranks ask it once about all vars whose terms differ. NULL: they
     * stay suspected. */
    weft_witness witness;
    void *witness_data;
} weft_equivalence_options;
#define WEFT_EQUIVALENCE_OPTIONS_INIT .struct_nbytes = sizeof(weft_equivalence_options)

/* A verdict: the worst grade, and every value that is not the same bit for bit. */
typedef struct weft_equivalence weft_equivalence;

/* Compares `after` with `before`. Programs are only read. `options` may be NULL. The caller destroys the verdict; a
 * difference is no error. Linear in the programs. */
WEFT_MUST_USE weft_status weft_equivalent(const weft_program *before, const weft_program *after,
                                          const weft_equivalence_options *options, weft_equivalence **out_verdict);

/* Compares ranks' programs, which split batches, sequences or parameters evenly along axes of their mesh, with the
 * serial program. Program i is rank i's; one program is every rank's. State must be equal to the serial one, or to its
 * part where it began as a part, on every rank that has it. Of a fetched value or a loss the mean over the ranks must
 * be equal, or their parts put together. At most 64 ranks. */
WEFT_MUST_USE weft_status weft_equivalent_to_serial(const weft_program *serial, const weft_program *const *programs,
                                                    size_t nprograms, const weft_equivalence_options *options,
                                                    weft_equivalence **out_verdict);

/* Compares what each rank leaves behind, before and after a change to programs that talk to each other. One program is
 * every rank's, else program i is rank i's; which ranks hold which numbers at the start is the same before and after.
 * The n-th collective on a ring is one for all of its members. The n-th message of one member to another is what this
 * one receives. So rows that are sent and multiplied in pieces are held against a gather and its product. At most 64
 * ranks. `options->nranks` counts where both sides are one program; 0: as many as its rings name. */
WEFT_MUST_USE weft_status weft_equivalent_ranks(const weft_program *const *before, size_t nbefore,
                                                const weft_program *const *after, size_t nafter,
                                                const weft_equivalence_options *options,
                                                weft_equivalence **out_verdict);

void weft_equivalence_destroy(weft_equivalence *verdict);
weft_grade weft_equivalence_grade(const weft_equivalence *verdict);
size_t weft_equivalence_nvalues(const weft_equivalence *verdict); /* how many were compared */
/* Those that are not equal bit for bit, the worst first. Each says which var it is and how it fares, and for
 * WEFT_NOT_PROVED the smallest sub-terms that differ ("expected ..., found ..."). Borrowed. */
size_t weft_equivalence_nfindings(const weft_equivalence *verdict);
const char *weft_equivalence_finding(const weft_equivalence *verdict, size_t index, weft_grade *out_grade,
                                     const char **out_message);
/* What finding `index` says of values. */
weft_difference weft_equivalence_difference(const weft_equivalence *verdict, size_t index);

#ifdef __cplusplus
}
#endif
#endif
