/* Mutants of optimized programs that compute something else: each must be refused.
 *
 * A factor is doubled, an op loses its effect, an input becomes another value, a ring another one, a bucket loses a
 * member. Whether a mutant differs is reported without the prover's terms: the op that was changed lies on a chain of
 * reads and writes that ends in a persistable or a loss. Links are names or a shared buffer. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "tests/support/drop_arg.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/table.h"
#include "weft/equivalent.h"
#include "weft/pass.h"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_value_mutants, .init = set_up, .fini = tear_down);

static const char *const folders[] = {"paddle26/mlp_sgd_dp2",          "paddle26/mlp_dp2_gradmerge",
                                      "paddle26/mlp_dp2_sp2_tworings", "paddle26/mlp_adam_dp2_lossscale",
                                      "paddle26/twoloss_dp2",          "paddle26/gpt_tiny_adamw_dp2"};
TABLE_ROWS(proof_value_mutants, all, folders);

static weft_program *optimized(const char *folder) {
    static const char list_text[] = "overlap_comm, coalesce_grads: {bucket_mb: 0.01}, insert_dependencies";
    char relative[200], path[512];
    weft_program *p = NULL;
    weft_pass_list *list;
    snprintf(relative, sizeof relative, "%s/rank0.pdmodel", folder);
    if (!fixture_path(path, sizeof path, relative)) return NULL;
    must(weft_program_load(context, path, NULL, &p));
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "test", &list));
    must(weft_pass_list_run(list, p, NULL));
    weft_pass_list_destroy(list);
    return p;
}

/* --- what matters ------------------------------------------------------------------------------------------------- */

/* Vars of one buffer are one class. */
static void classes_of(const weft_program *p, uint32_t *class) {
    for (size_t i = 0; i < p->nall_vars; i++) class[i] = (uint32_t)i;
    FOR_EACH_OP(op, p->blocks[0]) {
        if (!op_is(op, "coalesce_tensor")) continue;
        uint32_t fused = weft_op_output(op, "FusedOutput", 0)->id;
        FOR_EACH_ARG(op, true, u) {
            class[u->var_id] = fused;
        }
    }
}

/* Whether the result of `op` reaches what leaves the program. */
static bool matters(const weft_program *p, const weft_op *changed) {
    bool *live = calloc(p->nall_vars + 1, sizeof *live);
    uint32_t *class = calloc(p->nall_vars + 1, sizeof *class);
    bool found = false;
    classes_of(p, class);
    for (size_t i = 0; i < p->nall_vars; i++)
        if (program_var(p, i)->persistable) live[class[i]] = true;
    for (weft_op *op = p->blocks[0]->last; op; op = op->prev) {
        bool used = op_role(op) == WEFT_ROLE_LOSS, shared = false;
        if (op_has_effect(op, OP_NO_BYTES)) continue;
        FOR_EACH_ARG(op, true, u) {
            used |= live[class[u->var_id]];
            shared |= class[u->var_id] != u->var_id;
        }
        if (op == changed) {
            found = used;
            break;
        }
        if (!used) continue;
        bool whole = !shared && !op_has_effect(op, OP_CONTROL);
        FOR_EACH_ARG(op, true, u) {
            if (whole && !use_var(op->program, u)->persistable) live[class[u->var_id]] = false;
        }
        FOR_EACH_ARG(op, false, u) {
            live[class[u->var_id]] = true;
        }
    }
    free(live);
    free(class);
    return found;
}

/* --- mutations ---------------------------------------------------------------------------------------------------- */

typedef enum mutation { DOUBLE_FACTOR, BYPASS, OTHER_INPUT, OTHER_RING, DROP_MEMBER, MUTATIONS } mutation;
static const char *const names[] = {"factor doubled", "op bypassed", "another input", "another ring", "member dropped"};

static bool double_attr(weft_op *op, const char *n) {
    const weft_attr *a = op_find_attr(op, n);
    if (!a || a->type != ATTR_FLOAT || a->u.f == 0 || *attr_string(op, "str_value", "")) return false;
    must(weft_op_set_attr_float(op, n, a->u.f * 2));
    return true;
}

static bool bypass(weft_op *op) {
    weft_var *x = op_x(op), *out = op_out(op);
    if (!x || x != out || op_has_effect(op, OP_NO_BYTES)) return false; /* in place: without it the value stays */
    weft_op_remove(op);
    return true;
}

/* The same elements may be there under another name. */
static bool only_moves(const weft_op *op) {
    return op_is(op, "assign") || op_is(op, "concat") || op_is(op, "split");
}

static bool writes(const weft_op *op, const weft_var *v) {
    FOR_EACH_ARG(op, true, u) if (u->var_id == v->id) return true;
    return false;
}

