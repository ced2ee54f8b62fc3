/* plan_check.c: brute force. Happens-before is a matrix closed over stream order and waits; conflicts are all pairs of
 * overlapping accesses; contents are played through in two memories: the plan's, and one where no buffers share. */
#include "tests/support/plan_check.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct access {
    int instr, value;
    bool is_write;
} access;

typedef struct checker {
    const weft_plan *plan;
    access *accesses;
    size_t naccesses;
    bool *before;          /* [i * n + j]: i is complete when j starts */
    int64_t *private_base; /* by value: where its buffer begins in private memory */
    int64_t private_nbytes;
    bool legal;
    char *out;
    size_t out_nbytes;
} checker;

static void add(checker *c, int instr, int32_t value, bool is_write) {
    const weft_plan *p = c->plan;
    if (value < 0) return;
    c->accesses = realloc(c->accesses, (c->naccesses + 2) * sizeof *c->accesses);
    if (p->values[value].nbytes) c->accesses[c->naccesses++] = (access){instr, value, is_write};
    if (p->values[value].rows >= 0) add(c, instr, p->values[value].rows, is_write);
}

static void list_accesses(checker *c) {
    for (int i = 0; i < (int)c->plan->ninstrs; i++) {
        const plan_instr *p = &c->plan->instrs[i];
        add(c, i, p->guard, false);
        add(c, i, p->outer_guard, false);
        bool coalesces = strcmp(p->schema->type, "coalesce_tensor") == 0;
        for (size_t s = 0; s < p->schema->ninputs; s++)
            for (uint32_t k = p->in_first[s]; !p->schema->inputs[s].only_type && k < p->in_first[s + 1]; k++)
                if (!coalesces || p->in[k] != p->out[k]) add(c, i, p->in[k], false);
        for (uint32_t k = 0; k < p->out_first[p->schema->noutputs]; k++) add(c, i, p->out[k], true);
    }
}

static int32_t root_of(const weft_plan *p, int32_t v) {
    while (p->values[v].view_of >= 0) v = p->values[v].view_of;
    return v;
}

/* Bytes in the plan's memory, or (own) in memory where every buffer has its own. */
static int64_t begin_of(const checker *c, int32_t v, bool own) {
    const plan_value *p = &c->plan->values[v];
    if (own) return c->private_base[root_of(c->plan, v)] + p->offset - c->plan->values[root_of(c->plan, v)].offset;
    return p->offset + (p->space == PLAN_TEMPORARY ? c->plan->persistent_nbytes : 0);
}

static bool overlap(const checker *c, int32_t x, int32_t y, bool own) {
    int64_t a = begin_of(c, x, own), b = begin_of(c, y, own);
    return a < b + c->plan->values[y].nbytes && b < a + c->plan->values[x].nbytes;
}

/* Happens-before without the wait number `skip` of the whole plan (-1: with all). */
static void close_order(checker *c, int skip) {
    int n = (int)c->plan->ninstrs, seen = 0;
    memset(c->before, 0, (size_t)n * (size_t)n);
    for (int j = 0; j < n; j++) {
        const plan_instr *q = &c->plan->instrs[j];
        for (int i = 0; i < j; i++)
            if (c->plan->instrs[i].stream == q->stream) c->before[i * n + j] = true;
        for (uint32_t w = 0; w < q->nwaits; w++, seen++)
            for (int i = 0; i < n && seen != skip; i++) {
                const plan_instr *p = &c->plan->instrs[i];
                if (p->stream == q->waits[w].stream && p->position < q->waits[w].count) c->before[i * n + j] = true;
            }
        for (int m = 0; m < j; m++)
            for (int i = 0; i < m && c->before[m * n + j]; i++)
                if (c->before[i * n + m]) c->before[i * n + j] = true;
    }
}

/* A conflicting pair that nothing orders; own: only conflicts of the program itself, not those of shared memory. */
static bool find_race(const checker *c, bool own) {
    int n = (int)c->plan->ninstrs;
    for (size_t x = 0; x < c->naccesses; x++)
        for (size_t y = x + 1; y < c->naccesses; y++) {
            const access *a = &c->accesses[x], *b = &c->accesses[y];
            if (a->instr == b->instr || (!a->is_write && !b->is_write) || !overlap(c, a->value, b->value, own))
                continue;
            bool is_in_order = !own || c->plan->instrs[a->instr].op_index <= c->plan->instrs[b->instr].op_index;
            if (c->before[a->instr * n + b->instr] && is_in_order) continue;
            snprintf(c->out, c->out_nbytes, "race between #%d on \"%s\" and #%d on \"%s\"", a->instr,
                     c->plan->values[a->value].name, b->instr, c->plan->values[b->value].name);
            return true;
        }
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            const plan_instr *p = &c->plan->instrs[i], *q = &c->plan->instrs[j];
            if (p->ring_id < 0 || p->ring_id != q->ring_id || c->before[i * n + j]) continue;
            snprintf(c->out, c->out_nbytes, "collectives #%d and #%d of one ring are not ordered", i, j);
            return true;
        }
    return false;
}

