#include <criterion/criterion.h>

#include "base/base.h"

Test(status, null_is_success) {
    cr_assert_eq(weft_status_code(NULL), WEFT_OK);
    cr_assert_str_eq(weft_status_message(NULL), "");
    cr_assert_str_eq(weft_status_place(NULL), "");
    weft_status_free(NULL);
}

Test(status, holds_code_message_and_place) {
    weft_status status = weft_status_create(WEFT_PARSE, "a.yaml:3:7", "expected %s, found %d", "a name", 7);
    cr_assert_eq(weft_status_code(status), WEFT_PARSE);
    cr_assert_str_eq(weft_status_message(status), "expected a name, found 7");
    cr_assert_str_eq(weft_status_place(status), "a.yaml:3:7");
    weft_status_free(status);
}

Test(status, long_messages_are_whole) {
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    weft_status status = weft_status_create(WEFT_IO, NULL, "%s!", longest);
    cr_assert_eq(strlen(weft_status_message(status)), sizeof longest);
    cr_assert_str_eq(weft_status_place(status), "");
    weft_status_free(status);
}

Test(status, out_of_memory_is_one_object_that_free_ignores) {
    weft_status status = base_out_of_memory();
    weft_status_free(status);
    weft_status_free(status);
    cr_assert_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY);
    cr_assert_eq(base_status_at(status, "somewhere"), status);
    cr_assert_str_eq(weft_status_place(status), "");
}

Test(status, the_first_place_stays) {
    weft_status status = weft_status_create(WEFT_IO, NULL, "no");
    status = base_status_at(status, "inner");
    status = base_status_at(status, "outer");
    cr_assert_str_eq(weft_status_place(status), "inner");
    cr_assert_str_eq(weft_status_message(status), "no");
    weft_status_free(status);
    cr_assert_null(base_status_at(NULL, "outer"));
}

Test(status, every_code_has_a_name) {
    for (int code = 0; code < WEFT_CODE_COUNT; code++) {
        cr_assert_not_null(weft_code_name((weft_code)code));
        cr_assert_str_neq(weft_code_name((weft_code)code), "unknown");
    }
    cr_assert_str_eq(weft_code_name((weft_code)99), "unknown");
}
