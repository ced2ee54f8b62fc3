/* axes_clauses.c: what the clauses of a rule say of its factors, of partial values, and of attrs. */
#include "base/numbers.h"
#include "ops/axes_build.h"

#include <stdlib.h>

/* --- conditions --------------------------------------------------------------------------------------------------- */

static bool has_arguments(const axes_build *b, const char *slot_text) {
    const op_schema *s = b->call->schema;
    for (size_t i = 0; i < s->ninputs; i++)
        for (uint32_t k = b->call->in_first[i]; k < b->call->in_first[i + 1]; k++)
            if (strcmp(s->inputs[i].name, slot_text) == 0 && b->call->in[k].dtype != WEFT_DTYPE_NONE) return true;
    return false;
}

static bool holds(const axes_build *b, const axes_condition *c) {
    const weft_op *op = b->call->op;
    if (!c->value) return has_arguments(b, c->name);
    const char *own_text = attr_string(op, c->name, NULL);
    if (own_text) return strcmp(own_text, c->value) == 0;
    char *end;
    double value = strtod(c->value, &end), own = attr_float(op, c->name, 0.0);
    size_t n;
    const int64_t *list = attr_ints(op, c->name, &n);
    if (n) { /* of a list the product */
        own = 1;
        for (size_t i = 0; i < n; i++) own *= (double)list[i];
    }
    return !*end && (c->test == '<' ? own < value : own == value);
}

bool axes_holds(const axes_build *b, const axes_conditions *all) {
    for (int i = 0; i < all->count; i++)
        if (!holds(b, &all->items[i])) return false;
    return true;
}

static bool counts(const axes_build *b, const axes_clause *c) {
    return c->when.count == 0 || axes_holds(b, &c->when) != c->is_unless;
}

/* --- factors ------------------------------------------------------------------------------------------------------ */

static bool is_verb(const axes_clause *c, const char *verb) {
    return strcmp(c->words[0], verb) == 0;
}

static bool is_letter(const char *word) {
    return word[0] >= 'a' && word[0] <= 'z' && !word[1];
}

/* Splits "a=b". */
static bool split_word(const char *word, char *left, size_t nbytes, const char **right) {
    const char *at = strchr(word, '=');
    if (!at || (size_t)(at - word) >= nbytes) return false;
    memcpy(left, word, (size_t)(at - word));
    left[at - word] = 0;
    *right = at + 1;
    return true;
}

void axes_read_sizes(axes_build *b) {
    char letter[4];
    const char *attr;
    for (int i = 0; i < b->text->nclauses; i++) {
        const axes_clause *c = &b->text->clauses[i];
        if (is_verb(c, "size") && c->nwords == 2 && split_word(c->words[1], letter, sizeof letter, &attr) &&
            is_letter(letter))
            b->letter_size[letter[0] - 'a'] = attr_int(b->call->op, attr, 1);
    }
}

static void make_whole(axes_build *b, int factor) {
    if (factor >= 0 && !b->rule->factors[factor].why) b->rule->factors[factor].why = axes_why_whole;
}

static int dim_with(const axes_arg *x, int factor) {
    for (int d = 0; d < x->ndim; d++)
        if (x->dims[d].nfactors == 1 && x->dims[d].factors[0] == factor) return d;
    return -1;
}

/* Whether the argument is known to have all of the factor, where its row gives it one. */
static bool has_all(const axes_build *b, const axes_arg *x, bool is_output, int factor) {
    const axes_pattern *p = axes_pattern_of(b, x, is_output);
    if (!p || p->kind != 'd' || x->ndim < 0) return true;
    int d = dim_with(x, factor);
    return d >= 0 && x->extents[d] >= 0; /* other extents have made it whole */
}

/* Whether the op takes all that there is along the factor. */
static bool takes_all(const axes_build *b, int factor) {
    const axes_rule *r = b->rule;
    for (size_t i = 0; i < r->nin; i++)
        if (!has_all(b, &r->in[i], false, factor)) return false;
    for (size_t i = 0; i < r->nout; i++)
        if (!has_all(b, &r->out[i], true, factor)) return false;
    return true;
}

