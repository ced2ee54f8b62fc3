/* pairing.c: what the members of a ring issue on it, compared.
 *
 * Ranks with equal programs issue equal sequences, so each pair of classes is compared once a ring. A sequence is
 * compared by kind, element type, count, root and reduction; the first difference hangs the ring. Where all of that
 * agrees, what is reduced must agree too: a value that both ranks move on the ring must be moved in one collective, at
 * one place in it. Names that only one of them knows say nothing. */
#include <stdlib.h>

#include "program/grow.h"
#include "proof/checks.h"

typedef struct ring_key {
    int64_t ring;
    uint32_t index;
} ring_key;

static int compare_keys(const void *x, const void *y) {
    const ring_key *a = x, *b = y;
    if (a->ring != b->ring) return a->ring < b->ring ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

typedef struct peer_key {
    int64_t ring, peer;
    bool is_send;
    uint32_t index;
} peer_key;

static int compare_peers(const void *x, const void *y) {
    const peer_key *a = x, *b = y;
    if (a->ring != b->ring) return a->ring < b->ring ? -1 : 1;
    if (a->peer != b->peer) return a->peer < b->peer ? -1 : 1;
    if (a->is_send != b->is_send) return a->is_send ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

static weft_status list_peers(const proof_schedule *s, arena *a, proof_class *out) {
    peer_key *keys = ARENA_ARRAY(a, peer_key, s->ncollectives + 1);
    out->npeers = 0;
    out->peers = ARENA_ARRAY(a, uint32_t, s->ncollectives + 1);
    if (!keys || !out->peers) return base_out_of_memory();
    for (size_t i = 0; i < s->ncollectives; i++) {
        const proof_collective *c = &s->collectives[i];
        if (c->peer >= 0) keys[out->npeers++] = (peer_key){c->ring, c->peer, c->is_send, (uint32_t)i};
    }
    if (out->npeers > 1) qsort(keys, out->npeers, sizeof *keys, compare_peers);
    for (size_t i = 0; i < out->npeers; i++) out->peers[i] = keys[i].index;
    return NULL;
}

weft_status pairing_list(const proof_schedule *s, arena *a, proof_class *out) {
    size_t n = 0;
    ring_key *keys = ARENA_ARRAY(a, ring_key, s->ncollectives + 1);
    out->schedule = s;
    out->order = ARENA_ARRAY(a, uint32_t, s->ncollectives + 1);
    out->sequences = ARENA_ARRAY(a, ring_sequence, s->ncollectives + 1);
    if (!keys || !out->order || !out->sequences) return base_out_of_memory();
    for (size_t i = 0; i < s->ncollectives; i++)
        if (s->collectives[i].peer < 0) keys[n++] = (ring_key){s->collectives[i].ring, (uint32_t)i};
    if (n > 1) qsort(keys, n, sizeof *keys, compare_keys);
    out->nsequences = 0;
    for (size_t i = 0; i < n; i++) {
        out->order[i] = keys[i].index;
        if (!i || keys[i].ring != keys[i - 1].ring)
            out->sequences[out->nsequences++] = (ring_sequence){.ring = keys[i].ring, .first = (uint32_t)i};
        out->sequences[out->nsequences - 1].count++;
    }
    return list_peers(s, a, out);
}

const ring_sequence *pairing_find(const proof_class *c, int64_t ring_id) {
    size_t low = 0, high = c->nsequences;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->sequences[middle].ring < ring_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->nsequences && c->sequences[low].ring == ring_id ? &c->sequences[low] : NULL;
}

const int64_t *pairing_members(const proof_ranks *r, int64_t rank, int64_t ring_id, size_t *out_count) {
    const ring *found = r->programs[rank] ? program_find_ring(r->programs[rank], ring_id) : NULL;
    *out_count = found ? (size_t)found->nranks : (size_t)r->nranks;
    return found ? found->ranks : r->all;
}

/* --- two sequences ------------------------------------------------------------------------------------------------ */

typedef struct pairing {
    const proof_ranks *ranks;
    weft_findings *findings;
    arena *arena;
    int64_t ring, a_rank, b_rank;
    const proof_class *a, *b;
    const ring_sequence *a_list, *b_list;
    uint64_t *seen; /* pairs of classes and ring: open addressing */
    size_t nseen, capacity;
} pairing;

static const proof_collective *at(const proof_class *c, const ring_sequence *list, uint32_t k) {
    return &c->schedule->collectives[c->order[list->first + k]];
}

static const char *dtype_word(int32_t dtype) {
    const char *word = weft_dtype_name((weft_dtype)dtype);
    return word ? word : "no type";
}

static const char *reduce_word(int reduce) {
    static const char *const words[] = {"sum", "max", "min", "prod", "avg", "any", "all"};
    return reduce >= 0 && reduce < 7 ? words[reduce] : "none";
}

/* Words for the first difference; NULL if there is none. `verdict`: what comes of it. */
static weft_status difference(pairing *p, const proof_collective *x, const proof_collective *y, weft_verdict *verdict,
                              const char **out) {
    *out = NULL;
    *verdict = WEFT_VERDICT_DEADLOCK;
    if (strcmp(x->kind, y->kind) != 0) return finding_says(p->findings, out, "%s against %s", x->kind, y->kind);
    if (x->dtype != y->dtype)
        return finding_says(p->findings, out, "%s against %s", dtype_word(x->dtype), dtype_word(y->dtype));
    if (x->count >= 0 && y->count >= 0 && x->count != y->count)
        return finding_says(p->findings, out, "%lld elements against %lld", (long long)x->count, (long long)y->count);
    if (x->root != y->root)
        return finding_says(p->findings, out, "root %lld against %lld", (long long)x->root, (long long)y->root);
    *verdict = WEFT_VERDICT_WRONG_DATA;
    if (x->reduce != y->reduce)
        return finding_says(p->findings, out, "%s against %s", reduce_word(x->reduce), reduce_word(y->reduce));
    if (x->history != y->history)
        return finding_says(p->findings, out, "other collectives moved this value before on the one than on the other");
    return NULL;
}

static weft_status tell_pair(pairing *p, weft_verdict verdict, const proof_collective *x, const proof_collective *y,
                             uint32_t k, const char *what) {
    weft_finding *found;
    char x_text[256], y_text[256];
    TRY(finding_add(p->findings, verdict, &found));
    if (!found) return NULL;
    found->ring = p->ring;
    TRY(finding_op(p->findings, found, p->a->schedule, x->event, p->a_rank, "communicates"));
    TRY(finding_op(p->findings, found, p->b->schedule, y->event, p->b_rank, "communicates"));
    finding_op_text(&found->ops[0], x_text, sizeof x_text);
    finding_op_text(&found->ops[1], y_text, sizeof y_text);
    return finding_says(p->findings, &found->message,
                        "ring %lld: collective number %u is %s on rank %lld and %s on rank %lld: %s",
                        (long long)p->ring, k, x_text, (long long)p->a_rank, y_text, (long long)p->b_rank, what);
}

static weft_status tell_missing(pairing *p, bool b_lacks, uint32_t k) {
    const proof_class *more = b_lacks ? p->a : p->b;
    const proof_collective *extra = at(more, b_lacks ? p->a_list : p->b_list, k);
    int64_t has = b_lacks ? p->a_rank : p->b_rank, lacks = b_lacks ? p->b_rank : p->a_rank;
    weft_finding *found;
    char words[256];
    TRY(finding_add(p->findings, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = p->ring;
    TRY(finding_op(p->findings, found, more->schedule, extra->event, has, "communicates"));
    return finding_says(p->findings, &found->message,
                        "ring %lld: rank %lld issues %s as collective number %u, rank %lld issues only %u",
                        (long long)p->ring, (long long)has, finding_op_text(&found->ops[0], words, sizeof words), k,
                        (long long)lacks, k);
}

/* --- what is reduced ---------------------------------------------------------------------------------------------- */

typedef struct part {
    const char *name;
    int64_t offset;
    uint32_t k;
} part;

static int compare_parts(const void *x, const void *y) {
    const part *a = x, *b = y;
    int by_name = strcmp(a->name, b->name);
    if (by_name) return by_name;
    if (a->k != b->k) return a->k < b->k ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static weft_status list_parts(arena *a, const proof_class *c, const ring_sequence *list, part **out, size_t *out_n) {
    size_t n = 0;
    for (uint32_t k = 0; k < list->count; k++) n += at(c, list, k)->nmembers;
    part *parts = ARENA_ARRAY(a, part, n + 1);
    if (!parts) return base_out_of_memory();
    n = 0;
    for (uint32_t k = 0; k < list->count; k++) {
        const proof_collective *x = at(c, list, k);
        for (uint32_t m = 0; m < x->nmembers; m++) {
            const proof_member *of = &c->schedule->members[x->first_member + m];
            parts[n++] = (part){of->name, of->offset, k};
        }
    }
    if (n > 1) qsort(parts, n, sizeof *parts, compare_parts);
    *out = parts;
    *out_n = n;
    return NULL;
}

static size_t run_length(const part *parts, size_t i, size_t n) {
    size_t end = i + 1;
    while (end < n && strcmp(parts[end].name, parts[i].name) == 0) end++;
    return end - i;
}

static weft_status tell_parts(pairing *p, const part *x, const part *y) {
    const char *what;
    TRY(finding_says(
        p->findings, &what,
        "\"%s\" is moved by collective number %u at byte %lld on the one, by number %u at byte %lld on the "
        "other",
        x->name, x->k, (long long)x->offset, y->k, (long long)y->offset));
    const proof_collective *mine = at(p->a, p->a_list, x->k), *theirs = at(p->b, p->b_list, x->k);
    return tell_pair(p, WEFT_VERDICT_WRONG_DATA, mine, theirs, x->k, what);
}

/* Whether two collectives move the same parts in one order. */
static bool same_members(const pairing *p, const proof_collective *x, const proof_collective *y) {
    const proof_member *a = p->a->schedule->members + x->first_member, *b = p->b->schedule->members + y->first_member;
    if (x->nmembers != y->nmembers) return false;
    for (uint32_t i = 0; i < x->nmembers; i++)
        if (a[i].offset != b[i].offset || strcmp(a[i].name, b[i].name) != 0) return false;
    return true;
}

static weft_status compare_contents(pairing *p) {
    part *x, *y;
    size_t nx, ny, i = 0, k = 0;
    TRY(list_parts(p->arena, p->a, p->a_list, &x, &nx));
    TRY(list_parts(p->arena, p->b, p->b_list, &y, &ny));
    const part *first_x = NULL, *first_y = NULL; /* the difference that comes first in the sequence */
    while (i < nx && k < ny) {
        int by_name = strcmp(x[i].name, y[k].name);
        size_t x_run = run_length(x, i, nx), y_run = run_length(y, k, ny);
        for (size_t n = 0; by_name == 0 && x_run == y_run && n < x_run; n++)
            if ((x[i + n].k != y[k + n].k || x[i + n].offset != y[k + n].offset) &&
                (!first_x || x[i + n].k < first_x->k))
                first_x = &x[i + n], first_y = &y[k + n];
        if (by_name <= 0) i += x_run;
        if (by_name >= 0) k += y_run;
    }
    return first_x ? tell_parts(p, first_x, first_y) : NULL;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static weft_status compare_sequences(pairing *p) {
    static const ring_sequence none = {0};
    if (!p->a_list) p->a_list = &none;
    if (!p->b_list) p->b_list = &none;
    uint32_t n = p->a_list->count < p->b_list->count ? p->a_list->count : p->b_list->count;
    bool is_wrong = false, is_same = true; /* what moves wrong data goes on, and may hang later */
    for (uint32_t k = 0; k < n; k++) {
        const proof_collective *x = at(p->a, p->a_list, k), *y = at(p->b, p->b_list, k);
        weft_verdict verdict;
        const char *what;
        TRY(difference(p, x, y, &verdict, &what));
        bool hangs = what && verdict == WEFT_VERDICT_DEADLOCK;
        if (what && (hangs || !is_wrong)) TRY(tell_pair(p, verdict, x, y, k, what));
        if (hangs) return NULL;
        is_wrong |= what != NULL;
        is_same &= same_members(p, x, y);
    }
    if (p->a_list->count != p->b_list->count) return tell_missing(p, p->a_list->count > n, n);
    return is_wrong || is_same ? NULL : compare_contents(p);
}

static uint64_t *find_seen(uint64_t *table, size_t capacity, uint64_t key) {
    size_t i = (size_t)(key * 0x9E3779B97F4A7C15u >> 20) & (capacity - 1);
    while (table[i] && table[i] != key) i = (i + 1) & (capacity - 1);
    return &table[i];
}

/* Whether these two classes still have to be compared on that ring. */
static weft_status is_first(pairing *p, uint32_t a_class, uint32_t b_class, const ring_sequence *list, bool *out) {
    size_t sequence = list ? (size_t)(list - p->a->sequences) : 0;
    uint64_t key = ((uint64_t)a_class << 42 | (uint64_t)b_class << 22 | sequence) + 1;
    if (2 * (p->nseen + 1) > p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 64;
        uint64_t *table = ARENA_ARRAY(p->arena, uint64_t, capacity);
        if (!table) return base_out_of_memory();
        for (size_t i = 0; i < p->capacity; i++)
            if (p->seen[i]) *find_seen(table, capacity, p->seen[i]) = p->seen[i];
        p->seen = table;
        p->capacity = capacity;
    }
    uint64_t *cell = find_seen(p->seen, p->capacity, key);
    *out = *cell == 0;
    if (*out) *cell = key, p->nseen++;
    return NULL;
}

static weft_status tell_ranks_differ(pairing *p, int64_t rank, int64_t other) {
    weft_finding *found;
    const ring_sequence *list = p->a_list;
    TRY(finding_add(p->findings, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = p->ring;
    TRY(finding_op(p->findings, found, p->a->schedule, at(p->a, list, 0)->event, rank, "communicates"));
    return finding_says(p->findings, &found->message,
                        "ring %lld: ranks %lld and %lld do not agree on the list of its ranks", (long long)p->ring,
                        (long long)rank, (long long)other);
}

static weft_status tell_stranger(pairing *p, int64_t rank) {
    weft_finding *found;
    char words[256];
    TRY(finding_add(p->findings, WEFT_VERDICT_INVALID_PROGRAM, &found));
    if (!found) return NULL;
    found->ring = p->ring;
    TRY(finding_op(p->findings, found, p->a->schedule, at(p->a, p->a_list, 0)->event, rank, "communicates"));
    return finding_says(
        p->findings, &found->message, "%s on rank %lld communicates on ring %lld, which rank %lld is not in",
        finding_op_text(&found->ops[0], words, sizeof words), (long long)rank, (long long)p->ring, (long long)rank);
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
        const int64_t *theirs = pairing_members(r, other, p->ring, &ntheirs);
        if (ntheirs != count || !is_equal_list(&known, members, theirs, count)) {
            TRY(tell_ranks_differ(p, rank, other));
            continue;
        }
        bool is_new = false;
        p->b = &r->classes[r->class_of[other]];
        TRY(is_first(p, r->class_of[rank], r->class_of[other], p->a_list, &is_new));
        if (!is_new || p->a == p->b) continue;
        const ring_sequence *list = p->a_list;
        p->a_rank = rank;
        p->b_rank = other;
        p->b_list = pairing_find(p->b, p->ring);
        TRY(compare_sequences(p));
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
        p->b_list = pairing_find(p->b, p->ring);
        TRY(compare_sequences(p));
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
            !pairing_find(&r->classes[r->class_of[members[first]]], ring_id)))
        first++;
    return first < count ? members[first] : -1;
}

/* Whether `rank` knows other members than the one that speaks for them, which does not speak to it: two ranks may each
 * take the other for the first. */
static bool is_unheard(const pairing *p, int64_t rank, int64_t speaker, const int64_t *members, size_t count) {
    const proof_ranks *r = p->ranks;
    size_t ntheirs;
    if (speaker < 0 || speaker == rank) return false;
    const int64_t *theirs = pairing_members(r, speaker, p->ring, &ntheirs);
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
        const int64_t *members = pairing_members(r, rank, p->ring, &count);
        if (!is_member(members, count, rank)) {
            TRY(tell_stranger(p, rank));
            continue;
        }
        int64_t speaker = find_speaker(r, rank, p->ring, members, count);
        if (speaker == rank) TRY(compare_members(p, rank, members, count));
        if (is_unheard(p, rank, speaker, members, count)) TRY(tell_ranks_differ(p, rank, speaker));
    }
    return NULL;
}

/* Whether nothing is to be told of a party's rings but what its sequences say: all that is on a ring of it knows the
 * same members, and each of its ranks is one. */
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
