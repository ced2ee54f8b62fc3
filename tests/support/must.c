/* must.c: see must.h. */
#include "tests/support/must.h"

#include <stdio.h>
#include <stdlib.h>

void must(weft_status status) {
    if (!status) return;
    printf("FAIL set-up: %s\n0 passed, 1 failed\n", weft_status_message(status));
    exit(1);
}
