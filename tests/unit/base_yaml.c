#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "base/context.h"
#include "base/yaml.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/table.h"

typedef struct sink {
    int count, line, column; /* of the first finding */
} sink;

static void keep_finding(void *user, const weft_diagnostic *d) {
    sink *s = user;
    if (s->count++ == 0) {
        s->line = d->line;
        s->column = d->column;
    }
}

static sink found;
static weft_context *context;
static arena tree;

static void setup(void) {
    found = (sink){0};
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = keep_finding,
                                    .diagnostic_user = &found};
    cr_assert_null(context_create_bare(&options, &context));
    arena_init(&tree, &context->allocator);
}

static void teardown(void) {
    arena_fini(&tree);
    context_destroy(context);
}
TestSuite(yaml, .init = setup, .fini = teardown);

static yaml_node *read_text(const char *s) {
    yaml_node *root = NULL;
    weft_status status = yaml_read(context, s, strlen(s), "t.yaml", NULL, &tree, &root);
    cr_assert_null(status, "%s", weft_status_message(status));
    return root;
}

Test(yaml, nodes_remember_where_they_stood) {
    yaml_node *root = read_text("a: 1\nb: [x,\n    'y']\n");
    cr_assert_eq(root->count, 2);
    yaml_node *b = yaml_get(root, "b");
    cr_assert_eq(b->kind, NODE_SEQUENCE);
    cr_assert_eq(b->line, 2);
    cr_assert_eq(b->column, 4);
    cr_assert_eq(b->items[1]->line, 3);
    cr_assert_eq(b->items[1]->column, 5);
    cr_assert(b->items[0]->plain);
    cr_assert_not(b->items[1]->plain);
    cr_assert_null(yaml_get(root, "c"));
}

struct bad_text {
    const char *yaml;
    weft_code code;
    const char *message; /* in the message */
    int line, column;
};

static const struct bad_text errors_cases[] = {
    {"", WEFT_PARSE, "found nothing", 1, 1},
    {"a: 1\na: 2\n", WEFT_PARSE, "\"a\" is given twice: first in line 1", 2, 1},
    {"{a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8, i: 9, j: 0, a: 1}", WEFT_PARSE, "given twice", 1, 62},
    {"a: &x 1\nb: *x\n", WEFT_PARSE, "anchors", 1, 4},
    {"*x", WEFT_PARSE, "aliases", 1, 1},
    {"<<: {a: 1}\n", WEFT_PARSE, "merge keys", 1, 1},
    {"[a]: 1\n", WEFT_PARSE, "scalar as key", 1, 1},
    {"a: [1, 2\nb: 3\n", WEFT_PARSE, "expected YAML", 2, 2},
    {"a: 1\n---\nb: 2\n", WEFT_PARSE, "one document", 2, 1},
    {"a: \x01", WEFT_PARSE, "control characters", 1, 4},
    {"a: \xff\xfe", WEFT_PARSE, "UTF-8", 1, 4},
};
TABLE_ROWS(yaml, errors, errors_cases);

TABLE_TEST(size_t *row, yaml, errors) {
    const struct bad_text *c = &errors_cases[*row];
    yaml_node *root = NULL;
    weft_status status = yaml_read(context, c->yaml, strlen(c->yaml), "t.yaml", NULL, &tree, &root);
    cr_assert_eq(weft_status_code(status), c->code, "%s", c->yaml);
    cr_assert_not_null(strstr(weft_status_message(status), c->message), "%s", weft_status_message(status));
    char place[64];
    snprintf(place, sizeof place, "t.yaml:%d:%d", c->line, c->column);
    if (!strstr(c->message, "control") && !strstr(c->message, "UTF-8")) /* libyaml gives these a byte, not a column */
        cr_assert_str_eq(weft_status_place(status), place);
    cr_assert_geq(found.count, 1);
    cr_assert_null(root);
    weft_status_free(status);
}

Test(yaml, every_duplicate_key_is_reported) {
    yaml_node *root = NULL;
    const char *s = "{a: 1, a: 2, b: {c: 1, c: 2}}";
    weft_status status = yaml_read(context, s, strlen(s), "t.yaml", NULL, &tree, &root);
    cr_assert_eq(found.count, 2);
    cr_assert_str_eq(weft_status_place(status), "t.yaml:1:24", "the status repeats the first finding");
    weft_status_free(status);
}

