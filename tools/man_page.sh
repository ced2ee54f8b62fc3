#!/bin/sh
# Prints a manual page with a section of all options in it, which is the command's own help.
# usage: tools/man_page.sh WEFT PAGE
set -eu
weft=$1 page=$2
sed '/^\.Sh FILES/,$d' "$page"
echo '.Sh OPTIONS'
"$weft" help | sed -n 's/^  \([a-z]*\) .*/\1/p' | while read -r command; do
    options=$("$weft" "$command" --help | sed -n '/^options$/,/^$/p' | sed -e 1d -e '/^$/d' -e 's/\\/\\e/g')
    [ -z "$options" ] || printf '.Ss weft %s\n.Bd -literal\n%s\n.Ed\n' "$command" "$options"
done
sed -n '/^\.Sh FILES/,$p' "$page"
