/* axes.def: every op has a row, rows parse, and name slots and attrs that there are; and rules that show how factors
 * and placements are told. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ops/axes_text.h"
#include "tests/support/must.h"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}

static void tear_down(void) {
    weft_context_destroy(context);
}

TestSuite(axes_table, .init = set_up, .fini = tear_down);

/* --- rows --------------------------------------------------------------------------------------------------------- */

static bool has_slot(const op_schema *s, const char *slot_text) {
    for (size_t i = 0; i < s->ninputs; i++)
        if (strcmp(s->inputs[i].name, slot_text) == 0) return true;
    for (size_t i = 0; i < s->noutputs; i++)
        if (strcmp(s->outputs[i].name, slot_text) == 0) return true;
    return false;
}

static bool has_attr(const op_schema *s, const char *attr, size_t nbytes) {
    for (size_t i = 0; i < s->nattrs; i++)
        if (strlen(s->attrs[i].name) == nbytes && memcmp(s->attrs[i].name, attr, nbytes) == 0) return true;
    return nbytes == 0;
}

static void check_conditions(const op_schema *s, const axes_conditions *all) {
    for (int i = 0; i < all->count; i++) {
        const axes_condition *c = &all->items[i];
        cr_expect(c->value ? has_attr(s, c->name, strlen(c->name)) : has_slot(s, c->name), "%s: no %s", s->type,
                  c->name);
    }
}

static void check_pattern(const op_schema *s, const axes_pattern *p) {
    cr_expect(has_slot(s, p->slot), "%s: no slot %s", s->type, p->slot);
    for (int i = 0; i < p->nitems; i++) {
        const axes_item *item = &p->items[i];
        if (item->attr) cr_expect(has_attr(s, item->attr, strlen(item->attr)), "%s: no attr %s", s->type, item->attr);
        if (item->flag) cr_expect(has_attr(s, item->flag, strlen(item->flag)), "%s: no attr %s", s->type, item->flag);
    }
}

static void check_clause(const op_schema *s, const axes_clause *c) {
    static const char *const by_slot[] = {"linear", "moves", "rises",  "affine", "max",
                                          "min",    "prod",  "unread", "without"};
    static const char *const others[] = {"whole", "cut", "size", "extents", "extent", "offset"};
    bool slots = false, known = false;
    for (size_t i = 0; i < sizeof by_slot / sizeof *by_slot; i++) slots |= strcmp(c->words[0], by_slot[i]) == 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) known |= strcmp(c->words[0], others[i]) == 0;
    cr_expect(slots || known, "%s: no clause is called %s", s->type, c->words[0]);
    check_conditions(s, &c->when);
    for (int i = 1; i < c->nwords; i++) {
        const char *word = c->words[i], *right = strchr(word, '=');
        if (slots)
            cr_expect(has_slot(s, word), "%s: no slot %s", s->type, word);
        else if (right && strcmp(c->words[0], "size") == 0)
            cr_expect(has_attr(s, right + 1, strlen(right + 1)), "%s: no attr %s", s->type, right + 1);
        else if (right)
            cr_expect(has_attr(s, word, (size_t)(right - word)), "%s: no attr in %s", s->type, word);
        else if (strcmp(word, "...") != 0 && word[1])
            cr_expect(has_attr(s, word, strcspn(word, "/")), "%s: no attr %s", s->type, word);
    }
}

static void check_text(const op_schema *s, const char *from, size_t nbytes, bool only_clauses) {
    char bytes[AXES_TEXT];
    axes_text parsed;
    cr_assert_lt(nbytes, sizeof bytes, "%s", s->type);
    memcpy(bytes, from, nbytes);
    bytes[nbytes] = 0;
    const char *wrong = axes_text_parse(bytes, only_clauses, &parsed);
    cr_assert_null(wrong, "%s: %s", s->type, wrong);
    check_conditions(s, &parsed.when);
    if (parsed.nwords) cr_expect(axes_find_function(parsed.words[0]), "%s: no @%s", s->type, parsed.words[0]);
    for (int i = 0; i < parsed.npatterns; i++) check_pattern(s, &parsed.patterns[i]);
    for (int i = 0; i < parsed.nclauses; i++) check_clause(s, &parsed.clauses[i]);
}

