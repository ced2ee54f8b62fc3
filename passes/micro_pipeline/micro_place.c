/* micro_place.c: where a pair's ops can stand side by side: behind all that they read, before all that reads them, and
 * where nothing in between writes the same bytes. */
#include <stdlib.h>

#include "passes/micro_pipeline/micro.h"

enum { MOST_LOOKS = 512 }; /* at ops, for one operand: a pass must take linear time */
#define RISING UINT32_MAX  /* an op that is to go up; to where comes later */

/* --- dependence --------------------------------------------------------------------------------------------------- */

typedef struct search {
    micro_pass *m;
    const weft_op *of;
    size_t nlooks;
} search;

/* What is written to it before `reader`. */
static bool search_var(search *s, const weft_var *v, const weft_op *reader) {
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (!u->is_output || op->block != s->m->block || op->mark >= reader->mark) continue;
        if (op == s->of) return true;
        if (op->mark < s->of->mark || s->m->seen[op->mark] == s->m->nsearches) continue;
        s->m->seen[op->mark] = s->m->nsearches;
        if (++s->nlooks > MOST_LOOKS) return true;
        FOR_EACH_ARG(op, false, arg) {
            if (search_var(s, use_var(op->program, arg), op)) return true;
        }
    }
    return false;
}

bool micro_depends(micro_pass *m, const weft_var *v, const weft_op *reader, const weft_op *of) {
    search s = {.m = m, .of = of};
    m->nsearches++;
    return search_var(&s, v, reader);
}

/* --- the place ---------------------------------------------------------------------------------------------------- */

typedef struct span {
    uint32_t first;  /* position of the pair's first op */
    uint32_t after;  /* 1 + the position behind which all that they read is written */
    uint32_t before; /* the position of the first other op that reads what they write */
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
        if ((all[low].flags & flags) && !is_own(m, p, all[low].position) && m->raised_to[all[low].position] != RISING)
            return false;
    return true;
}

/* A matrix of rows that others read too is made anew for the product: what it is made of counts. */
static weft_op *made_anew(const micro_pass *m, const micro_pair *p, const weft_op *op, const weft_var *v) {
    for (size_t k = 0; k < p->nproducts; k++) {
        weft_op *before = p->products[k].op == op ? p->products[k].before : NULL;
        if (before && !is_own(m, p, before->mark) && p->products[k].a == v) return before;
    }
    return NULL;
}

static int by_position(const void *a, const void *b) {
    const weft_op *x = *(weft_op *const *)a, *y = *(weft_op *const *)b;
    return x->mark < y->mark ? -1 : x->mark > y->mark;
}

/* Whether the op can move to the pair's place: what it reads is not written on the way, what it writes not touched. */
static bool can_move(const micro_pass *m, const micro_pair *p, weft_op *op, uint32_t place) {
    uint32_t begin = op->mark < place ? op->mark : place, end = op->mark < place ? place : op->mark;
    FOR_EACH_ARG(op, false, u) {
        const weft_var *v = use_var(op->program, u);
        if (!made_anew(m, p, op, v) && !is_quiet(m, p, v, begin, end, ACCESS_WRITE)) return false;
    }
    FOR_EACH_ARG(op, true, u) {
        if (!is_quiet(m, p, use_var(op->program, u), begin, end, ACCESS_READ | ACCESS_WRITE)) return false;
    }
    return true;
}

/* The position before which an op's result is there: behind it, or where it was put for a pair. */
static uint32_t made_at(const micro_pass *m, const weft_op *op) {
    const weft_op *pair = m->pair_of[op->mark];
    if (m->raised_to[op->mark]) return m->raised_to[op->mark] - 1;
    uint32_t place = pair ? m->place_of[pair->mark] : 0;
    return place > op->mark ? place : op->mark + 1;
}

static void note_outputs(const micro_pass *m, const micro_pair *p, weft_op *op, span *s) {
    FOR_EACH_ARG(op, true, arg) {
        const weft_var *v = use_var(op->program, arg);
        FOR_EACH_USE(u, v) {
            const weft_op *by = use_op(v->program, u);
            if (by->block != m->block || is_own(m, p, by->mark)) continue;
            const weft_op *pair = m->pair_of[by->mark];
            uint32_t at = pair && m->place_of[pair->mark] < by->mark ? m->place_of[pair->mark] : by->mark;
            if (at < s->before) s->before = at;
        }
    }
}

