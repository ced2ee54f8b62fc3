/* checks.c: the table of checks. */
#include "proof/checks/checks.h"

/* The function's place in a row, by what it needs. */
#define FUNCTION_PROGRAM of_schedule
#define FUNCTION_SCHEDULE of_schedule
#define FUNCTION_LAUNCHES of_launches
#define FUNCTION_MOTION of_launches
#define FUNCTION_FLOWS of_flows
#define FUNCTION_CLASSES of_classes
#define FUNCTION_RING of_ring
#define FUNCTION_MOVERS of_ranks
#define FUNCTION_RANKS of_ranks

#define FUNCTION(needs_) FUNCTION_##needs_
#define CHECK(name_, reading_, when_, needs_, about_, function_, question_)                                            \
    {.name = #name_,                                                                                                   \
     .question = question_,                                                                                            \
     .reading = CHECK_##reading_,                                                                                      \
     .when = CHECK_##when_,                                                                                            \
     .needs = CHECK_##needs_,                                                                                          \
     .about = CHECK_##about_,                                                                                          \
     .FUNCTION(needs_) = function_},

static const check table[] = {
#include "proof/checks/checks.def"
};

const check *checks_all(size_t *out_count) {
    *out_count = sizeof table / sizeof *table;
    return table;
}
