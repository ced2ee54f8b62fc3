/* axes_bind.c: from letters to factors. Extents of all arguments say first how large each letter is, and each of the
 * dimensions that "..." stands for; then dimensions get their factors. Where an op broadcasts ("...@"), a dimension of
 * extent 1 among larger ones is stretched: it has none. Extents that contradict one another make the factor whole,
 * which is always right. */
#include "ops/axes_build.h"
#include "ops/infer.h"

enum { UNSEEN = -2 };

static bool is_gradient_of(const char *slot_text, const char *forward) {
    size_t n = strlen(forward);
    return strncmp(slot_text, forward, n) == 0 && strcmp(slot_text + n, "@GRAD") == 0;
}

const char *axes_slot(const axes_build *b, const axes_arg *x, bool is_output) {
    const op_schema *s = b->call->schema;
    return (is_output ? s->outputs : s->inputs)[x->slot].name;
}

uint32_t axes_listed(const axes_build *b, const char *attr, const char *flag, int width) {
    size_t n;
    const int64_t *axes = attr_ints(b->call->op, attr, &n);
    uint32_t listed = 0, all = width > 0 ? (UINT32_C(1) << width) - 1 : 0;
    if (flag && (n == 0 || (*flag && attr_bool(b->call->op, flag, false)))) return all;
    for (size_t i = 0; i < n; i++) {
        int64_t d = axes[i] < 0 ? axes[i] + width : axes[i];
        if (d >= 0 && d < width) listed |= UINT32_C(1) << d;
    }
    return listed;
}

const axes_pattern *axes_pattern_of(const axes_build *b, const axes_arg *x, bool is_output) {
    const char *slot_text = axes_slot(b, x, is_output);
    for (int i = 0; i < b->text->npatterns; i++) {
        const axes_pattern *p = &b->text->patterns[i];
        if (strcmp(p->slot, slot_text) == 0 && (b->is_grad || p->is_output == is_output)) return p;
        if (b->is_grad && is_gradient_of(slot_text, p->slot)) return p;
    }
    return NULL;
}

int axes_add_factor(axes_build *b, int64_t size, const char *why) {
    axes_rule *r = b->rule;
    if (r->nfactors == AXES_FACTORS - 1) why = "it is one of too many";
    if (r->nfactors == AXES_FACTORS) return AXES_FACTORS - 1;
    r->factors[r->nfactors] = (axes_factor){size, why};
    return (int)r->nfactors++;
}

static void put_factor(axes_dim *d, int factor) {
    if (factor >= 0 && d->nfactors < WEFT_MAX_RANK) d->factors[d->nfactors++] = (uint16_t)factor;
}

/* Argument number `k` of the slot or of its gradient, on one side; NULL: there is none. */
static axes_arg *find_on_side(const axes_build *b, bool is_output, const char *slot_text, size_t k) {
    axes_arg *side = is_output ? b->rule->out : b->rule->in;
    size_t n = is_output ? b->rule->nout : b->rule->nin, at = 0;
    for (size_t i = 0; i < n; i++) {
        const char *own = axes_slot(b, &side[i], is_output);
        at = i && side[i].slot == side[i - 1].slot ? at + 1 : 0;
        if (at == k && side[i].ndim >= 0 && (strcmp(own, slot_text) == 0 || is_gradient_of(own, slot_text)))
            return &side[i];
    }
    return NULL;
}

axes_arg *axes_arg_of(const axes_build *b, const char *slot_text, size_t k) {
    axes_arg *x = find_on_side(b, false, slot_text, k);
    return x ? x : find_on_side(b, true, slot_text, k);
}