Test(axes_table, every_op_has_a_row_that_names_what_there_is) {
    size_t n;
    const axes_row *rows = axes_rows(&n);
    cr_assert_eq(n, ops_count(context));
    for (size_t i = 0; i < n; i++) {
        const op_schema *s = ops_at(context, i);
        cr_assert(rows[i].type, "%s has no row in axes.def", s->type);
        cr_expect_str_eq(rows[i].type, s->type);
        if (rows[i].kind == AXES_ROW_NONE) {
            cr_expect_gt(strlen(rows[i].text), 10, "%s: why?", s->type);
        } else if (rows[i].kind == AXES_ROW_GRAD) {
            cr_expect_eq(rows[rows[i].of].kind, AXES_ROW_RULE, "%s is the gradient of what has no rule", s->type);
            check_text(s, rows[i].text, strlen(rows[i].text), true);
        } else {
            for (const char *at = rows[i].text; at;) {
                size_t nbytes = strcspn(at, "|");
                check_text(s, at, nbytes, false);
                at = at[nbytes] ? at + nbytes + 1 : NULL;
            }
        }
    }
}

Test(axes_table, rows_tell_what_is_read_and_what_changes_extents_alone) {
    cr_expect_not(axes_reads(ops_find(context, "matmul_v2_grad"), "X@GRAD", "X"));
    cr_expect(axes_reads(ops_find(context, "matmul_v2_grad"), "X@GRAD", "Y"));
    cr_expect(axes_reads(ops_find(context, "tanh_grad"), "X@GRAD", "Out"));
    cr_expect(axes_only_reshapes(ops_find(context, "unsqueeze2")));
    cr_expect(axes_only_reshapes(ops_find(context, "reshape2_grad")));
    cr_expect_not(axes_only_reshapes(ops_find(context, "transpose2")));
    cr_expect_not(axes_only_reshapes(ops_find(context, "where_index")));
}

/* --- factors ------------------------------------------------------------------------------------------------------ */

enum { ARGS = 8 };

typedef struct made {
    weft_program *program;
    weft_op *op;
    shape in[ARGS], out[ARGS];
    uint32_t in_first[ARGS + 8], out_first[ARGS + 8];
    arena arena;
    axes_rule rule;
} made;

/* "X:2,3 Y:3,4": the types of one side's arguments, in schema order. */
static void read_side(const op_schema *s, bool output, const char *from, shape *types, uint32_t *first) {
    size_t nslots = output ? s->noutputs : s->ninputs;
    uint32_t n = 0;
    for (size_t i = 0; i < nslots; i++) {
        char key[64];
        first[i] = n;
        snprintf(key, sizeof key, "%s:", (output ? s->outputs : s->inputs)[i].name);
        for (const char *at = from; (at = strstr(at, key)); at++) {
            if (at > from && at[-1] != ' ') continue;
            shape *t = &types[n++];
            *t = (shape){.dtype = WEFT_FP32, .height = -1};
            at += strlen(key);
            while (isdigit((unsigned char)*at) || *at == '-') {
                char *end;
                t->dims[t->ndim++] = strtoll(at, &end, 10);
                at = end + (*end == ',');
            }
            at--;
        }
    }
    first[nslots] = n;
}

static void begin(made *m, const char *type) {
    must(weft_program_create(context, &m->program));
    must(weft_op_create(m->program, type, &m->op));
    arena_init(&m->arena, &context->allocator);
}

static void find(made *m, const char *in, const char *out) {
    const op_schema *s = op_schema_of(m->op);
    read_side(s, false, in, m->in, m->in_first);
    read_side(s, true, out, m->out, m->out_first);
    axes_call call = {m->op, s, m->in, m->out, m->in_first, m->out_first};
    must(axes_of_op(&call, &m->arena, &m->rule));
}