/* `unless_all`: where the op takes a part alone. */
static const char *whole(axes_build *b, const char *word, bool unless_all) {
    if (is_letter(word)) return make_whole(b, b->letters[word[0] - 'a']), NULL;
    uint32_t listed = UINT32_MAX;
    if (strcmp(word, "...") != 0) {
        char attr[32];
        size_t n = strcspn(word, "/");
        if (n >= sizeof attr) return word;
        memcpy(attr, word, n);
        attr[n] = 0;
        listed = axes_listed(b, attr, word[n] ? word + n + 1 : NULL, b->rest_size);
    }
    for (int d = 0; d < b->rest_size; d++)
        if ((listed >> d & 1) && !(unless_all && takes_all(b, b->rest[d]))) make_whole(b, b->rest[d]);
    return NULL;
}

/* --- partial values ----------------------------------------------------------------------------------------------- */

#define BIT(reduce) (1u << WEFT_REDUCE_##reduce)

static const struct {
    const char *verb;
    axes_group group;
} verbs[] = {{"linear", {BIT(SUM), BIT(AVG)}},
             {"moves", {BIT(SUM) | BIT(PROD), BIT(AVG) | BIT(MAX) | BIT(MIN) | BIT(ANY) | BIT(ALL)}},
             {"rises", {0, BIT(MAX) | BIT(MIN)}},
             {"affine", {0, BIT(AVG)}},
             {"max", {0, BIT(MAX)}},
             {"min", {0, BIT(MIN)}},
             {"prod", {BIT(PROD), 0}}};

static const axes_group *find_group(const axes_clause *c) {
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (is_verb(c, verbs[i].verb)) return &verbs[i].group;
    return NULL;
}

static bool names(const axes_clause *c, int from, const char *slot_text) {
    for (int i = from; i < c->nwords; i++)
        if (strcmp(c->words[i], slot_text) == 0) return true;
    return false;
}

/* Sums of numbers that are rounded to integers, or of truth values, are no sums. */
static bool adds_up(const axes_build *b, const axes_arg *x) {
    const shape *in = &b->call->in[x - b->rule->in];
    if (in->dtype == WEFT_BOOL) return false;
    for (uint32_t i = 0; dtype_is_inexact(in->dtype) && i < b->rule->nout; i++)
        if (b->call->out[i].dtype != WEFT_DTYPE_NONE && !dtype_is_inexact(b->call->out[i].dtype)) return false;
    return true;
}

static axes_group *new_group(axes_build *b, const axes_group *like) {
    axes_rule *r = b->rule;
    if (r->ngroups == AXES_GROUPS) return NULL;
    r->groups[r->ngroups] = *like;
    return &r->groups[r->ngroups++];
}

static void join_group(axes_build *b, axes_arg *x) {
    axes_group *g = &b->rule->groups[b->rule->ngroups - 1];
    uint32_t sums = BIT(SUM) | BIT(AVG) | BIT(PROD);
    x->in_group |= UINT32_C(1) << (b->rule->ngroups - 1);
    if (!adds_up(b, x)) g->all &= ~sums, g->any &= ~sums;
}

static void add_group(axes_build *b, const axes_clause *c, const axes_group *like) {
    if (!new_group(b, like)) return;
    for (size_t i = 0; i < b->rule->nin; i++)
        if (names(c, 1, axes_slot(b, &b->rule->in[i], false))) join_group(b, &b->rule->in[i]);
}

static bool is_grad_slot(const char *slot_text) {
    size_t n = strlen(slot_text);
    return n > 5 && strcmp(slot_text + n - 5, "@GRAD") == 0;
}

