# Sets PYTHON to an interpreter that has numpy (Debian's python3-numpy belongs to /usr/bin/python3).
PYTHON=python3
"$PYTHON" -c 'import numpy' 2>/dev/null || PYTHON=/usr/bin/python3
