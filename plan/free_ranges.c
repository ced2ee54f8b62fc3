/* free_ranges.c: the free parts of an address space: a treap by address whose nodes know the largest range below them.
 * So the lowest range that is large enough is found in O(log n). Neighbours are joined when a range comes back. */
#include "plan/builder.h"

void free_ranges_init(free_ranges *f, const weft_allocator *allocator) {
    *f = (free_ranges){.allocator = allocator, .root = -1, .unused = -1, .seed = 1};
}

void free_ranges_fini(free_ranges *f) {
    base_free(f->allocator, f->nodes, f->capacity * sizeof *f->nodes);
}

static int64_t largest_of(const free_ranges *f, int32_t node) {
    return node < 0 ? 0 : f->nodes[node].largest;
}

static void update(free_ranges *f, int32_t node) {
    free_node *n = &f->nodes[node];
    n->largest = n->nbytes;
    if (largest_of(f, n->left) > n->largest) n->largest = largest_of(f, n->left);
    if (largest_of(f, n->right) > n->largest) n->largest = largest_of(f, n->right);
}

/* Everything of `low` lies before everything of `high`. */
static int32_t join(free_ranges *f, int32_t low, int32_t high) {
    if (low < 0) return high;
    if (high < 0) return low;
    if (f->nodes[low].priority > f->nodes[high].priority) {
        f->nodes[low].right = join(f, f->nodes[low].right, high);
        update(f, low);
        return low;
    }
    f->nodes[high].left = join(f, low, f->nodes[high].left);
    update(f, high);
    return high;
}

/* The nodes before and those from `offset` on. */
static void cut_at(free_ranges *f, int32_t node, int64_t offset, int32_t *out_low, int32_t *out_high) {
    if (node < 0) {
        *out_low = *out_high = -1;
    } else if (f->nodes[node].offset < offset) {
        cut_at(f, f->nodes[node].right, offset, &f->nodes[node].right, out_high);
        update(f, node);
        *out_low = node;
    } else {
        cut_at(f, f->nodes[node].left, offset, out_low, &f->nodes[node].left);
        update(f, node);
        *out_high = node;
    }
}

static void drop(free_ranges *f, int32_t node) {
    f->nodes[node].left = f->unused;
    f->unused = node;
}

/* Takes the first (last) node out of a tree. */
static int32_t pop_edge(free_ranges *f, int32_t *tree, bool last) {
    int32_t node = *tree;
    if (node < 0) return -1;
    int32_t *inner = last ? &f->nodes[node].right : &f->nodes[node].left;
    if (*inner < 0) {
        *tree = last ? f->nodes[node].left : f->nodes[node].right;
        return node;
    }
    int32_t popped = pop_edge(f, inner, last);
    update(f, node);
    return popped;
}

/* The lowest range that holds nbytes gives its first ones; *tree loses the node when nothing is left. */
static int64_t take_from(free_ranges *f, int32_t *tree, int64_t nbytes) {
    free_node *n = &f->nodes[*tree];
    int64_t offset;
    if (largest_of(f, n->left) >= nbytes) {
        offset = take_from(f, &n->left, nbytes);
    } else if (n->nbytes >= nbytes) {
        offset = n->offset;
        n->offset += nbytes;
        n->nbytes -= nbytes;
        if (!n->nbytes) {
            int32_t empty = *tree;
            *tree = join(f, n->left, n->right);
            drop(f, empty);
            return offset;
        }
    } else {
        offset = take_from(f, &n->right, nbytes);
    }
    update(f, *tree);
    return offset;
}

int64_t free_ranges_take_new(free_ranges *f, int64_t nbytes) {
    int64_t offset = f->top;
    f->top += nbytes;
    return offset;
}

int64_t free_ranges_take(free_ranges *f, int64_t nbytes) {
    if (largest_of(f, f->root) >= nbytes) return take_from(f, &f->root, nbytes);
    int32_t last = pop_edge(f, &f->root, true);
    if (last < 0) return free_ranges_take_new(f, nbytes);
    free_node *n = &f->nodes[last];
    if (n->offset + n->nbytes == f->top) { /* free up to the top: only the rest is new */
        int64_t offset = n->offset;
        f->top = offset + nbytes;
        drop(f, last);
        return offset;
    }
    n->left = n->right = -1;
    update(f, last);
    f->root = join(f, f->root, last);
    return free_ranges_take_new(f, nbytes);
}

static weft_status new_node(free_ranges *f, int64_t offset, int64_t nbytes, int32_t *out_node) {
    int32_t node = f->unused;
    if (node >= 0) {
        f->unused = f->nodes[node].left;
    } else {
        TRY(vector_reserve(f->allocator, &f->nodes, &f->capacity, f->nnodes + 1, sizeof *f->nodes));
        node = (int32_t)f->nnodes++;
    }
    f->seed = f->seed * 1664525u + 1013904223u; /* Numerical Recipes' generator: the same plan every time */
    f->nodes[node] = (free_node){offset, nbytes, nbytes, f->seed >> 8, -1, -1};
    *out_node = node;
    return NULL;
}

/* Joins the tree's last (first) range to the node if the two touch. */
static void absorb(free_ranges *f, int32_t *tree, int32_t node, bool last) {
    int32_t other = pop_edge(f, tree, last);
    if (other < 0) return;
    free_node *n = &f->nodes[node], *o = &f->nodes[other];
    if (last ? o->offset + o->nbytes == n->offset : n->offset + n->nbytes == o->offset) {
        if (last) n->offset = o->offset;
        n->nbytes += o->nbytes;
        drop(f, other);
        return;
    }
    o->left = o->right = -1;
    update(f, other);
    *tree = last ? join(f, *tree, other) : join(f, other, *tree);
}

weft_status free_ranges_give(free_ranges *f, int64_t offset, int64_t nbytes) {
    int32_t low, high, node;
    TRY(new_node(f, offset, nbytes, &node));
    cut_at(f, f->root, offset, &low, &high);
    absorb(f, &low, node, true);
    absorb(f, &high, node, false);
    update(f, node);
    f->root = join(f, join(f, low, node), high);
    return NULL;
}
