#!/bin/sh
# Fails on an #include that the layering does not allow. Each line below: folder, then the folders it may include.
# proof/certificate/ checks what passes claim: of the folders above program/ it sees nothing but itself.
set -eu
cd "$(dirname "$0")/.."

allowed() {
    case $1 in
    base) echo "base include" ;;
    dist_attr) echo "base dist_attr include" ;;
    program) echo "base dist_attr program include" ;;
    ops) echo "base dist_attr program ops include" ;;
    plan) echo "base dist_attr program ops plan include" ;;
    simulate) echo "base dist_attr program ops plan simulate include" ;;
    proof) echo "base dist_attr program ops plan proof include" ;;
    passes) echo "base dist_attr program ops plan proof passes include" ;;
    executor) echo "base dist_attr program ops plan executor include" ;;
    train) echo "base dist_attr program ops plan executor train include" ;;
    cli) echo "cli include" ;;
    include) echo "include" ;;
    examples) echo "include" ;;
    *) echo "unknown folder $1" >&2; exit 1 ;;
    esac
}

bad=0
for folder in base dist_attr program ops plan simulate proof passes executor train cli include examples; do
    [ -d "$folder" ] || continue
    may=" $(allowed "$folder") "
    for file in $(find "$folder" -name '*.[ch]' -o -name '*.def' | sort); do
        alone=no
        case $file in proof/certificate/*) alone=yes ;; esac
        for included in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file"); do
            top=${included%%/*}
            [ "$top" = weft ] && top=include
            [ "$included" = framework.pb-c.h ] && [ "$folder" = program ] && continue
            if [ $alone = yes ]; then
                case $included in
                base/* | dist_attr/* | program/* | weft/* | proof/certificate/*) continue ;;
                *) echo "$file: may not include \"$included\": the checker of certificates stands alone" >&2; bad=1 ;;
                esac
            fi
            case $may in
            *" $top "*) ;;
            *) echo "$file: may not include \"$included\" ($folder may include:$may)" >&2; bad=1 ;;
            esac
        done
    done
done
[ $bad = 0 ] && echo "check-deps: every include follows the layers"
exit $bad
