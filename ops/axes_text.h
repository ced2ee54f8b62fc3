/* axes_text.h: the language of axes.def (its head describes it), parsed; and what builds rules from it. */
#ifndef OPS_AXES_TEXT_H
#define OPS_AXES_TEXT_H

#include "ops/axes.h"

enum { AXES_TEXT = 1536, AXES_ITEMS = 8, AXES_PATTERNS = 20, AXES_CLAUSES = 12, AXES_WORDS = 12, AXES_CONDITIONS = 3 };

/* Texts point into the caller's copy of the row, cut up into words. */
typedef struct axes_condition {
    const char *name, *value; /* an attr and a value; value NULL: a slot that has arguments */
    char test;                /* '=' or '<' */
} axes_condition;

typedef struct axes_conditions {
    axes_condition items[AXES_CONDITIONS];
    int count;
} axes_conditions;

typedef enum axes_item_kind { AXES_LETTERS, AXES_BLANK, AXES_REST, AXES_OWN_REST } axes_item_kind;

typedef struct axes_item {
    axes_item_kind kind;
    int nletters;
    char letters[4];
    char change; /* of AXES_REST: '-', '@', '^', or 0 */
    const char *attr, *flag;
} axes_item;

typedef struct axes_pattern {
    const char *slot;
    bool is_output, is_mean;
    char kind;           /* 'd': items; '#', '*': any dimensions */
    int reduce;          /* as in axes_arg */
    const char *mean_of; /* letters; NULL: of all that it lacks */
    int nitems;
    axes_item items[AXES_ITEMS];
} axes_pattern;

typedef struct axes_clause {
    const char *words[AXES_WORDS]; /* the verb first */
    int nwords;
    axes_conditions when;
    bool is_unless;
} axes_clause;

typedef struct axes_text {
    axes_conditions when;
    const char *words[AXES_WORDS]; /* of a function: its name, its slots */
    int nwords;
    axes_pattern patterns[AXES_PATTERNS];
    int npatterns;
    axes_clause clauses[AXES_CLAUSES];
    int nclauses;
} axes_text;

/* Parses one alternative of a rule, cutting `text` up; only_clauses: what a row of a gradient adds. NULL, or what is
 * wrong with it. */
const char *axes_text_parse(char *bytes, bool only_clauses, axes_text *out);

/* --- building a rule ---------------------------------------------------------------------------------------------- */

enum { AXES_FACTORS = 256 };

typedef struct axes_build {
    const axes_call *call;
    const axes_text *text;
    axes_rule *rule;
    bool is_grad;
    int letters[26];         /* their factors; -1: none yet */
    int64_t letter_size[26]; /* -2: not seen yet */
    int rest_size;
    int rest[WEFT_MAX_RANK]; /* factors of the dimensions that "..." stands for; -1: none yet */
    int64_t rest_extent[WEFT_MAX_RANK];
    bool stretched[WEFT_MAX_RANK]; /* some argument may have an extent of 1 there */
    uint64_t same_outputs;         /* by output slot: functions say that it depends on no factor that it lacks */
} axes_build;

/* A new factor; those beyond AXES_FACTORS share the last one, which is whole. */
int axes_add_factor(axes_build *b, int64_t size, const char *why);
/* The argument number k of a slot, or of its gradient, among inputs or else outputs; NULL: there is none. */
axes_arg *axes_arg_of(const axes_build *b, const char *slot_text, size_t k);
/* Gives dimension d of argument k of the slot, and of its gradient, this factor after those that it has; -1: none. */
void axes_give(axes_build *b, const char *slot_text, size_t k, int d, int factor);
/* The name of the arg's slot in the schema. */
const char *axes_slot(const axes_build *b, const axes_arg *x, bool is_output);
/* The function of that name; NULL: there is none. false: the rule does not fit the arguments. */
typedef bool (*axes_function)(axes_build *b, const char *const *slots, int nslots);
axes_function axes_find_function(const char *function_name);

extern const char axes_why_whole[];

#endif
