/* agree.c: whether the members of each ring will run the same collectives on it.
 *
 * The idea: a rank hashes each ring's list of ranks and then, one after another, the signatures of its collectives
 * there (signature.c), and keeps all prefixes. Ranks exchange the last ones; if they are equal, that is all: a message
 * of a few words a ring. If not, the first ring that a member finds to differ is searched by halves, a prefix of every
 * rank an exchange. The op behind the longest equal prefix is described by those who run it.
 *
 * The invariant: what to do next follows from what was gathered, which is the same for all; so all participants
 * exchange the same number of times, and come to the same status. */
#include "plan/agree.h"

#include <stdio.h>

#include "plan/signature.h"

/* Of a ring's list of ranks and first so many collectives. */
typedef struct prefix {
    uint64_t hash;    /* equal for all members */
    uint64_t balance; /* adds up to 0 over all members */
} prefix;

/* What a rank reports of a ring. */
typedef struct summary {
    int64_t id;    /* -1: none */
    int64_t count; /* of collectives */
    prefix whole;
    uint64_t pairs; /* of its sends and receives: adds up to 0 over all members */
} summary;

/* What a rank reports of its op at the place where members part. */
typedef struct op_text {
    uint64_t hash; /* without what a pass says of gradients */
    char ring[80]; /* its list of ranks */
    char text[320];
} op_text;

typedef struct agreement {
    const agree_rank *ranks; /* this participant's */
    const agree_exchange *gather;
    arena scratch;
    size_t nrings;      /* of the rank that has most */
    summary *summaries; /* nrings of each rank of the world */
    prefix **prefixes;  /* by own rank and ring: prefixes of 0 .. count collectives */
    int *indices;       /* by own rank and ring: the rank's place in it */
    bool looks_at_pairs; /* at sends and receives; else at collectives */

    /* What members differ on. */
    int64_t id;
    int64_t nmembers;
    int64_t *members;
} agreement;

/* --- what this participant's ranks have --------------------------------------------------------------------------- */

static const plan_rings *own_rings(const agreement *a, int i) {
    return a->ranks[i].rings;
}

static weft_status hash_ring(agreement *a, const weft_plan *plan, const plan_ring *u, int index, prefix **out) {
    prefix *p = ARENA_ARRAY(&a->scratch, prefix, u->ninstrs + 1);
    if (!p) return base_out_of_memory();
    p->hash = signature_mix((uint64_t)u->id, (uint64_t)u->nranks);
    for (int m = 0; m < u->nranks; m++) p->hash = signature_mix(p->hash, (uint64_t)u->ranks[m]);
    for (size_t k = 0; k < u->ninstrs; k++) {
        p[k + 1].hash = signature_mix(p[k].hash, signature_of(plan, u->instrs[k], true));
        p[k + 1].balance =
            p[k].balance + signature_mix(k, 0) * signature_balance(plan, u->instrs[k], index, u->nranks);
    }
    *out = p;
    return NULL;
}

/* The prefixes of rank i's ring `id`; NULL if it has no such ring. */
static const prefix *own_prefixes(const agreement *a, int i, int64_t id, const plan_ring **out_ring) {
    const plan_rings *rings = own_rings(a, i);
    *out_ring = plan_ring_find(rings, id);
    return *out_ring ? a->prefixes[(size_t)i * a->nrings + (size_t)(*out_ring - rings->items)] : NULL;
}

/* --- exchanges ---------------------------------------------------------------------------------------------------- */

/* Room for `nbytes` of each own rank and of each rank of the world. */
static weft_status make_room(agreement *a, size_t nbytes, void *out_mine, void *out_all) {
    void *mine = arena_array(&a->scratch, (size_t)a->gather->count, nbytes);
    void *all = arena_array(&a->scratch, (size_t)a->gather->nranks, nbytes);
    if (!mine || !all) return base_out_of_memory();
    memcpy(out_mine, &mine, sizeof mine);
    memcpy(out_all, &all, sizeof all);
    return NULL;
}

static weft_status exchange(agreement *a, const void *mine, size_t nbytes, void *all) {
    return a->gather->run(a->gather->user, mine, nbytes, all);
}