static void end(made *m) {
    arena_fini(&m->arena);
    weft_program_destroy(m->program);
}

/* Factors as letters, "(ab)" for two, "-" for none; upper case: it must be whole. Arguments apart by spaces. */
static const char *print(const made *m, char *to) {
    char *at = to;
    for (size_t i = 0; i < m->rule.nin + m->rule.nout; i++) {
        const axes_arg *x = i < m->rule.nin ? &m->rule.in[i] : &m->rule.out[i - m->rule.nin];
        if (i) *at++ = ' ';
        for (int d = 0; d < x->ndim; d++) {
            int n = x->dims[d].nfactors;
            if (n != 1) *at++ = n ? '(' : '-';
            for (int k = 0; k < n; k++) {
                int factor = x->dims[d].factors[k];
                *at++ = (char)((m->rule.factors[factor].why ? 'A' : 'a') + factor);
            }
            if (n > 1) *at++ = ')';
        }
    }
    *at = 0;
    return to;
}

#define EXPECT_FACTORS(m, wanted)                                                                                      \
    do {                                                                                                               \
        char text_[200];                                                                                               \
        cr_expect_str_eq(print(&(m), text_), wanted);                                                                  \
    } while (0)

Test(axes_table, products_sum_over_what_the_result_lacks) {
    made m = {0};
    begin(&m, "matmul_v2");
    must(weft_op_set_attr_bool(m.op, "trans_y", true));
    find(&m, "X:5,1,2,3 Y:7,4,3", "Out:5,7,2,4");
    EXPECT_FACTORS(m, "b-da cea bcde");
    end(&m);
}

Test(axes_table, reshapes_have_the_factors_that_both_sides_have) {
    made m = {0};
    begin(&m, "reshape2");
    find(&m, "X:4,6,5", "Out:24,5");
    EXPECT_FACTORS(m, "abc (ab)c");
    find(&m, "X:24,5", "Out:4,6,5");
    EXPECT_FACTORS(m, "(ab)c abc");
    find(&m, "X:6,4", "Out:4,6"); /* 6 and 4 have no factor in common that comes first */
    EXPECT_FACTORS(m, "AB CD");
    find(&m, "X:-1,6", "Out:-1,2,3");
    EXPECT_FACTORS(m, "a(bc) abc");
    end(&m);
}

Test(axes_table, extents_and_attrs_that_do_not_fit_are_no_trouble) {
    made m = {0};
    axes_placed in[1] = {{{0}, {{0}}, {0}, 0}}, out[1];
    begin(&m, "reshape2");
    find(&m, "X:-1,4000000000,4000000000", "Out:-1,4000000000,4000000000");
    (void)axes_follow(&m.rule, &(axes_mesh){.naxes = 1, .extent = {2}, .uneven = true}, in, out);
    end(&m);
    begin(&m, "squeeze2");
    must(weft_op_set_attr_longs(m.op, "axes", 2, (const int64_t[]){INT64_MAX, INT64_MIN}));
    find(&m, "X:4,9223372036854775807", "Out:4,9223372036854775807");
    in[0].naxes[1] = 1;
    cr_expect_null(axes_follow(&m.rule, &(axes_mesh){.naxes = 1, .extent = {2}, .uneven = true}, in, out));
    end(&m);
    begin(&m, "elementwise_add");
    must(weft_op_set_attr_longs(m.op, "axis", 1, (const int64_t[]){INT64_MAX}));
    find(&m, "X:4,6 Y:6", "Out:4,6");
    end(&m);
}

/* --- placements --------------------------------------------------------------------------------------------------- */

static const axes_mesh two_by_three = {.naxes = 2, .extent = {2, 3}};

static axes_placed replicated(void) {
    return (axes_placed){{0}, {{0}}, {0}, 0};
}