/* What `v` holds before `op` may be the gradient of a sum, which is handed on to arguments of its extents. */
static const weft_var *handed_on(const weft_op *op, const weft_var *v) {
    for (const weft_op *before = op->prev; before; before = before->prev) {
        if (!writes(before, v)) continue;
        const weft_var *from = op_is(before, "elementwise_add_grad") ? weft_op_input(before, "Out@GRAD", 0) : NULL;
        if (!from || from->ndim != v->ndim) return v;
        for (uint32_t i = 0; i < v->ndim; i++)
            if (from->dims[i] != v->dims[i]) return v;
        v = from;
    }
    return v;
}

/* The first input that is no state becomes another var of that type which an op before wrote. */
static bool other_input(weft_op *op) {
    FOR_EACH_ARG(op, false, u) {
        const weft_var *v = use_var(op->program, u);
        if (v->persistable || op_has_effect(op, OP_NO_BYTES | OP_ALIASES)) continue;
        for (weft_op *before = op->prev; before; before = before->prev) {
            if (only_moves(before) || op_has_effect(before, OP_NO_BYTES | OP_ALIASES)) continue;
            FOR_EACH_ARG(before, true, w) {
                weft_var *other = use_var(before->program, w);
                bool same_type = other->dtype == v->dtype && other->ndim == v->ndim && other->kind == v->kind &&
                                 (v->ndim == 0 || memcmp(other->dims, v->dims, v->ndim * sizeof *v->dims) == 0);
                if (other == v || !same_type || !other->block || handed_on(op, other) == handed_on(op, v)) continue;
                weft_op_rename_input(op, v, other);
                return true;
            }
        }
    }
    return false;
}

static bool other_ring(weft_op *op) {
    static const int64_t alone[] = {0};
    if (!op_has_effect(op, OP_COLLECTIVE)) return false;
    must(weft_program_set_ring(op->program, 77, 1, alone));
    must(weft_op_set_attr_int(op, "ring_id", 77));
    return true;
}

static bool drop_member(weft_op *op) {
    const slot *in = op_find_slot(op, false, "Input");
    if (!op_is(op, "coalesce_tensor") || in->nargs < 2) return false;
    uint32_t last = in->nargs - 1;
    drop_arg(op, in, last);
    drop_arg(op, op_find_slot(op, true, "Output"), last);
    return true;
}

static bool mutate(weft_op *op, mutation how) {
    switch (how) {
    case DOUBLE_FACTOR: return double_attr(op, "scale") || double_attr(op, "value");
    case BYPASS: return bypass(op);
    case OTHER_INPUT: return other_input(op);
    case OTHER_RING: return other_ring(op);
    case DROP_MEMBER: return drop_member(op);
    case MUTATIONS: break;
    }
    return false;
}

static weft_op *op_at(const weft_program *p, size_t index) {
    weft_op *op = p->blocks[0]->first;
    while (op && index--) op = op->next;
    return op;
}

/* The op does not matter, or of its changed input only the type does. */
static bool is_harmless(const weft_program *p, size_t index, mutation how) {
    weft_op *op = op_at(p, index);
    const op_schema *s = op_schema_of(op);
    if (!matters(p, op)) return true;
    if (how == BYPASS && op_is(op, "scale") && attr_float(op, "scale", 1.0) == 1.0) return true;
    for (size_t i = 0; how == OTHER_INPUT && s && i < s->ninputs; i++) {
        const slot *in = op_find_slot(op, false, s->inputs[i].name);
        if (s->inputs[i].only_type && in && in->nargs && !slot_var(op, in, 0)->persistable) return true;
    }
    return false;
}

/* Whether the mutant is one, and it is refused or harmless. */
static bool try_mutant(const weft_program *p, const char *folder, size_t index, mutation how) {
    weft_program *mutant;
    must(weft_program_clone(p, &mutant));
    bool changed = mutate(op_at(mutant, index), how);
    if (changed) {
        weft_equivalence *e;
        must(weft_equivalent(p, mutant, NULL, &e));
        weft_grade grade = weft_equivalence_grade(e);
        cr_expect(grade == WEFT_NOT_PROVED || is_harmless(p, index, how), "%s: %s #%zu: %s is taken for %s", folder,
                  op_at(p, index)->type->bytes, index, names[how], weft_grade_name(grade));
        weft_equivalence_destroy(e);
    }
    weft_program_destroy(mutant);
    return changed;
}

TABLE_TEST(size_t *row, proof_value_mutants, all) {
    weft_program *p = optimized(folders[*row]);
    if (!p) cr_skip("no fixture %s", folders[*row]);
    size_t nmutants = 0, step = p->blocks[0]->nops > 100 && getenv("WEFT_SANITIZED") ? 7 : 1;
    for (size_t i = 0; i < p->blocks[0]->nops; i += step)
        for (int how = 0; how < MUTATIONS; how++) nmutants += try_mutant(p, folders[*row], i, (mutation)how);
    cr_expect_gt(nmutants, 10);
    weft_program_destroy(p);
}