static weft_status exchange_counts(agreement *a) {
    uint64_t *mine, *all;
    TRY(make_room(a, sizeof *mine, &mine, &all));
    for (int i = 0; i < a->gather->count; i++) mine[i] = own_rings(a, i)->count;
    TRY(exchange(a, mine, sizeof *mine, all));
    for (int r = 0; r < a->gather->nranks; r++)
        if (all[r] > a->nrings) a->nrings = (size_t)all[r];
    return NULL;
}

static weft_status exchange_summaries(agreement *a) {
    summary *mine;
    size_t nbytes;
    if (!base_mul(a->nrings, sizeof *mine, &nbytes)) return base_out_of_memory();
    TRY(make_room(a, nbytes, &mine, &a->summaries));
    a->prefixes = ARENA_ARRAY(&a->scratch, prefix *, (size_t)a->gather->count * a->nrings);
    a->indices = ARENA_ARRAY(&a->scratch, int, (size_t)a->gather->count * a->nrings);
    if (!a->prefixes || !a->indices) return base_out_of_memory();
    for (int i = 0; i < a->gather->count; i++) {
        const plan_rings *rings = own_rings(a, i);
        for (size_t k = 0; k < a->nrings; k++) {
            size_t at = (size_t)i * a->nrings + k;
            summary *s = &mine[at];
            *s = (summary){.id = -1};
            if (k >= rings->count) continue;
            const plan_ring *u = &rings->items[k];
            prefix **p = &a->prefixes[at];
            a->indices[at] = plan_ring_index(u, a->gather->first + i);
            TRY(hash_ring(a, a->ranks[i].plan, u, a->indices[at], p));
            *s = (summary){u->id, (int64_t)u->ninstrs, (*p)[u->ninstrs],
                           agree_balance_of_pairs(a->ranks[i].plan, u, a->indices[at])};
        }
    }
    return exchange(a, mine, nbytes, a->summaries);
}

static const summary *find_summary(const agreement *a, int64_t rank, int64_t id) {
    const summary *s = &a->summaries[(size_t)rank * a->nrings];
    for (size_t k = 0; k < a->nrings && s[k].id >= 0; k++) {
        if (s[k].id == id) return &s[k];
    }
    return NULL;
}

/* The first member adds up all. */
static bool pairs_agree(const agreement *a, const plan_ring *u, bool is_first) {
    uint64_t balance = 0;
    for (int m = 0; is_first && m < u->nranks; m++) {
        const summary *s = find_summary(a, u->ranks[m], u->id);
        balance += s ? s->pairs : 1;
    }
    return balance == 0;
}

/* The first member compares all, every other one itself with the first. */
static bool ring_agrees(const agreement *a, int i, size_t k) {
    uint64_t balance = 0;
    const plan_ring *u = &own_rings(a, i)->items[k];
    const summary *first = find_summary(a, u->ranks[0], u->id);
    bool is_first = a->indices[(size_t)i * a->nrings + k] == 0;
    if (a->looks_at_pairs) return pairs_agree(a, u, is_first);
    for (int m = 0; first && m < u->nranks; m++) {
        if (!is_first && u->ranks[m] != a->gather->first + i) continue;
        const summary *s = find_summary(a, u->ranks[m], u->id);
        if (!s || s->count != first->count || s->whole.hash != first->whole.hash) return false;
        balance += s->whole.balance;
    }
    return first && (!is_first || balance == 0);
}

/* The first ring of the lowest rank that finds one to differ, and its members as that rank has them. */
static weft_status find_difference(agreement *a, bool *out_differ) {
    int64_t *mine, *all;
    size_t stride = (size_t)a->gather->nranks + 2; /* ring, number of members, members */
    TRY(make_room(a, sizeof *mine * 2, &mine, &all));
    for (int i = 0; i < a->gather->count; i++) {
        const plan_rings *rings = own_rings(a, i);
        size_t k = 0;
        while (k < rings->count && ring_agrees(a, i, k)) k++;
        mine[2 * i] = k < rings->count ? rings->items[k].id : -1;
        mine[2 * i + 1] = k < rings->count ? rings->items[k].nranks : 0;
    }
    TRY(exchange(a, mine, sizeof *mine * 2, all));
    int finder = 0;
    while (finder < a->gather->nranks && all[2 * finder] < 0) finder++;
    *out_differ = finder < a->gather->nranks;
    if (!*out_differ) return NULL;
    a->id = all[2 * finder];
    a->nmembers = all[2 * finder + 1];
    TRY(make_room(a, sizeof *mine * stride, &mine, &all));
    int own = finder - a->gather->first;
    if (own >= 0 && own < a->gather->count) {
        const plan_ring *u = plan_ring_find(own_rings(a, own), a->id);
        memcpy(mine + (size_t)own * stride, u->ranks, (size_t)u->nranks * sizeof *mine);
    }
    TRY(exchange(a, mine, sizeof *mine * stride, all));
    a->members = all + (size_t)finder * stride;
    return NULL;
}

