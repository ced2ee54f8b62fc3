/* Systems of equations beyond what recordings show. */
#include <criterion/criterion.h>

#include "tests/support/kernel_run.h"

/* [[2, 0], [0, 4]] and [[1, 1], [0, 1]], each with a column of its own, or with one for both. */
Test(kernels_linear, matrices_are_solved_for_a_column_each) {
    kernel_test t;
    float a[] = {2, 0, 0, 4, 1, 1, 0, 1}, b[] = {2, 4, 3, 1}, g[] = {1, 1, 1, 1}, out[4], da[8], db[4];
    for (int one = 0; one < 2; one++) {
        kernel_test_init(&t, "solve");
        kernel_test_in(&t, "X", WEFT_FP32, a, 2, 2, 2);
        kernel_test_in(&t, "Y", WEFT_FP32, b, 2, one ? -1 : 2, -1);
        kernel_test_out(&t, "Out", WEFT_FP32, out, 2, 2, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        cr_expect_arr_eq(out, one ? ((float[]){1, 1, -2, 4}) : ((float[]){1, 1, 2, 1}), sizeof out);
        kernel_test_fini(&t);

        kernel_test_init(&t, "solve_grad");
        kernel_test_in(&t, "X", WEFT_FP32, a, 2, 2, 2);
        kernel_test_in(&t, "Y", WEFT_FP32, b, 2, one ? -1 : 2, -1);
        kernel_test_in(&t, "Out", WEFT_FP32, out, 2, 2, -1);
        kernel_test_in(&t, "Out@GRAD", WEFT_FP32, g, 2, 2, -1);
        kernel_test_out(&t, "X@GRAD", WEFT_FP32, da, 2, 2, 2);
        kernel_test_out(&t, "Y@GRAD", WEFT_FP32, db, 2, one ? -1 : 2, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        cr_expect_arr_eq(db, one ? ((float[]){1.5f, 0.25f}) : ((float[]){0.5f, 0.25f, 1, 0}), one ? 8 : 16);
        cr_expect(da[0] == -0.5f && da[1] == -0.5f && da[6] == 0 && da[7] == 0);
        kernel_test_fini(&t);
    }
}