Test(yaml, depth_is_capped_before_it_costs) {
    static char deep[200001];
    memset(deep, '[', sizeof deep - 1);
    yaml_node *root = NULL;
    weft_status status = yaml_read(context, deep, sizeof deep - 1, "t.yaml", NULL, &tree, &root);
    cr_assert_eq(weft_status_code(status), WEFT_LIMIT);
    cr_assert_str_eq(weft_status_place(status), "t.yaml:1:65");
    weft_status_free(status);
}

Test(yaml, nodes_and_bytes_are_capped) {
    yaml_node *root = NULL;
    yaml_limits few_nodes = {.max_nodes = 4}, few_bytes = {.max_nbytes = 4};
    weft_status status = yaml_read(context, "[1,2,3]", 7, "t", &few_nodes, &tree, &root);
    cr_assert_null(status);
    status = yaml_read(context, "[1,2,3,4]", 9, "t", &few_nodes, &tree, &root);
    cr_assert_eq(weft_status_code(status), WEFT_LIMIT);
    weft_status_free(status);
    status = yaml_read(context, "[1,2,3]", 7, "t", &few_bytes, &tree, &root);
    cr_assert_eq(weft_status_code(status), WEFT_LIMIT);
    weft_status_free(status);
}

struct scalar_case {
    const char *yaml;
    char kind; /* n null, b bool, i int, f float, s string */
    double value;
};

static const struct scalar_case scalars_cases[] = {
    {"~", 'n', 0},     {"null", 'n', 0},     {"true", 'b', 1},  {"False", 'b', 0},
    {"yes", 's', 0},   {"12", 'i', 12},      {"-0", 'i', 0},    {"+7", 'i', 7},
    {"0x1F", 'i', 31}, {"0o17", 'i', 15},    {"1_000", 's', 0}, {"9223372036854775807", 'i', 9223372036854775807.0},
    {"1.5", 'f', 1.5}, {"1e3", 'f', 1000},   {".5", 'f', 0.5},  {"5.", 'f', 5},
    {"1e", 's', 0},    {".", 's', 0},        {"-", 's', 0},     {"-.inf", 'f', -INFINITY},
    {"'12'", 's', 0},  {"\"true\"", 's', 0}, {"0x", 's', 0},    {"99999999999999999999", 'f', 1e20},
    {"nan", 's', 0},   {"inf", 's', 0},      {"1:30", 's', 0},
};
TABLE_ROWS(yaml, scalars, scalars_cases);

TABLE_TEST(size_t *row, yaml, scalars) {
    const struct scalar_case *c = &scalars_cases[*row];
    char flow[64];
    snprintf(flow, sizeof flow, "[%s]", c->yaml);
    if (c->yaml[0] == '-' && !c->yaml[1]) snprintf(flow, sizeof flow, "a: '-'");
    yaml_node *root = read_text(flow), *node = root->items[root->kind == NODE_MAPPING ? 1 : 0];
    int64_t i;
    double f = 0;
    bool b = false;
    cr_assert_eq(yaml_is_null(node), c->kind == 'n');
    cr_assert_eq(yaml_as_bool(node, &b), c->kind == 'b');
    if (c->kind == 'b') cr_assert_eq(b, c->value != 0);
    cr_assert_eq(yaml_as_int(node, &i), c->kind == 'i');
    cr_assert_eq(yaml_as_double(node, &f), c->kind == 'i' || c->kind == 'f');
    if (c->kind == 'i' || c->kind == 'f') cr_assert_eq(f, c->value);
}

struct string_case {
    const char *bytes;
    size_t nbytes;
    const char *yaml;
};
#define STRING(s, yaml)                                                                                                \
    { s, sizeof s - 1, yaml }

