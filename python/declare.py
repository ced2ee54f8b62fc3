"""Writes the ctypes declarations of Weft's C functions from the headers in include/weft/.

    python3 declare.py INCLUDE_DIR [OUT.py]

The headers are the only list: what this finds there is what the package can call. It reads the C that they are
written in (enums, structs of plain fields, pointers to functions, prototypes) and stops at anything else.
"""

import os
import re
import subprocess
import sys

PLAIN = {
    "void": "None", "char": "c_char", "short": "c_short", "int": "c_int", "unsigned": "c_uint", "long": "c_long",
    "unsigned long": "c_ulong", "long long": "c_longlong", "float": "c_float", "double": "c_double",
    "bool": "c_bool", "_Bool": "c_bool", "size_t": "c_size_t", "int64_t": "c_int64", "uint64_t": "c_uint64",
    "int32_t": "c_int32", "uint32_t": "c_uint32", "uint8_t": "c_uint8", "weft_status": "c_void_p",
}
# What Python gets from a result of that type; all others are Any.
RESULTS = {"None": "None", "c_bool": "bool", "c_char_p": "Optional[bytes]", "c_float": "float", "c_double": "float",
           **{kind: "int" for kind in PLAIN.values() if "int" in kind or kind in ("c_size_t", "c_long", "c_ulong")}}
HEAD = '''"""ctypes declarations of Weft's C functions. Made by declare.py from include/weft/: do not edit."""

from ctypes import *
from typing import Any, Optional, Protocol

'''


def preprocessed(include):
    """What the headers themselves declare, without what they include from the system."""
    names = sorted(os.listdir(os.path.join(include, "weft")))
    source = "".join(f'#include "weft/{name}"\n' for name in names if name.endswith(".h"))
    compiler = os.environ.get("CC", "gcc").split()
    command = compiler + ["-E", "-std=c17", "-D__attribute__(x)=", f"-I{include}", "-x", "c", "-"]
    text = subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout
    kept, ours = [], False
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = f"{os.sep}weft{os.sep}" in marker[1]
        elif ours:
            kept.append(line)
    return " ".join(" ".join(kept).split())


def macros(include):
    """Numbers that headers #define."""
    for name in sorted(os.listdir(os.path.join(include, "weft"))):
        with open(os.path.join(include, "weft", name)) as file:
            yield from re.findall(r"^#define (WEFT_\w+) (\d+)$", file.read(), re.M)


def statements(text):
    """Splits at the semicolons outside braces."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        raise SystemExit(f"declare.py: no end: {text[start:][:80]}")


def split_list(text):
    """Splits at the commas outside parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