/* Whether an op may go up: it computes from its inputs, and nothing else. */
static bool may_rise(const micro_pass *m, const micro_pair *p, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    return schema && p->nraised < MICRO_RAISED && !m->pair_of[op->mark] && !m->raised_to[op->mark] &&
           !(schema->effects & (OP_COLLECTIVE | OP_RANDOM | OP_HOST | OP_NO_BYTES | OP_ALIASES | OP_CONTROL)) &&
           !op->dist;
}

static void note_inputs(micro_pass *m, micro_pair *p, weft_op *op, span *s);

/* An operand that is made after a result is read comes from ops that rise with the pair, if they may. */
static void note_writer(micro_pass *m, micro_pair *p, weft_op *by, span *s) {
    uint32_t at = made_at(m, by);
    if (at > s->before && may_rise(m, p, by)) {
        p->raised[p->nraised++] = by;
        m->raised_to[by->mark] = RISING;
        note_inputs(m, p, by, s);
    } else if (at > s->after) {
        s->after = at;
    }
}

static void note_inputs(micro_pass *m, micro_pair *p, weft_op *op, span *s) {
    FOR_EACH_ARG(op, false, arg) {
        const weft_var *v = use_var(op->program, arg);
        weft_op *before = made_anew(m, p, op, v);
        if (before) note_inputs(m, p, before, s);
        if (before || reads_own(m, p, v)) continue;
        FOR_EACH_USE(u, v) {
            weft_op *by = use_op(v->program, u);
            bool is_raised = m->raised_to[by->mark] == RISING;
            if (u->is_output && by->block == m->block && by->mark < op->mark && !is_raised) note_writer(m, p, by, s);
        }
    }
}

static void set_place(micro_pass *m, micro_pair *p, bool taken, uint32_t place) {
    for (size_t i = 0; i < p->nops && !taken; i++) m->pair_of[p->ops[i]->mark] = NULL;
    for (size_t i = 0; i < p->nraised; i++) m->raised_to[p->raised[i]->mark] = taken ? place + 1 : 0;
    p->place = m->place_of[p->collective->mark] = place;
}

static bool all_can_move(const micro_pass *m, const micro_pair *p, uint32_t place) {
    for (size_t i = 0; i < p->nops; i++)
        if (!can_move(m, p, p->ops[i], place)) return false;
    for (size_t i = 0; i < p->nraised; i++)
        if (!can_move(m, p, p->raised[i], place)) return false;
    return true;
}

weft_status micro_place(micro_pass *m, micro_pair *p, micro_refusal *why) {
    span s = {.first = p->ops[0]->mark, .before = UINT32_MAX};
    for (size_t i = 0; i < p->nops; i++)
        if (m->pair_of[p->ops[i]->mark])
            return *why = (micro_refusal){WEFT_REASON_IN_USE, "another pair has one of its ops"}, NULL;
    for (size_t i = 0; i < p->nops; i++) m->pair_of[p->ops[i]->mark] = p->collective;
    for (size_t i = 0; i < p->nops; i++) note_outputs(m, p, p->ops[i], &s);
    for (size_t i = 0; i < p->nops; i++) note_inputs(m, p, p->ops[i], &s);
    uint32_t place = s.after > s.first ? s.after : s.first;
    if (place > s.before)
        *why = (micro_refusal){WEFT_REASON_DEPENDENCY, "an operand is made after a result is read"};
    else if (!all_can_move(m, p, place))
        *why = (micro_refusal){WEFT_REASON_DEPENDENCY, "another op touches the same bytes in between"};
    set_place(m, p, !why->words, place);
    qsort(p->raised, p->nraised, sizeof *p->raised, by_position);
    return NULL;
}

weft_op *micro_anchor(const micro_pass *m, const micro_pair *p) {
    uint32_t at = p->place;
    while (at < m->index.nops && (m->pair_of[at] || m->raised_to[at])) at++; /* those move, or go */
    return at < m->index.nops ? access_op(&m->index, at) : NULL;
}

void micro_raise(micro_pass *m, const micro_pair *p) {
    weft_op *anchor = micro_anchor(m, p);
    for (size_t i = 0; i < p->nraised; i++) /* results are read later, so the anchor is there */
        if (anchor) weft_op_move_before(p->raised[i], anchor);
}