static const struct string_case strings_cases[] = {
    STRING("relu_0.tmp_0@GRAD", "relu_0.tmp_0@GRAD"),
    STRING("/auto_parallel/data_parallel", "/auto_parallel/data_parallel"),
    STRING("", "\"\""),
    STRING("true", "\"true\""),
    STRING("No", "\"No\""),
    STRING("12", "\"12\""),
    STRING("@EMPTY@", "\"@EMPTY@\""),
    STRING("a: b", "\"a: b\""),
    STRING("a,b", "\"a,b\""),
    STRING("two words", "two words"),
    STRING("ends ", "\"ends \""),
    STRING(" x", "\" x\""),
    STRING("say \"hi\"\\\n\t", "\"say \\\"hi\\\"\\\\\\n\\t\""),
    STRING("a\0b", "\"a\\x00b\""),
    STRING("\x7f", "\"\\x7F\""),
    STRING("gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""),
    STRING("\xef\xbb\xbf", "\"\\uFEFF\""),
    STRING("\xe2\x80\xa8", "\"\\u2028\""),
    STRING("\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""),
    STRING("a\xff\x80z", "!bytes \"a\\xFF\\x80z\""),
    STRING("\xed\xa0\x80", "!bytes \"\\xED\\xA0\\x80\""),
};
TABLE_ROWS(yaml, strings, strings_cases);

static void assert_reads_back(const char *bytes, size_t nbytes) {
    buffer b;
    buffer_init(&b, &context->allocator);
    buffer_text(&b, "{k: [");
    yaml_put_string(&b, bytes, nbytes);
    buffer_text(&b, "]}");
    yaml_node *root = NULL;
    weft_status status = yaml_read(context, b.bytes, b.nbytes, "t", NULL, &tree, &root);
    cr_assert_null(status, "%s in %.*s", weft_status_message(status), (int)b.nbytes, b.bytes);
    const char *back = NULL;
    size_t nback = 0;
    yaml_node *node = root->items[1]->items[0];
    status = yaml_as_bytes(context, node, "t", &tree, &back, &nback);
    cr_assert_null(status, "%s", weft_status_message(status));
    cr_assert_eq(nback, nbytes);
    cr_assert_eq(memcmp(back, bytes, nbytes), 0);
    int64_t i;
    bool yes;
    double f;
    cr_assert_not(yaml_is_null(node) || yaml_as_bool(node, &yes) || yaml_as_int(node, &i) || yaml_as_double(node, &f));
    buffer_fini(&b);
}

TABLE_TEST(size_t *row, yaml, strings) {
    const struct string_case *c = &strings_cases[*row];
    buffer b;
    buffer_init(&b, &context->allocator);
    yaml_put_string(&b, c->bytes, c->nbytes);
    buffer_append(&b, "", 1);
    cr_assert_str_eq(b.bytes, c->yaml);
    buffer_fini(&b);
    assert_reads_back(c->bytes, c->nbytes);
}

Test(yaml, random_bytes_read_back) {
    uint32_t state = 7;
    for (int i = 0; i < 3000; i++) {
        char bytes[12];
        size_t nbytes = (size_t)i % sizeof bytes;
        for (size_t j = 0; j < nbytes; j++) {
            state = state * 1664525u + 1013904223u;
            bytes[j] = (char)(i % 2 ? state >> 24 : (state >> 24) % 96 + 32);
        }
        assert_reads_back(bytes, nbytes);
    }
}

Test(yaml, bytes_tag_holds_only_bytes) {
    const char *back;
    size_t n;
    yaml_node *root = read_text("[!bytes \"\\u0100\", !other x]");
    for (size_t i = 0; i < 2; i++) {
        weft_status status = yaml_as_bytes(context, root->items[i], "t", &tree, &back, &n);
        cr_assert_eq(weft_status_code(status), WEFT_PARSE);
        weft_status_free(status);
    }
}

Test(yaml, every_failed_request_is_a_clean_status) {
    const char *s = "{a: [1, 2, {b: c}], d: {e1: 1, e2: 2, e3: 3, e4: 4, e5: 5, e6: 6, e7: 7, e8: 8, e9: 9}}";
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        failing_allocator state = {.fail_at = n};
        weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&state)};
        weft_context *failing = NULL;
        weft_status status = context_create_bare(&options, &failing);
        if (!status) {
            arena a;
            arena_init(&a, &failing->allocator);
            yaml_node *root = NULL;
            status = yaml_read(failing, s, strlen(s), "t", NULL, &a, &root);
            arena_fini(&a);
            context_destroy(failing);
        }
        failed = state.failed;
        cr_assert_eq(weft_status_code(status), failed ? WEFT_OUT_OF_MEMORY : WEFT_OK, "request %zu", n);
        cr_assert_eq(state.held, 0);
        cr_assert_not(state.wrong_size);
    }
}
