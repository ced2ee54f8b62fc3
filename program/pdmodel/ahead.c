/* ahead.c: looks up names of vars, and arguments of ops, before the reader comes to them.
 *
 * In a large program each lookup of a var misses the cache four times, one after another: the table of names, the name,
 * the var, its last use. So a walk of its own runs over the block some dozens of arguments ahead of the reader. It
 * prefetches each of these one after another, a stage of the way further from one to the next: the misses of many
 * arguments overlap. It only asks for memory and hashes; it may be wrong (a collision of hashes, a name that is not
 * there) or stop early (malformed bytes) and nothing depends on it. */
#include "program/pdmodel/pdmodel.h"

/* How many arguments ahead of the reader each stage is. */
enum { AHEAD_NAMES = 40, AHEAD_VARS = 26, AHEAD_USES = 12 };

void pdmodel_ahead_init(pdmodel_ahead *a, const wire_cursor *block, bool of_vars) {
    *a = (pdmodel_ahead){.block = *block, .of_vars = of_vars};
}

/* The next declared name in file order; false at the end. */
static bool next_var(pdmodel_ahead *a, wire_field *f) {
    while (wire_take(&a->block, f)) {
        if (f->number != BLOCK_VARS || f->type != WIRE_BYTES) continue;
        wire_cursor inner = wire_inside(&a->block, f);
        if (wire_take(&inner, f) && f->number == VAR_NAME && f->type == WIRE_BYTES) return true;
    }
    return false;
}

/* All of an op, which the reader skips through: the processor sees no order in that. */
static void ask_for_bytes(const wire_field *f) {
    enum { CACHE_LINE = 64 };
    for (size_t i = 0; i < f->nbytes; i += CACHE_LINE) base_prefetch(f->bytes + i);
}

/* The next argument's name in file order; false at the end. */
static bool next_arg(pdmodel_ahead *a, wire_field *f) {
    for (;;) {
        while (wire_take(&a->slot, f))
            if (f->number == SLOT_ARGUMENTS && f->type == WIRE_BYTES) return true;
        if (wire_take(&a->op, f)) {
            bool is_slot = (f->number == OP_INPUTS || f->number == OP_OUTPUTS) && f->type == WIRE_BYTES;
            if (is_slot) a->slot = wire_inside(&a->op, f);
            if (f->number == OP_ATTRS) a->op.at = a->op.end; /* which stand behind the slots, and are most of an op */
            continue;
        }
        if (!wire_take(&a->block, f)) return false;
        if (f->number != BLOCK_OPS || f->type != WIRE_BYTES) continue;
        a->op = wire_inside(&a->block, f);
        ask_for_bytes(f);
    }
}

static ahead_arg *at(pdmodel_ahead *a, size_t n) {
    return &a->args[n % PDMODEL_AHEAD];
}

static bool gather(const weft_program *p, pdmodel_ahead *a) {
    wire_field f;
    if (a->is_over || !(a->of_vars ? next_var(a, &f) : next_arg(a, &f))) {
        a->is_over = true;
        return false;
    }
    ahead_arg *arg = at(a, a->ngathered++);
    *arg = (ahead_arg){.bytes = f.bytes, .hash = base_hash(f.bytes, f.nbytes)};
    interner_ask(&p->names, arg->hash);
    return true;
}

static void ask_for_names(const weft_program *p, pdmodel_ahead *a) {
    for (; a->nnames < a->ngathered && a->nnames < a->ntaken + AHEAD_NAMES; a->nnames++) {
        ahead_arg *arg = at(a, a->nnames);
        if (a->of_vars) continue; /* most are new */
        if ((arg->name = interner_guess(&p->names, arg->hash))) base_prefetch(arg->name);
    }
}

static void ask_for_vars(const pdmodel_reader *r, pdmodel_ahead *a) {
    for (; a->nvars < a->nnames && a->nvars < a->ntaken + AHEAD_VARS; a->nvars++) {
        ahead_arg *arg = at(a, a->nvars);
        arg->var = arg->name ? pdmodel_glimpse(r, arg->name) : NULL;
        if (!arg->var) continue; /* a name of something else */
        base_prefetch(arg->var);
        base_prefetch(&arg->var->id); /* may be in the next line */
    }
}

static void ask_for_uses(const weft_program *p, pdmodel_ahead *a) {
    for (; a->nuses < a->nvars && a->nuses < a->ntaken + AHEAD_USES; a->nuses++) {
        const weft_var *var = at(a, a->nuses)->var;
        if (var && var->last_use) base_prefetch(&use_at(p, var->last_use)->next);
    }
}

/* What is known of the name in that field. */
static ahead_arg next_arg_known(pdmodel_reader *r, const wire_field *f) {
    pdmodel_ahead *a = &r->ahead;
    while (a->ngathered < a->ntaken + PDMODEL_AHEAD && gather(r->program, a)) {
    }
    ask_for_names(r->program, a);
    ask_for_vars(r, a);
    ask_for_uses(r->program, a);
    while (a->ntaken < a->ngathered && at(a, a->ntaken)->bytes < f->bytes)
        a->ntaken++; /* what was read in another way */
    if (a->ntaken == a->ngathered || at(a, a->ntaken)->bytes != f->bytes)
        return (ahead_arg){.hash = base_hash(f->bytes, f->nbytes)};
    return *at(a, a->ntaken++);
}

static bool is_name(const name *n, const void *bytes, size_t nbytes) {
    return n && n->nbytes == nbytes && memcmp(n->bytes, bytes, nbytes) == 0;
}

const name *pdmodel_name_ahead(const pdmodel_ahead *a, ProtobufCBinaryData bytes) {
    enum { OF_ONE_OP = 8 };
    for (size_t i = a->ntaken; bytes.len && i < a->nvars && i < a->ntaken + OF_ONE_OP; i++) {
        const name *n = a->args[i % PDMODEL_AHEAD].name;
        if (is_name(n, bytes.data, bytes.len)) return n;
    }
    return NULL;
}

weft_status pdmodel_next_name(pdmodel_reader *r, const wire_field *from, const name **out) {
    ahead_arg arg = next_arg_known(r, from);
    if (is_name(arg.name, from->bytes, from->nbytes)) {
        *out = arg.name;
        return NULL;
    }
    TRY(form_charge(r->program, r->budget, from->nbytes));
    return program_name_hashed(r->program, (const char *)from->bytes, from->nbytes, arg.hash, out);
}
