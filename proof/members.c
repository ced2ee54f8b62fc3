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

static bool is_list(const member_list *l, const ring *r) {
    size_t count = (size_t)r->nranks;
    if (l->count != count) return false;
    return !count || l->ranks == r->ranks || memcmp(l->ranks, r->ranks, count * sizeof *r->ranks) == 0;
}

static weft_status add_list(member_lists *m, const ring *r, uint32_t *out) {
    TRY(table_reserve(m->arena, &m->table, m->count + 1));
    TRY(grow(m->arena, &m->items, &m->capacity, m->count + 1, sizeof *m->items));
    table_probe at = table_find(&m->table, table_hash(hash_of(r->ranks, (size_t)r->nranks)));
    while (at.item != TABLE_NONE && !is_list(&m->items[at.item], r)) table_next(&m->table, &at);
    if (at.item == TABLE_NONE) {
        m->items[m->count] = (member_list){.ranks = r->ranks, .count = (size_t)r->nranks};
        table_put(&m->table, &at, (uint32_t)m->count++);
    }
    *out = at.item;
    return NULL;
}

static weft_status number_rings(member_lists *m, const mixture *rings, uint32_t *out) {
    TRY(table_reserve(m->arena, &m->known_table, m->nknown + 1));
    TRY(grow(m->arena, &m->known, &m->known_capacity, m->nknown + 1, sizeof *m->known));
    table_probe at = table_find(&m->known_table, table_hash(rings->a));
    while (at.item != TABLE_NONE && !mixture_equal(&m->known[at.item], rings)) table_next(&m->known_table, &at);
    if (at.item == TABLE_NONE) {
        m->known[m->nknown] = *rings;
        table_put(&m->known_table, &at, (uint32_t)m->nknown++);
    }
    *out = at.item;
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

/* The number of ranks of that class with those rings; it may be a new one. There is room for it. */
static uint32_t number_party(rank_parties *p, hash_table *table, uint32_t class, uint32_t rings, int64_t rank) {
    table_probe at = table_find(table, table_hash((uint64_t) class << 32 | rings));
    while (at.item != TABLE_NONE && (p->items[at.item].class != class || p->items[at.item].rings != rings))
        table_next(table, &at);
    if (at.item == TABLE_NONE) {
        p->items[p->count] = (party){.class = class, .rings = rings, .first_rank = rank};
        table_put(table, &at, (uint32_t)p->count++);
    }
    return at.item;
}

weft_status parties_find(member_lists *lists, const weft_program *const *programs, const uint32_t *class_of,
                         const program_rings *rings_of, int64_t nranks, arena *a, rank_parties *out) {
    size_t n = (size_t)nranks + 1;
    hash_table table = {.entries = NULL};
    *out = (rank_parties){.lists = lists, .programs = programs, .rings_of = rings_of, .nranks = nranks};
    out->party_of = ARENA_ARRAY(a, uint32_t, n);
    out->items = ARENA_ARRAY(a, party, n);
    out->met = ARENA_ARRAY(a, uint32_t, n);
    if (!out->party_of || !out->items || !out->met) return base_out_of_memory();
    for (int64_t r = 0; r < nranks; r++) {
        out->party_of[r] = UINT32_MAX;
        if (class_of[r] == UINT32_MAX) continue;
        TRY(table_reserve(a, &table, out->count + 1));
        out->party_of[r] = number_party(out, &table, class_of[r], rings_of[r].number, r);
        out->items[out->party_of[r]].nranks++;
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
