/* members.h: who is on rings: each list of members once, and ranks that no question about rings tells apart. */
#ifndef PROOF_MEMBERS_H
#define PROOF_MEMBERS_H

#include "program/ir.h"
#include "proof/mixture.h"

/* Ranks of one class, with the same rings of the same members. */
typedef struct party {
    uint32_t class, rings;
    int64_t first_rank;
    size_t nranks;
} party;

/* Of a list: members of a party. */
typedef struct attendance {
    uint32_t party;
    uint32_t count;
    int64_t first; /* the first of them in the list */
} attendance;

typedef struct member_list {
    const int64_t *ranks;
    size_t count;
    attendance *parties; /* in order of their first members; made when first asked for */
    size_t nparties;
    size_t nabsent;  /* members that are no rank whose program was given */
    bool is_uniform; /* the programs of all parties have the same rings */
    bool is_agreed;  /* the answer to who asked last, of ring `asked` */
    int64_t asked;
} member_list;

/* The lists of members of all programs: equal lists have one number. */
typedef struct member_lists {
    arena *arena;
    member_list *items;
    size_t count, capacity;
    hash_table table; /* of them */
    mixture *known;   /* rings of programs, by number */
    size_t nknown, known_capacity;
    hash_table known_table;
} member_lists;

/* The rings of a program. */
typedef struct program_rings {
    uint32_t *list_of; /* by place in the program: the number of its list */
    uint32_t number;   /* equal numbers: the same rings of the same members */
} program_rings;

void member_lists_init(member_lists *m, arena *a);
WEFT_MUST_USE weft_status member_lists_add(member_lists *m, const weft_program *p, program_rings *out);

typedef struct rank_parties {
    member_lists *lists;
    const weft_program *const *programs; /* by rank */
    const program_rings *rings_of;       /* by rank */
    int64_t nranks;
    uint32_t *party_of; /* by rank; UINT32_MAX: not given */
    party *items;
    size_t count;
    uint32_t *met; /* by party: scratch */
} rank_parties;

/* Programs, classes (UINT32_MAX: not given) and rings by rank. Parties of an earlier call are forgotten. */
WEFT_MUST_USE weft_status parties_find(member_lists *lists, const weft_program *const *programs,
                                       const uint32_t *class_of, const program_rings *rings_of, int64_t nranks,
                                       arena *a, rank_parties *out);
/* The list of a ring as a party knows it, with its parties; NULL where its program does not say: all ranks. */
WEFT_MUST_USE weft_status parties_at(rank_parties *p, uint32_t of_party, int64_t ring_id, member_list **out);
/* Whether the programs of all members were given, and say that these are the ring's. */
bool parties_agree(const rank_parties *p, member_list *list, int64_t ring_id);

#endif
