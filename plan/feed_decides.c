/* feed_decides.c: which feeds decide how often a loop runs: a plan is made for each of their values. They are integers
 * from which conditions of loops are computed, through integers alone. */
#include "plan/feeds.h"

static bool is_integer(const weft_var *v) {
    return v->dtype == WEFT_BOOL || v->dtype == WEFT_INT32 || v->dtype == WEFT_INT64;
}

static bool has_loops(const weft_program *p) {
    for (size_t i = 0; i < p->nblocks; i++) FOR_EACH_OP(op, p->blocks[i]) if (op_is(op, "while")) return true;
    return false;
}

/* Whether of its inputs only extents are read. */
static bool reads_extents(const weft_op *op) {
    static const char *const types[] = {"shape", "size", "fill_any_like", "fill_zeros_like"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (op_is(op, types[i])) return true;
    return false;
}

static bool reads_others(const weft_op *op) {
    FOR_EACH_ARG(op, false, u) {
        if (!is_integer(use_var(op->program, u))) return true;
    }
    return false;
}

/* Marks what an op reads if it makes something that is marked; whether that is new. */
static bool mark_inputs(weft_op *op, bool *needed) {
    bool makes = op_is(op, "while"), is_new = false;
    FOR_EACH_ARG(op, true, u) makes = makes || needed[u->var_id];
    if (!op_has_effect(op, OP_CONTROL) && (reads_extents(op) || reads_others(op))) return false;
    FOR_EACH_ARG(op, false, u) {
        const weft_var *v = use_var(op->program, u);
        bool is_condition = !op_is(op, "while") || v == weft_op_input(op, "Condition", 0);
        if (!makes || !is_condition || !is_integer(v) || needed[u->var_id]) continue;
        needed[u->var_id] = is_new = true;
    }
    return is_new;
}

/* That a set is for; of the global batch the first that is here. */
static const weft_program *program_of(const weft_feeds *f, size_t set) {
    const weft_program *p = feeds_program(f, (int)set);
    for (size_t i = 0; !p && f->nsets == 1 && i < f->options.nprograms; i++) p = f->options.programs[i];
    return p;
}

static weft_status mark_deciding(const weft_program *p, arena *memory, bool **out_needed) {
    *out_needed = NULL;
    if (!has_loops(p)) return NULL;
    bool *needed = ARENA_ARRAY(memory, bool, p->nall_vars + 1), again = true;
    if (!needed) return base_out_of_memory();
    while (again) {
        again = false;
        for (size_t i = 0; i < p->nblocks; i++)
            for (weft_op *op = p->blocks[i]->last; op; op = op->prev) again = mark_inputs(op, needed) || again;
    }
    *out_needed = needed;
    return NULL;
}

weft_status feeds_mark_deciding(weft_feeds *f) {
    for (size_t k = 0; k < f->nsets; k++) {
        const weft_program *p = program_of(f, k);
        bool *needed = NULL;
        if (p) TRY(mark_deciding(p, &f->arena, &needed));
        for (size_t i = 0; needed && i < f->sets[k].count; i++) {
            const weft_var *v = feeds_find_var(p, f->sets[k].items[i].name);
            f->sets[k].items[i].decides = v && needed[v->id];
        }
    }
    return NULL;
}

/* Whether its value may come from without. */
static bool may_be_fed(const weft_var *v) {
    if (v->persistable || v->need_check_feed) return true;
    FOR_EACH_USE(u, v) {
        const weft_op *op = use_op(v->program, u);
        if (u->is_output && op->block && !op_is(op, "feed")) return false;
    }
    return v->block && v->block->idx == 0;
}

weft_status plan_require_undecided(const weft_program *p, arena *memory) {
    bool *needed;
    TRY(mark_deciding(p, memory, &needed));
    for (size_t i = 0; needed && i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        if (needed[i] && may_be_fed(v))
            return weft_status_create(WEFT_UNSUPPORTED, p->place, "how often a loop runs depends on what \"%s\" is fed",
                                      v->name->bytes);
    }
    return NULL;
}