/* --- the place ---------------------------------------------------------------------------------------------------- */

/* Every rank's prefix of `count` collectives of the ring; zeros where it has not so many. */
static weft_status exchange_prefixes(agreement *a, int64_t count, prefix *mine, prefix *all) {
    for (int i = 0; i < a->gather->count; i++) {
        const plan_ring *u;
        const prefix *p = own_prefixes(a, i, a->id, &u);
        mine[i] = p && (size_t)count <= u->ninstrs ? p[count] : (prefix){0};
    }
    return exchange(a, mine, sizeof *mine, all);
}

static bool is_member_with(const agreement *a, int64_t m, int64_t count) {
    const summary *s = find_summary(a, a->members[m], a->id);
    return s && s->count >= count;
}

/* Of members that have so many collectives at all; whether all have is looked at in the end. */
static bool all_agree(const agreement *a, int64_t count, const prefix *all) {
    uint64_t balance = 0;
    const prefix *first = NULL;
    for (int64_t m = 0; m < a->nmembers; m++) {
        if (!is_member_with(a, m, count)) continue;
        const prefix *p = &all[a->members[m]];
        if (!first) first = p;
        if (p->hash != first->hash) return false;
        balance += p->balance;
    }
    return balance == 0;
}

/* Where members part: *out_at collectives are the same for all; -1: not even the list of ranks is. *out_all: the
 * prefixes with one more. */
static weft_status find_place(agreement *a, int64_t *out_at, const prefix **out_all) {
    prefix *mine, *all;
    int64_t good = -1, bad = INT64_MAX; /* a member is without the bad-th */
    TRY(make_room(a, sizeof *mine, &mine, &all));
    for (int64_t m = 0; m < a->nmembers; m++) {
        const summary *s = find_summary(a, a->members[m], a->id);
        int64_t count = s ? s->count : 0;
        if (count < bad) bad = count + 1;
    }
    while (bad - good > 1) {
        int64_t middle = good + (bad - good) / 2;
        TRY(exchange_prefixes(a, middle, mine, all));
        if (all_agree(a, middle, all))
            good = middle;
        else
            bad = middle;
    }
    *out_at = good;
    *out_all = all;
    return exchange_prefixes(a, good + 1, mine, all);
}

/* Two members that differ at the place; equal for all that look. Where only what is sent and taken differs, the second
 * is -1. Of lists of ranks, two that have one. */
