"""The ctypes declarations are the headers': the C compiler says so."""

import ctypes
import os
import re
import subprocess
import tempfile
import unittest

from weft import _abi as abi
from weft._library import lib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INCLUDE = os.path.join(ROOT, "include")


def headers():
    return sorted(f for f in os.listdir(os.path.join(INCLUDE, "weft")) if f.endswith(".h"))


def all_text():
    text = ""
    for name in headers():
        with open(os.path.join(INCLUDE, "weft", name)) as file:
            text += file.read()
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


# How ctypes would spell what the compiler sees.
SPELLED = {
    None: "void", ctypes.c_char_p: "char *", ctypes.c_void_p: "void *", ctypes.c_int: "int", ctypes.c_uint32: "uint32_t",
    ctypes.c_double: "double", ctypes.c_bool: "bool", ctypes.c_size_t: "size_t", ctypes.c_int64: "int64_t",
    ctypes.c_uint64: "uint64_t",
}


class Declarations(unittest.TestCase):
    def compile_and_run(self, body):
        source = "#include <stdbool.h>\n#include <stdio.h>\n#include <stddef.h>\n"
        source += "".join(f'#include "weft/{name}"\n' for name in headers()) + body
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "check")
            with open(path + ".c", "w") as file:
                file.write(source)
            done = subprocess.run(["gcc", "-std=c17", f"-I{INCLUDE}", path + ".c", "-o", path, "-w"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr[:2000])
            return subprocess.run([path], capture_output=True, text=True, check=True).stdout.split()

    def test_structs_have_the_compilers_layout(self):
        body, expected = "int main(void) {\n", []
        self.assertGreater(len(abi.STRUCTS), 25)
        for struct in abi.STRUCTS:
            name = struct.__name__
            body += f'printf("%zu\\n", sizeof({name}));\n'
            expected.append(ctypes.sizeof(struct))
            for field, kind in struct._fields_:
                body += f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));\n'
                expected += [getattr(struct, field).offset, ctypes.sizeof(kind)]
        found = [int(word) for word in self.compile_and_run(body + "}\n")]
        self.assertEqual(found, expected)

    def test_no_field_is_left_out(self):
        counted = 0
        for struct in abi.STRUCTS:
            ends = [getattr(struct, f).offset + ctypes.sizeof(k) for f, k in struct._fields_]
            starts = [getattr(struct, f).offset for f, _ in struct._fields_][1:] + [ctypes.sizeof(struct)]
            for end, start in zip(ends, starts):
                self.assertLess(start - end, 8, f"{struct.__name__}: a hole at {end}")
                counted += 1
        self.assertGreater(counted, 150)

    def test_numbers_of_enums(self):
        names = sorted(n for n in vars(abi) if n.startswith("WEFT_"))
        self.assertGreater(len(names), 80)
        body = "int main(void) {\n" + "".join(f'printf("%d\\n", (int){n});\n' for n in names) + "}\n"
        self.assertEqual([int(w) for w in self.compile_and_run(body)], [getattr(abi, n) for n in names])

    def test_every_function_of_the_headers_is_declared_and_there(self):
        types = set(re.findall(r"\(\*(weft_\w+)\)\(|\btypedef [^;()]*?\b(weft_\w+)\(", all_text()))
        declared = set(re.findall(r"\b(weft_\w+)\(", all_text())) - {name for pair in types for name in pair}
        self.assertEqual(declared, set(abi.FUNCTIONS))
        for name in abi.FUNCTIONS:
            self.assertTrue(getattr(lib, name))

    def test_prototypes_fit_the_compilers(self):
        """Each function takes as many arguments as ctypes gives it, of those types, and gives back that many bytes."""

        def spelled(kind):
            return kind.__name__ if isinstance(kind, type) and issubclass(kind, ctypes.Structure) else SPELLED.get(kind, "void *")

        body = ""
        for name, (result, arguments, more) in abi.FUNCTIONS.items():
            given = ", ".join([f"({spelled(a)}){{0}}" for a in arguments])
            size = 1 if result is None else ctypes.sizeof(result)
            body += f'_Static_assert(sizeof({name}({given})) == {size}, "{name}");\n'
            if result in SPELLED and result not in (None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int):
                scalar = f"_Generic({name}({given}), {SPELLED[result]}: 1, default: 0)"
                body += f'_Static_assert({scalar}, "{name}");\n'
        self.compile_and_run(body + "int main(void) { return 0; }\n")


if __name__ == "__main__":
    unittest.main()
