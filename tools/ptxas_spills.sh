#!/bin/sh
# ptxas_spills.sh LOG LIST: kernels of LOG, what ptxas -v said of them, that put registers into memory and may not. LIST
# has a line for those that may: kernel, GPU (sm_80), the most bytes, a reason. A * ends a name, or is every GPU.
set -eu
awk -v list="$2" '
    function fits(pattern, word) {
        if (pattern !~ /\*$/) return pattern == word
        return index(word, substr(pattern, 1, length(pattern) - 1)) == 1
    }
    function may(kernel, gpu, nbytes,   i) {
        for (i = 1; i <= n; i++) if (fits(kernels[i], kernel) && fits(gpus[i], gpu) && nbytes <= most[i]) return 1
        return 0
    }
    function number(what) { match($0, "[0-9]+ bytes spill " what); return substr($0, RSTART) + 0 }
    BEGIN {
        while ((getline line < list) > 0) {
            count = split(line, word, " ")
            if (!count || word[1] ~ /^#/) continue
            if (count < 4 || word[3] !~ /^[0-9]+$/) { print list ": no reason: " line; bad = 1 }
            kernels[++n] = word[1]; gpus[n] = word[2]; most[n] = word[3]
        }
    }
    /Compiling entry function/ { split($0, part, "\047"); gpu[part[2]] = part[4]; nfunctions++ }
    /Function properties for/ { name = $NF }
    /bytes spill stores/ {
        stores = number("stores"); loads = number("loads")
        if (stores + loads == 0 || may(name, gpu[name], stores + loads)) next
        print name " for " gpu[name] ": " stores " bytes of spill stores, " loads " of loads"
        bad = 1
    }
    END { print nfunctions + 0 " kernels compiled"; exit bad || !nfunctions }' "$1"
