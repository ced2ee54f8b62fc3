/* adjoint_vars.c: what the names and the writers of vars say: of which var one is the gradient, which argument of an op
 * that is, what reads or writes more than one value. Found once, before anything is drawn. */
#include "plan/adjoint.h"

static void find_stem(const adjoint *a, const weft_var *v, adjoint_fact *f) {
    const char *whole = v->name->bytes, *end = strstr(whole, "@GRAD");
    if (!end) return;
    f->stem = (size_t)(end - whole);
    if (v->block == a->u->root && v->name->nbytes == f->stem + strlen("@GRAD"))
        f->whole_of = block_find_text(a->u->root, whole, f->stem);
}

static void note_writers(adjoint *a, const weft_block *block) {
    FOR_EACH_OP(op, block) FOR_EACH_ARG(op, true, use_of) {
        if (use_of->var_id >= a->nfacts) continue;
        adjoint_fact *f = &a->facts[use_of->var_id];
        f->is_written_twice = f->is_written;
        f->is_written = true;
        f->is_written_within = f->is_written_within || block->idx;
    }
}

weft_status adjoint_find_facts(adjoint *a) {
    const weft_program *p = a->u->program;
    a->nfacts = a->u->nnamed;
    a->facts = ARENA_ARRAY(&a->kept, adjoint_fact, a->nfacts ? a->nfacts : 1);
    if (!a->facts) return base_out_of_memory();
    memset(a->facts, 0, a->nfacts * sizeof *a->facts);
    for (size_t i = 0; i < a->nfacts; i++) find_stem(a, program_var(p, i), &a->facts[i]);
    for (size_t i = 0; i < p->nblocks; i++) note_writers(a, p->blocks[i]);
    return NULL;
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

static bool is_arg(const adjoint *a, const weft_op *op, const use *arg, const weft_var *v) {
    const weft_var *is = use_var(op->program, arg);
    size_t stem = adjoint_fact_of(a, v)->stem;
    if (!stem) return is == v;
    return is->name->nbytes == stem && memcmp(is->name->bytes, v->name->bytes, stem) == 0;
}

int64_t adjoint_find_arg(const adjoint *a, const weft_op *op, bool output, const weft_var *v) {
    for (uint32_t i = 0; i < op_nargs(op, output); i++)
        if (is_arg(a, op, &op_args(op, output)[i], v)) return i;
    return -1;
}

/* The argument in that place of the slot whose gradients that slot has; -1: another var. */
static int64_t find_same(const adjoint *a, const weft_op *op, const slot *s, size_t k, const weft_var *v) {
    size_t suffix = strlen("@GRAD");
    char name_of[64];
    if (s->name->nbytes <= suffix || s->name->nbytes >= sizeof name_of) return -1;
    memcpy(name_of, s->name->bytes, s->name->nbytes - suffix);
    name_of[s->name->nbytes - suffix] = '\0';
    const slot *same = op_find_slot(op, false, name_of);
    bool is = same && k < same->nargs && is_arg(a, op, &slot_args(op, same)[k], v);
    return is ? (int64_t)same->first + (int64_t)k : -1;
}

int64_t adjoint_find_input(const adjoint *a, const adjoint_instance *of, const slot *s, size_t k, const weft_var *v) {
    int64_t found = -1, same;
    if (!adjoint_fact_of(a, v)->stem) return -1;
    if ((same = find_same(a, of->op, s, k, v)) >= 0) return same;
    for (uint32_t i = 0; i < op_nargs(of->op, false); i++) {
        if (!is_arg(a, of->op, &op_args(of->op, false)[i], v)) continue;
        if (!of->args[i].has_part) return i;
        if (found < 0) found = i;
    }
    return found;
}