class Declarations:
    def __init__(self):
        self.enums, self.structs, self.callbacks, self.function_types = set(), [], set(), set()
        self.values, self.lines, self.functions = {}, [], []

    def type_of(self, text):
        """The ctypes type of a C type without a name."""
        words = text.replace("*", " * ").split()
        stars = words.count("*")
        base = [w for w in words if w not in ("const", "*", "struct", "enum")]
        base = " ".join(base)
        if base == "char" and stars:
            inner, stars = "c_char_p", stars - 1
        elif base == "void" and stars:
            inner, stars = "c_void_p", stars - 1
        elif base in PLAIN:
            inner = PLAIN[base]
        elif base in self.enums:
            inner = "c_int"
        elif base in self.function_types and stars:  # ctypes has their pointers alone
            inner, stars = base, stars - 1
        elif base in self.callbacks or base in self.structs:
            inner = base
        elif stars:  # a handle
            inner, stars = "c_void_p", stars - 1
        else:
            raise SystemExit(f"declare.py: unknown type: {text}")
        for _ in range(stars):
            inner = f"POINTER({inner})"
        return inner

    def split_name(self, text):
        """ "const char *name[8]" -> (type, name, extent)."""
        match = re.match(r"(.*?)(\w+)\s*(?:\[\s*(\w*)\s*\])?$", text.strip())
        return match[1], match[2], match[3]

    def parameters(self, text):
        """Types of a parameter list, and whether more may follow."""
        types = []
        for part in split_list(text):
            pointer = re.match(r"(.*?)\(\*(\w+)\)\((.*)\)$", part)
            if part == "...":
                return types, True
            if part == "void":
                continue
            if pointer:
                result, inner, _ = self.prototype(pointer[1], pointer[3])
                types.append(f"CFUNCTYPE({', '.join([result] + inner)})")
                continue
            kind, _, extent = self.split_name(part)
            # Text that the caller is to free is an address, not a Python string.
            owned = kind.replace(" ", "") == "char**"
            types.append("POINTER(c_void_p)" if owned else self.type_of(kind + ("*" if extent is not None else "")))
        return types, False

    def prototype(self, result, parameters):
        types, more = self.parameters(parameters)
        return self.type_of(result), types, more

    def enum(self, body):
        value = -1
        for item in (i.strip() for i in body.split(",") if i.strip()):
            name, _, given = (p.strip() for p in item.partition("="))
            value = eval(given, {}, dict(self.values)) if given else value + 1
            self.values[name] = value
            self.lines.append(f"{name} = {value}")

    def struct(self, name, body):
        fields = []
        self.structs.append(name)
        for field in (f.strip() for f in body.split(";") if f.strip()):
            pointer = re.match(r"(.*?)\(\*(\w+)\)\((.*)\)$", field)
            if pointer:
                result, types, _ = self.prototype(pointer[1], pointer[3])
                fields.append((pointer[2], f"CFUNCTYPE({', '.join([result] + types)})"))
                continue
            first, *others = (p.strip() for p in field.split(","))
            kind, field_name, extent = self.split_name(first)
            base = kind.replace("*", "").strip()
            for part in [(kind, field_name, extent)] + [self.split_name(base + " " + o) for o in others]:
                ctype = self.type_of(part[0])
                fields.append((part[1], f"{ctype} * {part[2]}" if part[2] else ctype))
        self.lines.append(f"class {name}(Structure):\n    _fields_ = [")
        self.lines += [f'        ("{field}", {kind}),' for field, kind in fields]
        self.lines.append("    ]\n")
        if fields[0][0] == "struct_nbytes":
            self.lines.append("    def __init__(self, **fields: Any) -> None:\n"
                              "        super().__init__(sizeof(type(self)), **fields)\n")

    def declare(self, statement):
        enum = re.match(r"(?:typedef )?enum (?:\w+ )?\{(.*)\} ?(\w*)$", statement)
        struct = re.match(r"typedef struct (\w+) \{(.*)\} \1$", statement)
        handle = re.match(r"typedef struct \w+ ?\*?(\w+)$", statement)
        callback = re.match(r"typedef (.*?)\(\*(\w+)\)\((.*)\)$", statement)
        function_type = re.match(r"typedef ([^()]*?)(\w+)\((.*)\)$", statement)
        function = re.match(r"([^()]*?)(\w+)\((.*)\)$", statement)
        if enum:
            self.enums.add(enum[2])
            self.enum(enum[1])
        elif struct:
            self.struct(struct[1], struct[2])
        elif handle or re.match(r"struct \w+$", statement):  # an address, where it is used
            pass
        elif callback or function_type:
            found = callback or function_type
            result, types, _ = self.prototype(found[1], found[3])
            (self.callbacks if callback else self.function_types).add(found[2])
            self.lines.append(f"{found[2]} = CFUNCTYPE({', '.join([result] + types)})")
        elif function:
            result, types, more = self.prototype(function[1], function[3])
            self.functions.append((function[2], result, types, more))
        else:
            raise SystemExit(f"declare.py: cannot read: {statement}")


def generate(include):
    found = Declarations()
    for name, value in macros(include):
        found.values[name] = int(value)
        found.lines.append(f"{name} = {value}")
    for statement in statements(preprocessed(include)):
        found.declare(statement)
    out = [HEAD] + [line + "\n" for line in found.lines]
    out.append("\nSTRUCTS: list[Any] = [" + ", ".join(found.structs) + "]\n")
    out.append("\n# Name: result, arguments, whether more arguments may follow.\nFUNCTIONS: dict[str, tuple[Any, list[Any], bool]] = {\n")
    for name, result, types, more in found.functions:
        out.append(f'    "{name}": ({result}, [{", ".join(types)}], {more}),\n')
    out.append("}\n\n\nclass Library(Protocol):\n    \"\"\"What type checkers know of the library.\"\"\"\n\n")
    for name, result, _, _ in found.functions:
        out.append(f"    def {name}(self, *args: Any) -> {RESULTS.get(result, 'Any')}: ...\n")
    return "".join(out)


def main(include, out=None):
    text = generate(include)
    if not out:
        sys.stdout.write(text)
        return
    with open(out, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
