/* plugin_file.h: finds and opens a shared object that is a plugin. */
#ifndef EXECUTOR_PLUGIN_FILE_H
#define EXECUTOR_PLUGIN_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* How a plugin is looked for: in the folders of WEFT_PLUGIN_PATH, beside the program and beside this library. The first
 * file that is there is opened, and stays open. */
typedef struct plugin_search {
    const char *file_name; /* "weft_mpi.so" */
    const char *symbol;    /* a function that gives what the plugin shows */
    const void *found;     /* what that function returned; NULL: see why */
    bool was_there;
    char path[400]; /* of the file that was there */
    char why[600];  /* there is none, or it cannot be opened */
} plugin_search;

/* Sets found, or why. The caller checks that both sides are of one build, and words it with plugin_search_differs. */
void plugin_search_run(plugin_search *s);
void plugin_search_differs(plugin_search *s, unsigned abi, int expected_abi, const char *version);

#endif
