/* micro_place.c: where a pair's ops can stand side by side: behind all that they read, before all that reads them, and
 * where nothing in between writes the same bytes. */
#include "passes/micro_pipeline/micro.h"

enum { MOST_LOOKS = 512 }; /* at ops, for one operand: a pass must take linear time */

/* --- dependence --------------------------------------------------------------------------------------------------- */

typedef struct search {
    micro_pass *m;
    const weft_op *of;
    size_t nlooks;
} search;

static bool search_var(search *s, const weft_var *v) {
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (!u->is_output || op->block != s->m->block) continue;
        if (op == s->of) return true;
        if (op->mark < s->of->mark || s->m->seen[op->mark] == s->m->nsearches) continue;
        s->m->seen[op->mark] = s->m->nsearches;
        if (++s->nlooks > MOST_LOOKS) return true;
        FOR_EACH_ARG(op, false, arg) {
            if (search_var(s, use_var(op->program, arg))) return true;
        }
    }
    return false;
}

bool micro_depends(micro_pass *m, const weft_var *v, const weft_op *of) {
    search s = {.m = m, .of = of};
    m->nsearches++;
    return search_var(&s, v);
}

/* --- the place ---------------------------------------------------------------------------------------------------- */

typedef struct span {
    uint32_t first;  /* position of the pair's first op */
    uint32_t after;       /* 1 + the position behind which all that they read is written */
    uint32_t before;      /* the position of the first other op that reads what they write */
} span;

static bool is_own(const micro_pass *m, const micro_pair *p, uint32_t position) {
    return m->pair_of[position] == p->collective;
}

static bool reads_own(const micro_pass *m, const micro_pair *p, const weft_var *v) {
    FOR_EACH_USE(u, v) {
        const weft_op *op = use_op(v->program, u);
        if (u->is_output && op->block == m->block && is_own(m, p, op->mark)) return true;
    }
    return false;
}

/* Whether no other op from `begin` to before `end` touches the bytes of `v` so. */
static bool is_quiet(const micro_pass *m, const micro_pair *p, const weft_var *v, uint32_t begin, uint32_t end,
                     unsigned flags) {
    size_t n, low = 0, high;
    const access *all = accesses_of(&m->index, v, &n);
    for (high = n; low < high;) {
        size_t middle = (low + high) / 2;
        if (all[middle].position < begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < n && all[low].position < end; low++)
        if ((all[low].flags & flags) && !is_own(m, p, all[low].position)) return false;
    return true;
}

/* Whether the op can move to the pair's place: what it reads is not written on the way, what it writes not touched. */
static bool can_move(const micro_pass *m, const micro_pair *p, weft_op *op, uint32_t place) {
    uint32_t begin = op->mark < place ? op->mark : place, end = op->mark < place ? place : op->mark;
    FOR_EACH_ARG(op, false, u) {
        if (!is_quiet(m, p, use_var(op->program, u), begin, end, ACCESS_WRITE)) return false;
    }
    FOR_EACH_ARG(op, true, u) {
        if (!is_quiet(m, p, use_var(op->program, u), begin, end, ACCESS_READ | ACCESS_WRITE)) return false;
    }
    return true;
}

/* Where the pair of an op stands that has one; else 0. */
static uint32_t place_of(const micro_pass *m, const weft_op *op) {
    const weft_op *pair = m->pair_of[op->mark];
    return pair ? m->place_of[pair->mark] : 0;
}

static void note_inputs(const micro_pass *m, const micro_pair *p, weft_op *op, span *s) {
    FOR_EACH_ARG(op, false, arg) {
        const weft_var *v = use_var(op->program, arg);
        if (reads_own(m, p, v)) continue;
        FOR_EACH_USE(u, v) {
            const weft_op *by = use_op(v->program, u);
            if (!u->is_output || by->block != m->block || by->mark >= op->mark) continue;
            uint32_t at = by->mark + 1, place = place_of(m, by);
            if (place > at) at = place;
            if (at > s->after) s->after = at;
        }
    }
}

static void note_outputs(const micro_pass *m, const micro_pair *p, weft_op *op, span *s) {
    FOR_EACH_ARG(op, true, arg) {
        const weft_var *v = use_var(op->program, arg);
        FOR_EACH_USE(u, v) {
            const weft_op *by = use_op(v->program, u);
            if (by->block != m->block || is_own(m, p, by->mark)) continue;
            uint32_t at = m->pair_of[by->mark] && place_of(m, by) < by->mark ? place_of(m, by) : by->mark;
            if (at < s->before) s->before = at;
        }
    }
}

weft_status micro_place(micro_pass *m, micro_pair *p, micro_refusal *why) {
    span s = {.first = p->ops[0]->mark, .before = UINT32_MAX};
    for (size_t i = 0; i < p->nops; i++)
        if (m->pair_of[p->ops[i]->mark])
            return *why = (micro_refusal){WEFT_REASON_IN_USE, "another pair has one of its ops"}, NULL;
    for (size_t i = 0; i < p->nops; i++) m->pair_of[p->ops[i]->mark] = p->collective;
    for (size_t i = 0; i < p->nops; i++) {
        note_inputs(m, p, p->ops[i], &s);
        note_outputs(m, p, p->ops[i], &s);
    }
    uint32_t place = s.after > s.first ? s.after : s.first;
    for (size_t i = 0; i < p->nops; i++)
        if (!can_move(m, p, p->ops[i], place))
            *why = (micro_refusal){WEFT_REASON_DEPENDENCY, "another op touches the same bytes in between"};
    if (s.after > s.before)
        *why = (micro_refusal){WEFT_REASON_DEPENDENCY, "an operand is made after a result is read"};
    if (why->words) {
        for (size_t i = 0; i < p->nops; i++) m->pair_of[p->ops[i]->mark] = NULL;
        return NULL;
    }
    p->place = m->place_of[p->collective->mark] = place;
    return NULL;
}

weft_op *micro_anchor(const micro_pass *m, const micro_pair *p) {
    uint32_t at = p->place;
    while (at < m->index.nops && m->pair_of[at]) at++; /* those move, or go */
    return at < m->index.nops ? access_op(&m->index, at) : NULL;
}
