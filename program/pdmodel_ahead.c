/* pdmodel_ahead.c: looks up names of vars, and arguments of ops, before the reader comes to them.
 *
 * In a large program each lookup of a var misses the cache five times, one after another: the table of names, the
 * array by id, the name, the var, its last use. So a walk of its own runs over the block some dozens of arguments ahead
 * of the reader and asks for each of these in turn, a stage of the way further from one to the next: the misses of many
 * arguments overlap. It only asks for memory and hashes; it may be wrong (a collision of hashes, a name that is not
 * there) or stop early (malformed bytes) and nothing depends on it. */
#include "program/pdmodel.h"

/* How many arguments before its turn each stage takes one. */
enum { AHEAD_PLACES = 40, AHEAD_VARS = 26, AHEAD_USES = 12 };

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

/* The next argument's name in file order; false at the end. */
static bool next_arg(pdmodel_ahead *a, wire_field *f) {
    for (;;) {
        while (wire_take(&a->slot, f))
            if (f->number == SLOT_ARGUMENTS && f->type == WIRE_BYTES) return true;
        if (wire_take(&a->op, f)) {
            bool is_slot = (f->number == OP_INPUTS || f->number == OP_OUTPUTS) && f->type == WIRE_BYTES;
            if (is_slot) a->slot = wire_inside(&a->op, f);
            continue;
        }
        if (!wire_take(&a->block, f)) return false;
        if (f->number == BLOCK_OPS && f->type == WIRE_BYTES) a->op = wire_inside(&a->block, f);
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
    const interner_entry *first = interner_first(&p->names, arg->hash);
    if (first) base_prefetch(first);
    return true;
}

static void ask_for_places(const weft_program *p, pdmodel_ahead *a) {
    for (; a->nplaces < a->ngathered && a->nplaces < a->ntaken + AHEAD_PLACES; a->nplaces++) {
        ahead_arg *arg = at(a, a->nplaces);
        const interner_entry *e = interner_first(&p->names, arg->hash);
        arg->id_plus_1 = e && e->id_plus_1 <= p->declared_capacity ? e->id_plus_1 : 0;
        if (!arg->id_plus_1) continue;
        base_prefetch(&p->names.names[arg->id_plus_1 - 1]);
        base_prefetch(&p->declared[arg->id_plus_1 - 1]);
    }
}

static void ask_for_vars(const weft_program *p, pdmodel_ahead *a) {
    for (; a->nvars < a->nplaces && a->nvars < a->ntaken + AHEAD_VARS; a->nvars++) {
        ahead_arg *arg = at(a, a->nvars);
        if (!arg->id_plus_1) continue;
        base_prefetch(p->names.names[arg->id_plus_1 - 1]);
        arg->var = p->declared[arg->id_plus_1 - 1];
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

static uint32_t next_hash(pdmodel_reader *r, const wire_field *f) {
    pdmodel_ahead *a = &r->ahead;
    while (a->ngathered < a->ntaken + PDMODEL_AHEAD && gather(r->program, a)) {
    }
    ask_for_places(r->program, a);
    ask_for_vars(r->program, a);
    ask_for_uses(r->program, a);
    while (a->ntaken < a->ngathered && at(a, a->ntaken)->bytes < f->bytes) a->ntaken++; /* what was read otherwise */
    if (a->ntaken == a->ngathered || at(a, a->ntaken)->bytes != f->bytes) return base_hash(f->bytes, f->nbytes);
    return at(a, a->ntaken++)->hash;
}

const name *pdmodel_name_ahead(const pdmodel_ahead *a, ProtobufCBinaryData bytes) {
    enum { OF_ONE_OP = 8 };
    for (size_t n = a->ntaken; bytes.len && n < a->nvars && n < a->ntaken + OF_ONE_OP; n++) {
        const weft_var *var = a->args[n % PDMODEL_AHEAD].var;
        if (var && var->name->nbytes == bytes.len && memcmp(var->name->bytes, bytes.data, bytes.len) == 0)
            return var->name;
    }
    return NULL;
}

weft_status pdmodel_next_name(pdmodel_reader *r, const wire_field *from, const name **out) {
    uint32_t hash = next_hash(r, from);
    TRY(form_charge(r->program, r->budget, from->nbytes));
    return program_name_hashed(r->program, (const char *)from->bytes, from->nbytes, hash, out);
}