static axes_placed sharded(int d, int axis) {
    axes_placed p = replicated();
    p.axes[d][p.naxes[d]++] = (uint8_t)axis;
    return p;
}

Test(axes_table, a_gradient_of_what_all_ranks_have_is_partial) {
    made m = {0};
    begin(&m, "matmul_v2_grad");
    find(&m, "X:4,6 Y:6,8 Out@GRAD:4,8", "X@GRAD:4,6 Y@GRAD:6,8");
    axes_placed in[3] = {sharded(0, 0), replicated(), sharded(0, 0)}, out[2];
    cr_assert_null(axes_follow(&m.rule, &two_by_three, in, out));
    cr_expect(out[0].naxes[0] == 1 && out[0].axes[0][0] == 0);
    cr_expect_eq(out[1].partial[0], 1 + WEFT_REDUCE_SUM);
    in[2] = replicated();
    cr_expect(axes_follow(&m.rule, &two_by_three, in, out), "only one input of a factor is sharded");
    end(&m);
}

Test(axes_table, sums_pass_through_what_is_linear_only) {
    made m = {0};
    axes_placed in[2] = {replicated(), replicated()}, out[1];
    in[0].partial[0] = 1 + WEFT_REDUCE_SUM;
    begin(&m, "elementwise_add");
    find(&m, "X:4,6 Y:6", "Out:4,6");
    cr_expect(axes_follow(&m.rule, &two_by_three, in, out), "a bias would be added once a rank");
    in[1] = in[0];
    cr_assert_null(axes_follow(&m.rule, &two_by_three, in, out));
    cr_expect_eq(out[0].partial[0], 1 + WEFT_REDUCE_SUM);
    end(&m);
    begin(&m, "relu");
    find(&m, "X:4,6", "Out:4,6");
    cr_expect(axes_follow(&m.rule, &two_by_three, in, out), "relu of a share is no share");
    end(&m);
}

Test(axes_table, parts_of_several_factors_lie_together_or_are_refused) {
    made m = {0};
    axes_placed in[1] = {sharded(0, 0)}, out[1];
    begin(&m, "reshape2");
    find(&m, "X:2,6", "Out:12");
    cr_assert_null(axes_follow(&m.rule, &two_by_three, in, out));
    cr_expect(out[0].naxes[0] == 1 && out[0].axes[0][0] == 0);
    in[0].naxes[1] = 1; /* both: parts of 2 * 3 */
    in[0].axes[1][0] = 1;
    cr_assert_null(axes_follow(&m.rule, &two_by_three, in, out));
    cr_expect(out[0].naxes[0] == 2 && out[0].axes[0][1] == 1);
    in[0].naxes[0] = 0; /* the inner one alone would be every other run of the result */
    cr_expect(axes_follow(&m.rule, &two_by_three, in, out));
    end(&m);
}

Test(axes_table, an_op_on_a_part_gets_the_attrs_for_it) {
    made m = {0};
    axes_placed in[2] = {sharded(0, 1), replicated()}, out[1];
    size_t n;
    begin(&m, "c_embedding");
    find(&m, "W:9,4 Ids:5", "Out:5,4");
    cr_assert_null(axes_follow(&m.rule, &two_by_three, in, out));
    cr_expect_eq(out[0].partial[1], 1 + WEFT_REDUCE_SUM);
    must(axes_localize(&m.rule, &two_by_three, in, out, (const int64_t[]){1, 2}, m.op));
    cr_expect_eq(attr_int(m.op, "start_index", 0), 6);
    end(&m);
    begin(&m, "reshape2");
    must(weft_op_set_attr_ints(m.op, "shape", 3, (const int64_t[]){6, 2, 2}));
    find(&m, "X:6,4", "Out:6,2,2");
    cr_assert_null(axes_follow(&m.rule, &two_by_three, in, out));
    must(axes_localize(&m.rule, &two_by_three, in, out, (const int64_t[]){1, 2}, m.op));
    cr_expect_eq(attr_ints(m.op, "shape", &n)[0], 2);
    end(&m);
}