void axes_give(axes_build *b, const char *slot_text, size_t k, int d, int factor) {
    for (int side = 0; side < 2; side++) {
        axes_arg *args = side ? b->rule->out : b->rule->in;
        size_t n = side ? b->rule->nout : b->rule->nin, at = 0;
        for (size_t i = 0; i < n; i++) {
            const char *own = axes_slot(b, &args[i], side);
            at = i && args[i].slot == args[i - 1].slot ? at + 1 : 0;
            bool is_it = strcmp(own, slot_text) == 0 || is_gradient_of(own, slot_text);
            if (is_it && at == k && d < args[i].ndim) put_factor(&args[i].dims[d], factor);
        }
    }
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

/* What is known of a size once another extent is seen; false: it contradicts. */
static bool merge(int64_t *size, int64_t extent, bool stretches) {
    bool is_first = *size == UNSEEN || (*size == -1 && extent != 1), fits = *size == extent || extent == -1;
    if (is_first || (stretches && *size == 1)) return *size = extent, true;
    return fits || (extent == 1 && (stretches || *size == -1)) || (*size == 1 && extent == -1);
}

/* How many dimensions of the argument "..." stands for; -1: it does not fit. */
static int count_rest(const axes_pattern *p, const axes_arg *x) {
    int fixed = 0;
    bool has_rest = false;
    for (int i = 0; i < p->nitems; i++) {
        bool is_rest = p->items[i].kind == AXES_REST || p->items[i].kind == AXES_OWN_REST;
        has_rest |= is_rest;
        fixed += !is_rest;
    }
    int rest = x->ndim - fixed;
    return rest < 0 || (rest && !has_rest) ? -1 : rest;
}

static const axes_item *rest_item(const axes_pattern *p) {
    for (int i = 0; i < p->nitems; i++)
        if (p->items[i].kind == AXES_REST) return &p->items[i];
    return NULL;
}

/* The position among the dimensions of "..." that its dimension `i` of `count` has; -1: none. */
static int position(const axes_build *b, const axes_item *item, int i, int count) {
    int width = b->rest_size;
    if (item->change == '-') {
        uint32_t listed = axes_listed(b, item->attr, item->flag, width);
        if (count == width) return listed >> i & 1 ? -1 : i;
        for (int p = 0; p < width; p++)
            if (!(listed >> p & 1) && i-- == 0) return p;
        return -1;
    }
    size_t n = 0;
    const int64_t *values = item->attr ? attr_ints(b->call->op, item->attr, &n) : NULL;
    if (item->change == '^') {
        int64_t from = (size_t)i < n ? values[i] + (values[i] < 0 ? width : 0) : -1;
        return from >= 0 && from < width ? (int)from : -1;
    }
    int64_t begin = item->change == '@' && n == 1 && values[0] >= 0 && values[0] <= width && count < width
                        ? values[0]
                        : width - count;
    return begin + i < width ? (int)begin + i : -1;
}

static void widen(axes_build *b, const axes_arg *x, bool is_output, bool plain) {
    const axes_pattern *p = axes_pattern_of(b, x, is_output);
    const axes_item *item = p && p->kind == 'd' && x->ndim >= 0 ? rest_item(p) : NULL;
    if (!item || (item->change == '-') == plain) return;
    int count = count_rest(p, x);
    if (!plain) { /* of dimensions counted from the end only a list without a flag can be told */
        size_t n;
        (void)attr_ints(b->call->op, item->attr, &n);
        count += (int)n;
    }
    if (count > b->rest_size && count <= WEFT_MAX_RANK) b->rest_size = count;
}

static void find_width(axes_build *b) {
    const axes_rule *r = b->rule;
    for (int plain = 1; plain >= 0 && b->rest_size == 0; plain--) {
        for (size_t i = 0; i < r->nin; i++) widen(b, &r->in[i], false, plain);
        for (size_t i = 0; i < r->nout; i++) widen(b, &r->out[i], true, plain);
    }
}

typedef bool (*on_dim)(axes_build *b, axes_arg *x, int d, const axes_item *item, int at);

/* Calls for each dimension; `at`: of "...", which of its dimensions. */
static bool for_each_dim(axes_build *b, axes_arg *x, bool is_output, on_dim call) {
    const axes_pattern *p = axes_pattern_of(b, x, is_output);
    if (!p || p->kind != 'd' || x->ndim < 0) return true;
    int rest = count_rest(p, x), d = 0;
    if (rest < 0) return false;
    for (int i = 0; i < p->nitems; i++) {
        const axes_item *item = &p->items[i];
        bool is_rest = item->kind == AXES_REST || item->kind == AXES_OWN_REST;
        uint32_t gone = item->change == '-' ? axes_listed(b, item->attr, item->flag, b->rest_size) : 0;
        bool fits = rest == b->rest_size || item->change == '@' || rest + __builtin_popcount(gone) == b->rest_size;
        if (item->kind == AXES_REST && !fits) return false;
        for (int k = 0; k < (is_rest ? rest : 1); k++, d++)
            if (!call(b, x, d, item, item->kind == AXES_REST ? position(b, item, k, rest) : -1)) return false;
    }
    return true;
}

static bool for_all(axes_build *b, on_dim call) {
    axes_rule *r = b->rule;
    for (size_t i = 0; i < r->nin; i++)
        if (!for_each_dim(b, &r->in[i], false, call)) return false;
    for (size_t i = 0; i < r->nout; i++)
        if (!for_each_dim(b, &r->out[i], true, call)) return false;
    return true;
}

static const char differ[] = "extents of arguments differ there";

/* Letters that stand alone, and dimensions of "...". A factor that extents contradict is made whole at once. */
static bool see_size(axes_build *b, axes_arg *x, int d, const axes_item *item, int at) {
    int64_t extent = x->extents[d];
    if (item->kind == AXES_LETTERS && item->nletters == 1) {
        int letter = item->letters[0] - 'a';
        if (!merge(&b->letter_size[letter], extent, false) && b->letters[letter] < 0)
            b->letters[letter] = axes_add_factor(b, extent, differ);
    } else if (item->kind == AXES_REST && at >= 0) {
        if (!merge(&b->rest_extent[at], extent, b->stretched[at]) && b->rest[at] < 0)
            b->rest[at] = axes_add_factor(b, extent, differ);
    }
    return true;
}

/* A letter among several is as large as the others leave. */
static bool see_group(axes_build *b, axes_arg *x, int d, const axes_item *item, int at) {
    (void)at;
    if (item->kind != AXES_LETTERS || item->nletters == 1) return true;
    int64_t known = 1, *unseen = NULL, extent = x->extents[d];
    for (int i = 0; i < item->nletters; i++) {
        int64_t *size = &b->letter_size[item->letters[i] - 'a'];
        if (*size == UNSEEN && unseen) return false;
        if (*size == UNSEEN)
            unseen = size;
        else
            known = extent_mul(known, *size);
    }
    if (!unseen) return known < 0 || extent < 0 || known == extent;
    if (known == 0 || (extent >= 0 && known > 0 && extent % known)) return false;
    *unseen = extent < 0 || known < 0 ? -1 : extent / known;
    return true;
}

/* --- factors ------------------------------------------------------------------------------------------------------ */

const char axes_why_whole[] = "the op does not work apart along it";

static bool give_factors(axes_build *b, axes_arg *x, int d, const axes_item *item, int at) {
    int64_t extent = x->extents[d];
    for (int i = 0; item->kind == AXES_LETTERS && i < item->nletters; i++) {
        int letter = item->letters[i] - 'a';
        if (b->letters[letter] < 0) b->letters[letter] = axes_add_factor(b, b->letter_size[letter], NULL);
        put_factor(&x->dims[d], b->letters[letter]);
    }
    if (item->kind == AXES_BLANK) put_factor(&x->dims[d], axes_add_factor(b, extent, axes_why_whole));
    bool is_stretched = item->change == '@' && extent == 1 && at >= 0 && b->rest_extent[at] != 1;
    if (item->kind != AXES_REST || at < 0 || is_stretched) return true;
    if (b->rest[at] < 0) b->rest[at] = axes_add_factor(b, b->rest_extent[at], NULL);
    put_factor(&x->dims[d], b->rest[at]);
    return true;
}

static bool is_own_rest(const axes_pattern *p) {
    return p->kind == 'd' && p->items[0].kind == AXES_OWN_REST;
}

/* Gives argument k of another slot the factors of `first`. What differs is whole. */
static void share_factors(axes_build *b, const axes_arg *first, const char *slot_text, size_t k) {
    const axes_arg *like = axes_arg_of(b, slot_text, k);
    for (int d = 0; like && d < first->ndim; d++) {
        int64_t extent = d < like->ndim ? like->extents[d] : 0;
        bool fits = like->ndim == first->ndim && (extent == first->extents[d] || extent < 0 || first->extents[d] < 0);
        if (!fits) b->rule->factors[first->dims[d].factors[0]].why = differ;
        if (d < like->ndim && !like->dims[d].nfactors) axes_give(b, slot_text, k, d, first->dims[d].factors[0]);
    }
}

/* Argument k of each slot with "~" has the factors of argument k of the others. */
static void give_own_factors(axes_build *b) {
    axes_rule *r = b->rule;
    for (int side = 0; side < 2; side++) {
        axes_arg *args = side ? r->out : r->in;
        for (size_t i = 0, n = side ? r->nout : r->nin, k = 0; i < n; i++) {
            const axes_pattern *p = axes_pattern_of(b, &args[i], side);
            k = i && args[i].slot == args[i - 1].slot ? k + 1 : 0;
            if (!p || !is_own_rest(p) || args[i].ndim < 1 || args[i].dims[0].nfactors) continue;
            for (int d = 0; d < args[i].ndim; d++)
                axes_give(b, p->slot, k, d, axes_add_factor(b, args[i].extents[d], NULL));
            for (int j = 0; j < b->text->npatterns; j++)
                if (&b->text->patterns[j] != p && is_own_rest(&b->text->patterns[j]))
                    share_factors(b, &args[i], b->text->patterns[j].slot, k);
        }
    }
}

/* Where some argument is stretched, its extent of 1 contradicts nothing. */
static bool see_stretch(axes_build *b, axes_arg *x, int d, const axes_item *item, int at) {
    if (item->kind == AXES_REST && item->change == '@' && at >= 0) b->stretched[at] = true;
    (void)x, (void)d;
    return true;
}

bool axes_bind(axes_build *b) {
    find_width(b);
    if (!for_all(b, see_stretch)) return false;
    if (!for_all(b, see_size) || !for_all(b, see_group)) return false;
    if (!for_all(b, give_factors)) return false;
    give_own_factors(b);
    return true;
}
