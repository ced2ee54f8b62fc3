/* must.h: for set-up that cannot fail unless the test itself is wrong. */
#ifndef TESTS_SUPPORT_MUST_H
#define TESTS_SUPPORT_MUST_H

#include "weft/status.h"

/* Ends the test with the status's words if there is one. */
void must(weft_status status);

#endif
