/* certificate.h: what a pass claims to have done, for a checker that shares nothing with it (docs/certificates.md).
 *
 * A claim costs one test where nobody asked for a certificate. Ops that were moved, inserted and removed are found by
 * the manager, which compares the block before and after. */
#ifndef PASSES_CERTIFICATE_H
#define PASSES_CERTIFICATE_H

#include "passes/pass_manager.h"
#include "program/digest.h"

/* One claim; which members count is said beside each. */
typedef enum claim_kind {
    CLAIM_RANKS,  /* the program becomes one of `count` ranks' on `ring`; text: mean or sum */
    CLAIM_FEED,   /* var is fed; text: rows (a rank gets its part) or whole */
    CLAIM_REDUCE, /* the ranks' values of var are joined by op, after other wrote it, times factor */
    CLAIM_DENSE,  /* op makes dense gradients now */
    CLAIM_SEED,   /* op fills in its number times factor */
    CLAIM_FACTOR, /* factor of var, by op, went to other; text: seed or bucket */
    CLAIM_SLICE,  /* var is `nbytes` bytes from `offset` of `buffer`, which op makes */
    CLAIM_MEMBER, /* what other's reduce gave in var is now what op's gives in `to`; members of one op in order */
    CLAIM_STREAM, /* op is on stream `text` */
    CLAIM_WAIT,   /* op waits for what other left pending */
    CLAIM_SAME,   /* op, which is removed, gave what other gives */
    CLAIM_GATHER, /* slot `text` of other gets var of all ranks, which op gathers (or adds up), times factor */
    CLAIM_FILL,   /* op fills in its number for a rank's rows of var */
    CLAIM_WEIGHT, /* op makes the weight of a rank's rows of var, a feed */
    CLAIM_WEIGH,  /* var is weighed by op, after other: its reduce comes next, or nothing reads it but who fetches it */
    CLAIM_COUNT
} claim_kind;

typedef struct pass_claim {
    claim_kind kind;
    const weft_op *op, *other;
    const weft_var *var, *to, *buffer;
    const char *text;
    int64_t offset, nbytes, ring, count;
    double factor;
} pass_claim;

/* A claim as it is kept: names are the report's. */
typedef struct kept_claim {
    pass_claim claim;
    const char *var, *to, *buffer;
    int64_t op, other;
} kept_claim;

typedef struct number_list {
    int64_t *items;
    size_t count;
} number_list;

struct pass_certificate {
    kept_claim *claims;
    size_t nclaims, claim_capacity;
    bool claims_all; /* the pass says all that it does */
    char before[PROGRAM_DIGEST_NBYTES], after[PROGRAM_DIGEST_NBYTES];
    number_list inserted, removed, moved;
    const char **types; /* of the inserted */
    const char *plan;   /* of buckets, as JSON; NULL: none */
};

static inline bool pass_certifies(const weft_pass_context *pass) {
    return pass->certificate != NULL;
}
/* The pass gives no certificate: the checker cannot follow what it does. */
static inline void pass_claims_nothing(const weft_pass_context *pass) {
    if (pass->certificate) pass->certificate->claims_all = false;
}
/* Writes a claim down; nothing where nobody asked. Ops may be inserted or removed later in the same pass. */
WEFT_MUST_USE weft_status pass_claim_add(weft_pass_context *pass, pass_claim claim);
/* Puts a bucket plan (JSON) into the certificate of the pass. */
WEFT_MUST_USE weft_status pass_claim_plan(weft_pass_context *pass, const char *json, size_t nbytes);

/* --- for the manager ---------------------------------------------------------------------------------------------- */

/* Numbers of the ops of block 0: those of the first program count from 0, new ones on from there. */
typedef struct certifier {
    bool on;
    arena arena;
    const weft_op **known; /* by number */
    size_t nknown, known_capacity;
    hash_table table; /* numbers, by the op's address */
    int64_t *order;   /* numbers, in the block's order */
    size_t nops;
    char digest[PROGRAM_DIGEST_NBYTES];
} certifier;

WEFT_MUST_USE weft_status certifier_begin(certifier *c, const weft_pass_list *list, const weft_program *p,
                                          weft_report *report);
void certifier_end(certifier *c);
/* Gives the pass a place to claim; NULL where nobody asked, or the pass gives no certificate. */
WEFT_MUST_USE weft_status certificate_begin(const certifier *c, const weft_pass *pass, weft_report *report,
                                            pass_report *out);
/* What the pass did to the ops of block 0. */
WEFT_MUST_USE weft_status certificate_end(certifier *c, const weft_program *p, weft_report *report, pass_report *out);

#endif
