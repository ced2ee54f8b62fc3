/* nvtx.c: a tool that NVTX loads (NVTX_INJECTION64_PATH): it writes the names of ranges of domain "weft", a line each,
 * two blanks deeper within others, into the file WEFT_STANDIN_RANGES. A range that ends more often than it began ends
 * the process. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

static _Thread_local int depth;
static int own_domain;

static nvtxDomainHandle_t create(const char *its_name) {
    if (strcmp(its_name, "weft") != 0) abort();
    return (nvtxDomainHandle_t)(void *)&own_domain;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range) {
    const char *path = getenv("WEFT_STANDIN_RANGES");
    if (domain != (nvtxDomainHandle_t)(void *)&own_domain || range->messageType != NVTX_MESSAGE_TYPE_ASCII) abort();
    FILE *f = path ? fopen(path, "a") : NULL;
    if (f) fprintf(f, "%*s%s\n", 2 * depth, "", range->message.ascii);
    if (f) fclose(f);
    return depth++;
}

static int pop(nvtxDomainHandle_t domain) {
    (void)domain;
    if (!depth) abort();
    return --depth;
}

SHOWN int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions = NULL;
    unsigned n = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &n)) return 0;
    const struct {
        unsigned id;
        NvtxFunctionPointer call;
    } rows[] = {{NVTX_CBID_CORE2_DomainCreateA, (NvtxFunctionPointer)create},
                {NVTX_CBID_CORE2_DomainRangePushEx, (NvtxFunctionPointer)push},
                {NVTX_CBID_CORE2_DomainRangePop, (NvtxFunctionPointer)pop}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].id >= n) return 0;
        *functions[rows[i].id] = rows[i].call;
    }
    return 1;
}
