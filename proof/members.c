/* members.c: see members.h. Worlds of thousands of ranks have many rings of few lists of members, and ranks of few
 * kinds: what is asked of a ring is asked of the kinds that are on it. */
#include "proof/members.h"

#include "program/grow.h"

void member_lists_init(member_lists *m, arena *a) {
    *m = (member_lists){.arena = a};
}

/* A few of the members are enough to tell most lists apart. */
static uint64_t hash_of(const int64_t *ranks, size_t count) {
    mixture d = {1, 2};
    size_t step = count / 8 + 1;
    mix(&d, count);
    for (size_t i = 0; i < count; i += step) mix(&d, (uint64_t)ranks[i]);
    if (count) mix(&d, (uint64_t)ranks[count - 1]);
    return d.a;
}

static bool is_list(const member_list *l, const int64_t *ranks, size_t count, uint64_t hash) {
    if (l->hash != hash || l->count != count) return false;
    return !count || l->ranks == ranks || memcmp(l->ranks, ranks, count * sizeof *ranks) == 0;
}

static uint32_t *find_list(const member_lists *m, const int64_t *ranks, size_t count, uint64_t hash) {
    size_t i = (size_t)(hash >> 8) & (m->table_capacity - 1);
    while (m->table[i] && !is_list(&m->items[m->table[i] - 1], ranks, count, hash))
        i = (i + 1) & (m->table_capacity - 1);
    return &m->table[i];
}

static weft_status make_room(member_lists *m) {
    size_t capacity = m->table_capacity ? 2 * m->table_capacity : 64;
    if (2 * (m->count + 1) <= m->table_capacity) return NULL;
    if (!(m->table = ARENA_ARRAY(m->arena, uint32_t, capacity))) return base_out_of_memory();
    m->table_capacity = capacity;
    for (size_t i = 0; i < m->count; i++) {
        const member_list *l = &m->items[i];
        *find_list(m, l->ranks, l->count, l->hash) = (uint32_t)i + 1;
    }
    return NULL;
}

static weft_status add_list(member_lists *m, const ring *r, uint32_t *out) {
    uint64_t hash = hash_of(r->ranks, (size_t)r->nranks);
    TRY(make_room(m));
    uint32_t *cell = find_list(m, r->ranks, (size_t)r->nranks, hash);
    if (!*cell) {
        TRY(grow(m->arena, &m->items, &m->capacity, m->count + 1, sizeof *m->items));
        m->items[m->count++] = (member_list){.ranks = r->ranks, .count = (size_t)r->nranks, .hash = hash};
        *cell = (uint32_t)m->count;
    }
    *out = *cell - 1;
    return NULL;
}

struct known_rings {
    mixture rings;
    uint32_t number_plus_1; /* 0: free */
};

static struct known_rings *find_rings(struct known_rings *table, size_t capacity, const mixture *rings) {
    size_t i = (size_t)(rings->a >> 8) & (capacity - 1);
    while (table[i].number_plus_1 && !mixture_equal(&table[i].rings, rings)) i = (i + 1) & (capacity - 1);
    return &table[i];
}

static weft_status number_rings(member_lists *m, const mixture *rings, uint32_t *out) {
    if (2 * (m->nknown + 1) > m->known_capacity) {
        size_t capacity = m->known_capacity ? 2 * m->known_capacity : 64;
        struct known_rings *table = ARENA_ARRAY(m->arena, struct known_rings, capacity);
        if (!table) return base_out_of_memory();
        for (size_t i = 0; i < m->known_capacity; i++)
            if (m->known[i].number_plus_1) *find_rings(table, capacity, &m->known[i].rings) = m->known[i];
        m->known = table;
        m->known_capacity = capacity;
    }
    struct known_rings *found = find_rings(m->known, m->known_capacity, rings);
    if (!found->number_plus_1) *found = (struct known_rings){*rings, (uint32_t)++m->nknown};
    *out = found->number_plus_1 - 1;
    return NULL;
}

weft_status member_lists_add(member_lists *m, const weft_program *p, program_rings *out) {
    mixture d = {1, 2};
    uint32_t *list_of = ARENA_ARRAY(m->arena, uint32_t, p->nrings + 1);
    if (!list_of) return base_out_of_memory();
    for (size_t i = 0; i < p->nrings; i++) {
        TRY(add_list(m, &p->rings[i], &list_of[i]));
        mix(&d, (uint64_t)p->rings[i].id);
        mix(&d, list_of[i]);
    }
    out->list_of = list_of;
    return number_rings(m, &d, &out->number);
}