void axes_default_groups(axes_build *b, bool has_groups) {
    uint32_t effects = b->call->schema->effects;
    bool grads = effects & OP_LINEAR_GRAD, all = !has_groups && effects & OP_LINEAR,
         first = !has_groups && effects & OP_LINEAR_X;
    if ((!grads && !all && !first) || !new_group(b, &verbs[0].group)) return;
    for (size_t i = 0; i < b->rule->nin; i++) {
        axes_arg *x = &b->rule->in[i];
        const axes_pattern *p = axes_pattern_of(b, x, false);
        bool is_named = (p && p->kind == 'd') || (!p && b->text->nwords);
        if (grads ? is_grad_slot(axes_slot(b, x, false)) : first ? x->slot == 0 : is_named) join_group(b, x);
    }
}

static void unread(axes_build *b, const axes_clause *c) {
    for (size_t i = 0; i < b->rule->nout; i++) {
        if (strcmp(axes_slot(b, &b->rule->out[i], true), c->words[1]) != 0) continue;
        for (size_t k = 0; k < b->call->schema->ninputs; k++)
            if (names(c, 2, b->call->schema->inputs[k].name)) b->rule->out[i].unread |= UINT64_C(1) << k;
    }
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

static const char *change(axes_build *b, const axes_clause *c, axes_change_kind kind) {
    char attr[48];
    const char *of;
    const op_schema *s = b->call->schema;
    axes_rule *r = b->rule;
    if (c->nwords != 2 || !split_word(c->words[1], attr, sizeof attr, &of)) return c->words[0];
    axes_change made = {.kind = kind};
    for (size_t i = 0; i < s->nattrs; i++)
        if (strcmp(s->attrs[i].name, attr) == 0) made.attr = s->attrs[i].name;
    if (kind != AXES_EXTENTS && !is_letter(of)) return of;
    int factor = kind == AXES_EXTENTS ? 0 : b->letters[of[0] - 'a'];
    bool known = made.attr && factor >= 0 && r->nchanges < AXES_CHANGES;
    if (!made.attr && !b->is_grad) return c->words[1];
    made.factor = factor < 0 ? 0 : (size_t)factor;
    if (kind == AXES_EXTENTS) {
        while (made.arg < r->nout && strcmp(axes_slot(b, &r->out[made.arg], true), of) != 0) made.arg++;
        known = known && made.arg < r->nout;
    }
    if (known) r->changes[r->nchanges++] = made;
    return NULL;
}

/* --- all clauses -------------------------------------------------------------------------------------------------- */

static const char *apply(axes_build *b, const axes_clause *c) {
    const axes_group *group = find_group(c);
    if (group) return add_group(b, c, group), NULL;
    if (is_verb(c, "unread")) return c->nwords > 2 ? unread(b, c), NULL : c->words[0];
    if (is_verb(c, "extents")) return change(b, c, AXES_EXTENTS);
    if (is_verb(c, "extent")) return change(b, c, AXES_EXTENT);
    if (is_verb(c, "offset")) return change(b, c, AXES_OFFSET);
    if (is_verb(c, "size")) return NULL;
    bool is_cut = is_verb(c, "cut"), is_whole = is_cut || is_verb(c, "whole");
    if (!is_whole && !is_verb(c, "without")) return c->words[0];
    for (int i = 1; i < c->nwords; i++) {
        const char *wrong = is_whole ? whole(b, c->words[i], is_cut) : NULL;
        if (wrong) return wrong;
        if (!is_whole && has_arguments(b, c->words[i])) b->rule->why_none = "its attrs come from a tensor";
    }
    return NULL;
}

/* What passes through an op, and what it reads, says nothing of its gradient. */
static bool is_of_forward(const axes_build *b, const axes_text *clauses, const axes_clause *c) {
    return b->is_grad && clauses == b->text && (find_group(c) || is_verb(c, "unread"));
}

const char *axes_apply_clauses(axes_build *b, const axes_text *clauses) {
    for (int i = 0; i < clauses->nclauses; i++) {
        const axes_clause *c = &clauses->clauses[i];
        if (is_of_forward(b, clauses, c)) continue;
        const char *wrong = counts(b, c) ? apply(b, c) : NULL;
        if (wrong) return wrong;
    }
    return NULL;
}
