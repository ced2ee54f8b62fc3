/* simulate.h: the structs behind weft/simulate.h, shared by the files of this folder. */
#ifndef SIMULATE_SIMULATE_H
#define SIMULATE_SIMULATE_H

#include "plan/cost.h"
#include "plan/rings.h"
#include "plan/timeline/timeline.h"
#include "plan/work.h"
#include "weft/simulate.h"

enum { SIM_NONE = -1 };

/* An access of an instruction to a range of leaves (races.c). */
typedef struct sim_access {
    int32_t instr, value;
    uint32_t first, end;
    bool is_write;
} sim_access;

/* What the ranks of one plan share. */
typedef struct sim_plan {
    const weft_plan *plan;
    plan_rings rings;
    int64_t *ns;            /* by instruction: what it takes; of a collective, from when the last member has come */
    sim_access *accesses;   /* instruction after instruction */
    uint32_t *first_access; /* by instruction, ninstrs + 1 */
    uint32_t *order;        /* instructions as the program has them */
    uint32_t nleaves;
    uint32_t *race_of; /* by instruction that came too early: its race + 1 */
} sim_plan;

/* One stream of one rank. */
typedef struct sim_stream {
    const timeline_lane *lane;
    trace_event *events;   /* of the step at hand; start -1: not begun */
    int64_t free_ns;       /* when its last instruction ends */
    uint32_t ndone;        /* instructions whose end is known */
    int32_t awaits;        /* the stream that the next one waits for, or SIM_NONE */
    struct sim_member *in; /* it is in a collective, send or receive that is not complete */
    int64_t peer;          /* index of the other member of a send or receive; SIM_NONE: it is a collective */
    bool is_send;
    bool ends;      /* its turn is the end of what is under way (contention.c), not a beginning */
    plan_work work; /* of the compute stream's instruction at hand */
    int64_t place;  /* of its turn in the heap; SIM_NONE: it has none */
} sim_stream;

/* A list of ranks that communicate, and who of them has come. */
typedef struct sim_ring {
    struct sim_ring *next; /* with the same hash */
    uint32_t hash;
    int64_t id;
    const int64_t *ranks;
    int nranks, ncome;
    sim_stream **come; /* by member, to a collective; NULL: not yet */
    /* With contention: a collective to which all have come, and the stream whose turn is its end. */
    bool is_moving;
    int nbusy; /* its members that compute meanwhile */
    sim_stream **moving, *ender;
    plan_work work;
} sim_ring;

/* A rank in one of its plan's rings. */
typedef struct sim_member {
    sim_ring *ring;
    int index;
    uint32_t nentered; /* collectives begun in this step */
} sim_member;

typedef struct sim_rank {
    int rank;
    sim_plan *plan;
    sim_stream *streams;
    sim_member *members; /* by ring of the plan */
    int64_t died_ns;     /* SIM_NONE: it lives */
    const plan_instr *died_at;
    bool computes; /* with contention: its compute stream is in an instruction */
    int nmoving;   /* and so many collectives move data on its other streams */
} sim_rank;

/* The next instruction of a stream and when it begins. */
typedef struct sim_turn {
    int64_t at_ns;
    uint32_t stream; /* of all ranks' */
} sim_turn;

typedef struct sim_race {
    const sim_plan *plan;
    int rank;
    uint64_t step;
    size_t count;
    uint32_t first, second; /* accesses of the plan */
    trace_event first_time, second_time;
} sim_race;

/* Of a range of leaves: the access that ends last. */
typedef struct sim_last {
    int64_t end_ns;
    uint32_t access;
} sim_last;

typedef struct sim_node {
    sim_last cover[2], below[2]; /* of reads, of writes: those of all its leaves, of any */
} sim_node;

struct weft_simulation {
    weft_context *context;
    arena arena;
    weft_simulation_options options;
    weft_cluster cluster;
    int nranks;
    sim_plan *plans;
    size_t nplans; /* 1, or nranks */
    sim_rank *ranks;
    sim_stream *streams; /* rank after rank */
    size_t nstreams;
    sim_ring **rings; /* by hash */
    size_t nring_slots;
    sim_turn *turns; /* a heap: the earliest first; one a stream at most */
    size_t nturns;
    bool contends; /* compute and collectives slow one another down, to these speeds */
    int64_t compute_speed, collective_speed;
    timeline timeline;
    uint64_t step;            /* number of the next one */
    int64_t start_ns, end_ns; /* of the step at hand; what was played so far ends then */
    bool has_failed;
    sim_node *nodes; /* for the plan with most leaves */
    sim_race *races;
    size_t nraces, race_capacity;
};

/* --- step.c ------------------------------------------------------------------------------------------------------- */
/* Plays one step into the timeline's slot. The status is of what makes no sense; ranks may be left waiting. */
WEFT_MUST_USE weft_status sim_play_step(weft_simulation *x);

/* --- turns.c ------------------------------------------------------------------------------------------------------- */
/* Puts a stream's turn into the heap, moves one that is there, and takes the earliest. */
void sim_put_turn(weft_simulation *x, sim_stream *s, int64_t at_ns);
void sim_move_turn(weft_simulation *x, sim_stream *s, int64_t at_ns);
sim_turn sim_take_turn(weft_simulation *x);

/* --- contention.c ------------------------------------------------------------------------------------------------- */
/* Compute takes so long at full speed; the caller ends the instruction at the turn. */
void sim_begin_compute(weft_simulation *x, sim_rank *rank, int64_t ns, int64_t now);
void sim_end_compute(weft_simulation *x, sim_rank *rank, int64_t now);
/* A collective to which all have come. Its members are in `moving` until the caller has ended their instructions. */
void sim_begin_moving(weft_simulation *x, sim_ring *r, sim_stream *last, int64_t ns, int64_t now);
void sim_end_moving(weft_simulation *x, sim_ring *r, int64_t now);

/* --- rings.c ------------------------------------------------------------------------------------------------------ */
/* Finds or makes the rings of a rank. */
WEFT_MUST_USE weft_status sim_join_rings(weft_simulation *x, sim_rank *rank);
/* A rank in the ring of an instruction. */
sim_member *sim_member_of(const sim_rank *rank, int64_t ring_id);

/* --- races.c ------------------------------------------------------------------------------------------------------ */
WEFT_MUST_USE weft_status sim_find_accesses(weft_simulation *x, sim_plan *plan);
WEFT_MUST_USE weft_status sim_make_nodes(weft_simulation *x);
/* Looks at the step that was just played. */
WEFT_MUST_USE weft_status sim_find_races(weft_simulation *x);

/* --- stuck.c ------------------------------------------------------------------------------------------------------ */
/* NULL where all ranks have ended the step; else who died and who waits for whom. */
WEFT_MUST_USE weft_status sim_check_end(const weft_simulation *x);

#endif