/* --- parties ------------------------------------------------------------------------------------------------------ */

static party *find_party(party **table, size_t capacity, uint32_t class, uint32_t rings, size_t *out_at) {
    size_t i = (size_t)(((uint64_t) class << 32 | rings) * 0x9E3779B97F4A7C15u >> 20) & (capacity - 1);
    while (table[i] && (table[i]->class != class || table[i]->rings != rings)) i = (i + 1) & (capacity - 1);
    *out_at = i;
    return table[i];
}

weft_status parties_find(member_lists *lists, const weft_program *const *programs, const uint32_t *class_of,
                         const program_rings *rings_of, int64_t nranks, arena *a, rank_parties *out) {
    size_t n = (size_t)nranks + 1, capacity = 16, at;
    while (capacity < 2 * n) capacity *= 2;
    *out = (rank_parties){.lists = lists, .programs = programs, .rings_of = rings_of, .nranks = nranks};
    out->party_of = ARENA_ARRAY(a, uint32_t, n);
    out->items = ARENA_ARRAY(a, party, n);
    out->met = ARENA_ARRAY(a, uint32_t, n);
    party **table = ARENA_ARRAY(a, party *, capacity);
    if (!out->party_of || !out->items || !out->met || !table) return base_out_of_memory();
    for (int64_t r = 0; r < nranks; r++) {
        out->party_of[r] = UINT32_MAX;
        if (class_of[r] == UINT32_MAX) continue;
        party *of = find_party(table, capacity, class_of[r], rings_of[r].number, &at);
        if (!of) {
            of = table[at] = &out->items[out->count++];
            *of = (party){.class = class_of[r], .rings = rings_of[r].number, .first_rank = r};
        }
        of->nranks++;
        out->party_of[r] = (uint32_t)(of - out->items);
    }
    for (size_t i = 0; i < lists->count; i++) lists->items[i].parties = NULL; /* of other classes */
    return NULL;
}

static weft_status attend(rank_parties *p, member_list *l) {
    size_t n = 0, capacity = 0;
    attendance *found = NULL;
    l->nabsent = 0;
    for (size_t i = 0; i < l->count; i++) {
        int64_t rank = l->ranks[i];
        uint32_t of = rank >= 0 && rank < p->nranks ? p->party_of[rank] : UINT32_MAX;
        l->nabsent += of == UINT32_MAX;
        if (of == UINT32_MAX) continue;
        if (!p->met[of]) {
            TRY(grow(p->lists->arena, &found, &capacity, n + 1, sizeof *found));
            found[n++] = (attendance){.party = of, .first = rank};
            p->met[of] = (uint32_t)n;
        }
        found[p->met[of] - 1].count++;
    }
    for (size_t i = 0; i < n; i++) p->met[found[i].party] = 0;
    TRY(grow(p->lists->arena, &found, &capacity, n + 1, sizeof *found)); /* one that nobody attends is made too */
    l->parties = found;
    l->nparties = n;
    l->asked = -1;
    l->is_uniform = true;
    for (size_t i = 1; i < n; i++) l->is_uniform &= p->items[found[i].party].rings == p->items[found[0].party].rings;
    return NULL;
}

static member_list *find_of(const rank_parties *p, uint32_t of_party, int64_t ring_id) {
    int64_t rank = p->items[of_party].first_rank;
    const ring *r = program_find_ring(p->programs[rank], ring_id);
    return r ? &p->lists->items[p->rings_of[rank].list_of[r - p->programs[rank]->rings]] : NULL;
}

weft_status parties_at(rank_parties *p, uint32_t of_party, int64_t ring_id, member_list **out) {
    member_list *l = find_of(p, of_party, ring_id);
    if (l && !l->parties) TRY(attend(p, l));
    *out = l;
    return NULL;
}

bool parties_agree(const rank_parties *p, member_list *list, int64_t ring_id) {
    if (list->is_uniform || list->asked == ring_id) return !list->nabsent && (list->is_uniform || list->is_agreed);
    list->asked = ring_id;
    list->is_agreed = true;
    for (size_t i = 0; i < list->nparties && list->is_agreed; i++)
        list->is_agreed = find_of(p, list->parties[i].party, ring_id) == list;
    return !list->nabsent && list->is_agreed;
}