/* Whether output argument k of slot `out` may lie on input argument i of slot `in`. */
static bool is_pair(const plan_instr *p, size_t out, uint32_t k, size_t in, uint32_t i) {
    return p->schema->outputs[out].in_place_of == (int)in && k - p->out_first[out] == i - p->in_first[in];
}

/* No kernel writes over what it reads, save where its schema allows it and the bytes are the same. */
static bool in_place_is_legal(const checker *c, int instr) {
    const plan_instr *p = &c->plan->instrs[instr];
    if (strcmp(p->schema->type, "coalesce_tensor") == 0) return true;
    for (size_t out = 0; out < p->schema->noutputs; out++)
        for (uint32_t k = p->out_first[out]; k < p->out_first[out + 1]; k++)
            for (size_t in = 0; in < p->schema->ninputs; in++)
                for (uint32_t i = p->in_first[in]; !p->schema->inputs[in].only_type && i < p->in_first[in + 1]; i++) {
                    int32_t x = p->in[i], y = p->out[k];
                    if (x < 0 || y < 0 || !overlap(c, x, y, false)) continue;
                    bool same = begin_of(c, x, false) == begin_of(c, y, false) &&
                                c->plan->values[x].nbytes == c->plan->values[y].nbytes;
                    if (same && is_pair(p, out, k, in, i)) continue;
                    snprintf(c->out, c->out_nbytes, "#%d %s writes \"%s\" over its input \"%s\"", instr,
                             p->schema->type, c->plan->values[y].name, c->plan->values[x].name);
                    return false;
                }
    return true;
}

static bool contents_agree(checker *c) {
    const weft_plan *p = c->plan;
    int *shared = calloc((size_t)(p->persistent_nbytes + p->temporary_nbytes) + 1, sizeof *shared);
    int *own = calloc((size_t)c->private_nbytes + 1, sizeof *own);
    bool agree = true;
    for (size_t k = 0; k < c->naccesses && agree; k++) {
        const access *a = &c->accesses[k];
        int64_t s = begin_of(c, a->value, false), o = begin_of(c, a->value, true);
        for (int64_t at = 0; at < p->values[a->value].nbytes && agree; at++) {
            if (a->is_write)
                shared[s + at] = own[o + at] = a->instr + 1;
            else
                agree = !own[o + at] || shared[s + at] == own[o + at];
        }
        if (!agree)
            snprintf(c->out, c->out_nbytes, "#%d reads \"%s\" after its bytes were given to another value", a->instr,
                     p->values[a->value].name);
    }
    free(shared);
    free(own);
    return agree;
}

static bool waits_needed(checker *c) {
    int nwaits = 0;
    for (size_t i = 0; i < c->plan->ninstrs; i++) nwaits += (int)c->plan->instrs[i].nwaits;
    for (int w = 0; w < nwaits; w++) {
        close_order(c, w);
        if (find_race(c, true)) continue;
        snprintf(c->out, c->out_nbytes, "wait %d is not needed", w);
        return false;
    }
    return true;
}

bool plan_check(const weft_plan *plan, bool minimal, char *out, size_t out_nbytes) {
    checker c = {.plan = plan, .legal = true, .out = out, .out_nbytes = out_nbytes};
    c.before = calloc(plan->ninstrs * plan->ninstrs + 1, 1);
    c.private_base = calloc(plan->nvalues + 1, sizeof *c.private_base);
    for (size_t v = 0; v < plan->nvalues; v++) {
        c.private_base[v] = c.private_nbytes;
        c.private_nbytes += plan->values[v].nbytes;
    }
    list_accesses(&c);
    close_order(&c, -1);
    for (int i = 0; i < (int)plan->ninstrs; i++) c.legal = c.legal && in_place_is_legal(&c, i);
    bool good = c.legal && !find_race(&c, false) && contents_agree(&c) && (!minimal || waits_needed(&c));
    free(c.accesses);
    free(c.before);
    free(c.private_base);
    return good;
}