static void find_pair(const agreement *a, int64_t at, const prefix *all, int64_t *out_first, int64_t *out_second) {
    int64_t one = 0;
    while (at < 0 && !is_member_with(a, one, 0)) one++;
    bool has = is_member_with(a, one, at + 1);
    *out_first = a->members[one];
    *out_second = -1;
    for (int64_t m = one + 1; m < a->nmembers && *out_second < 0; m++) {
        bool other_has = is_member_with(a, m, at + 1);
        bool differ = has && other_has && all[a->members[m]].hash != all[*out_first].hash;
        if (differ || (at >= 0 && has != other_has)) *out_second = a->members[m];
    }
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void list_ranks(const plan_ring *u, char *out, size_t nbytes) {
    size_t n = (size_t)snprintf(out, nbytes, "[");
    for (int m = 0; m < u->nranks; m++) {
        if (n + 30 > nbytes) {
            n += (size_t)snprintf(out + n, nbytes - n, ", ...");
            break;
        }
        n += (size_t)snprintf(out + n, nbytes - n, "%s%lld", m ? ", " : "", (long long)u->ranks[m]);
    }
    snprintf(out + n, nbytes - n, "]");
}

static weft_status exchange_texts(agreement *a, int64_t at, const op_text **out) {
    op_text *mine, *all;
    TRY(make_room(a, sizeof *mine, &mine, &all));
    for (int i = 0; i < a->gather->count; i++) {
        const weft_plan *plan = a->ranks[i].plan;
        const plan_ring *u = plan_ring_find(own_rings(a, i), a->id);
        const plan_instr *instr = u && (size_t)at < u->ninstrs ? u->instrs[at] : NULL;
        signature_text(plan, instr, mine[i].text, sizeof mine[i].text);
        if (u) list_ranks(u, mine[i].ring, sizeof mine[i].ring);
        if (instr) mine[i].hash = signature_of(plan, instr, false);
    }
    TRY(exchange(a, mine, sizeof *mine, all));
    *out = all;
    return NULL;
}

/* A pair of which one does not take what the other one sends. */
static weft_status exchange_error(agreement *a, int64_t at, const op_text *texts) {
    int64_t *mine, *all;
    size_t n = (size_t)a->nmembers;
    TRY(make_room(a, sizeof *mine * n * 2, &mine, &all));
    for (int i = 0; i < a->gather->count; i++) {
        const weft_plan *plan = a->ranks[i].plan;
        const plan_ring *u = plan_ring_find(own_rings(a, i), a->id);
        for (size_t k = 0; u && (size_t)at < u->ninstrs && k < n; k++) {
            mine[(size_t)i * 2 * n + k] = signature_sent(plan, u->instrs[at], (int)n, (int)k);
            mine[(size_t)i * 2 * n + n + k] = signature_taken(plan, u->instrs[at], (int)n, (int)k);
        }
    }
    TRY(exchange(a, mine, sizeof *mine * n * 2, all));
    for (size_t k = 0; k < n * n; k++) {
        int64_t from = a->members[k / n], to = a->members[k % n];
        int64_t sent = all[(size_t)from * 2 * n + k % n], taken = all[(size_t)to * 2 * n + n + k / n];
        if (sent == taken) continue;
        return weft_status_create(
            WEFT_INVALID_PROGRAM, NULL,
            "ring %lld: ranks disagree on collective %lld: rank %lld %s and sends %lld elements to rank %lld, which %s "
            "and takes %lld",
            (long long)a->id, (long long)at, (long long)from, texts[from].text, (long long)sent, (long long)to,
            texts[to].text, (long long)taken);
    }
    return weft_status_create(WEFT_INVALID_PROGRAM, NULL, "ring %lld: ranks disagree on collective %lld",
                              (long long)a->id, (long long)at);
}

static weft_status describe_difference(agreement *a) {
    int64_t at, first, second;
    const prefix *prefixes;
    const op_text *texts;
    TRY(find_place(a, &at, &prefixes));
    find_pair(a, at, prefixes, &first, &second);
    TRY(exchange_texts(a, at < 0 ? 0 : at, &texts));
    if (second < 0) return exchange_error(a, at, texts);
    const op_text *one = &texts[first], *other = &texts[second];
    if (at < 0)
        return weft_status_create(
            WEFT_INVALID_PROGRAM, NULL,
            "ring %lld: ranks disagree on its ranks: rank %lld %s among %s, rank %lld %s among %s", (long long)a->id,
            (long long)first, one->text, one->ring, (long long)second, other->text, other->ring);
    return weft_status_create(
        WEFT_INVALID_PROGRAM, NULL, "ring %lld: ranks %s collective %lld: rank %lld %s, rank %lld %s", (long long)a->id,
        one->hash && one->hash == other->hash ? "put different gradients into a bucket," : "disagree on", (long long)at,
        (long long)first, one->text, (long long)second, other->text);
}

static bool has_pairs(const agreement *a) {
    for (size_t k = 0; k < (size_t)a->gather->nranks * a->nrings; k++)
        if (a->summaries[k].pairs) return true;
    return false;
}

static weft_status compare(agreement *a) {
    bool differ;
    TRY(exchange_counts(a));
    if (!a->nrings) return NULL;
    TRY(exchange_summaries(a));
    TRY(find_difference(a, &differ));
    if (differ) return describe_difference(a);
    if (!has_pairs(a)) return NULL;
    a->looks_at_pairs = true;
    TRY(find_difference(a, &differ));
    if (!differ) return NULL;
    return agree_describe_pairs(&(agree_ring){a->ranks, a->gather, &a->scratch, a->id, a->nmembers, a->members});
}

weft_status plan_agree(const weft_allocator *allocator, const agree_rank *ranks, const agree_exchange *gather) {
    agreement a = {.ranks = ranks, .gather = gather};
    arena_init(&a.scratch, allocator);
    weft_status status = compare(&a);
    arena_fini(&a.scratch);
    return status;
}
