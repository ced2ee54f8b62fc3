#include <criterion/criterion.h>

#include "base/context.h"
#include "base/json.h"
#include "tests/support/table.h"

static weft_context *context;
static void setup(void) {
    cr_assert_null(context_create_bare(NULL, &context));
}
static void teardown(void) {
    context_destroy(context);
}
TestSuite(json, .init = setup, .fini = teardown);

struct bad_text {
    const char *json, *place, *message;
};

static const struct bad_text errors_cases[] = {
    {"", "t.json:1:1", "expected JSON"},
    {"{\n \"a\": 1,\n \"a\": 2}", "t.json:3:", "duplicate"},
    {"[1] x", "t.json:1:5", "end of file"},
    {"[1,", "t.json:1:3", "near end of file"},
    {"[\"\xff\"]", "t.json:1:", "unable to decode byte 0xff"},
    {"5", "t.json:1:1", "'['"},
};
TABLE_ROWS(json, errors, errors_cases);

TABLE_TEST(size_t *row, json, errors) {
    const struct bad_text *c = &errors_cases[*row];
    json_t *root = NULL;
    weft_status status = json_read(context, c->json, strlen(c->json), "t.json", &root);
    cr_assert_eq(weft_status_code(status), WEFT_PARSE);
    cr_assert_eq(strncmp(weft_status_place(status), c->place, strlen(c->place)), 0, "%s", weft_status_place(status));
    cr_assert_not_null(strstr(weft_status_message(status), c->message), "%s", weft_status_message(status));
    weft_status_free(status);
}

Test(json, depth_is_capped) {
    static char deep[100000];
    memset(deep, '[', sizeof deep);
    json_t *root = NULL;
    weft_status status = json_read(context, deep, sizeof deep, "t.json", &root);
    cr_assert_eq(weft_status_code(status), WEFT_PARSE);
    weft_status_free(status);
}

static void assert_reads_back(const char *bytes, size_t nbytes, const char *back, size_t nback) {
    buffer b;
    buffer_init(&b, &context->allocator);
    buffer_text(&b, "[");
    json_put_string(&b, bytes, nbytes);
    buffer_text(&b, "]");
    json_t *root = NULL;
    weft_status status = json_read(context, b.bytes, b.nbytes, "t.json", &root);
    cr_assert_null(status, "%s", weft_status_message(status));
    json_t *string = json_array_get(root, 0);
    cr_assert_eq(json_string_length(string), nback);
    cr_assert_eq(memcmp(json_string_value(string), back, nback), 0);
    json_decref(root);
    buffer_fini(&b);
}

Test(json, strings_read_back) {
    static const char odd[] = "quote \" back \\ nul \0 newline \n del \x7f gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80";
    assert_reads_back(odd, sizeof odd - 1, odd, sizeof odd - 1);
    assert_reads_back("", 0, "", 0);
}

Test(json, bytes_that_are_no_text_become_the_replacement_character) {
    assert_reads_back("a\xff", 2, "a\xef\xbf\xbd", 4);
    assert_reads_back("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9);
    assert_reads_back("\xc3", 1, "\xef\xbf\xbd", 3);
}
