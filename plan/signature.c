/* signature.c: what members must agree on in a collective, as a number that can be compared and as text.
 *
 * Attrs count where the op type has them. Of conditions only how many there are: ranks may give theirs other names.
 * What an all_to_all sends differs between members by design, so it is no part of the number: each pair's elements,
 * mixed with who they are, are added on the side that sends and taken off on the one that takes. The sum must be 0. */
#include "plan/signature.h"

#include <stdarg.h>
#include <stdio.h>

#include "ops/collectives.h"
#include "program/form.h"

uint64_t signature_mix(uint64_t seed, uint64_t value) {
    uint64_t z = (seed ^ value) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* What a collective is about: its first input, else its first output; NULL for a barrier. */
static const plan_value *payload(const weft_plan *plan, const plan_instr *instr) {
    size_t nin = instr->in_first[instr->schema->ninputs], nout = instr->out_first[instr->schema->noutputs];
    for (size_t i = 0; i < nin; i++) {
        if (instr->in[i] >= 0) return &plan->values[instr->in[i]];
    }
    for (size_t i = 0; i < nout; i++) {
        if (instr->out[i] >= 0) return &plan->values[instr->out[i]];
    }
    return NULL;
}

/* Whether members may send each other parts of different sizes. */
static bool is_exchange(const plan_instr *instr) {
    const collective_schema *c = instr->schema->collective;
    return c->kind == COLLECTIVE_ALL_TO_ALL && c->form != COLLECTIVE_WHOLE;
}

/* Of members that have rows of any number: what all have is of one dimension. */
static int64_t count_lists(const weft_plan *plan, const int32_t *values, uint32_t n) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (values[i] >= 0 && plan->values[values[i]].shape.ndim == 1)
            sum += shape_numel(&plan->values[values[i]].shape);
    return sum;
}

static int64_t count_elements(const weft_plan *plan, const int32_t *values, uint32_t n) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (values[i] >= 0) sum += shape_numel(&plan->values[values[i]].shape);
    return sum;
}

/* Elements that all ranks must agree on: of the inputs; of the output where only the root's inputs count. -1 where
 * members may send each other parts of different sizes. */
static int64_t agreed_count(const weft_plan *plan, const plan_instr *instr) {
    const op_schema *s = instr->schema;
    if (is_exchange(instr)) return -1;
    uint32_t nin = instr->in_first[s->ninputs], nout = instr->out_first[s->noutputs];
    if (s->collective->form == COLLECTIVE_ROWS) return count_lists(plan, instr->in, nin);
    bool by_output = !nin || s->collective->kind == COLLECTIVE_SCATTER;
    return by_output ? count_elements(plan, instr->out, nout) : count_elements(plan, instr->in, nin);
}

static int count_guards(const plan_instr *instr) {
    return (instr->guard >= 0) + (instr->outer_guard >= 0);
}

/* What a pass says of the gradients that one bucket reduces; 0 if it is no bucket. */
static uint64_t fingerprint(const plan_instr *instr) {
    return (uint64_t)attr_int(instr->op, "bucket_fingerprint", 0);
}

/* Attrs in which members must agree. */
enum { MOST_AGREED = 4 };

static int agreed_attrs(const collective_schema *c, const char *out[MOST_AGREED]) {
    int n = 0;
    if (c->root_attr) out[n++] = c->root_attr;
    if (c->reduce_attr) out[n++] = c->reduce_attr;
    if (c->form == COLLECTIVE_PART) out[n++] = "num", out[n++] = "id";
    return n;
}

uint64_t signature_of(const weft_plan *plan, const plan_instr *instr, bool with_bucket) {
    const char *type = instr->schema->type;
    const plan_value *v = payload(plan, instr);
    uint64_t h = base_hash(type, strlen(type));
    h = signature_mix(h, v ? (uint64_t)v->shape.dtype : UINT64_MAX);
    h = signature_mix(h, v ? (uint64_t)agreed_count(plan, instr) : 0);
    h = signature_mix(h, (uint64_t)count_guards(instr));
    const char *attrs[MOST_AGREED];
    int nattrs = agreed_attrs(instr->schema->collective, attrs);
    for (int i = 0; i < nattrs; i++) h = signature_mix(h, (uint64_t)attr_int(instr->op, attrs[i], 0));
    return with_bucket ? signature_mix(h, fingerprint(instr)) : h;
}

