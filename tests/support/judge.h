/* judge.h: programs in YAML, judged. */
#ifndef TESTS_SUPPORT_JUDGE_H
#define TESTS_SUPPORT_JUDGE_H

#include "weft/verify.h"

/* "race deadlock", the verdicts in order, or "safe"; ends the test if a text cannot be read. A second text is rank 1's
 * program, NULL: the first is every rank's. The caller frees. */
char *judge(const char *rank0, const char *rank1, const weft_verify_options *options);
/* The message of the first finding, or "". The caller frees. */
char *judge_message(const char *rank0, const char *rank1, const weft_verify_options *options);

#endif
