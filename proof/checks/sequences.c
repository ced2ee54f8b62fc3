/* sequences.c: what a program issues on each of its rings, in order, and with each of its peers. */
#include <stdlib.h>

#include "program/grow.h"
#include "proof/checks/checks.h"

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
    size_t n = 0;
    for (size_t i = 0; i < s->ncollectives; i++) n += s->collectives[i].peer >= 0;
    peer_key *keys = ARENA_ARRAY(a, peer_key, n + 1);
    out->npeers = 0;
    out->peers = ARENA_ARRAY(a, uint32_t, n + 1);
    if (!keys || !out->peers) return base_out_of_memory();
    for (size_t i = 0; i < s->ncollectives; i++) {
        const proof_collective *c = &s->collectives[i];
        if (c->peer >= 0) keys[out->npeers++] = (peer_key){c->ring, c->peer, c->is_send, (uint32_t)i};
    }
    if (out->npeers > 1) qsort(keys, out->npeers, sizeof *keys, compare_peers);
    for (size_t i = 0; i < out->npeers; i++) out->peers[i] = keys[i].index;
    return NULL;
}

/* Numbers of rings in order of first use; `of`: by collective. */
static weft_status number_rings(const proof_schedule *s, ring_key *rings, size_t *out_n, uint32_t *of, arena *a) {
    hash_table table = {.entries = NULL};
    size_t n = 0;
    for (size_t i = 0; i < s->ncollectives; i++) {
        const proof_collective *c = &s->collectives[i];
        if (c->peer >= 0) continue;
        TRY(table_reserve(a, &table, n + 1));
        table_probe at = table_find(&table, table_hash((uint64_t)c->ring));
        while (at.item != TABLE_NONE && rings[at.item].ring != c->ring) table_next(&table, &at);
        if (at.item == TABLE_NONE) {
            rings[n] = (ring_key){c->ring, (uint32_t)n};
            table_put(&table, &at, (uint32_t)n++);
        }
        of[i] = at.item;
    }
    *out_n = n;
    return NULL;
}

static weft_status list_sequences(const proof_schedule *s, arena *a, arena *scratch, proof_class *out) {
    size_t n = 0, m = s->ncollectives + 1;
    ring_key *rings = ARENA_ARRAY(scratch, ring_key, m);
    uint32_t *number = ARENA_ARRAY(scratch, uint32_t, m), *place = ARENA_ARRAY(scratch, uint32_t, m), first = 0;
    if (!rings || !number || !place) return base_out_of_memory();
    TRY(number_rings(s, rings, &n, number, scratch));
    if (n > 1) qsort(rings, n, sizeof *rings, compare_keys);
    for (size_t k = 0; k < n; k++) place[rings[k].index] = (uint32_t)k;
    out->order = ARENA_ARRAY(a, uint32_t, m);
    out->sequences = ARENA_ARRAY(a, ring_sequence, n + 1);
    if (!out->order || !out->sequences) return base_out_of_memory();
    out->nsequences = n;
    for (size_t i = 0; i < s->ncollectives; i++)
        if (s->collectives[i].peer < 0) out->sequences[place[number[i]]].count++;
    for (size_t k = 0; k < n; k++) {
        out->sequences[k].ring = rings[k].ring;
        out->sequences[k].first = first;
        first += out->sequences[k].count;
        out->sequences[k].count = 0;
    }
    for (uint32_t i = 0; i < s->ncollectives; i++) {
        if (s->collectives[i].peer >= 0) continue;
        ring_sequence *of = &out->sequences[place[number[i]]];
        out->order[of->first + of->count++] = i;
    }
    return NULL;
}

weft_status sequences_list(const proof_schedule *s, arena *a, proof_class *out) {
    arena scratch;
    arena_init(&scratch, a->allocator);
    out->schedule = s;
    weft_status status = list_sequences(s, a, &scratch, out);
    arena_fini(&scratch);
    return status ? status : list_peers(s, a, out);
}

mixture sequences_moved(const proof_schedule *s, const proof_collective *c, const mixture *names) {
    mixture d = {1, 2};
    mix(&d, c->nmembers);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const proof_member *m = &s->members[c->first_member + i];
        mixture of_name = names && m->var != PROOF_NONE ? names[m->var] : mixture_of_text(m->name, strlen(m->name));
        mix_three(&d, of_name.a, of_name.b, (uint64_t)m->offset);
        mix(&d, (uint64_t)m->nbytes);
    }
    return d;
}

weft_status sequences_look_at_moved(proof_class *c, const mixture *names, arena *a) {
    const proof_schedule *s = c->schedule;
    mixture *moved = ARENA_ARRAY(a, mixture, s->ncollectives + 1);
    if (!moved) return base_out_of_memory();
    for (size_t i = 0; i < s->ncollectives; i++) moved[i] = sequences_moved(s, &s->collectives[i], names);
    c->moved = moved;
    return NULL;
}

const ring_sequence *sequences_find(const proof_class *c, int64_t ring_id) {
    size_t low = 0, high = c->nsequences;
    /* Most programs number their rings from 0, and use them all. */
    if (ring_id >= 0 && (uint64_t)ring_id < high && c->sequences[ring_id].ring == ring_id)
        return &c->sequences[ring_id];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->sequences[middle].ring < ring_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->nsequences && c->sequences[low].ring == ring_id ? &c->sequences[low] : NULL;
}

const int64_t *ring_members(const proof_ranks *r, int64_t rank, int64_t ring_id, size_t *out_count) {
    const ring *found = r->programs[rank] ? program_find_ring(r->programs[rank], ring_id) : NULL;
    *out_count = found ? (size_t)found->nranks : (size_t)r->nranks;
    return found ? found->ranks : r->all;
}
