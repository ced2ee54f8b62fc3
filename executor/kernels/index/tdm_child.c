/* tdm_child.c: the children of nodes of a tree, and which of them are leaves. TreeInfo has a row for each node: the item
 * that it stands for (0: it is no leaf), its layer, its parent and its children; a first child 0 says that it has none,
 * as has node 0. Source: paddle/fluid/operators/tdm_child_op.h. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_TREE, OUT_CHILD = 0, OUT_LEAF, FIRST_CHILD = 3 };

typedef struct child_state {
    int64_t children, nodes, width;
} child_state;

static weft_status prepare(kernel_prepare *p) {
    child_state *s = KERNEL_STATE(p, child_state);
    const tensor *x = type_in(p, IN_X), *tree = type_in(p, IN_TREE);
    if (!s) return base_out_of_memory();
    TRY(require_integers(p, x, "X"));
    TRY(require_integers(p, tree, "TreeInfo"));
    s->children = attr_int(p->op, "child_nums", 0);
    if (tree->ndim != 2 || s->children < 1 || tree->dims[1] != FIRST_CHILD + s->children)
        return kernel_unsupported(p, "TreeInfo: expected rows of %d numbers and child_nums children", FIRST_CHILD);
    s->nodes = tree->dims[0], s->width = tree->dims[1];
    for (int o = OUT_CHILD; o <= OUT_LEAF; o++) {
        TRY(require_present(p, type_out(p, o), p->schema->outputs[o].name));
        TRY(require_integers(p, type_out(p, o), p->schema->outputs[o].name));
        TRY(require_numel(p, type_out(p, o), x->numel * s->children, p->schema->outputs[o].name));
    }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const child_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *tree = arg_in(c, IN_TREE);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t node = tensor_integer(x, i), first = node * s->width + FIRST_CHILD;
        if (node < 0 || node >= s->nodes)
            return kernel_failed(c, "X: expected 0 to %lld, found %lld", (long long)s->nodes - 1, (long long)node);
        bool has_children = node && tensor_integer(tree, first);
        for (int64_t k = 0; k < s->children; k++) {
            int64_t child = has_children ? tensor_integer(tree, first + k) : 0;
            if (child < 0 || child >= s->nodes)
                return kernel_failed(c, "TreeInfo: expected children of 0 to %lld, found %lld", (long long)s->nodes - 1,
                                     (long long)child);
            tensor_set_integer(arg_out(c, OUT_CHILD), i * s->children + k, child);
            tensor_set_integer(arg_out(c, OUT_LEAF), i * s->children + k,
                               has_children && tensor_integer(tree, child * s->width) != 0);
        }
    }
    return NULL;
}

const kernel kernel_tdm_child = {prepare, run};
