/* agree_pairs.c: whether what members of a ring send to one another is what they receive.
 *
 * The idea: only two members know of a send, so a sequence that all have, as of collectives, there is none. Each adds
 * what it sends and takes off what it receives, mixed with who, whom, how many before, and what; where the sum over all
 * members is not 0, they look pair by pair for the first that differs. */
#include "ops/collectives.h"
#include "plan/agree.h"
#include "plan/signature.h"

enum { MOST_WORDS = 320 };

/* Of one member, towards each other one, by who: what it sends, then what it receives. */
typedef struct pair_sum {
    uint64_t hash;
    int64_t count;
} pair_sum;

/* Sends (or receives) of a member with `peer`, mixed in order; at most `most` of them. */
static pair_sum sum_pairs(const weft_plan *plan, const plan_ring *u, int64_t peer, bool sends, int64_t most) {
    pair_sum sum = {0, 0};
    for (size_t k = 0; k < u->npairs && sum.count < most; k++) {
        bool is_send;
        (void)plan_is_pair(u->pairs[k], &is_send);
        if (is_send != sends || op_collective_root(u->pairs[k]->op) != peer) continue;
        sum.hash = signature_mix(sum.hash, signature_of_pair(plan, u->pairs[k]));
        sum.count++;
    }
    return sum;
}

/* Send (or receive) number `at` with `peer`, or NULL. */
static const plan_instr *find_pair(const plan_ring *u, int64_t peer, bool sends, int64_t at) {
    for (size_t k = 0; u && k < u->npairs; k++) {
        bool is_send;
        (void)plan_is_pair(u->pairs[k], &is_send);
        if (is_send == sends && op_collective_root(u->pairs[k]->op) == peer && at-- == 0) return u->pairs[k];
    }
    return NULL;
}

uint64_t agree_balance_of_pairs(const weft_plan *plan, const plan_ring *u, int index) {
    uint64_t balance = 0;
    for (int peer = 0; u->npairs && peer < u->nranks; peer++) {
        pair_sum sent = sum_pairs(plan, u, peer, true, INT64_MAX);
        pair_sum taken = sum_pairs(plan, u, peer, false, INT64_MAX);
        if (sent.count) balance += signature_transfer(index, peer, sent.hash);
        if (taken.count) balance -= signature_transfer(peer, index, taken.hash);
    }
    return balance;
}

static weft_status make_room(const agree_ring *r, size_t nbytes, void *out_mine, void *out_all) {
    void *mine = arena_array(r->scratch, (size_t)r->gather->count, nbytes);
    void *all = arena_array(r->scratch, (size_t)r->gather->nranks, nbytes);
    if (!mine || !all) return base_out_of_memory();
    memcpy(out_mine, &mine, sizeof mine);
    memcpy(out_all, &all, sizeof all);
    return NULL;
}

/* Every member's sums with every other, of the first `most` of each pair. */
static weft_status exchange_sums(const agree_ring *r, int64_t most, const pair_sum **out) {
    pair_sum *mine, *all;
    size_t n = (size_t)r->nmembers;
    TRY(make_room(r, 2 * n * sizeof *mine, &mine, &all));
    for (int i = 0; i < r->gather->count; i++) {
        const weft_plan *plan = r->ranks[i].plan;
        const plan_ring *u = plan_ring_find(r->ranks[i].rings, r->id);
        for (size_t m = 0; u && m < n; m++) {
            mine[(size_t)i * 2 * n + m] = sum_pairs(plan, u, (int64_t)m, true, most);
            mine[(size_t)i * 2 * n + n + m] = sum_pairs(plan, u, (int64_t)m, false, most);
        }
    }
    TRY(r->gather->run(r->gather->user, mine, 2 * n * sizeof *mine, all));
    *out = all;
    return NULL;
}

static bool same_sums(const agree_ring *r, const pair_sum *all, int64_t from, int64_t to) {
    size_t n = (size_t)r->nmembers;
    const pair_sum *sent = &all[(size_t)r->members[from] * 2 * n + (size_t)to];
    const pair_sum *taken = &all[(size_t)r->members[to] * 2 * n + n + (size_t)from];
    return sent->count == taken->count && sent->hash == taken->hash;
}

static weft_status describe_place(const agree_ring *r, int64_t from, int64_t to, int64_t at) {
    char *mine, *all;
    TRY(make_room(r, MOST_WORDS, &mine, &all));
    for (int i = 0; i < r->gather->count; i++) {
        const weft_plan *plan = r->ranks[i].plan;
        const plan_ring *u = plan_ring_find(r->ranks[i].rings, r->id);
        bool sends = r->gather->first + i == r->members[from];
        if (!sends && r->gather->first + i != r->members[to]) continue;
        signature_text(plan, find_pair(u, sends ? to : from, sends, at), mine + (size_t)i * MOST_WORDS,
                       MOST_WORDS);
    }
    TRY(r->gather->run(r->gather->user, mine, MOST_WORDS, all));
    int64_t sender = r->members[from], taker = r->members[to];
    return weft_status_create(
        WEFT_INVALID_PROGRAM, NULL,
        "ring %lld: ranks disagree on send %lld of rank %lld to rank %lld: rank %lld %s, rank %lld %s", (long long)r->id,
        (long long)at, (long long)sender, (long long)taker, (long long)sender, all + sender * MOST_WORDS,
        (long long)taker, all + taker * MOST_WORDS);
}

weft_status agree_describe_pairs(const agree_ring *r) {
    const pair_sum *all;
    int64_t from = 0, to = 0, n = r->nmembers, good = 0;
    TRY(exchange_sums(r, INT64_MAX, &all));
    while (from < n && same_sums(r, all, from, to)) from += ++to == n, to %= n;
    if (from == n)
        return weft_status_create(WEFT_INVALID_PROGRAM, NULL, "ring %lld: ranks disagree on sends and receives",
                                  (long long)r->id);
    const pair_sum *sent = &all[(size_t)r->members[from] * 2 * (size_t)n + (size_t)to];
    const pair_sum *taken = &all[(size_t)r->members[to] * 2 * (size_t)n + (size_t)(n + from)];
    int64_t bad = (sent->count < taken->count ? sent->count : taken->count) + 1;
    while (bad - good > 1) { /* the first `good` are the same */
        int64_t middle = good + (bad - good) / 2;
        TRY(exchange_sums(r, middle, &all));
        if (same_sums(r, all, from, to))
            good = middle;
        else
            bad = middle;
    }
    return describe_place(r, from, to, good);
}
