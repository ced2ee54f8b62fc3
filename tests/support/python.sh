# Sets PYTHON to an interpreter that has numpy (Debian's python3-numpy belongs to /usr/bin/python3).
PYTHON=python3
"$PYTHON" -c 'import numpy' 2>/dev/null || PYTHON=/usr/bin/python3
same_bits() { # FILE FILE WHAT
    "$PYTHON" - "$1" "$2" <<'EOF'
import sys
import numpy as np
a, b = np.load(sys.argv[1]), np.load(sys.argv[2])
assert sorted(a.files) == sorted(b.files), 'other arrays'
for name in a.files:
    assert a[name].tobytes() == b[name].tobytes(), name
EOF
    ok $? "$3: saved values have the same bits"
}
