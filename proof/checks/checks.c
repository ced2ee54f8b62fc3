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

static const char *when_text(const check *c) {
    switch (c->when) {
    case CHECK_ANY_LAUNCH: return "by_name, --launch any";
    case CHECK_ONE_LAUNCH: return "without --launch any";
    case CHECK_LIMITED: return "--in-flight or --queued";
    default: return c->reading == CHECK_ANY ? "" : weft_reading_name((weft_reading)c->reading);
    }
}

bool weft_check_at(size_t index, weft_check *out_check) {
    if (index >= sizeof table / sizeof *table) return false;
    *out_check = (weft_check){table[index].name, table[index].question, when_text(&table[index])};
    return true;
}

const check *checks_all(size_t *out_count) {
    *out_count = sizeof table / sizeof *table;
    return table;
}
