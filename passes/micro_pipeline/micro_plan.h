/* micro_plan.h: what each rank of a ring does, step by step, to multiply some rows while others are sent.
 *
 * A plan is a table. Ranks are members of the ring, chunks a rank's rows in `nsub` pieces, numbered from member 0's
 * first piece on. The steps of one stream run in order; a step begins when those that it waits for are done. The n-th
 * message of one member to another is the n-th that this one receives.
 *
 *   gather   Step s sends the own rows to member r - s. It receives those of member r + s and multiplies them. The
 *            own rows are multiplied first, while the first messages are under way. Products that are parts of a sum
 *            are added up as rows come.
 *   scatter  Step s multiplies the rows of member r - s, the farthest one first, and sends the sums to it. Those of
 *            member r + s are received and added up. The own rows come last.
 *            An all-to-all's are not added up: each product comes to where it stays.
 *   reduce   All rows in `nsub` pieces: each is multiplied, and reduced on all members while the next one is.
 *            If it is scattered, it is a scatter of each member's rows, piece by piece. The sums of a piece go to all
 *            members while the next one is multiplied.
 *
 * With `both_ways` a step sends to and receives from members on both sides, on streams and lanes of their own. So there
 * are half as many steps. Of an even number of members the farthest one gets its pieces by both ways in turn.
 *
 * A rank runs what it has on one ring in order. So messages go on lanes: rings of those members that use them. No rank
 * sends and receives on one lane in one step. For that, members of a step form circles along which lanes alternate (a
 * third one closes circles of odd length).
 *
 * Products go out from one of two buffers, for each way. The first that comes is where the sum is formed, unless that
 * is of a wider type; others come to one of two buffers, or, where sums are formed in the order of ranks, each to one
 * of its own. Sources: pytorch.md 4.2 to 4.4 (and the two missing barriers there), Syncopate (arXiv:2601.20595). */
#ifndef PASSES_MICRO_PIPELINE_MICRO_PLAN_H
#define PASSES_MICRO_PIPELINE_MICRO_PLAN_H

#include "passes/micro_pipeline/micro.h"

typedef enum chunk_action {
    CHUNK_MULTIPLY,
    CHUNK_SEND,
    CHUNK_RECEIVE,
    CHUNK_ADD,
    CHUNK_KEEP,
    CHUNK_ACCUMULATE,
    CHUNK_REDUCE,
    CHUNK_ACTIONS
} chunk_action;
typedef enum chunk_stream {
    CHUNK_COMPUTE,
    CHUNK_SENDS,
    CHUNK_RECEIVES,
    CHUNK_SUMS,
    CHUNK_SENDS_BACK,
    CHUNK_RECEIVES_BACK,
    CHUNK_STREAMS
} chunk_stream;
typedef enum chunk_space {
    CHUNK_OWN,      /* the rank's own rows: of a scatter or an all-to-all those of all members */
    CHUNK_ROWS,     /* gather: rows that came, by chunk; or in one of two buffers, where they are not kept */
    CHUNK_RESULTS,  /* products by chunk; of a scatter the rank's sums by piece */
    CHUNK_OUTGOING, /* scatter: products that are sent */
    CHUNK_INCOMING, /* scatter: sums that came */
    CHUNK_TOTALS,   /* gather: sums of products, by piece; the first that is added begins one. reduce: wider sums */
    CHUNK_SPACES
} chunk_space;

enum { CHUNK_WAITS = CHUNK_STREAMS - 1 };

typedef struct chunk_step {
    uint8_t action, stream;
    uint8_t from, to; /* spaces that it reads and writes; CHUNK_SPACES: none */
    int32_t chunk;
    int32_t peer, lane;          /* of messages; else -1 */
    int32_t from_buffer, buffer; /* which of the space */
    int32_t waits[CHUNK_WAITS];  /* numbers of steps */
    int32_t nwaits;
    int32_t seen[CHUNK_STREAMS]; /* while it is made: 1 + the last step of each stream that is done when this one is */
    bool signals;                /* a step of another stream waits for it */
} chunk_step;

typedef struct chunk_plan {
    micro_kind kind;
    int nranks, member, nsub;
    bool in_rank_order, keeps_rows;
    bool both_ways;    /* of more than two members */
    bool is_scattered; /* reduce: results are sums by chunk, of which a member forms its own */
    bool exchanges;    /* an all-to-all: own rows are of all members, and nothing is added up */
    bool widens;       /* scatter: sums are of a wider type than products, so that what begins one is converted */
    bool is_proved;    /* with those of all members */
    bool multiplies, accumulates; /* gather: products of rows; products that are added up */
    int nturns;                   /* buffers that take one piece after another: two for each way */
    int nbuffers;                 /* of CHUNK_INCOMING; of CHUNK_ROWS, 0: one for each chunk */
    chunk_step *steps;
    size_t count, capacity;
    int32_t last[CHUNK_STREAMS]; /* while it is made: 1 + the last step of each stream; 0: none */
} chunk_plan;

WEFT_MUST_USE weft_status chunk_plan_make(arena *a, const chunk_plan *asked, chunk_plan *out);

/* --- micro_hops.c ------------------------------------------------------------------------------------------------- */

/* The lane of what a member sends to the member s before it; `back`: by the other way round. */
int chunk_lane(int nranks, int from, int s, bool back);
/* What the t-th message that goes out and the t-th that comes have in common, and where they go. */
typedef struct chunk_hop {
    int32_t sub; /* the piece */
    int32_t to, from, to_lane, from_lane;
    bool back;
    bool is_first; /* the first of its piece that comes */
} chunk_hop;
chunk_hop chunk_find_hop(const chunk_plan *p, int32_t t);
/* Steps of a plan that is made; what a step waits for. */
WEFT_MUST_USE weft_status chunk_plan_add(chunk_plan *p, arena *a, const chunk_step *step, int32_t *out);
WEFT_MUST_USE weft_status chunk_plan_send(chunk_plan *p, arena *a, const chunk_hop *h, int32_t chunk, chunk_space from,
                                          int32_t from_buffer, int32_t *out);
WEFT_MUST_USE weft_status chunk_plan_receive(chunk_plan *p, arena *a, const chunk_hop *h, int32_t chunk, chunk_space to,
                                             int32_t to_buffer, int32_t *out);
void chunk_plan_wait(chunk_plan *p, int32_t step, int32_t by);
/* micro_sums.c: all but a gather's. */
WEFT_MUST_USE weft_status chunk_plan_make_sums(chunk_plan *p, arena *a);

/* micro_chunks.c: a pair's plan. All pairs of a kind share its steps. */
WEFT_MUST_USE weft_status micro_find_plan(micro_pass *m, const micro_pair *p, int member, chunk_plan *out);

/* The table as text, a line a step, after the words in `label`. */
void chunk_plan_print(const chunk_plan *plan, const char *label, buffer *out);

/* micro_proof.c: whether the plans of all members, run as they say, end and leave in each buffer what it is to hold:
 * each gathered chunk and product once, or all members' sums. Two steps that touch a buffer are ordered by streams,
 * waits and messages, if one of them writes it. What is wrong is told in `out_message`; NULL: nothing. */
WEFT_MUST_USE weft_status chunk_plans_prove(arena *a, const chunk_plan *plans, const char **out_message);

#endif
