/* cuda_rule.h: calls of the stand-ins for the libraries of CUDA by name, and rules that end the process that breaks
 * them. */
#ifndef TESTS_SUPPORT_CUDA_RULE_H
#define TESTS_SUPPORT_CUDA_RULE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rule {
    void (*breaks)(void);
    const char *words;
} rule;

extern void *rule_runtime, *rule_collectives, *rule_products;
extern void *rule_convolutions; /* NULL: cuDNN's header was missing */

/* False: the plugin is not built here. Stand-ins that it needs and that are missing end the process. */
bool rules_open(void);
/* In a process of its own; how that ended, and what it said. */
int rule_break(void (*breaks)(void), char *said, size_t nbytes);
/* Whether it ends the process with its words; else *what. */
bool rule_holds(const rule *r, char *what, size_t nbytes);

typedef void rule_call(void);
rule_call *rule_find(void *library, const char *function);
#define CALL(library, function, types, ...) ((int(*) types)rule_find(library, function))(__VA_ARGS__)
#define RUNTIME(function, types, ...) CALL(rule_runtime, function, types, __VA_ARGS__)

void *rule_stream(void);
void *rule_event(void);

#endif
