/* digest.c: two sums of 64 bits over what a program says. Ops count in order; slots, attrs, vars and rings in none,
 * since forms sort them differently. */
#include "program/digest.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t mix(uint64_t h, uint64_t value) {
    h ^= value + UINT64_C(0x9E3779B97F4A7C15) + (h << 6) + (h >> 2);
    h *= UINT64_C(0xBF58476D1CE4E5B9);
    return h ^ (h >> 31);
}

static uint64_t mix_bytes(uint64_t h, const void *bytes, size_t nbytes) {
    const unsigned char *at = bytes;
    uint64_t word = 0;
    for (; nbytes >= sizeof word; nbytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = mix(h, word);
    }
    word = nbytes + 1;
    for (size_t i = 0; i < nbytes; i++) word = word << 8 | at[i];
    return mix(h, word);
}

static uint64_t mix_text(uint64_t h, text t) {
    return mix_bytes(h, t.bytes, t.nbytes);
}

static uint64_t mix_string(uint64_t h, const char *s) {
    return mix_bytes(h, s ? s : "", s ? strlen(s) : 0);
}

static uint64_t mix_double(uint64_t h, double value) {
    return mix_bytes(h, &value, sizeof value);
}

static uint64_t mix_scalar(uint64_t h, const scalar *s) {
    h = mix(mix(h, (uint64_t)s->type), s->type == SCALAR_BOOLEAN ? s->b : (uint64_t)s->i);
    return s->type >= SCALAR_FLOAT64 ? mix_double(mix_double(h, s->r), s->imaginary) : h;
}

static uint64_t mix_item(uint64_t h, const weft_attr *a, size_t i) {
    switch (a->type) {
    case ATTR_INTS:
    case ATTR_BLOCKS:
    case ATTR_LONGS: return mix(h, (uint64_t)a->u.ints[i]);
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: return mix_double(h, a->u.floats[i]);
    case ATTR_BOOLEANS: return mix(h, a->u.bools[i]);
    case ATTR_STRINGS:
    case ATTR_VARS: return mix_text(h, text_of_name(a->u.strings[i]));
    case ATTR_SCALARS: return mix_scalar(h, &a->u.scalars[i]);
    default: return h;
    }
}

static uint64_t attr_digest(uint64_t h, const weft_attr *a) {
    h = mix(mix_bytes(h, a->name->bytes, a->name->nbytes), (uint64_t)a->type);
    switch (a->type) {
    case ATTR_INT:
    case ATTR_LONG:
    case ATTR_BLOCK: return mix(h, (uint64_t)a->u.i);
    case ATTR_FLOAT:
    case ATTR_FLOAT64: return mix_double(h, a->u.f);
    case ATTR_BOOLEAN: return mix(h, a->u.b);
    case ATTR_STRING:
    case ATTR_VAR: return mix_text(h, attr_text(a));
    case ATTR_SCALAR: return mix_scalar(h, a->u.scalar);
    default: break;
    }
    for (size_t i = 0; i < a->count; i++) h = mix_item(h, a, i);
    return mix(h, a->count);
}

static uint64_t slots_digest(uint64_t h, const weft_op *op, bool output) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < op_nslots(op, output); i++) {
        const slot *s = op_slot(op, output, i);
        uint64_t one = mix_bytes(h, s->name->bytes, s->name->nbytes);
        for (size_t k = 0; k < s->nargs; k++) {
            const name *n = slot_var(op, s, k)->name;
            one = mix_bytes(one, n->bytes, n->nbytes);
        }
        if (s->nargs) sum += one;
    }
    return mix(h, sum);
}

static uint64_t op_digest(uint64_t h, const weft_op *op) {
    uint64_t attrs = 0;
    h = mix_bytes(h, op->type->bytes, op->type->nbytes);
    h = slots_digest(slots_digest(h, op, false), op, true);
    for (size_t i = 0; i < op->nattrs; i++)
        if (!attr_is_of_node(&op->attrs[i])) attrs += attr_digest(h, &op->attrs[i]);
    h = mix(h, attrs);
    const op_dist *d = op->dist;
    if (!d) return h;
    h = mix_string(mix_string(h, d->execution_stream), d->event_to_record);
    for (size_t i = 0; i < op_dist_nwaits(d); i++) h = mix_string(h, d->waits->events[i]);
    return h;
}

static uint64_t var_digest(uint64_t h, const weft_var *v) {
    h = mix_bytes(h, v->name->bytes, v->name->nbytes);
    h = mix(mix(mix(h, (uint64_t)v->kind), (uint64_t)v->dtype), v->persistable);
    for (size_t i = 0; i < v->ndim; i++) h = mix(h, (uint64_t)v->dims[i]);
    return h;
}

static uint64_t digest(const weft_program *p, uint64_t h) {
    uint64_t sum = 0;
    for (size_t b = 0; b < p->nblocks; b++) {
        const weft_block *block = p->blocks[b];
        h = mix(h, block->nops);
        FOR_EACH_OP(op, block) h = op_digest(h, op);
        for (size_t i = 0; i < block->nvars; i++)
            if (block_var(block, i)->nuses) sum += var_digest(mix(0, b), block_var(block, i));
    }
    for (size_t i = 0; i < p->nrings; i++) {
        const ring *r = &p->rings[i];
        sum += mix_bytes(mix(1, (uint64_t)r->id), r->ranks, (size_t)r->nranks * sizeof *r->ranks);
    }
    return mix(h, sum);
}

void program_digest(const weft_program *p, char *out) {
    snprintf(out, PROGRAM_DIGEST_NBYTES, "%016" PRIx64 "%016" PRIx64, digest(p, 1), digest(p, UINT64_C(0x5851F42D)));
}
