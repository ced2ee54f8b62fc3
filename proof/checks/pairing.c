/* pairing.c: what the members of a ring issue on it, compared.
 *
 * Ranks with equal programs issue equal sequences, so each pair of classes is compared once a ring; and the members
 * must agree on who they are. */
#include "proof/checks/pairing.h"
#include "proof/checks/checks.h"

/* Whether these two classes still have to be compared on that ring. */
static weft_status is_first(pairing *p, uint32_t a_class, uint32_t b_class, const ring_sequence *list, bool *out) {
    size_t sequence = list ? (size_t)(list - p->a->sequences) : 0;
    return key_set_add(p->arena, &p->seen, ((uint64_t)a_class << 42 | (uint64_t)b_class << 22 | sequence) + 1, out);
}

static weft_status report_ranks_differ(pairing *p, int64_t rank, int64_t other) {
    weft_finding *found;
    const ring_sequence *list = p->a_list;
    TRY(finding_add(p->findings, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = p->ring;
    TRY(finding_op(p->findings, found, p->a->schedule, sequence_at(p->a, list, 0)->event, rank, "communicates"));
    return finding_says(p->findings, &found->message,
                        "ring %lld: ranks %lld and %lld do not agree on the list of its ranks", (long long)p->ring,
                        (long long)rank, (long long)other);
}

static weft_status report_stranger(pairing *p, int64_t rank) {
    weft_finding *found;
    char message[256];
    TRY(finding_add(p->findings, WEFT_VERDICT_INVALID_PROGRAM, &found));
    if (!found) return NULL;
    found->ring = p->ring;
    TRY(finding_op(p->findings, found, p->a->schedule, sequence_at(p->a, p->a_list, 0)->event, rank, "communicates"));
    return finding_says(
        p->findings, &found->message, "%s on rank %lld communicates on ring %lld, which rank %lld is not in",
        finding_op_text(&found->ops[0], message, sizeof message), (long long)rank, (long long)p->ring, (long long)rank);
}

/* Lists of members that were found equal: ranks with one program have one list. */
typedef struct equal_lists {
    const int64_t *lists[16];
    size_t count;
} equal_lists;

static bool is_equal_list(equal_lists *known, const int64_t *members, const int64_t *theirs, size_t count) {
    for (size_t i = 0; i < known->count && i < 16; i++)
        if (known->lists[i] == theirs) return true;
    if (theirs != members && memcmp(theirs, members, count * sizeof *members) != 0) return false;
    known->lists[known->count++ % 16] = theirs;
    return true;
}

/* Compares `rank`, the first member of the ring, with the others. */
static weft_status compare_members(pairing *p, int64_t rank, const int64_t *members, size_t count) {
    const proof_ranks *r = p->ranks;
    equal_lists known = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        int64_t other = members[i];
        if (other == rank) continue;
        if (other < 0 || other >= r->nranks || r->class_of[other] == PROOF_NONE) {
            TRY(findings_add_note(p->findings,
                                  "ring %lld: the program of rank %lld was not given, so it is not compared",
                                  (long long)p->ring, (long long)other));
            continue;
        }
        size_t ntheirs;
        const int64_t *theirs = ring_members(r, other, p->ring, &ntheirs);
        if (ntheirs != count || !is_equal_list(&known, members, theirs, count)) {
            TRY(report_ranks_differ(p, rank, other));
            continue;
        }
        bool is_new = false;
        p->b = &r->classes[r->class_of[other]];
        TRY(is_first(p, r->class_of[rank], r->class_of[other], p->a_list, &is_new));
        if (!is_new || p->a == p->b) continue;
        const ring_sequence *list = p->a_list;
        p->a_rank = rank;
        p->b_rank = other;
        p->b_list = sequences_find(p->b, p->ring);
        TRY(pairing_compare(p));
        p->a_list = list;
    }
    return NULL;
}

/* The same where all members were given and agree on the list: the first of each party speaks for it. */
static weft_status compare_parties(pairing *p, int64_t rank, const member_list *members) {
    const proof_ranks *r = p->ranks;
    for (size_t i = 0; i < members->nparties; i++) {
        uint32_t class = r->parties->items[members->parties[i].party].class;
        bool is_new = false;
        p->b = &r->classes[class];
        if (p->a == p->b) continue;
        TRY(is_first(p, r->class_of[rank], class, p->a_list, &is_new));
        if (!is_new) continue;
        const ring_sequence *list = p->a_list;
        p->a_rank = rank;
        p->b_rank = members->parties[i].first;
        p->b_list = sequences_find(p->b, p->ring);
        TRY(pairing_compare(p));
        p->a_list = list;
    }
    return NULL;
}

static bool is_member(const int64_t *members, size_t count, int64_t rank) {
    if ((size_t)rank < count && members[rank] == rank) return true; /* a ring of all ranks */
    for (size_t i = 0; i < count; i++)
        if (members[i] == rank) return true;
    return false;
}

/* The first member that was given compares; a ring that only later members use is compared by the first of those. */
static int64_t find_speaker(const proof_ranks *r, int64_t rank, int64_t ring_id, const int64_t *members, size_t count) {
    size_t first = 0;
    while (first < count && members[first] != rank &&
           (members[first] < 0 || members[first] >= r->nranks || r->class_of[members[first]] == PROOF_NONE ||
            !sequences_find(&r->classes[r->class_of[members[first]]], ring_id)))
        first++;
    return first < count ? members[first] : -1;
}

/* Whether `rank` knows other members than the one that speaks for them, which does not speak to it: two ranks may each
 * take the other for the first. */
static bool is_unheard(const pairing *p, int64_t rank, int64_t speaker, const int64_t *members, size_t count) {
    const proof_ranks *r = p->ranks;
    size_t ntheirs;
    if (speaker < 0 || speaker == rank) return false;
    const int64_t *theirs = ring_members(r, speaker, p->ring, &ntheirs);
    if (ntheirs == count && (theirs == members || memcmp(theirs, members, count * sizeof *members) == 0)) return false;
    return !is_member(theirs, ntheirs, rank) || find_speaker(r, speaker, p->ring, theirs, ntheirs) != speaker;
}

static weft_status compare_rank(pairing *p, int64_t rank) {
    const proof_ranks *r = p->ranks;
    p->a = &r->classes[r->class_of[rank]];
    for (size_t i = 0; i < p->a->nsequences; i++) {
        size_t count;
        p->a_list = &p->a->sequences[i];
        p->ring = p->a_list->ring;
        const int64_t *members = ring_members(r, rank, p->ring, &count);
        if (!is_member(members, count, rank)) {
            TRY(report_stranger(p, rank));
            continue;
        }
        int64_t speaker = find_speaker(r, rank, p->ring, members, count);
        if (speaker == rank) TRY(compare_members(p, rank, members, count));
        if (is_unheard(p, rank, speaker, members, count)) TRY(report_ranks_differ(p, rank, speaker));
    }
    return NULL;
}

/* Whether nothing is to be reported of a party's rings but what its sequences say: all that is on a ring of it knows
 * the same members, and each of its ranks is one. */
static weft_status is_plain(pairing *p, uint32_t of_party, bool *out) {
    rank_parties *parties = p->ranks->parties;
    const proof_class *c = &p->ranks->classes[parties->items[of_party].class];
    const member_list *looked_at = NULL;
    *out = true;
    for (size_t i = 0; i < c->nsequences && *out; i++) {
        member_list *members;
        uint32_t nmine = 0;
        TRY(parties_at(parties, of_party, c->sequences[i].ring, &members));
        *out = members && parties_agree(parties, members, c->sequences[i].ring);
        if (!*out || members == looked_at) continue;
        for (size_t k = 0; k < members->nparties; k++)
            if (members->parties[k].party == of_party) nmine = members->parties[k].count;
        *out = nmine == parties->items[of_party].nranks;
        looked_at = members;
    }
    return NULL;
}

static weft_status compare_party(pairing *p, uint32_t of_party) {
    const proof_ranks *r = p->ranks;
    int64_t rank = r->parties->items[of_party].first_rank;
    uint32_t class = r->class_of[rank];
    for (size_t i = 0; i < r->classes[class].nsequences; i++) {
        member_list *members;
        p->a = &r->classes[class];
        p->a_list = &p->a->sequences[i];
        p->ring = p->a_list->ring;
        TRY(parties_at(r->parties, of_party, p->ring, &members));
        int64_t speaker = find_speaker(r, -1, p->ring, members->ranks, members->count);
        if (speaker >= 0 && r->parties->party_of[speaker] == of_party) TRY(compare_parties(p, speaker, members));
    }
    return NULL;
}

static weft_status compare_ranks(pairing *p) {
    const proof_ranks *r = p->ranks;
    rank_parties *parties = r->parties;
    bool *plain = ARENA_ARRAY(p->arena, bool, (parties ? parties->count : 0) + 1);
    if (!plain) return base_out_of_memory();
    for (uint32_t i = 0; parties && i < parties->count; i++) TRY(is_plain(p, i, &plain[i]));
    for (int64_t rank = 0; rank < r->nranks; rank++) {
        if (r->class_of[rank] == PROOF_NONE) continue;
        uint32_t of_party = parties ? parties->party_of[rank] : 0;
        if (!plain[of_party])
            TRY(compare_rank(p, rank));
        else if (parties->items[of_party].first_rank == rank)
            TRY(compare_party(p, of_party));
    }
    return NULL;
}

weft_status check_pairing(const proof_ranks *r, weft_findings *f) {
    arena scratch;
    arena_init(&scratch, &r->context->allocator);
    pairing p = {.ranks = r, .findings = f, .arena = &scratch};
    weft_status status = compare_ranks(&p);
    arena_fini(&scratch);
    return status;
}