/* --- exchanges ---------------------------------------------------------------------------------------------------- */

/* Argument `peer` of a list; else part `peer` of the one tensor, as its splits say. */
static int64_t part(const weft_plan *plan, const plan_instr *instr, const int32_t *values, uint32_t n, bool gets,
                    int nranks, int peer) {
    bool is_list = instr->schema->collective->form == COLLECTIVE_LIST;
    uint32_t k = is_list ? (uint32_t)peer : 0;
    if (k >= n || values[k] < 0) return 0;
    const shape *s = &plan->values[values[k]].shape;
    if (is_list) return shape_numel(s);
    size_t nsplits;
    const int64_t *splits = op_collective_splits(instr->op, gets, &nsplits);
    if (!nsplits || s->ndim < 1) return shape_numel(s) / nranks;
    return (size_t)peer < nsplits && s->dims[0] > 0 ? splits[peer] * (shape_numel(s) / s->dims[0]) : 0;
}

int64_t signature_sent(const weft_plan *plan, const plan_instr *instr, int nranks, int peer) {
    return part(plan, instr, instr->in, instr->in_first[instr->schema->ninputs], false, nranks, peer);
}

int64_t signature_taken(const weft_plan *plan, const plan_instr *instr, int nranks, int peer) {
    return part(plan, instr, instr->out, instr->out_first[instr->schema->noutputs], true, nranks, peer);
}

uint64_t signature_of_pair(const weft_plan *plan, const plan_instr *instr) {
    const plan_value *v = payload(plan, instr);
    int64_t num = op_collective(instr->op)->form == COLLECTIVE_PART ? attr_int(instr->op, "num", 1) : 1;
    uint64_t h = signature_mix(0, v ? (uint64_t)v->shape.dtype : UINT64_MAX);
    h = signature_mix(h, v && num > 0 ? (uint64_t)(shape_numel(&v->shape) / num) : 0);
    return signature_mix(h, (uint64_t)count_guards(instr));
}

uint64_t signature_transfer(int64_t from, int64_t to, uint64_t what) {
    return signature_mix(signature_mix((uint64_t)from << 32 | (uint32_t)to, 0), what);
}

uint64_t signature_balance(const weft_plan *plan, const plan_instr *instr, int self, int nranks) {
    uint64_t sum = 0;
    if (!is_exchange(instr)) return 0;
    for (int peer = 0; peer < nranks; peer++) {
        sum += signature_transfer(self, peer, (uint64_t)signature_sent(plan, instr, nranks, peer));
        sum -= signature_transfer(peer, self, (uint64_t)signature_taken(plan, instr, nranks, peer));
    }
    return sum;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void append(char *out, size_t nbytes, const char *format, ...) WEFT_PRINTF(3, 4);
static void append(char *out, size_t nbytes, const char *format, ...) {
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + n, nbytes - n, format, args);
    va_end(args);
}

void signature_text(const weft_plan *plan, const plan_instr *instr, char *out, size_t nbytes) {
    char op[200];
    snprintf(out, nbytes, "runs %s", instr ? instr_place(instr, op, sizeof op) : "none");
    if (!instr) return;
    const plan_value *v = payload(plan, instr);
    int64_t count = agreed_count(plan, instr);
    const char *dtype = v ? weft_dtype_name((weft_dtype)v->shape.dtype) : NULL;
    if (v && count >= 0)
        append(out, nbytes, " of %lld %s", (long long)count, dtype ? dtype : "?");
    else if (v)
        append(out, nbytes, " of %s", dtype ? dtype : "?");
    const char *attrs[MOST_AGREED];
    int nattrs = agreed_attrs(instr->schema->collective, attrs);
    for (int i = 0; i < nattrs; i++) {
        int64_t value = attr_int(instr->op, attrs[i], 0);
        const char *reduce = form_reduce_name((int)value);
        if (attrs[i] == instr->schema->collective->reduce_attr)
            append(out, nbytes, ", %s", reduce ? reduce : "unknown");
        else
            append(out, nbytes, ", %s %lld", attrs[i], (long long)value);
    }
    if (count_guards(instr))
        append(out, nbytes, ", under %s", count_guards(instr) > 1 ? "two conditions" : "a condition");
    if (fingerprint(instr)) append(out, nbytes, ", fingerprint %016llx", (unsigned long long)fingerprint(instr));
}
